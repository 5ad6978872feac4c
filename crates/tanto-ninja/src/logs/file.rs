//! A log's file: read or mapped at once, appended to under a lock, replaced whole. Does not know what the bytes mean.
//!
//! Several processes may write to one log (a nested build, CMake's `-t restat`). Each takes an exclusive lock on
//! the file for one record at a time, and looks first whether the file is still the one at the path and as long as
//! it believes.

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

/// The largest log that is read, in bytes.
const LIMIT: u64 = 8 << 30;

/// From so many bytes on a log is mapped, not read. To map and scan it took as long as to read and scan it between
/// 256 KiB and 1 MiB, half as long from 4 MiB on, and at 16 KiB longer by 3 us. Smaller, small builds pay for mappings;
/// larger, middling logs are copied, most of which nobody looks at twice.
pub(super) const WORTH_MAPPING: u64 = 1 << 20;

/// The first bytes of a log, more than its header; empty if there is no log. None if that cannot be told.
pub(super) fn read_head(path: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(Path::new(OsStr::from_bytes(path))) {
        Ok(file) => file.take(64).read_to_end(&mut bytes).ok()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(_) => return None,
    };
    Some(bytes)
}

/// The file of a log, and where it is.
pub(super) struct LogFile {
    path: PathBuf,
    /// The file that was read or written last. It stays open, so that no other file gets its inode number.
    file: Option<File>,
    writable: bool,
}

impl LogFile {
    /// Reads the file or maps it; None if there is none. Writes nothing.
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

    /// As `load`, if the file still begins with what is sealed.
    pub(super) fn resume(path: &[u8], fingerprint: &LogFingerprint) -> Option<(Self, LogBuffer)> {
        let (file, content) = LogFile::load(path).ok()?;
        let image = LogBuffer::from(content?);
        fingerprint.fits(file.file.as_ref()?, &image).then_some((file, image))
    }

    /// The fingerprint of the bytes that `image` shows, if there are some, and a file.
    pub(super) fn fingerprint(&self, image: &LogBuffer) -> Option<LogFingerprint> {
        let file = self.file.as_ref().filter(|_| image.len() > 0)?;
        LogFingerprint::of(file, image, image.len()).ok()
    }

    /// Reads the file again, from its start, for a mapping that turned out to be torn.
    pub(super) fn read_again(&mut self) -> io::Result<Content> {
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.rewind()?;
        read(file, file.metadata()?.len())
    }

    /// Is there a file at the path now?
    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Waits for the lock on the file that is at the path now; makes one if there is none.
    pub(super) fn lock(&mut self) -> io::Result<LockedLog<'_>> {
        let mut replaced = false;
        loop {
            replaced |= self.open_for_writing()?;
            let file = self.file.as_ref().expect("just opened");
            wait_for_lock(file);
            match is_at(file, &self.path) {
                Ok(Some(len)) => return Ok(LockedLog { log: self, replaced, len }),
                // Someone replaced or removed it, perhaps while we waited.
                Ok(None) => replaced = true,
                Err(error) => {
                    self.file = None;
                    return Err(error);
                }
            }
            self.file = None;
        }
    }

    /// Returns whether the file is another one than before.
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

/// What others appended since we looked.
pub(super) struct Appended {
    /// The file is another one, or was cut: what we know of it no longer holds, and `bytes` is the whole file.
    pub(super) restart: bool,
    /// From where our knowledge ends to the file's end.
    pub(super) bytes: Vec<u8>,
}

/// The right to change the file, until it is dropped.
pub(super) struct LockedLog<'a> {
    log: &'a mut LogFile,
    replaced: bool,
    len: u64,
}

impl LockedLog<'_> {
    /// Reads what lies behind the first `known` bytes.
    pub(super) fn tail(&self, known: usize) -> io::Result<Appended> {
        let restart = self.replaced || self.len < known as u64;
        let from = if restart { 0 } else { known as u64 };
        let mut bytes = reserve(self.len - from)?;
        bytes.resize((self.len - from) as usize, 0);
        self.file().read_exact_at(&mut bytes, from)?;
        Ok(Appended { restart, bytes })
    }

    /// Cuts off what lies behind the first `sound` bytes.
    pub(super) fn cut(&mut self, sound: usize) -> io::Result<()> {
        assert!(sound as u64 <= self.len, "a log cannot be cut to more than it is");
        if (sound as u64) < self.len {
            self.file().set_len(sound as u64)?;
            self.len = sound as u64;
        }
        Ok(())
    }

    /// Appends `bytes` behind the `known` ones, which are the whole file: all of them or none.
    pub(super) fn append(&mut self, known: usize, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(known as u64, self.len, "a record is appended only to a file known to its end");
        if let Err(error) = write(self.file(), bytes) {
            // If this fails too, the next one to append finds a tail that is not sound, and cuts it off.
            let _ = self.file().set_len(self.len);
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Puts a new file of these parts in the place of the old one. It is written next to it, under its name with
    /// `suffix`: whatever happens, there is a whole log at the path.
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

    /// Removes the file.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.log.path)?;
        self.log.file = None;
        Ok(())
    }

    fn write_beside(&self, temporary: &Path, parts: &[&[u8]]) -> io::Result<File> {
        // What a crashed process left there may be a link to anywhere.
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

/// The length of `file`, if it is the one at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<Option<u64>> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok(same(&ours, &there).then_some(there.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A build as root does not take the log away from its owner. Not being allowed to is no error.
fn keep_owner(old: &Metadata, new: &File) {
    if let Ok(now) = new.metadata()
        && (old.uid(), old.gid()) != (now.uid(), now.gid())
    {
        let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    }
}

/// On a file system without locks there is none, as with ninja.
fn wait_for_lock(file: &File) {
    while let Err(error) = file.lock() {
        if error.kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
}

/// The error of a log that was cut while it was to be written again: what is missing must not get lost.
pub(super) fn truncated_error() -> Error {
    Error::from("the file was cut short while it was read")
}

/// The error of a log that cannot be loaded: what failed, why, and what helps.
pub(super) fn cannot_load(what: &[u8], path: &[u8], error: io::Error) -> Error {
    let advice: &[u8] = if error.kind() == io::ErrorKind::IsADirectory { b"; remove or rename it" } else { b"" };
    Error::new(&[what, path, b": ", &Error::from(error).text, advice])
}

/// Says what was tried in front of why it failed.
pub(super) fn with_context(what: &'static [u8]) -> impl Fn(Error) -> Error {
    move |reason| Error::new(&[what, &reason.text])
}

/// An empty buffer for `len` bytes.
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

/// A disk that fills up, for tests.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;

    thread_local!(static SPACE: Cell<Option<usize>> = const { Cell::new(None) });

    /// From now on each write of this thread gets no more than this many bytes to the disk; None for all.
    pub(crate) fn limit_writes(space: Option<usize>) {
        SPACE.set(space);
    }

    pub(super) fn space_left() -> Option<usize> {
        SPACE.get()
    }
}
