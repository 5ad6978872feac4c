//! Files that a user names. Does not know what is in them.

use std::fs::File;
use std::io;

use tanto_sys::fs::file;
use tanto_sys::memory::map::Map;

/// The content of a file; an error is a text for the user.
pub(super) fn open(path: &[u8]) -> Result<Map, Vec<u8>> {
    let opened = File::open(file::path(path)).and_then(|file| Map::new(&file, file.metadata()?.len()));
    opened.map_err(|error| failed("reading ", path, &error))
}

/// To be asked when all has been read: what became shorter in the meantime was not read right.
pub(super) fn check(path: &[u8], map: &Map) -> Result<(), Vec<u8>> {
    if map.is_torn() { Err([b"reading ", path, b": it has become shorter in the meantime"].concat()) } else { Ok(()) }
}

/// For the user.
pub(super) fn failed(doing: &str, path: &[u8], error: &io::Error) -> Vec<u8> {
    [doing.as_bytes(), path, b": ", &tanto_sys::error::text(error)].concat()
}
