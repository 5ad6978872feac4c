//! Files of the cache, in whose place there may be anything else.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use tanto_sys::fs::file::open_no_follow;

/// Reads a file; anything else counts as missing.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_no_follow(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes what is in the place of a file that will be written.
pub(crate) fn make_room(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(data) if !data.is_file() => fs::remove_file(path),
        _ => Ok(()),
    }
}
