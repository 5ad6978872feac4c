//! Finds cycles of dependencies.

use super::{PackageId, Resolved};

/// The state of a package in the depth-first search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    /// On the current path.
    OnTheWay,
    Done,
}

/// Returns the first cycle, in the order of dependencies, starting with the lowest index.
pub(super) fn find(packages: &[Resolved]) -> Option<Vec<PackageId>> {
    let mut seen = vec![Seen::No; packages.len()];
    (0..packages.len() as PackageId).find_map(|start| search(start, packages, &mut seen))
}

fn search(start: PackageId, packages: &[Resolved], seen: &mut [Seen]) -> Option<Vec<PackageId>> {
    if seen[start as usize] != Seen::No {
        return None;
    }
    // The path, with the number of visited dependencies of each. An explicit stack: trees can be deep.
    let mut way = vec![(start, 0)];
    seen[start as usize] = Seen::OnTheWay;
    while let Some((package, at)) = way.last_mut() {
        let Some(&next) = packages[*package as usize].depends.get(*at) else {
            seen[*package as usize] = Seen::Done;
            way.pop();
            continue;
        };
        *at += 1;
        match seen[next as usize] {
            Seen::Done => {}
            Seen::No => {
                seen[next as usize] = Seen::OnTheWay;
                way.push((next, 0));
            }
            Seen::OnTheWay => return Some(circle(&way, next)),
        }
    }
    None
}

fn circle(way: &[(PackageId, usize)], first: PackageId) -> Vec<PackageId> {
    let mut circle: Vec<PackageId> = way.iter().map(|&(package, _)| package).skip_while(|&it| it != first).collect();
    let lowest = circle.iter().enumerate().min_by_key(|(_, package)| **package).map_or(0, |(at, _)| at);
    circle.rotate_left(lowest);
    circle
}
