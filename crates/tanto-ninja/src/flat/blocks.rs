//! A mapped file with blocks that are verified when they are first read.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tanto_sys::memory::map::Map;
use tanto_sys::memory::prefetch;

use crate::hash::rapidhash;

/// Bytes per checksum. Smaller: a large file has many checksums. Larger: reading a few bytes verifies more. It is
/// also the kernel's usual read-ahead around a touched page.
pub const BLOCK_SIZE: usize = 64 << 10;

/// Blocks per additional thread: verifying this many takes about as long as starting a thread.
const MIN_BLOCKS_PER_THREAD: usize = 16;

/// A limit for numbers in a file, to be checked besides the checksums: in a forged file, indexes could be out of
/// bounds.
#[derive(Clone, Debug)]
pub struct WordLimit {
    /// Byte range of the numbers, which are `u32`.
    pub words: Range<usize>,
    /// Exclusive upper bound.
    pub below: u32,
}

impl WordLimit {
    /// Checks the numbers within these bytes, which begin at `start`.
    fn holds(&self, start: usize, bytes: &[u8]) -> bool {
        let from = self.words.start.max(start) - start;
        let end = self.words.end.min(start + bytes.len()).saturating_sub(start);
        let words = bytes.get(from..end).unwrap_or_default().chunks_exact(size_of::<u32>());
        words.map(bytemuck::pod_read_unaligned::<u32>).all(|word| word < self.below)
    }
}

/// A byte range of a file, in blocks that are verified on demand. If a checksum differs or a range is out of bounds,
/// the file is marked as damaged for good; then nothing read from it may be used.
#[derive(Debug)]
pub struct Blocks {
    map: Map,
    /// The verified range. The first block begins at its start; the last one ends at its end.
    covered: Range<usize>,
    sums: Vec<u64>,
    limits: Vec<WordLimit>,
    /// Blocks that were found valid. Relaxed ordering suffices: the mapped data does not change.
    checked: Vec<AtomicBool>,
    /// Whether all blocks were verified.
    whole: AtomicBool,
    damaged: AtomicBool,
}

impl Blocks {
    /// `sums` are the checksums of the blocks of `covered`. If the count does not match, the file is marked as
    /// damaged.
    pub fn new(map: Map, covered: Range<usize>, sums: Vec<u64>) -> Blocks {
        let fits = covered.end <= map.len() && covered.start <= covered.end;
        let fits = fits && covered.len().div_ceil(BLOCK_SIZE) == sums.len();
        let covered = if fits { covered } else { 0..0 };
        let checked = (0..covered.len().div_ceil(BLOCK_SIZE)).map(|_| AtomicBool::new(false)).collect();
        Blocks {
            map,
            covered,
            sums,
            limits: Vec::new(),
            checked,
            whole: AtomicBool::new(false),
            damaged: AtomicBool::new(!fits),
        }
    }

    /// Adds limits. Their numbers must be aligned to 4 bytes from the start of the verified range.
    pub fn with_limits(self, limits: Vec<WordLimit>) -> Blocks {
        Blocks { limits, ..self }
    }

    /// Returns true if any data read so far was damaged. Call it after the last read and before using the results.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) || self.map.is_torn()
    }

    /// Marks the file as damaged, for readers that find inconsistent data.
    pub fn set_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// Returns verified bytes; empty if they are damaged.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        if !self.holds(&range) {
            return self.missing();
        }
        if range.is_empty() { &[] } else { self.covered(range) }
    }

    /// Verifies all blocks that were not read yet, on up to this many threads. Returns true if the file is intact.
    pub fn check_all(&self, threads: usize) -> bool {
        if self.whole.load(Ordering::Relaxed) || self.is_damaged() {
            return !self.is_damaged();
        }
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&n| n < self.checked.len()) {
                self.check_block(number);
            }
        };
        let others = threads.min(self.checked.len() / MIN_BLOCKS_PER_THREAD).saturating_sub(1);
        thread::scope(|scope| {
            (0..others).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        self.whole.store(true, Ordering::Relaxed);
        !self.is_damaged()
    }

    /// Prefetches this byte without verification.
    #[inline]
    pub(super) fn prefetch(&self, at: usize) {
        self.map.get(at).into_iter().for_each(prefetch::for_read);
    }

    /// Like `bytes`, for a non-empty range within the verified range.
    #[inline]
    pub(super) fn covered(&self, range: Range<usize>) -> &[u8] {
        if self.is_checked(&range) || self.check(&range) { &self.map[range] } else { &[] }
    }

    /// Releases memory of the mapping. Reading it again is cheaper than the first time, since it is not verified
    /// again.
    pub fn release(&self) {
        self.map.release(0..self.map.len());
    }

    /// Returns true if the range is within the verified range.
    pub(super) fn holds(&self, range: &Range<usize>) -> bool {
        self.covered.start <= range.start && range.start <= range.end && range.end <= self.covered.end
    }

    /// Marks the file as damaged and returns an empty slice.
    #[cold]
    pub(super) fn missing(&self) -> &[u8] {
        self.set_damaged();
        &[]
    }

    /// The numbers of the blocks that contain the range, which must not be empty.
    #[inline]
    fn numbers(&self, range: &Range<usize>) -> Range<usize> {
        (range.start - self.covered.start) / BLOCK_SIZE..(range.end - 1 - self.covered.start) / BLOCK_SIZE + 1
    }

    #[inline]
    fn is_checked(&self, range: &Range<usize>) -> bool {
        let numbers = self.numbers(range);
        // Nearly all ranges lie in one block.
        self.checked[numbers.start].load(Ordering::Relaxed)
            && (numbers.end == numbers.start + 1
                || numbers.skip(1).all(|number| self.checked[number].load(Ordering::Relaxed)))
    }

    /// Verifies the blocks of a range. Returns true if they are valid.
    #[cold]
    fn check(&self, range: &Range<usize>) -> bool {
        !self.damaged.load(Ordering::Relaxed) && self.numbers(range).all(|number| self.check_block(number))
    }

    fn check_block(&self, number: usize) -> bool {
        if self.checked[number].load(Ordering::Relaxed) {
            return true;
        }
        let start = self.covered.start + number * BLOCK_SIZE;
        let block = &self.map[start..self.covered.end.min(start + BLOCK_SIZE)];
        let good = rapidhash(block) == self.sums[number];
        let good = good && self.limits.iter().all(|limit| limit.holds(start, block)) && !self.map.is_torn();
        if good {
            self.checked[number].store(true, Ordering::Relaxed);
        } else {
            self.set_damaged();
        }
        good
    }
}
