//! Reads and replaces regular files, with checks that they are regular files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tanto_sys::fs::file::open_no_follow;

/// Opens and reads a file of at most `most` bytes. Anything else in its place counts as missing.
pub(crate) fn read_file(path: &Path, most: u64) -> io::Result<(File, Vec<u8>)> {
    let mut file = open_no_follow(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if data.len() > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(data.len()).unwrap_or(0));
    (&mut file).take(most).read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

/// Removes a directory, link or other special file in the place of a file that will be written.
pub(crate) fn make_room(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(data) if !data.is_file() => fs::remove_file(path),
        _ => Ok(()),
    }
}
