//! Words in segments that are made when they are needed, so that none ever moves. Does not know what they mean.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::memory::SharedWords;

use crate::flat::Slab;

/// The first segment has 2 to this power words: 1 MiB, of which the kernel gives only what is touched. Each one after it
/// is as large as all before it.
const FIRST_BITS: u32 = 17;

/// SegmentedWords for as many words as a `u32` counts: 32 GiB.
const SEGMENTS: usize = (u32::BITS - FIRST_BITS) as usize + 1;

/// The segment of a word, and where it begins.
#[inline]
fn segment_of(at: usize) -> (usize, usize) {
    let number = usize::BITS - (at >> FIRST_BITS).leading_zeros();
    // One bit lower than its size, and nothing for the first segment.
    let start = (1 << (FIRST_BITS + number) >> 1) & !((1 << FIRST_BITS) - 1);
    (number as usize, start)
}

/// How many words this segment has.
fn segment_size(number: usize) -> usize {
    1 << (FIRST_BITS as usize + number.saturating_sub(1))
}

/// There is no memory for so many words; ends the program, as it does when a vector cannot grow.
#[cold]
pub(super) fn out_of_memory(words: usize) -> ! {
    handle_alloc_error(Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>()))
}

/// Words that threads take and fill.
#[derive(Debug)]
pub(super) struct GrowingWords {
    segments: [OnceLock<SharedWords>; SEGMENTS],
    /// The first word that nobody took.
    next: AtomicU64,
}

impl GrowingWords {
    /// With this many words at the start that nobody gets.
    pub(super) fn new(skipped: u32) -> GrowingWords {
        GrowingWords { segments: [const { OnceLock::new() }; SEGMENTS], next: AtomicU64::new(skipped.into()) }
    }

    fn segment(&self, number: usize) -> &SharedWords {
        let size = segment_size(number);
        self.segments[number].get_or_init(|| SharedWords::new(size).unwrap_or_else(|_| out_of_memory(size)))
    }

    /// The words from here to the end of their segment.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &[AtomicU64] {
        let (number, start) = segment_of(at as usize);
        match self.segments[number].get() {
            Some(words) => &words[at as usize - start..],
            None => &[],
        }
    }

    /// Takes so many words, side by side. Nobody else gets them.
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

    /// Gives back what was taken and not used, if nobody took more since.
    pub(super) fn give_back(&self, unused: Range<u32>) {
        let (start, end) = (unused.start.into(), unused.end.into());
        let _ = self.next.compare_exchange(end, start, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// All words up to the last that was taken.
    pub(super) fn freeze(self) -> SegmentedWords {
        let count = self.next.load(Ordering::Relaxed) as usize;
        let used = if count == 0 { 0 } else { segment_of(count - 1).0 + 1 };
        // A long text may have passed over a segment.
        for number in 0..used {
            self.segment(number);
        }
        let segments = self.segments.into_iter().map_while(OnceLock::into_inner).map(|words| words.freeze().into());
        SegmentedWords { segments: segments.collect(), count }
    }
}

/// The first place from `next` on with room for so many words in one segment.
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

/// Words in segments, or in one.
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

    /// So many words from here; none if a damaged file has them not.
    #[inline]
    pub(super) fn slice(&self, at: usize, count: usize) -> &[u64] {
        let (segment, start) = self.segment(at);
        segment.slice(at - start..at - start + count)
    }

    /// Asks for the memory of so many words from here, as far as there are so many in the segment.
    #[inline]
    pub(super) fn prefetch(&self, at: usize, count: usize) {
        let (segment, start) = self.segment(at);
        let last = (at - start).saturating_add(count.saturating_sub(1));
        (at - start..last).step_by(8).chain([last]).for_each(|at| segment.prefetch(at));
    }

    /// All words, in order.
    pub(super) fn all(&self) -> Vec<&[u64]> {
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
