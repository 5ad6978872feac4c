//! The state of a file by its metadata alone.
//!
//! Equal stamps mean equal contents, with one exception: a file that is changed twice within the granularity of its
//! timestamps has the same stamp after both changes. A stamp is *racy* if its times are not older than the moment
//! before the file was read; then the content has to be compared too.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, Stat};

use crate::fs::file::path;
use crate::fs::fs_kind::FsKind;

/// Metadata that changes with the content. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp {
    pub device: u64,
    pub inode: u64,
    /// In bytes.
    pub size: u64,
    /// Last modification; the owner of the file can set it.
    pub mtime_ns: i64,
    /// Last change of content or metadata, set by the file system.
    pub ctime_ns: i64,
    /// False for directories, pipes and devices.
    pub is_regular: bool,
}

/// The clock that sets the times of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsClock {
    /// The kernel of this machine.
    Local,
    /// Possibly another machine, such as a file server.
    Foreign,
}

impl FileStamp {
    /// Returns the stamp of an open file.
    pub fn of(file: &File) -> io::Result<FileStamp> {
        Ok(FileStamp::from(&file.metadata()?))
    }

    /// Returns the stamp of the file at `path`; follows symbolic links.
    pub fn at(path: &[u8]) -> io::Result<FileStamp> {
        Ok(FileStamp::from(&fs::metadata(self::path(path))?))
    }

    /// Returns whether the file could have changed after `began` without a change of its stamp. `began` is the result
    /// of `coarse_now` before the file was opened.
    pub fn is_racy(&self, began: i64, clock: FsClock) -> bool {
        let newest = self.mtime_ns.max(self.ctime_ns);
        newest >= began.saturating_sub(self.granule(clock))
    }

    /// The time after which two changes are sure to get different timestamps, in nanoseconds.
    fn granule(&self, clock: FsClock) -> i64 {
        let is_whole = |time: i64| time % SECOND == 0;
        match clock {
            FsClock::Foreign => WRONG_CLOCK,
            FsClock::Local if is_whole(self.mtime_ns) || is_whole(self.ctime_ns) => WHOLE_SECONDS,
            FsClock::Local => FINE,
        }
    }
}

pub(super) const SECOND: i64 = 1_000_000_000;

/// Kernels stamp files with the time of the last tick, 100 to 1,000 per second. Two ticks of the slowest, since the
/// clock and the file may be on different sides of one.
const FINE: i64 = SECOND / 50;

/// No time that is further in the future is waited for.
const LONGEST_WAIT: i64 = 2 * FINE;

/// A step of the clock takes some time, in nanoseconds.
const SLACK: u64 = 20_000;

/// The granule of file systems without fractions of a second: two seconds on FAT, one on HFS+ and ext3 (and ext4 with small inodes).
/// One in 10 million other timestamps looks the same by chance, which costs a comparison.
pub(super) const WHOLE_SECONDS: i64 = 2 * SECOND;

/// A server's clock may be off by this much.
const WRONG_CLOCK: i64 = 24 * 60 * 60 * SECOND;

impl From<&Metadata> for FileStamp {
    fn from(data: &Metadata) -> FileStamp {
        FileStamp {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            mtime_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
            ctime_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
            is_regular: data.is_file(),
        }
    }
}

impl From<&Stat> for FileStamp {
    fn from(data: &Stat) -> FileStamp {
        FileStamp {
            device: data.st_dev,
            inode: data.st_ino,
            size: u64::try_from(data.st_size).unwrap_or(0),
            mtime_ns: nanoseconds(data.st_mtime, i64::try_from(data.st_mtime_nsec).unwrap_or(0)),
            ctime_ns: nanoseconds(data.st_ctime, i64::try_from(data.st_ctime_nsec).unwrap_or(0)),
            is_regular: FileType::from_raw_mode(data.st_mode) == FileType::RegularFile,
        }
    }
}

/// Saturates beyond the year 2262 and before 1677: such times are always or never racy.
fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(rest)
}

/// Returns the time that a local file system would now give to a file, in nanoseconds since 1970. It lags behind the
/// real time by up to a tick. Since Linux 6.13, a file system may also give the real time.
pub fn coarse_now() -> i64 {
    read_clock(libc::CLOCK_REALTIME_COARSE, libc::clock_gettime)
}

/// Returns the real time. No file was changed later before this call.
pub fn fine_now() -> i64 {
    read_clock(libc::CLOCK_REALTIME, libc::clock_gettime)
}

/// Returns the time between two ticks of the clock of `coarse_now`, in nanoseconds.
pub fn coarse_resolution() -> i64 {
    read_clock(libc::CLOCK_REALTIME_COARSE, libc::clock_getres)
}

/// Waits until `coarse_now` is later than this time, unless that is far in the future.
pub fn wait_until_after(time: i64) {
    loop {
        let now = coarse_now();
        // The clock may be set back meanwhile.
        if time < now || time > fine_now().saturating_add(LONGEST_WAIT) {
            return;
        }
        let tick = coarse_resolution().max(1);
        // The clock steps once in each tick. This step passes `time`.
        let step = now + ((time - now) / tick + 1) * tick;
        let left = (step - fine_now()).clamp(0, LONGEST_WAIT);
        thread::sleep(Duration::from_nanos(left.unsigned_abs() + SLACK));
    }
}

fn read_clock(
    clock: libc::clockid_t,
    call: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int,
) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write an answer to `time` and nothing else.
    let code = unsafe { call(clock, &raw mut time) };
    assert_eq!(code, 0, "Linux always has these clocks");
    nanoseconds(time.tv_sec, time.tv_nsec)
}

impl FsClock {
    /// Returns the clock of a file's file system. Unknown file systems count as foreign.
    pub fn of(file: &File) -> FsClock {
        if FsKind::of(file).is_some() { FsClock::Local } else { FsClock::Foreign }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::UNIX_EPOCH;
    use tanto_testing::Scratch;

    #[test]
    fn stamps_by_path_and_descriptor_agree_and_change_with_the_file() {
        let dir = Scratch::new("version");
        dir.write("f", "four");
        symlink("f", dir.at("link")).unwrap();
        let file = File::open(dir.at("f")).unwrap();
        let before = FileStamp::of(&file).unwrap();
        assert_eq!((before.size, before.is_regular), (4, true));
        assert_eq!(FileStamp::at(&dir.bytes("link")).unwrap(), before);
        assert!(!FileStamp::at(&dir.bytes(".")).unwrap().is_regular);
        assert_eq!(FileStamp::at(&dir.bytes("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        File::options().write(true).open(dir.at("f")).unwrap().set_modified(UNIX_EPOCH + Duration::new(5, 7)).unwrap();
        let after = FileStamp::of(&file).unwrap();
        assert_eq!(after.mtime_ns, 5_000_000_007);
        assert_ne!(after, before);
    }

    #[test]
    fn waits_for_the_present_but_not_for_the_future() {
        for ahead in [-SECOND, 0, coarse_resolution(), 3 * coarse_resolution()] {
            let time = fine_now() + ahead;
            wait_until_after(time);
            assert!(coarse_now() > time);
        }
        // This would not end.
        wait_until_after(i64::MAX);
    }

    #[test]
    fn a_file_written_just_now_is_racy() {
        let dir = Scratch::new("version-racy");
        dir.write("f", "");
        let began = coarse_now();
        let version = FileStamp::of(&File::open(dir.at("f")).unwrap()).unwrap();
        for clock in [FsClock::Local, FsClock::Foreign] {
            assert!(version.is_racy(began, clock));
        }
    }

    #[test]
    fn older_times_are_not_racy() {
        let old = |mtime_ns, ctime_ns| FileStamp { device: 1, inode: 2, size: 3, mtime_ns, ctime_ns, is_regular: true };
        let began = 1_000_000 * SECOND + 5;
        for (age, clock, expected) in [
            (FINE, FsClock::Local, true),
            (FINE + 1, FsClock::Local, false),
            (-5 * SECOND, FsClock::Local, true),
            (SECOND, FsClock::Foreign, true),
            (WRONG_CLOCK + 1, FsClock::Foreign, false),
        ] {
            // The newer of the two times counts.
            for version in [old(began - age, 7), old(7, began - age)] {
                assert_eq!(version.is_racy(began, clock), expected, "{age} {clock:?}");
            }
        }
        let whole = began - 5 - SECOND;
        assert!(old(whole, whole).is_racy(began, FsClock::Local));
        assert!(!old(whole - SECOND, whole - SECOND).is_racy(began, FsClock::Local));
        assert!(old(i64::MAX, 0).is_racy(i64::MAX, FsClock::Local));
    }

    #[test]
    fn out_of_range_years_saturate() {
        assert_eq!(nanoseconds(i64::MAX, 1), i64::MAX);
        assert_eq!(nanoseconds(-1, 999_999_999), -1);
    }

    #[test]
    fn unknown_file_systems_have_foreign_clocks() {
        assert_eq!(FsClock::of(&File::open("/proc/self/stat").unwrap()), FsClock::Foreign);
    }
}
