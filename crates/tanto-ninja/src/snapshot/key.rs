//! What must be the same for a snapshot to be of use, besides the manifests. Does not know where it lies.

use std::io;

use tanto_sys::fs::file_stamp::FileStamp;

use super::code::Writer;
use crate::hash;
use crate::hash::rapidhash;
use crate::load::LoadOptions;

/// Equal for equal circumstances. The order of the machine's bytes is told by all numbers in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) Vec<u8>);

impl Key {
    /// That of a load of `manifest`, named as it is by whoever stands in `dir`.
    pub(super) fn new(dir: &[u8], manifest: &[u8], options: LoadOptions) -> io::Result<Key> {
        let here = FileStamp::at(dir)?;
        let mut key = Writer::default();
        key.text(env!("CARGO_PKG_VERSION").as_bytes());
        // The rows in a snapshot are as the sources lay them out, and mean what those make of them.
        key.text(env!("TANTO_SOURCES").as_bytes());
        key.number(usize::BITS.into());
        // Another processor sums text in another way.
        key.number(hash::block_sum(&[1; 200]));
        key.number(here.device);
        key.number(here.inode);
        key.text(manifest);
        key.number(flags(options));
        Ok(Key(key.0))
    }
}

/// The name of the file for such a load: others have others, as far as 64 bits tell.
pub(super) fn name(manifest: &[u8], options: LoadOptions) -> String {
    let flags = flags(options).to_le_bytes();
    format!("{:016x}", rapidhash(&[&flags, manifest].concat()))
}

/// What changes the graph. The number of threads does not.
fn flags(options: LoadOptions) -> u64 {
    options.phony_cycle_is_error.into()
}
