//! Files that are replaced as a whole and that only this user can read.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tanto_sys::fs::private_files;

/// Tells whether a file was replaced or written since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mtime: (i64, i64),
}

impl Stamp {
    pub(crate) fn new(data: &Metadata) -> Stamp {
        Stamp { device: data.dev(), inode: data.ino(), size: data.size(), mtime: (data.mtime(), data.mtime_nsec()) }
    }

    /// Returns the file's stamp; `None` if there is no file.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Stamp>> {
        match fs::metadata(path) {
            Ok(data) => Ok(Some(Stamp::new(&data))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Replaces a file durably. Two writers must exclude each other.
pub(crate) fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private_files::create(temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}
