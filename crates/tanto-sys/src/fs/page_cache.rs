//! The page cache, and the space in file systems.

mod read_ahead;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    IFlags, MemfdFlags, StatFs, XattrFlags, fsetxattr, ioctl_getflags, ioctl_setflags, memfd_create, statfs,
};
use rustix::io::Errno;

use crate::error::call_error;
use crate::fs::file;

pub use read_ahead::ReadAhead;

/// Writes all dirty pages to all disks and waits for that.
pub fn sync() {
    rustix::fs::sync();
}

/// Returns the free space of the file system of this path, in KiB.
pub fn free_kib(path: &Path) -> Option<u64> {
    let answer = statfs(path).ok()?;
    kib(&answer, answer.f_bavail)
}

/// Returns the size of all files in the tmpfs of this path, in KiB; `None` if the path is not in a tmpfs.
pub fn tmpfs_used_kib(path: &Path) -> Option<u64> {
    let answer = statfs(path).ok().filter(|answer| answer.f_type == libc::TMPFS_MAGIC)?;
    kib(&answer, answer.f_blocks.saturating_sub(answer.f_bfree))
}

/// Returns whether ordinary users can set attributes (`user.*`) in a tmpfs. Since Linux 6.6, if configured.
pub fn tmpfs_supports_xattrs() -> bool {
    memfd_create(c"attributes", MemfdFlags::CLOEXEC).is_ok_and(|file| set_xattr(&file))
}

/// Sets an attribute; returns whether the file supports it.
fn set_xattr(file: &impl AsFd) -> bool {
    fsetxattr(file, c"user.tanto", b"", XattrFlags::empty()).is_ok()
}

fn kib(of: &StatFs, blocks: u64) -> Option<u64> {
    Some(blocks.saturating_mul(u64::try_from(of.f_frsize).ok()?) / 1024)
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Drops the page cache. Root only.
pub fn drop_caches() -> io::Result<()> {
    sync();
    fs::write(DROP_CACHES, "3\n").map_err(|error| call_error("write", Some(DROP_CACHES.as_bytes()), error))
}

/// Makes writes to all files of a directory tree synchronous until it is dropped, also to new files. Sets the attribute
/// `S` of `lsattr`; files that had it before keep it.
#[derive(Debug)]
pub struct WriteThrough {
    top: PathBuf,
    /// Files that had the attribute before.
    before: Vec<PathBuf>,
}

const SYNCHRONOUS: IFlags = IFlags::SYNC;

impl WriteThrough {
    /// Sets the attribute. Fails if the file system does not support it or the files belong to another user.
    pub fn begin(top: &Path) -> io::Result<WriteThrough> {
        let mut through = WriteThrough { top: top.into(), before: Vec::new() };
        let mut ahead = vec![top.to_owned()];
        while let Some(path) = ahead.pop() {
            if !change(&path, true)? {
                through.before.push(path.clone());
            }
            ahead.extend(within(&path));
        }
        through.before.sort_unstable();
        Ok(through)
    }
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        let mut ahead = vec![self.top.clone()];
        while let Some(path) = ahead.pop() {
            if self.before.binary_search(&path).is_err() {
                // The file may have been removed.
                let _ = change(&path, false);
            }
            ahead.extend(within(&path));
        }
    }
}

/// Returns the files and directories in a directory. Symbolic links have no attributes.
fn within(dir: &Path) -> Vec<PathBuf> {
    if !fs::symlink_metadata(dir).is_ok_and(|data| data.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let has_it = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir());
    entries.filter(has_it).map(|entry| entry.path()).collect()
}

/// Sets or clears the attribute; returns whether that changed anything.
fn change(path: &Path, on: bool) -> io::Result<bool> {
    let blame = |error: Errno| call_error("ioctl", Some(path.as_os_str().as_encoded_bytes()), error.into());
    let opened = file::open_no_follow(path)
        .map_err(|error| call_error("open", Some(path.as_os_str().as_encoded_bytes()), error))?;
    let before = ioctl_getflags(&opened).map_err(blame)?;
    let after = if on { before | SYNCHRONOUS } else { before - SYNCHRONOUS };
    if before == after {
        return Ok(false);
    }
    ioctl_setflags(&opened, after).map(|()| true).map_err(blame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use tanto_testing::Scratch;

    fn is_synchronous(path: &Path) -> bool {
        ioctl_getflags(File::open(path).unwrap()).unwrap().contains(SYNCHRONOUS)
    }

    #[test]
    fn free_space_is_known() {
        let dir = Scratch::new("free");
        assert!(free_kib(dir.path()).is_some_and(|kib| kib < u64::MAX / 1024));
        assert_eq!(free_kib(&dir.at("none")), None);
    }

    #[test]
    fn tmpfs_usage_is_counted() {
        assert_eq!((tmpfs_used_kib(Path::new("/proc")), tmpfs_used_kib(Path::new("/nonexistent"))), (None, None));
        let shared = Path::new("/dev/shm");
        let Some(before) = tmpfs_used_kib(shared) else {
            return println!("not tested: /dev/shm is not in memory");
        };
        let file = shared.join(format!("tanto-in-memory-{}", std::process::id()));
        fs::write(&file, vec![1; 40 << 20]).unwrap();
        let after = tmpfs_used_kib(shared);
        fs::remove_file(&file).unwrap();
        // Other processes may have removed files meanwhile.
        assert!(after.is_some_and(|kib| kib + (20 << 10) > before + (40 << 10)), "{before} {after:?}");
    }

    #[test]
    fn tmpfs_attributes_are_detected() {
        let shared = Path::new("/dev/shm");
        if tmpfs_used_kib(shared).is_none() {
            return println!("not tested: /dev/shm is not in memory");
        }
        let path = shared.join(format!("tanto-attributes-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let marked = set_xattr(&file);
        fs::remove_file(&path).unwrap();
        assert_eq!(tmpfs_supports_xattrs(), marked);
    }

    #[test]
    fn write_through_is_set_and_cleared() {
        let dir = Scratch::new("write-through");
        dir.write("sub/old", "x");
        std::os::unix::fs::symlink("nowhere", dir.at("link")).unwrap();
        let Ok(through) = WriteThrough::begin(dir.path()) else {
            return println!("not tested: the file system of {} does not know how", dir.text());
        };
        dir.write("sub/new", "x");
        for name in ["", "sub", "sub/old", "sub/new"] {
            assert!(is_synchronous(&dir.at(name)), "{name}");
        }
        drop(through);
        for name in ["", "sub", "sub/old", "sub/new"] {
            assert!(!is_synchronous(&dir.at(name)), "{name}");
        }
        assert!(change(&dir.at("sub/old"), true).unwrap());
        drop(WriteThrough::begin(dir.path()).unwrap());
        assert!(is_synchronous(&dir.at("sub/old")) && !is_synchronous(&dir.at("sub")));
    }

    #[test]
    fn write_through_of_a_missing_directory_fails() {
        assert!(WriteThrough::begin(Path::new("/nonexistent")).is_err());
        sync();
    }
}
