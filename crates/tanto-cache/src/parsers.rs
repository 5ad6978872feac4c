//! The formats of the cache, for a fuzzer.

use std::path::Path;

use tanto_cas::Digest;

use crate::counters::Counters;
use crate::entry::ActionFile;
use crate::input_names::NameTable;

/// Reads the body of a file in each format; panics if decoding an encoded value does not return it.
pub fn read(body: &[u8], scratch: &Path) {
    let key = Digest([7; 32]);
    let _ = Counters::parse(&String::from_utf8_lossy(body));
    let Some(file) = ActionFile::decode(&ActionFile::sealed(body, &key), &key) else { return };
    assert_eq!(ActionFile::decode(&file.encode(&key), &key).as_ref(), Some(&file));
    let mut names = NameTable::open(scratch);
    for entry in &file.entries {
        let _ = names.unpack(&entry.list);
    }
}
