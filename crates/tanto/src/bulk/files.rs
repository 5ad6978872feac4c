//! Files that a user names: read by mapping them, written whole. Does not know what is in them.

use std::fs::File;
use std::io;

use tanto_sys::file;
use tanto_sys::map::Map;

/// The content of a file; an error is a text for the user.
pub(super) fn open(path: &[u8]) -> Result<Map, Vec<u8>> {
    let opened = File::open(file::path(path)).and_then(|file| Map::new(&file, file.metadata()?.len()));
    opened.map_err(|error| failed("reading ", path, &error))
}

/// To be asked when all has been read: what became shorter in the meantime was not read right.
pub(super) fn check(path: &[u8], map: &Map) -> Result<(), Vec<u8>> {
    if map.is_torn() { Err([b"reading ", path, b": it has become shorter in the meantime"].concat()) } else { Ok(()) }
}

/// Makes a file that is there whole or not at all. What is no file (`/dev/stdout`) is written as it is.
pub(super) fn whole(path: &[u8], fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let path = file::path(path);
    if path.metadata().is_ok_and(|data| !data.is_file()) {
        return fill(&mut File::options().write(true).open(path)?);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let made = File::create(&beside).and_then(|mut file| fill(&mut file)).and_then(|()| std::fs::rename(&beside, path));
    if made.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    made
}

/// For the user.
pub(super) fn failed(doing: &str, path: &[u8], error: &io::Error) -> Vec<u8> {
    [doing.as_bytes(), path, b": ", &tanto_sys::error::text(error)].concat()
}
