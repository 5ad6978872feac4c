//! The clock of a store, which never goes back, and its lock between use and removal of blobs.
//!
//! The mtime of the file `clock` is the newest time that a blob was given. If the machine's clock is set back, the
//! store's clock stands still until the other has caught up.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tanto_sys::error::call_error;
use tanto_sys::fs::dir::Dir;
use tanto_sys::fs::file_stamp::{FileStamp, coarse_now};

const NAME: &[u8] = b"clock";

/// A moment of the store's clock. Blobs that are used later stay in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Epoch(pub(super) i64);

/// The locked clock. Unlocked when dropped.
pub(super) struct UseClock {
    _file: File,
    now_ns: i64,
}

impl UseClock {
    /// Blobs may be used, but not removed.
    pub(super) fn shared(root: &Dir) -> io::Result<UseClock> {
        UseClock::lock(root, File::lock_shared, 0)
    }

    /// Blobs may be removed.
    pub(super) fn exclusive(root: &Dir) -> io::Result<UseClock> {
        UseClock::lock(root, File::lock, 0)
    }

    /// Returns a moment that is later than each use before it and no later than each use after it.
    pub(super) fn begin_epoch(root: &Dir) -> io::Result<Epoch> {
        UseClock::lock(root, File::lock, 1).map(|clock| Epoch(clock.now_ns))
    }

    /// The current time, in nanoseconds since 1970, at least `step` after the last one.
    pub(super) fn now_ns(&self) -> i64 {
        self.now_ns
    }

    fn lock(root: &Dir, lock: impl Fn(&File) -> io::Result<()>, step: i64) -> io::Result<UseClock> {
        let file = root.open_or_create(NAME).map_err(|error| call_error("open", Some(NAME), error))?;
        loop {
            match lock(&file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => break locked.map_err(|error| call_error("lock", Some(NAME), error))?,
            }
        }
        let read = || FileStamp::of(&file).map(|stamp| stamp.mtime_ns);
        let last = read()?;
        let now = coarse_now().max(last.saturating_add(step));
        if now == last {
            return Ok(UseClock { _file: file, now_ns: now });
        }
        file.set_modified(system_time(now)).map_err(|error| call_error("set the time of", Some(NAME), error))?;
        // The file system may round it down.
        let now_ns = read()?;
        Ok(UseClock { _file: file, now_ns })
    }
}

pub(super) fn system_time(time_ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(time_ns).unwrap_or(0))
}
