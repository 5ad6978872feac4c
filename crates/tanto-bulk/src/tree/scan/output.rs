//! Converts the output of a directory into records.

use foldhash::fast::RandomState;
use hashbrown::hash_map::{Entry, HashMap};

use super::Duplicate;
use crate::package::records;

const NAME: &[u8] = b"PKGNAME=";

/// Adds PKG_LOCATION to each record; an error is a text for the log.
pub(super) fn complete(location: &str, output: &[u8]) -> Result<Vec<u8>, String> {
    let line = [b"PKG_LOCATION=", location.as_bytes(), b"\n"].concat();
    let mut text = Vec::with_capacity(output.len() + 2 * line.len());
    for it in output.split_inclusive(|&byte| byte == b'\n') {
        text.extend_from_slice(it);
        if it.starts_with(NAME) && it.ends_with(b"\n") {
            text.extend_from_slice(&line);
        }
    }
    match records::read(&text) {
        Ok(records) if records.is_empty() => Err("it printed no record".into()),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("malformed scan record in line {error}")),
    }
}

/// Joins the records of directories. The first of duplicate packages is used, as in pbulk. Returns the number of
/// records of the first `wanted` directories too.
pub(super) fn joined<'a>(
    directories: impl Iterator<Item = &'a [u8]>,
    wanted: usize,
) -> (Vec<u8>, usize, Vec<Duplicate>) {
    let mut taken: HashMap<&[u8], &[u8], RandomState> = HashMap::default();
    let (mut text, mut first, mut duplicates) = (Vec::new(), 0, Vec::new());
    for (number, directory) in directories.enumerate() {
        // Stored records are valid.
        for record in records::read(directory).unwrap_or_default() {
            match taken.entry(record.name) {
                Entry::Vacant(it) => {
                    it.insert(record.location);
                    text.extend_from_slice(record.text);
                    first += usize::from(number < wanted);
                }
                Entry::Occupied(taken) => duplicates.push(Duplicate::of(record.name, taken.get(), record.location)),
            }
        }
    }
    // Several versions of one directory are reported once.
    duplicates.dedup();
    (text, first, duplicates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_get_their_location() {
        let text = complete("a/b", b"PKGNAME=one-1\nX=\nPKGNAME=two-1\n").unwrap();
        assert_eq!(text, b"PKGNAME=one-1\nPKG_LOCATION=a/b\nX=\nPKGNAME=two-1\nPKG_LOCATION=a/b\n");
    }

    #[test]
    fn duplicate_packages_are_left_out() {
        let text = |location: &str, names: &[&str]| {
            let output: String = names.iter().map(|name| format!("PKGNAME={name}\n")).collect();
            complete(location, output.as_bytes()).unwrap()
        };
        let directories = [text("a/b", &["one-1", "two-1", "one-1", "one-1"]), text("c/d", &["two-1", "two-2"])];
        let (records, wanted, duplicates) = joined(directories.iter().map(Vec::as_slice), 1);
        assert_eq!(wanted, 2);
        assert_eq!(records, [text("a/b", &["one-1", "two-1"]), text("c/d", &["two-2"])].concat());
        let told: Vec<String> = duplicates.iter().map(Duplicate::message).collect();
        assert_eq!(
            told,
            ["a/b makes one-1 more than once: using the first", "two-1 is made in a/b and in c/d: using the first"]
        );
    }

    #[test]
    fn malformed_records_are_refused() {
        for bad in ["", "warning\nPKGNAME=one-1\n", "PKGNAME=one-1\nX=", "PKGNAME=a b-1\n", "PKGNAME=one-1"] {
            assert!(complete("a/b", bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
