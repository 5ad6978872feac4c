//! Whether the disk has room for further blobs.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tanto_sys::fs::page_cache::free_kib;

/// How long a measurement is used, if there was plenty of room.
const MAX_AGE: Duration = Duration::from_secs(1);
/// More than can arrive in that time.
const PLENTY: u64 = 8 << 30;

pub(super) struct Room {
    dir: PathBuf,
    /// Bytes of the disk that stay free.
    reserve: u64,
    /// The last measurement of free bytes.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Room {
    pub(super) fn new(dir: PathBuf, reserve: u64) -> Room {
        Room { dir, reserve, last: Mutex::default() }
    }

    /// Measures whether there is so much room besides the reserve.
    pub(super) fn has(&self, bytes: u64) -> bool {
        let Some(kib) = free_kib(&self.dir) else { return true };
        let free = kib.saturating_mul(1_024);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), free));
        free >= bytes.saturating_add(self.reserve)
    }

    /// Whether there was plenty of room besides so many bytes a moment ago. Does not access the disk.
    pub(super) fn had_plenty(&self, bytes: u64) -> bool {
        self.had_plenty_at(Instant::now(), bytes)
    }

    fn had_plenty_at(&self, now: Instant, bytes: u64) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = bytes.saturating_add(self.reserve).saturating_add(PLENTY);
        last.is_some_and(|(at, free)| now.saturating_duration_since(at) < MAX_AGE && free >= needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn only_recent_measurements_of_plenty_count() {
        let place = Scratch::new("blob-room");
        let room = Room::new(place.path().to_owned(), 1_000);
        let now = Instant::now();
        assert!(!room.had_plenty_at(now, 0), "nothing was measured");
        *room.last.lock().unwrap() = Some((now, PLENTY + 1_010));
        assert!(room.had_plenty_at(now, 10) && !room.had_plenty_at(now, 11));
        assert!(!room.had_plenty_at(now + MAX_AGE, 0), "it is old");
        assert!(room.has(0) && !room.has(u64::MAX));
        let measured = *room.last.lock().unwrap();
        assert!(measured.is_some_and(|(at, free)| at >= now && free != PLENTY + 1_010));
    }
}
