//! An index of packages by name.

use crate::package::name::Name;
use crate::package::pattern::Pattern;

use super::PackageId;

/// Packages sorted by name; equal names in the order of the records.
#[derive(Debug)]
pub(super) struct Index {
    sorted: Vec<PackageId>,
}

impl Index {
    pub(super) fn new(names: &[Name<'_>]) -> Index {
        let mut sorted: Vec<PackageId> = (0..names.len() as PackageId).collect();
        sorted.sort_by_key(|&package| (names[package as usize].text(), package));
        Index { sorted }
    }

    /// Returns the preferred match of a pattern; of equal names the first.
    pub(super) fn best(&self, pattern: &Pattern, names: &[Name<'_>]) -> Option<PackageId> {
        let name = |package: PackageId| &names[package as usize];
        pattern
            .prefixes()
            .flat_map(|prefix| self.with_prefix(prefix, names))
            .copied()
            .filter(|&package| pattern.matches(name(package)))
            .max_by(|&one, &other| name(one).preference(name(other)).then(other.cmp(&one)))
    }

    /// Pairs of packages with the same name: the first one, and each other.
    pub(super) fn duplicates(&self, names: &[Name<'_>]) -> Vec<(PackageId, PackageId)> {
        let same = |a: &PackageId, b: &PackageId| names[*a as usize].text() == names[*b as usize].text();
        let groups = self.sorted.chunk_by(same).filter(|group| group.len() > 1);
        groups.flat_map(|group| group[1..].iter().map(|&second| (group[0], second))).collect()
    }

    fn with_prefix(&self, prefix: &[u8], names: &[Name<'_>]) -> &[PackageId] {
        let text = |package: &PackageId| names[*package as usize].text();
        let from = self.sorted.partition_point(|package| text(package) < prefix);
        let count = self.sorted[from..].partition_point(|package| text(package).starts_with(prefix));
        &self.sorted[from..from + count]
    }
}
