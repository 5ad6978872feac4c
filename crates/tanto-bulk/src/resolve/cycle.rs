//! Finds cycles of dependencies.

use super::PackageId;

/// The state of a package in the depth-first search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    /// On the current path.
    OnTheWay,
    Done,
}

/// Returns the first cycle, in the order of dependencies, starting with the lowest index.
pub fn find<'a>(count: usize, depends: impl Fn(PackageId) -> &'a [PackageId]) -> Option<Vec<PackageId>> {
    let mut seen = vec![Seen::No; count];
    (0..count as PackageId).find_map(|start| search(start, &depends, &mut seen))
}

/// Names the packages of a cycle.
pub fn message<'a>(cycle: &[PackageId], name: impl Fn(PackageId) -> &'a [u8]) -> String {
    let packages = cycle.iter().chain(cycle.first());
    let names: Vec<_> = packages.map(|&package| String::from_utf8_lossy(name(package))).collect();
    format!("circular dependency: {}", names.join(" -> "))
}

fn search<'a>(
    start: PackageId,
    depends: &impl Fn(PackageId) -> &'a [PackageId],
    seen: &mut [Seen],
) -> Option<Vec<PackageId>> {
    if seen[start as usize] != Seen::No {
        return None;
    }
    // The path, with the number of visited dependencies of each. An explicit stack: trees can be deep.
    let mut way = vec![(start, 0)];
    seen[start as usize] = Seen::OnTheWay;
    while let Some((package, at)) = way.last_mut() {
        let Some(&next) = depends(*package).get(*at) else {
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
