//! Features of packages, as numbers.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::Tree;
use super::makefiles::Makefiles;
use crate::package::records::Record;
use crate::resolve::PackageId;

/// The index and value of a feature that is not 0.
pub(super) type Feature = (usize, f64);

/// Dependencies of so many packages are features: compilers, build tools, large libraries.
const USERS: usize = 15;
/// The limit of such features; the ones with the most dependents are kept.
const MOST_TOOLS: usize = 200;
/// The minimum size of a category.
const SMALLEST_CATEGORY: usize = 5;
/// Counts of dependencies and dependents, the download size, their squares, and whether there is a download; after the
/// constant.
const COUNTS: usize = 10;

pub(super) struct Features {
    /// Concatenated; package `n` starts at `starts[n]`.
    all: Vec<Feature>,
    starts: Vec<usize>,
    count: usize,
}

impl Features {
    pub(super) fn new(Tree { records, depends, sizes }: Tree<'_>) -> Features {
        let users = users(depends);
        let deep = depths(depends);
        let tools = tools(&users);
        let categories = categories(records, COUNTS + tools.len());
        let makefiles = Makefiles::new(records);
        let first_makefile = COUNTS + tools.len() + categories.len();
        let mut features = Features { all: Vec::new(), starts: vec![0], count: first_makefile + makefiles.count() };
        for (at, (record, needs)) in records.iter().zip(depends).enumerate() {
            let [needed, deep, users] = [needs.len(), deep[at], users[at]].map(|count| (1.0 + count as f64).ln());
            let counts = [needed, deep, users, fetched(sizes[at])];
            features.all.push((0, 1.0));
            features.all.extend((1..).zip(counts.iter().flat_map(|&count| [count, count * count])));
            features.all.extend((sizes[at] > 0).then_some((COUNTS - 1, 1.0)));
            features.all.extend(makefiles.of(at).iter().map(|makefile| (first_makefile + makefile, 1.0)));
            features.all.extend(needs.iter().filter_map(|needed| Some((*tools.get(needed)?, 1.0))));
            features.all.extend(categories.get(category(record)).map(|&place| (place, 1.0)));
            features.starts.push(features.all.len());
        }
        features
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn of(&self, package: PackageId) -> &[Feature] {
        &self.all[self.starts[package as usize]..self.starts[package as usize + 1]]
    }
}

/// The logarithm of a size in units of 1,000 bytes.
pub(super) fn fetched(size: u64) -> f64 {
    (1.0 + size as f64 / 1e4).ln()
}

/// The number of direct dependents.
fn users(depends: &[Vec<PackageId>]) -> Vec<usize> {
    let mut users = vec![0; depends.len()];
    depends.iter().flatten().for_each(|&needed| users[needed as usize] += 1);
    users
}

/// The length of the longest chain of dependencies.
fn depths(depends: &[Vec<PackageId>]) -> Vec<usize> {
    let mut depths = vec![0_usize; depends.len()];
    // Cycles never settle; this exceeds the depth of any tree.
    for _ in 0..100 {
        let mut changed = false;
        for (at, needs) in depends.iter().enumerate() {
            let depth = needs.iter().map(|&needed| depths[needed as usize] + 1).max().unwrap_or(0);
            changed |= std::mem::replace(&mut depths[at], depth) != depth;
        }
        if !changed {
            break;
        }
    }
    depths
}

fn tools(users: &[usize]) -> HashMap<PackageId, usize, RandomState> {
    let mut tools: Vec<PackageId> = (0..users.len() as PackageId).filter(|&it| users[it as usize] >= USERS).collect();
    tools.sort_by_key(|&it| std::cmp::Reverse(users[it as usize]));
    tools.truncate(MOST_TOOLS);
    tools.into_iter().zip(COUNTS..).collect()
}

fn categories<'t>(records: &[Record<'t>], first: usize) -> HashMap<&'t [u8], usize, RandomState> {
    let mut sizes: HashMap<&[u8], usize, RandomState> = HashMap::default();
    records.iter().for_each(|record| *sizes.entry(category(record)).or_default() += 1);
    let mut large: Vec<&[u8]> =
        sizes.into_iter().filter(|&(_, size)| size >= SMALLEST_CATEGORY).map(|(category, _)| category).collect();
    large.sort_unstable();
    large.into_iter().zip(first..).collect()
}

fn category<'t>(record: &Record<'t>) -> &'t [u8] {
    &record.location[..memchr::memchr(b'/', record.location).unwrap_or(record.location.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted() {
        assert_eq!(depths(&[vec![], vec![0], vec![1, 0], vec![]]), [0, 1, 2, 0]);
        assert_eq!(depths(&[vec![2], vec![0], vec![]]), [1, 2, 0]);
        assert_eq!(users(&[vec![2], vec![0, 2], vec![]]), [1, 0, 2]);
        // Cycles terminate.
        assert_eq!(depths(&[vec![1], vec![0]]).len(), 2);
    }

    #[test]
    fn common_dependencies_are_features() {
        let records = vec![Record { name: b"lib-1", location: b"devel/lib", text: b"" }; 40];
        let depends: Vec<Vec<PackageId>> =
            (0..40).map(|at| if (1..20).contains(&at) { vec![0] } else { vec![] }).collect();
        let features = Features::new(Tree { records: &records, depends: &depends, sizes: &[0; 40] });
        assert_eq!(features.count(), COUNTS + 2);
        let places = |package| features.of(package).iter().map(|&(place, _)| place).collect::<Vec<_>>();
        assert_eq!(places(1), [0, 1, 2, 3, 4, 5, 6, 7, 8, COUNTS, COUNTS + 1]);
        assert_eq!(places(30), [0, 1, 2, 3, 4, 5, 6, 7, 8, COUNTS + 1]);
    }
}
