//! A mapped file whose blocks are checked when they are first touched. Does not know what is in it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tanto_sys::memory::map::Map;
use tanto_sys::memory::prefetch;

use crate::hash::rapidhash;

/// Bytes with a sum of their own. Smaller, the sums of a large file are many; larger, whoever touches a few bytes has
/// to read more. The kernel brings in this much around a page that is touched.
pub const BLOCK_SIZE: usize = 64 << 10;

/// To check fewer blocks than this is not worth a second thread: they take about as long as to start one.
const MIN_BLOCKS_PER_THREAD: usize = 16;

/// What must be true of numbers in a file, besides the sums: a file may be forged, and whoever uses them as places in
/// other rows must not fall off.
#[derive(Clone, Debug)]
pub struct WordLimit {
    /// These bytes are words of 32 bits.
    pub words: Range<usize>,
    /// Each of them is below this.
    pub below: u32,
}

impl WordLimit {
    /// Does it hold for what of its words lies in these bytes, which begin at `start`?
    fn holds(&self, start: usize, bytes: &[u8]) -> bool {
        let from = self.words.start.max(start) - start;
        let end = self.words.end.min(start + bytes.len()).saturating_sub(start);
        let words = bytes.get(from..end).unwrap_or_default().chunks_exact(size_of::<u32>());
        words.map(bytemuck::pod_read_unaligned::<u32>).all(|word| word < self.below)
    }
}

/// Some bytes of a file, in blocks that have been checked or not. If one is not what it was, or something is asked for
/// that is not there, the file is damaged, and stays so: nothing that was read from it is to be trusted.
#[derive(Debug)]
pub struct Blocks {
    map: Map,
    /// What the sums are of. The first block begins at its start; the last one ends where it does.
    covered: Range<usize>,
    sums: Vec<u64>,
    limits: Vec<WordLimit>,
    /// Which blocks are known to be good. No other memory hangs on it: what was checked does not change.
    checked: Vec<AtomicBool>,
    /// All of them have been looked at.
    whole: AtomicBool,
    damaged: AtomicBool,
}

impl Blocks {
    /// The bytes `covered` of a file and the sums of their blocks. If they do not fit, the file is damaged.
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

    /// The same, where these limits must hold too. Their words lie at multiples of four behind the beginning of what is
    /// covered.
    pub fn with_limits(self, limits: Vec<WordLimit>) -> Blocks {
        Blocks { limits, ..self }
    }

    /// Was something wrong with what has been touched so far? Ask after the last read, before its fruits are used.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) || self.map.is_torn()
    }

    /// Whoever read nonsense says so here.
    pub fn set_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// These bytes of the file, checked; none if they are not what they were.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        if !self.holds(&range) {
            return self.missing();
        }
        if range.is_empty() { &[] } else { self.covered(range) }
    }

    /// Checks all that was not touched yet, on so many threads if there is enough to do. Is all of it good?
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

    /// Asks for the memory of this byte, checked or not.
    #[inline]
    pub(super) fn prefetch(&self, at: usize) {
        self.map.get(at).into_iter().for_each(prefetch::for_read);
    }

    /// As `bytes`, for a range that is covered and not empty.
    #[inline]
    pub(super) fn covered(&self, range: Range<usize>) -> &[u8] {
        if self.is_checked(&range) || self.check(&range) { &self.map[range] } else { &[] }
    }

    /// Gives back the memory of what was read so far. To read it again costs less than the first time: it has been
    /// checked.
    pub fn release(&self) {
        self.map.release(0..self.map.len());
    }

    /// Are these bytes covered?
    pub(super) fn holds(&self, range: &Range<usize>) -> bool {
        self.covered.start <= range.start && range.start <= range.end && range.end <= self.covered.end
    }

    /// The answer to who asks for what is not there.
    #[cold]
    pub(super) fn missing(&self) -> &[u8] {
        self.set_damaged();
        &[]
    }

    /// The numbers of the blocks in which these bytes lie, of which there is at least one.
    #[inline]
    fn numbers(&self, range: &Range<usize>) -> Range<usize> {
        (range.start - self.covered.start) / BLOCK_SIZE..(range.end - 1 - self.covered.start) / BLOCK_SIZE + 1
    }

    #[inline]
    fn is_checked(&self, range: &Range<usize>) -> bool {
        let numbers = self.numbers(range);
        // Nearly all that is asked for lies in one block.
        self.checked[numbers.start].load(Ordering::Relaxed)
            && (numbers.end == numbers.start + 1
                || numbers.skip(1).all(|number| self.checked[number].load(Ordering::Relaxed)))
    }

    /// Checks what is not checked yet. Is it good?
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
