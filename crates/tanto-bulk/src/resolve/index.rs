//! Finds the packages that a pattern can match, without looking at all of them. Does not know what needs them.

use crate::package::name::Name;
use crate::package::pattern::Pattern;

use super::Package;

/// All packages in the order of their names; those of one name in the order of the records.
#[derive(Debug)]
pub(super) struct Index {
    sorted: Vec<Package>,
}

impl Index {
    pub(super) fn new(names: &[Name<'_>]) -> Index {
        let mut sorted: Vec<Package> = (0..names.len() as Package).collect();
        sorted.sort_by_key(|&package| (names[package as usize].text(), package));
        Index { sorted }
    }

    /// What a dependency with this pattern gets: of all that match the one that is preferred, and of those with the
    /// same name the first.
    pub(super) fn best(&self, pattern: &Pattern, names: &[Name<'_>]) -> Option<Package> {
        let name = |package: Package| &names[package as usize];
        pattern
            .beginnings()
            .flat_map(|beginning| self.beginning_with(beginning, names))
            .copied()
            .filter(|&package| pattern.matches(name(package)))
            .max_by(|&one, &other| name(one).preference(name(other)).then(other.cmp(&one)))
    }

    /// Pairs of packages of the same name: the first of them, and each of the others.
    pub(super) fn duplicates(&self, names: &[Name<'_>]) -> Vec<(Package, Package)> {
        let same = |a: &Package, b: &Package| names[*a as usize].text() == names[*b as usize].text();
        let groups = self.sorted.chunk_by(same).filter(|group| group.len() > 1);
        groups.flat_map(|group| group[1..].iter().map(|&second| (group[0], second))).collect()
    }

    fn beginning_with(&self, beginning: &[u8], names: &[Name<'_>]) -> &[Package] {
        let text = |package: &Package| names[*package as usize].text();
        let from = self.sorted.partition_point(|package| text(package) < beginning);
        let count = self.sorted[from..].partition_point(|package| text(package).starts_with(beginning));
        &self.sorted[from..from + count]
    }
}
