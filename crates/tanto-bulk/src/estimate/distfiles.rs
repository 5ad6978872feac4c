//! Download sizes of packages, from the `distinfo` files of the tree.

use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::package::distinfo;
use crate::package::records::Record;

/// Returns bytes for each package; 0 if its directory has no `distinfo`.
pub fn sizes(pkgsrc: &Path, records: &[Record<'_>]) -> Vec<u64> {
    let mut known: HashMap<&[u8], u64, RandomState> = HashMap::default();
    let size = |record: &Record<'_>| distinfo::size(&pkgsrc.join(String::from_utf8_lossy(record.location).as_ref()));
    records.iter().map(|record| *known.entry(record.location).or_insert_with(|| size(record))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn packages_of_a_directory_have_the_same_size() {
        let place = Scratch::new("bulk-distinfo-sizes");
        place.write("a/b/distinfo", "Size (x.tgz) = 1000 bytes\nSize (y.tgz) = 34 bytes\n");
        let record = |location: &'static str| Record { name: b"x-1", location: location.as_bytes(), text: b"" };
        let records = [record("a/b"), record("a/none"), record("a/b")];
        assert_eq!(sizes(&place.at(""), &records), [1034, 0, 1034]);
    }
}
