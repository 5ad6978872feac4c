//! Reads and replaces regular files, with checks that they are regular files.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use tanto_sys::fs::file::open_no_follow;

/// A file that was read.
pub(crate) struct PlainFile {
    pub(crate) file: File,
    /// Before it was read.
    pub(crate) metadata: Metadata,
    pub(crate) content: Vec<u8>,
}

/// Opens a file of at most `most` bytes. Anything else in its place counts as missing.
pub(crate) fn open_file(path: &Path, most: u64) -> io::Result<(File, Metadata)> {
    let file = open_no_follow(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if metadata.len() > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((file, metadata))
}

/// Opens and reads a file of at most `most` bytes. Bytes that are appended meanwhile are not read.
pub(crate) fn read_file(path: &Path, most: u64) -> io::Result<PlainFile> {
    let (mut file, metadata) = open_file(path, most)?;
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    (&mut file).take(metadata.len()).read_to_end(&mut content)?;
    Ok(PlainFile { file, metadata, content })
}

/// Removes a directory, link or other special file in the place of a file that will be written.
pub(crate) fn make_room(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(data) if !data.is_file() => fs::remove_file(path),
        _ => Ok(()),
    }
}
