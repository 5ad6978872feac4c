//! The file system as a build sees it: the real one, or an in-memory one for tests.

use std::fs::File;
use std::io;

use tanto_cas::FileDigest;
use tanto_sys::fs::file;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint};
use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;

/// A modification time in nanoseconds since 1970 with ninja's conventions: 0 means missing (also if a parent
/// directory is missing or is a file), and a real 0 becomes 1.
pub type Mtime = i64;

/// Returns the NUL-terminated path of the file with this index.
pub type PathByIndex<'a> = dyn Fn(usize) -> &'a [u8] + Sync + 'a;

/// File system operations of a build. Paths are bytes, relative to the build directory.
pub trait Disk: Sync {
    /// Returns the mtime; 0 if the file is missing.
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime>;
    /// Returns the mtime and the fingerprint.
    fn observe(&mut self, path: &[u8], _: &FileSystems) -> io::Result<FileState> {
        let mtime = self.mtime(path)?;
        Ok(FileState { mtime, fingerprint: Fingerprint(mtime.cast_unsigned()) })
    }
    /// Like `observe` for many files, with `UNKNOWN_MTIME` on an error. `path` returns NUL-terminated paths.
    /// Implementations may use several threads.
    fn observe_all(
        &mut self,
        path: &PathByIndex<'_>,
        systems: &FileSystems,
        found: &mut [FileState],
        threads: ThreadLimit,
    ) {
        let _ = threads;
        for (number, found) in found.iter_mut().enumerate() {
            let path = path(number);
            let unknown = FileState { mtime: UNKNOWN_MTIME, ..FileState::default() };
            *found = self.observe(&path[..path.len() - 1], systems).unwrap_or(unknown);
        }
    }
    /// Returns the size of a file in bytes.
    fn size(&self, path: &[u8]) -> io::Result<u64> {
        Ok(self.read(path)?.len() as u64)
    }
    /// Returns the digest of a file; `None` if it has none. Can be called from several threads.
    fn digest(&self, _path: &[u8], _: &FileSystems) -> io::Result<Option<FileDigest>> {
        Ok(None)
    }
    /// Returns whether a file is a regular one of this user with one link.
    fn may_renew(&self, _path: &[u8]) -> bool {
        false
    }
    /// Sets the mtime of an output. Fails if it is not a regular file of this user with one link, or has another
    /// fingerprint than `expected`. Returns the new state. Can be called from several threads.
    fn renew(&self, _path: &[u8], _expected: Fingerprint, _: Mtime, _: &FileSystems) -> io::Result<FileState> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Reads a file. A missing file is `ErrorKind::NotFound`.
    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// Opens a manifest; fails with `EFBIG` if it is longer than `limit` bytes. Can be called from several threads.
    fn open(&self, path: &[u8], limit: u64) -> io::Result<Source> {
        let content = self.read(path)?;
        if content.len() as u64 > limit {
            return Err(file::too_large());
        }
        Ok(Source::in_memory(content))
    }
    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()>;
    /// Returns the current time of the file system's clock, which differs from the machine's clock on network file
    /// systems. It creates a file at `path` and removes it at once; `open` keeps the handle for the next call.
    fn now(&mut self, path: &[u8], open: &mut Option<File>) -> io::Result<Mtime> {
        *open = None;
        self.write(path, b"")?;
        let now = self.mtime(path);
        self.remove(path)?;
        now
    }
    /// Creates the parent directories of `path`.
    fn make_parents(&mut self, path: &[u8]) -> io::Result<()>;
    /// Removes the file; returns false if there was none.
    fn remove(&mut self, path: &[u8]) -> io::Result<bool>;
}

mod real;
mod source;
mod virtual_disk;

pub use real::RealDisk;
pub use source::Source;
pub(crate) use source::{SourceState, is_racy};
pub use virtual_disk::VirtualDisk;
