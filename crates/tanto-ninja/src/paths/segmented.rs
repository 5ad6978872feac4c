//! Growing arrays of words in segments, so that words never move.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::memory::SharedWords;

use crate::flat::Slab;

/// Log2 of the words in the first segment: 1 MiB, of which only touched pages use memory. Each later segment is as
/// large as all before it.
const FIRST_BITS: u32 = 17;

/// Segments for all words that a `u32` can count: 32 GiB.
const SEGMENTS: usize = (u32::BITS - FIRST_BITS) as usize + 1;

/// Returns the segment of a word, and the segment's first word.
#[inline]
fn segment_of(at: usize) -> (usize, usize) {
    let number = usize::BITS - (at >> FIRST_BITS).leading_zeros();
    // The bit below the segment's size; 0 for the first segment.
    let start = (1 << (FIRST_BITS + number) >> 1) & !((1 << FIRST_BITS) - 1);
    (number as usize, start)
}

/// Returns the length of a segment in words.
fn segment_size(number: usize) -> usize {
    1 << (FIRST_BITS as usize + number.saturating_sub(1))
}

/// Aborts the program, as a vector does when it cannot grow.
#[cold]
pub(super) fn out_of_memory(words: usize) -> ! {
    handle_alloc_error(Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>()))
}

/// Words that threads reserve and fill.
#[derive(Debug)]
pub(super) struct GrowingWords {
    segments: [OnceLock<SharedWords>; SEGMENTS],
    /// The first unreserved word.
    next: AtomicU64,
}

impl GrowingWords {
    /// The first `skipped` words are never handed out.
    pub(super) fn new(skipped: u32) -> GrowingWords {
        GrowingWords { segments: [const { OnceLock::new() }; SEGMENTS], next: AtomicU64::new(skipped.into()) }
    }

    fn segment(&self, number: usize) -> &SharedWords {
        let size = segment_size(number);
        self.segments[number].get_or_init(|| SharedWords::new(size).unwrap_or_else(|_| out_of_memory(size)))
    }

    /// Returns the words from `at` to the end of their segment.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &[AtomicU64] {
        let (number, start) = segment_of(at as usize);
        match self.segments[number].get() {
            Some(words) => &words[at as usize - start..],
            None => &[],
        }
    }

    /// Reserves consecutive words for the caller.
    pub(super) fn take(&self, count: usize) -> Range<u32> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let start = room_for(next as usize, count);
            let (Ok(first), Ok(end)) = (u32::try_from(start), u32::try_from(start + count)) else {
                out_of_memory(start + count);
            };
            match self.next.compare_exchange_weak(next, end.into(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.segment(segment_of(start).0);
                    return first..end;
                }
                Err(now) => next = now,
            }
        }
    }

    /// Returns unused words, unless others were reserved since.
    pub(super) fn give_back(&self, unused: Range<u32>) {
        let (start, end) = (unused.start.into(), unused.end.into());
        let _ = self.next.compare_exchange(end, start, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns all words up to the last reserved one.
    pub(super) fn freeze(self) -> SegmentedWords {
        let count = self.next.load(Ordering::Relaxed) as usize;
        let used = if count == 0 { 0 } else { segment_of(count - 1).0 + 1 };
        // A long text may have skipped a segment.
        for number in 0..used {
            self.segment(number);
        }
        let segments = self.segments.into_iter().map_while(OnceLock::into_inner).map(|words| words.freeze().into());
        SegmentedWords { segments: segments.collect(), count }
    }
}

/// Returns the first position from `next` on with enough space in one segment.
fn room_for(next: usize, count: usize) -> usize {
    let (mut number, mut start) = segment_of(next);
    let mut at = next;
    while at + count > start + segment_size(number) {
        start += segment_size(number);
        number += 1;
        at = start;
    }
    at
}

/// Words in one or more segments.
#[derive(Debug)]
pub(super) struct SegmentedWords {
    /// One, or each but the first as large as all before it.
    segments: Vec<Slab<u64>>,
    count: usize,
}

impl From<Slab<u64>> for SegmentedWords {
    fn from(words: Slab<u64>) -> SegmentedWords {
        let count = words.len();
        SegmentedWords { segments: vec![words], count }
    }
}

impl SegmentedWords {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn segment(&self, at: usize) -> (&Slab<u64>, usize) {
        if let [whole] = &self.segments[..] {
            return (whole, 0);
        }
        let (number, start) = segment_of(at);
        (&self.segments[number], start)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> u64 {
        let (segment, start) = self.segment(at);
        segment.get(at - start)
    }

    /// Returns `count` words; none if a damaged file does not contain them.
    #[inline]
    pub(super) fn slice(&self, at: usize, count: usize) -> &[u64] {
        let (segment, start) = self.segment(at);
        segment.slice(at - start..at - start + count)
    }

    /// Prefetches `count` words, as far as they are in the segment.
    #[inline]
    pub(super) fn prefetch(&self, at: usize, count: usize) {
        let (segment, start) = self.segment(at);
        let last = (at - start).saturating_add(count.saturating_sub(1));
        (at - start..last).step_by(8).chain([last]).for_each(|at| segment.prefetch(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SegmentedWords {
        /// Returns all words in order.
        pub(in crate::paths) fn all(&self) -> Vec<&[u64]> {
            let mut rest = self.count;
            let take = |segment: &'_ Slab<u64>| {
                let count = rest.min(segment.len());
                rest -= count;
                count
            };
            let counts: Vec<usize> = self.segments.iter().map(take).collect();
            self.segments.iter().zip(counts).map(|(segment, count)| segment.slice(0..count)).collect()
        }
    }
}
