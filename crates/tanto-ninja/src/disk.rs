//! The files a build sees: the real ones, or those of a test. Does not know what they mean.

use std::fs::File;
use std::io;

use tanto_sys::fs::file;
use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;

/// A file's modification time in nanoseconds since 1970, as ninja counts it: 0 is a missing file (also where a
/// directory on the way is missing or is a file), and a real 0 is 1.
pub type Mtime = i64;

/// The path of the file with a number, with a NUL at its end.
pub type PathByIndex<'a> = dyn Fn(usize) -> &'a [u8] + Sync + 'a;

/// What a build asks of a file system. `path` is bytes, relative to the build directory.
pub trait Disk: Sync {
    /// The file's mtime; 0 if it is missing. An error is anything else that kept us from knowing.
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime>;
    /// As `mtime`, for many files; `UNKNOWN_MTIME` where that is an error. `path` gives each file's path, with a NUL at its
    /// end. A disk that can ask on several threads does.
    fn mtimes(&mut self, path: &PathByIndex<'_>, found: &mut [Mtime], threads: ThreadLimit) {
        let _ = threads;
        for (number, found) in found.iter_mut().enumerate() {
            let path = path(number);
            *found = self.mtime(&path[..path.len() - 1]).unwrap_or(UNKNOWN_MTIME);
        }
    }
    /// The whole content. A missing file is `ErrorKind::NotFound`.
    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// The text of a manifest; one longer than `limit` bytes is `EFBIG`. Several threads may ask.
    fn open(&self, path: &[u8], limit: u64) -> io::Result<Source> {
        let content = self.read(path)?;
        if content.len() as u64 > limit {
            return Err(file::too_large());
        }
        Ok(Source::in_memory(content))
    }
    /// Creates or replaces the file.
    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()>;
    /// The clock that files get their mtimes from, which need not be the machine's (a network file system's is the
    /// server's). A file that is made at `path` and removed at once shows it; `open` keeps that file for the next call.
    fn now(&mut self, path: &[u8], open: &mut Option<File>) -> io::Result<Mtime> {
        *open = None;
        self.write(path, b"")?;
        let now = self.mtime(path);
        self.remove(path)?;
        now
    }
    /// Makes the directories above `path`.
    fn make_parents(&mut self, path: &[u8]) -> io::Result<()>;
    /// Removes the file; false if there was none.
    fn remove(&mut self, path: &[u8]) -> io::Result<bool>;
}

mod real;
mod source;
mod virtual_disk;

pub use real::RealDisk;
pub use source::Source;
pub(crate) use source::{SourceState, is_racy};
pub use virtual_disk::VirtualDisk;
