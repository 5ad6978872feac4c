//! An open directory. Operations on its entries never follow a symbolic link, so that they stay in the directory
//! whatever other processes do to it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir as Entries, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, fsync, ioctl_ficlone, mkdirat,
    open, openat, openat2, readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::fs::file_stamp::FileStamp;

/// Deepest tree that `remove_tree` removes.
const MAX_DEPTH: usize = 1_000;

#[derive(Debug)]
pub struct Dir(OwnedFd);

/// The kind of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    File,
    Dir,
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// The metadata of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryStat {
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    pub stamp: FileStamp,
}

impl Dir {
    /// Opens a directory; `path` may lead through symbolic links.
    pub fn open(path: &Path) -> io::Result<Dir> {
        Ok(Dir(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a directory below this one. Fails with `NotADirectory` at a symbolic link.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<Dir> {
        match self.open_below(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(io::ErrorKind::NotADirectory.into()),
            opened => opened.map(Dir),
        }
    }

    /// Opens a file below this directory for reading, without waiting for a pipe.
    pub fn open_file(&self, path: &[u8]) -> io::Result<File> {
        Ok(self.open_below(path, OFlags::RDONLY | OFlags::NONBLOCK)?.into())
    }

    fn open_below(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            match openat2(&self.0, path, flags, Mode::empty(), resolve) {
                // The kernel noticed a concurrent rename.
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return Ok(opened?),
            }
        }
    }

    /// Opens a file of this directory for reading and writing; creates it if it does not exist.
    pub fn open_or_create(&self, name: &[u8]) -> io::Result<File> {
        self.open_to_write(name, OFlags::CREATE, 0o600)
    }

    /// Opens a file of this directory for reading and writing.
    pub fn open_to_append(&self, name: &[u8]) -> io::Result<File> {
        self.open_to_write(name, OFlags::APPEND, 0)
    }

    /// Creates a file in this directory for reading and writing. Fails if the name exists.
    pub fn create_file(&self, name: &[u8], mode: u32) -> io::Result<File> {
        self.open_to_write(name, OFlags::CREATE | OFlags::EXCL, mode)
    }

    fn open_to_write(&self, name: &[u8], flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Creates a directory in this one. Fails if the name exists.
    pub fn create_dir(&self, name: &[u8], mode: u32) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(mode))?)
    }

    /// Opens a directory in this one; creates it if it does not exist.
    pub fn open_or_create_dir(&self, name: &[u8], mode: u32) -> io::Result<Dir> {
        match self.open_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.create_dir(name, mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.open_dir(name),
        }
    }

    /// Returns the metadata of an entry.
    pub fn stat(&self, name: &[u8]) -> io::Result<EntryStat> {
        let data = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(data.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Dir,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        Ok(EntryStat { kind, mode: data.st_mode & 0o7777, stamp: FileStamp::from(&data) })
    }

    /// Sets the access and modification time of an entry, in nanoseconds since 1970.
    pub fn set_time(&self, name: &[u8], time_ns: i64) -> io::Result<()> {
        const SECOND: i64 = 1_000_000_000;
        let time = Timespec { tv_sec: time_ns.div_euclid(SECOND), tv_nsec: time_ns.rem_euclid(SECOND) };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(utimensat(&self.0, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the names of all entries, in no order.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Entries::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Renames an entry of this directory; replaces an existing file.
    pub fn rename(&self, name: &[u8], to: &Dir, to_name: &[u8]) -> io::Result<()> {
        Ok(renameat(&self.0, name, &to.0, to_name)?)
    }

    /// Removes a file or symbolic link.
    pub fn remove_file(&self, name: &[u8]) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: &[u8]) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry and, if it is a directory, all entries below. An entry that does not exist is no error.
    pub fn remove_tree(&self, name: &[u8]) -> io::Result<()> {
        self.remove_to_depth(name, MAX_DEPTH)
    }

    fn remove_to_depth(&self, name: &[u8], depth: usize) -> io::Result<()> {
        match self.remove_file(name) {
            // Linux answers EISDIR, POSIX EPERM.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::PermissionDenied)
                    && depth > 0 => {}
            removed => return ignore_missing(removed),
        }
        let dir = self.open_dir(name)?;
        for below in dir.names()? {
            dir.remove_to_depth(&below, depth - 1)?;
        }
        ignore_missing(self.remove_dir(name))
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    /// Creates a symbolic link. Fails if the name exists.
    pub fn symlink(&self, target: &[u8], name: &[u8]) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Writes the entries to the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }

    /// Opens the directory again as a file, for locks and `FsClock`.
    pub fn as_file(&self) -> io::Result<File> {
        Ok(self.0.try_clone()?.into())
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes `to`, an empty file, share the blocks of `from` until one of them is written. Fails where the file system cannot.
pub fn clone_content(from: &File, to: &File) -> io::Result<()> {
    Ok(ioctl_ficlone(to, from)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use tanto_testing::Scratch;

    #[test]
    fn symbolic_links_are_not_followed() {
        let place = Scratch::new("dir-links");
        place.write("outside/f", "secret");
        place.write("top/d/f", "inside");
        symlink(place.at("outside"), place.at("top/link")).unwrap();
        symlink("d/f", place.at("top/file")).unwrap();
        symlink("../outside/f", place.at("top/up")).unwrap();
        let top = Dir::open(&place.at("top")).unwrap();
        let mut text = String::new();
        top.open_file(b"d/f").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        for path in ["link/f", "file", "up", "../outside/f", "d/../../outside/f"] {
            assert!(top.open_file(path.as_bytes()).is_err(), "{path}");
        }
        assert!(top.open_file(&place.bytes("outside/f")).is_err(), "an absolute path");
        assert!(top.open_dir(b"link").is_err() && top.open_or_create_dir(b"link", 0o755).is_err());
        assert!(top.open_or_create(b"up").is_err() && top.create_file(b"up", 0o644).is_err());
        assert_eq!(top.stat(b"link").unwrap().kind, EntryKind::Symlink);
        top.set_time(b"up", 5_000_000_007).unwrap();
        assert_eq!(top.stat(b"up").unwrap().stamp.mtime_ns, 5_000_000_007);
        assert_eq!(top.read_link(b"file").unwrap(), b"d/f");
    }

    #[test]
    fn a_tree_is_removed_without_the_targets_of_its_links() {
        let place = Scratch::new("dir-remove");
        place.write("outside/f", "kept");
        place.write("top/d/e/f", "");
        symlink(place.at("outside"), place.at("top/d/link")).unwrap();
        let top = Dir::open(&place.at("top")).unwrap();
        top.remove_tree(b"d").unwrap();
        top.remove_tree(b"d").unwrap();
        assert!(top.names().unwrap().is_empty() && place.at("outside/f").exists());
        symlink("nowhere", place.at("top/l")).unwrap();
        top.remove_tree(b"l").unwrap();
        assert!(fs::symlink_metadata(place.at("top/l")).is_err());
    }

    #[test]
    fn entries_are_created_renamed_and_listed() {
        let place = Scratch::new("dir-entries");
        let top = Dir::open(place.path()).unwrap();
        let sub = top.open_or_create_dir(b"sub", 0o755).unwrap();
        drop(top.create_file(b"f", 0o640).unwrap());
        assert!(top.create_file(b"f", 0o640).is_err());
        assert_eq!(top.stat(b"f").unwrap().mode, 0o640);
        top.rename(b"f", &sub, b"g").unwrap();
        top.symlink(b"sub/g", b"l").unwrap();
        let mut names = top.names().unwrap();
        names.sort();
        assert_eq!(names, [&b"l"[..], b"sub"]);
        assert_eq!(sub.names().unwrap(), [b"g"]);
        sub.sync().unwrap();
        assert!(top.remove_dir(b"sub").is_err());
        sub.remove_file(b"g").unwrap();
        top.remove_dir(b"sub").unwrap();
    }
}
