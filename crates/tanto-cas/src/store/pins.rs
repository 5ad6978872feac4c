//! Pins keep blobs in the store until a time. Each call writes one file, named after that time, with the digests.

use std::io::{Read, Write};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::temp::TempFile;
use super::use_clock::UseClock;
use super::{Store, StoreError};
use crate::Digest;

/// Most digests of a file.
const MAX_DIGESTS: usize = 1 << 20;
/// Most files. Beyond it, nothing more can be pinned until the first ones expire.
const MAX_FILES: usize = 100_000;

/// Makes names unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) type DigestSet = HashSet<Digest, RandomState>;

impl Store {
    /// Keeps blobs until a time, present or not. Returns those that are not present.
    pub fn pin(&self, digests: &[Digest], until: SystemTime) -> Result<Vec<Digest>, StoreError> {
        let files = self.pins.names()?.len();
        if files + digests.len().div_ceil(MAX_DIGESTS) > MAX_FILES {
            return Err(StoreError::Uploads { limit: MAX_FILES });
        }
        for digests in digests.chunks(MAX_DIGESTS) {
            let mut temp = TempFile::create(&self.temp)?;
            temp.file_mut().write_all(digests.iter().map(|it| it.0).collect::<Vec<_>>().as_flattened())?;
            let until = seconds(until);
            let name = format!("{until}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let clock = UseClock::shared(&self.root)?;
            temp.rename_to(&self.pins, name.as_bytes(), clock.now_ns())?;
        }
        // After the pins are written: a collection that has read the pins before spares what was used meanwhile.
        self.missing(digests)
    }

    /// Returns the pinned digests; removes pins that have expired.
    pub(super) fn pinned(&self) -> Result<DigestSet, StoreError> {
        let now = seconds(SystemTime::now());
        let mut pinned = DigestSet::default();
        for name in self.pins.names()? {
            let until = std::str::from_utf8(&name).ok().and_then(|name| name.split_once('-')?.0.parse::<u64>().ok());
            match until {
                Some(until) if until >= now => self.read_pins(&name, &mut pinned)?,
                _ => self.pins.remove_tree(&name).map_err(|error| self.failed("remove", &name, error))?,
            }
        }
        Ok(pinned)
    }

    fn read_pins(&self, name: &[u8], pinned: &mut DigestSet) -> Result<(), StoreError> {
        let mut content = Vec::new();
        // Another process may have removed it.
        let Ok(file) = self.pins.open_file(name) else { return Ok(()) };
        file.take((MAX_DIGESTS * 32) as u64).read_to_end(&mut content)?;
        pinned.extend(content.as_chunks::<32>().0.iter().map(|bytes| Digest(*bytes)));
        Ok(())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
