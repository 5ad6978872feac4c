//! Download sizes of packages, from the `distinfo` files of the tree.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::package::records::Record;

/// The size limit of a `distinfo`, in bytes; the largest ones have half of it.
const MOST: u64 = 4 << 20;

/// Returns bytes for each package; 0 if its directory has no `distinfo`.
pub fn sizes(pkgsrc: &Path, records: &[Record<'_>]) -> Vec<u64> {
    let mut known: HashMap<&[u8], u64, RandomState> = HashMap::default();
    let size = |record: &Record<'_>| read(&pkgsrc.join(String::from_utf8_lossy(record.location).as_ref()));
    records.iter().map(|record| *known.entry(record.location).or_insert_with(|| size(record))).collect()
}

fn read(directory: &Path) -> u64 {
    let mut text = Vec::new();
    let read = File::open(directory.join("distinfo")).and_then(|file| file.take(MOST).read_to_end(&mut text));
    if read.is_ok() { sum(&text) } else { 0 }
}

/// Sums lines such as `Size (zip30.tar.gz) = 1118845 bytes`.
fn sum(text: &[u8]) -> u64 {
    let sizes = text.split(|&byte| byte == b'\n').filter_map(|line| {
        let (_, size) = std::str::from_utf8(line.strip_prefix(b"Size (")?).ok()?.split_once(") = ")?;
        size.strip_suffix(" bytes")?.parse::<u64>().ok()
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn distfile_sizes_are_summed() {
        let place = Scratch::new("bulk-distinfo");
        place.write(
            "a/b/distinfo",
            "$NetBSD$\n\nSHA512 (x.tgz) = 12\nSize (x.tgz) = 1000 bytes\nSize (y (1).tgz) = 30 bytes\nSHA1 (patch-aa) = 77\n\
             Size (z) = -1 bytes\nSize (z) = 18446744073709551616 bytes\nSize (\u{e9}) = 4 bytes\n",
        );
        let record = |location: &'static str| Record { name: b"x-1", location: location.as_bytes(), text: b"" };
        let records = [record("a/b"), record("a/none"), record("a/b")];
        assert_eq!(sizes(&place.at(""), &records), [1034, 0, 1034]);
        assert_eq!(sum(&b"Size (a) = 18446744073709551615 bytes\n".repeat(2)), u64::MAX);
    }
}
