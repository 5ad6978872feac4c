//! Log files: loading, appending under a lock, and replacing.
//!
//! Several processes may write to one log (a nested build, CMake's `-t restat`). Each takes an exclusive lock for one
//! write, and first checks that its file is still the one at the path and has the expected length.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use tanto_sys::memory::map::Map;

use crate::error::Error;

use super::fingerprint::LogFingerprint;
use super::log_buffer::{Content, LogBuffer};

/// The maximum size of a log in bytes.
const LIMIT: u64 = 8 << 30;

/// The size in bytes from which a log is mapped instead of read. Mapping and scanning takes as long as reading and
/// scanning between 256 KiB and 1 MiB, half as long from 4 MiB on, and 3 us longer at 16 KiB.
pub(super) const WORTH_MAPPING: u64 = 1 << 20;

/// Reads the first bytes, including the header. Empty if there is no file; `None` on an error.
pub(super) fn read_head(path: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(Path::new(OsStr::from_bytes(path))) {
        Ok(file) => file.take(64).read_to_end(&mut bytes).ok()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(_) => return None,
    };
    Some(bytes)
}

pub(super) struct LogFile {
    path: PathBuf,
    /// The file last read or written. It stays open, so that its inode number is not reused.
    file: Option<File>,
    writable: bool,
}

impl LogFile {
    /// Reads or maps the file; `None` if it does not exist. Does not write.
    pub(super) fn load(path: &[u8]) -> io::Result<(Self, Option<Content>)> {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((LogFile { path, file: None, writable: false }, None));
            }
            Err(error) => return Err(error),
        };
        let content = content(&file)?;
        Ok((LogFile { path, file: Some(file), writable: false }, Some(content)))
    }

    /// Like `load`, if the file still begins with the bytes of the fingerprint.
    pub(super) fn resume(path: &[u8], fingerprint: &LogFingerprint) -> Option<(Self, LogBuffer)> {
        let (file, content) = LogFile::load(path).ok()?;
        let buffer = LogBuffer::from(content?);
        fingerprint.fits(file.file.as_ref()?, &buffer).then_some((file, buffer))
    }

    pub(super) fn fingerprint(&self, buffer: &LogBuffer) -> Option<LogFingerprint> {
        let file = self.file.as_ref().filter(|_| buffer.len() > 0)?;
        LogFingerprint::of(file, buffer, buffer.len()).ok()
    }

    /// Reads the file from its start, after a mapping was torn.
    pub(super) fn read_again(&mut self) -> io::Result<Content> {
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.rewind()?;
        read(file, file.metadata()?.len())
    }

    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Locks the file at the path, and creates it if there is none.
    pub(super) fn lock(&mut self) -> io::Result<LockedLog<'_>> {
        let mut replaced = false;
        loop {
            replaced |= self.open_for_writing()?;
            let file = self.file.as_ref().expect("just opened");
            wait_for_lock(file);
            match is_at(file, &self.path) {
                Ok(Some(len)) => return Ok(LockedLog { log: self, replaced, len }),
                // Replaced or removed, perhaps while waiting for the lock.
                Ok(None) => replaced = true,
                Err(error) => {
                    self.file = None;
                    return Err(error);
                }
            }
            self.file = None;
        }
    }

    /// Returns whether the file was replaced.
    fn open_for_writing(&mut self) -> io::Result<bool> {
        if self.writable && self.file.is_some() {
            return Ok(false);
        }
        let new = appendable().create(true).open(&self.path)?;
        let replaced = match &self.file {
            Some(old) => !same(&old.metadata()?, &new.metadata()?),
            None => false,
        };
        self.file = Some(new);
        self.writable = true;
        Ok(replaced)
    }
}

/// Bytes that other processes have appended.
pub(super) struct Appended {
    /// The file was replaced or cut: discard everything known; `bytes` is the whole file.
    pub(super) restart: bool,
    /// The bytes after those known.
    pub(super) bytes: Vec<u8>,
}

/// Holds the lock until dropped.
pub(super) struct LockedLog<'a> {
    log: &'a mut LogFile,
    replaced: bool,
    len: u64,
}

impl LockedLog<'_> {
    /// Reads the bytes after the first `known` ones.
    pub(super) fn tail(&self, known: usize) -> io::Result<Appended> {
        let restart = self.replaced || self.len < known as u64;
        let from = if restart { 0 } else { known as u64 };
        let mut bytes = reserve(self.len - from)?;
        bytes.resize((self.len - from) as usize, 0);
        self.file().read_exact_at(&mut bytes, from)?;
        Ok(Appended { restart, bytes })
    }

    /// Truncates the file to its valid bytes.
    pub(super) fn cut(&mut self, sound: usize) -> io::Result<()> {
        assert!(sound as u64 <= self.len, "a log cannot be cut to more than it is");
        if (sound as u64) < self.len {
            self.file().set_len(sound as u64)?;
            self.len = sound as u64;
        }
        Ok(())
    }

    /// Appends all bytes or none. `known` must be the length of the file.
    pub(super) fn append(&mut self, known: usize, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(known as u64, self.len, "a record is appended only to a file known to its end");
        if let Err(error) = write(self.file(), bytes) {
            // If this fails too, the next writer cuts off the incomplete record.
            let _ = self.file().set_len(self.len);
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Replaces the file by a new one, written beside it with `suffix` and then renamed, so that there is a complete
    /// log at the path at any time.
    pub(super) fn replace(&mut self, suffix: &str, parts: &[&[u8]]) -> io::Result<()> {
        let mut temporary = self.log.path.clone().into_os_string();
        temporary.push(suffix);
        let temporary = Path::new(&temporary);
        match self.write_beside(temporary, parts) {
            Ok(file) => {
                self.log.file = Some(file);
                self.len = parts.iter().map(|part| part.len() as u64).sum();
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(temporary);
                Err(error)
            }
        }
    }

    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.log.path)?;
        self.log.file = None;
        Ok(())
    }

    fn write_beside(&self, temporary: &Path, parts: &[&[u8]]) -> io::Result<File> {
        // A link left at this path must not be followed.
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = appendable().create_new(true).open(temporary)?;
        for part in parts {
            write(&file, part)?;
        }
        keep_owner(&self.file().metadata()?, &file);
        fs::rename(temporary, &self.log.path)?;
        Ok(file)
    }

    fn file(&self) -> &File {
        self.log.file.as_ref().expect("a locked log is open")
    }
}

impl Drop for LockedLog<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.log.file {
            let _ = file.unlock();
        }
    }
}

fn content(file: &File) -> io::Result<Content> {
    let length = file.metadata()?.len();
    if (WORTH_MAPPING..=LIMIT).contains(&length)
        && let Ok(map) = Map::new(file, length)
    {
        return Ok(Content::Mapped(map));
    }
    read(file, length)
}

fn read(file: &File, length: u64) -> io::Result<Content> {
    let mut bytes = reserve(length)?;
    file.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(Content::Read(bytes))
}

fn appendable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// The length of `file`, if it is the file at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<Option<u64>> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok(same(&ours, &there).then_some(there.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps the owner of a log that root rewrites. A missing permission is not an error.
fn keep_owner(old: &Metadata, new: &File) {
    if let Ok(now) = new.metadata()
        && (old.uid(), old.gid()) != (now.uid(), now.gid())
    {
        let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    }
}

/// On a file system without locks, continues without one, like ninja.
fn wait_for_lock(file: &File) {
    while let Err(error) = file.lock() {
        if error.kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
}

/// The error when a log is cut while it is rewritten. Continuing would lose entries.
pub(super) fn truncated_error() -> Error {
    Error::from("the file was cut short while it was read")
}

pub(super) fn cannot_load(what: &[u8], path: &[u8], error: io::Error) -> Error {
    let advice: &[u8] = if error.kind() == io::ErrorKind::IsADirectory { b"; remove or rename it" } else { b"" };
    Error::new(&[what, path, b": ", &Error::from(error).text(), advice])
}

/// Prefixes an error with the failed action.
pub(super) fn with_context(what: &'static [u8]) -> impl Fn(Error) -> Error {
    move |reason| Error::new(&[what, &reason.text()])
}

/// An empty buffer with a capacity of `len` bytes.
fn reserve(len: u64) -> io::Result<Vec<u8>> {
    if len > LIMIT {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len as usize).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(bytes)
}

#[cfg(not(test))]
fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
}

#[cfg(test)]
fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    match faults::space_left() {
        Some(space) if space < bytes.len() => {
            file.write_all(&bytes[..space])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        _ => file.write_all(bytes),
    }
}

/// Simulates a full disk in tests.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;

    thread_local!(static SPACE: Cell<Option<usize>> = const { Cell::new(None) });

    /// Limits each write of this thread to this many bytes; `None` removes the limit.
    pub(crate) fn limit_writes(space: Option<usize>) {
        SPACE.set(space);
    }

    pub(super) fn space_left() -> Option<usize> {
        SPACE.get()
    }
}
