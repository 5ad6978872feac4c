//! Advisory locks on whole files and on single bytes, between processes. Does not know what they guard.
//!
//! Those on whole files are `flock`'s: the lock belongs to the open file, so that a process and its grandchild that opened
//! the file afresh are two parties, it works on a file opened only for reading, and it goes with the last descriptor. Those
//! on bytes belong to the open file as well; the bytes need not be there.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Opens a lock file, for reading and writing; makes it if it is not there. What somebody else may have put in its
/// place does no harm: a link is not followed, and nothing makes the opener, or who reads from it, wait.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Opens a directory, to lock it as a whole. Nothing has to be written for that.
pub fn open_dir(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

/// The numbers of the processes that took a lock on this whole file, as far as the kernel tells: none where `/proc/locks`
/// cannot be read, and none of another PID namespace.
pub fn holders(file: &File) -> io::Result<Vec<u32>> {
    let inode = file.metadata()?.ino();
    let locks = fs::read_to_string("/proc/locks")?;
    Ok(locks.lines().filter_map(|line| holder(line, inode)).collect())
}

/// Has this process inherited an open file with a lock on this one? So it is if a shell has locked it for its commands
/// (`exec 9<.; flock 9`): the process that took the lock has ended then.
pub fn is_inherited(file: &File) -> bool {
    let Ok(inode) = file.metadata().map(|data| data.ino()) else { return false };
    let is_lock = |line: &str| line.strip_prefix("lock:").is_some_and(|line| locker(line, inode).is_some());
    let open = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(|text| text.lines().any(is_lock))
}

/// Of a line such as `1: FLOCK  ADVISORY  WRITE 14702 fe:00:9986076 0 EOF`. The device there is not always the one that
/// `stat` shows (btrfs).
fn holder(line: &str, inode: u64) -> Option<u32> {
    locker(line, inode).filter(|pid| *pid != 0)
}

/// As `holder`, with 0 for a process that cannot be seen.
fn locker(line: &str, inode: u64) -> Option<u32> {
    let [_, "FLOCK", _, "WRITE", pid, file, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    (file.rsplit(':').next()?.parse() == Ok(inode)).then(|| pid.parse().ok())?
}

/// Takes the lock if nobody has it; says whether it did.
pub fn try_exclusive(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes the lock, however long that lasts; calls `slow` once if it was not free for `patience`. A signal whose
/// action is to end the process does so here too.
pub fn exclusive(file: &File, patience: Duration, slow: impl FnOnce()) -> io::Result<()> {
    const STEP: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    while !try_exclusive(file)? {
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

/// Takes the lock on the byte at this place of a file if nobody has it; says whether it did. Once taken it may be taken again.
pub fn try_byte(file: &File, at: u64) -> io::Result<bool> {
    let at = i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        // The lock is the open file's, and no process's.
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

/// Gives the lock back.
pub fn release(file: &File) -> io::Result<()> {
    file.unlock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn one_opening_excludes_another() {
        let dir = Scratch::new("lock");
        let first = File::create(dir.at("l")).unwrap();
        let second = File::open(dir.at("l")).unwrap();
        assert!(try_exclusive(&first).unwrap());
        assert!(!try_exclusive(&second).unwrap());
        release(&first).unwrap();
        assert!(try_exclusive(&second).unwrap());
        drop(second);
        exclusive(&first, Duration::ZERO, || panic!("it was free")).unwrap();
    }

    #[test]
    fn a_directory_is_locked_and_its_holder_is_known() {
        let dir = Scratch::new("lock-dir");
        let [first, second] = [(); 2].map(|()| open_dir(dir.path()).unwrap());
        assert_eq!(holders(&first).unwrap(), []);
        assert!(try_exclusive(&first).unwrap() && !try_exclusive(&second).unwrap());
        assert_eq!(holders(&second).unwrap(), [std::process::id()]);
        assert!(is_inherited(&second), "this process has the lock open");
        drop(first);
        assert!(!is_inherited(&second));
        assert!(try_exclusive(&second).unwrap());
        dir.write("file", "");
        assert!(open_dir(&dir.at("file")).is_err() && open_dir(&dir.at("none")).is_err());
    }

    #[test]
    fn lines_of_other_locks_name_no_holder() {
        assert_eq!(holder("1: FLOCK  ADVISORY  WRITE 14702 fe:00:77 0 EOF", 77), Some(14702));
        for line in [
            "",
            "1: FLOCK  ADVISORY  WRITE 14702 fe:00:78 0 EOF",
            "1: -> FLOCK  ADVISORY  WRITE 14702 fe:00:77 0 EOF",
            "1: FLOCK  ADVISORY  READ 14702 fe:00:77 0 EOF",
            "1: POSIX  ADVISORY  WRITE 14702 fe:00:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 0 fe:00:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE x fe:00:77 0 EOF",
        ] {
            assert_eq!(holder(line, 77), None, "{line}");
        }
    }

    #[test]
    fn bytes_have_locks_of_their_own() {
        let dir = Scratch::new("lock-byte");
        let [first, second] = [(); 2].map(|()| open(&dir.at("l")).unwrap());
        let far = u64::MAX >> 2;
        assert!(try_byte(&first, 7).unwrap() && try_byte(&first, 7).unwrap() && try_byte(&first, far).unwrap());
        assert!(!try_byte(&second, 7).unwrap() && !try_byte(&second, far).unwrap());
        assert!(try_byte(&second, 8).unwrap());
        drop(first);
        assert!(try_byte(&second, 7).unwrap());
        assert!(try_byte(&second, u64::MAX).is_err());
    }

    #[test]
    fn who_waits_says_so_once_and_gets_it() {
        let dir = Scratch::new("lock-wait");
        let first = File::create(dir.at("l")).unwrap();
        let second = File::open(dir.at("l")).unwrap();
        assert!(try_exclusive(&first).unwrap());
        let mut slow = 0;
        exclusive(&second, Duration::from_millis(1), || {
            slow += 1;
            drop(first);
        })
        .unwrap();
        assert_eq!(slow, 1);
    }
}
