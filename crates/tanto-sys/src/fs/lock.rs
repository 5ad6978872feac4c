//! Advisory locks on files and on single bytes, between processes.
//!
//! Locks on files are `flock`'s. They belong to the open file: a grandchild that opens the file again competes with its
//! grandparent. They work on files opened for reading and end when the last descriptor is closed. Locks on bytes belong
//! to the open file, too; the bytes need not exist.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Opens a lock file for reading and writing; creates it if necessary. Safe in an untrusted directory: does not follow
/// a symbolic link and never blocks.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Opens a directory to lock it. Nothing is written.
pub fn open_dir(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

/// Returns the ids of the processes that hold an exclusive `flock` on this file, according to `/proc/locks`. Leaves out
/// processes of other PID namespaces.
///
/// Some file systems (btrfs) show another device there than `stat`. Locks on other devices count only if no lock on the
/// file's own device has its inode number.
pub fn holders(file: &File) -> io::Result<Vec<u32>> {
    let data = file.metadata()?;
    let locks = fs::read_to_string("/proc/locks")?;
    Ok(holders_in(&locks, data.dev(), data.ino()))
}

/// Returns whether this process inherited a descriptor with a lock on this file, as in `exec 9<.; flock 9`. The process
/// that locked it may have ended.
pub fn is_inherited(file: &File) -> bool {
    let Ok(wanted) = file.metadata() else { return false };
    let is_same = |name: &OsStr| {
        fs::metadata(Path::new("/proc/self/fd").join(name))
            .is_ok_and(|open| open.dev() == wanted.dev() && open.ino() == wanted.ino())
    };
    let has_lock = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("lock:")).any(|line| Lock::parse(line).is_some())
    };
    let open = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    open.into_iter().any(|entry| is_same(&entry.file_name()) && has_lock(&entry.path()))
}

/// An exclusive `flock`, from a line such as `1: FLOCK  ADVISORY  WRITE 14702 fe:00:9986076 0 EOF`.
struct Lock {
    /// 0 in another PID namespace.
    pid: u32,
    device: u64,
    inode: u64,
}

impl Lock {
    fn parse(line: &str) -> Option<Lock> {
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let [major, minor, inode] = file.split(':').collect::<Vec<_>>()[..] else { return None };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let device = libc::makedev(number(major)?, number(minor)?);
        Some(Lock { pid: pid.parse().ok()?, device, inode: inode.parse().ok()? })
    }
}

fn holders_in(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    let locks = || locks.lines().filter_map(Lock::parse).filter(|lock| lock.inode == inode);
    let on_device = locks().any(|lock| lock.device == device);
    let of_file = locks().filter(|lock| !on_device || lock.device == device);
    of_file.map(|lock| lock.pid).filter(|pid| *pid != 0).collect()
}

/// Takes the lock if it is free; returns whether it was.
pub fn try_lock_exclusive(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Waits for the lock; calls `slow` once if it is not free within `patience`. Signals that end the process still do.
pub fn lock_exclusive(file: &File, patience: Duration, slow: impl FnOnce()) -> io::Result<()> {
    const STEP: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    while !try_lock_exclusive(file)? {
        if begun.elapsed() >= patience {
            slow();
            return block(file);
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn block(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Locks a byte of the file if it is free; returns whether this open file now has the lock.
pub fn try_lock_byte(file: &File, at: u64) -> io::Result<bool> {
    let at = i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        // The lock belongs to the open file, not to a process.
        l_pid: 0,
    };
    // SAFETY: `wanted` is a valid `flock`, which the kernel only reads.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}

pub fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn open_files_exclude_each_other() {
        let dir = Scratch::new("lock");
        let first = File::create(dir.at("l")).unwrap();
        let second = File::open(dir.at("l")).unwrap();
        assert!(try_lock_exclusive(&first).unwrap());
        assert!(!try_lock_exclusive(&second).unwrap());
        unlock(&first).unwrap();
        assert!(try_lock_exclusive(&second).unwrap());
        drop(second);
        lock_exclusive(&first, Duration::ZERO, || panic!("it was free")).unwrap();
    }

    #[test]
    fn a_directory_can_be_locked_and_its_holder_found() {
        let dir = Scratch::new("lock-dir");
        let [first, second] = [(); 2].map(|()| open_dir(dir.path()).unwrap());
        assert_eq!(holders(&first).unwrap(), []);
        assert!(try_lock_exclusive(&first).unwrap() && !try_lock_exclusive(&second).unwrap());
        assert_eq!(holders(&second).unwrap(), [std::process::id()]);
        assert!(is_inherited(&second), "this process has the lock open");
        drop(first);
        assert!(!is_inherited(&second));
        assert!(try_lock_exclusive(&second).unwrap());
        dir.write("file", "");
        assert!(open_dir(&dir.at("file")).is_err() && open_dir(&dir.at("none")).is_err());
    }

    #[test]
    fn lines_of_other_locks_name_no_holder() {
        let (device, inode) = (libc::makedev(0xfe, 0x10), 77);
        assert_eq!(holders_in("1: FLOCK  ADVISORY  WRITE 14702 fe:10:77 0 EOF", device, inode), [14702]);
        for line in [
            "",
            "1: FLOCK  ADVISORY  WRITE 14702 fe:10:78 0 EOF",
            "1: -> FLOCK  ADVISORY  WRITE 14702 fe:10:77 0 EOF",
            "1: FLOCK  ADVISORY  READ 14702 fe:10:77 0 EOF",
            "1: POSIX  ADVISORY  WRITE 14702 fe:10:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 0 fe:10:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE x fe:10:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 14702 fe:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 14702 77 0 EOF",
        ] {
            assert_eq!(holders_in(line, device, inode), [], "{line}");
        }
    }

    #[test]
    fn a_file_of_another_device_with_the_same_inode_number_is_another_file() {
        let locks = "1: FLOCK  ADVISORY  WRITE 5 fe:10:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 6 fe:11:77 0 EOF\n";
        assert_eq!(holders_in(locks, libc::makedev(0xfe, 0x11), 77), [6]);
        // btrfs: `stat` shows a device that is not in /proc/locks.
        assert_eq!(holders_in(locks, libc::makedev(0, 0x2a), 77), [5, 6]);
        // A holder in another PID namespace.
        let unseen = "1: FLOCK  ADVISORY  WRITE 5 fe:10:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 0 fe:11:77 0 EOF\n";
        assert_eq!(holders_in(unseen, libc::makedev(0xfe, 0x11), 77), []);
    }

    #[test]
    fn bytes_are_locked_separately() {
        let dir = Scratch::new("lock-byte");
        let [first, second] = [(); 2].map(|()| open_lock_file(&dir.at("l")).unwrap());
        let far = u64::MAX >> 2;
        assert!(
            try_lock_byte(&first, 7).unwrap()
                && try_lock_byte(&first, 7).unwrap()
                && try_lock_byte(&first, far).unwrap()
        );
        assert!(!try_lock_byte(&second, 7).unwrap() && !try_lock_byte(&second, far).unwrap());
        assert!(try_lock_byte(&second, 8).unwrap());
        drop(first);
        assert!(try_lock_byte(&second, 7).unwrap());
        assert!(try_lock_byte(&second, u64::MAX).is_err());
    }

    #[test]
    fn a_waiter_reports_once_and_gets_the_lock() {
        let dir = Scratch::new("lock-wait");
        let first = File::create(dir.at("l")).unwrap();
        let second = File::open(dir.at("l")).unwrap();
        assert!(try_lock_exclusive(&first).unwrap());
        let mut slow = 0;
        lock_exclusive(&second, Duration::from_millis(1), || {
            slow += 1;
            drop(first);
        })
        .unwrap();
        assert_eq!(slow, 1);
    }
}
