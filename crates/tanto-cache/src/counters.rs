//! Counts hits and misses, and tracks the approximate size of the cache.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use tanto_sys::fs::lock::lock_exclusive;

use crate::plain_files::{make_room, read_file};

/// Another process writes for at most this time.
const PATIENCE: Duration = Duration::from_secs(1);
/// A longer file is damaged.
const MAX_BYTES: u64 = 4096;

/// Numbers since the cache was created or cleared.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    pub hits: u64,
    pub misses: u64,
    pub not_cacheable: u64,
    /// Processor time that hits have saved, in milliseconds.
    pub saved_cpu_ms: u64,
    /// The size after the last collection, and of all blobs that were stored since.
    pub(crate) bytes: u64,
}

impl Counters {
    const NAMES: [&'static str; 5] = ["hits", "misses", "not_cacheable", "saved_cpu_ms", "bytes"];

    fn fields(&mut self) -> [&mut u64; 5] {
        [&mut self.hits, &mut self.misses, &mut self.not_cacheable, &mut self.saved_cpu_ms, &mut self.bytes]
    }

    /// Reads the file; all 0 if there is none.
    pub(crate) fn read(path: &Path) -> Counters {
        let text = read_file(path, MAX_BYTES).map(|read| read.content).unwrap_or_default();
        Counters::parse(&String::from_utf8_lossy(&text))
    }

    pub(crate) fn parse(text: &str) -> Counters {
        let mut counters = Counters::default();
        for line in text.lines() {
            let Some((name, number)) = line.split_once(' ') else { continue };
            let field = Counters::NAMES.iter().zip(counters.fields()).find(|(known, _)| **known == name);
            if let (Some((_, field)), Ok(number)) = (field, number.parse()) {
                *field = number;
            }
        }
        counters
    }

    fn text(mut self) -> String {
        let mut text = String::new();
        for (name, number) in Counters::NAMES.iter().zip(self.fields()) {
            let _ = writeln!(text, "{name} {number}");
        }
        text
    }

    /// Changes the numbers in the file, and returns them.
    pub(crate) fn update(path: &Path, change: impl FnOnce(&mut Counters)) -> io::Result<Counters> {
        make_room(path)?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        lock_exclusive(&file, PATIENCE, || {})?;
        let mut text = String::new();
        // Damaged numbers start at 0.
        let _ = (&mut file).take(MAX_BYTES).read_to_string(&mut text);
        let mut counters = Counters::parse(&text);
        change(&mut counters);
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
        file.write_all(counters.text().as_bytes())?;
        Ok(counters)
    }

    /// Adds the numbers of a build.
    pub(crate) fn add(&mut self, mut build: Counters) {
        for (sum, number) in self.fields().into_iter().zip(build.fields()) {
            *sum = sum.saturating_add(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn numbers_are_added_by_several_builds() {
        let dir = Scratch::new("cache-counters");
        let path = dir.at("counters");
        let build = Counters { hits: 2, misses: 1, not_cacheable: 0, saved_cpu_ms: 50, bytes: 7 };
        for round in 1..4 {
            let sum = Counters::update(&path, |sum| sum.add(build)).unwrap();
            assert_eq!((sum.hits, sum.bytes), (2 * round, 7 * round));
            assert_eq!(Counters::read(&path), sum);
        }
        for damaged in ["", "hits x\nmisses 4", "\u{0}\u{0}", "hits 99999999999999999999999"] {
            dir.write("counters", damaged);
            assert_eq!(Counters::read(&path).hits, 0);
            assert_eq!(Counters::update(&path, |sum| sum.add(build)).unwrap().hits, 2);
        }
    }
}
