//! The growing hash index of the interner.

use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::memory::{FrozenWords, SharedWords};

use super::segmented::out_of_memory;
use super::unpack;

/// Log2 of the smallest index: 8 KiB, cheap enough to clear in a small build.
const MIN_BITS: u32 = 10;

/// Slots of offset and tag, ordered by tag except for collisions. At most half of them are used.
#[derive(Debug)]
pub(super) struct HashSlots {
    words: SharedWords,
    bits: u32,
}

impl HashSlots {
    pub(super) fn new(paths: usize) -> HashSlots {
        let bits = MIN_BITS.max((paths * 2).next_power_of_two().ilog2());
        let words = SharedWords::new(1 << bits).unwrap_or_else(|_| out_of_memory(1 << bits));
        HashSlots { words, bits }
    }

    /// Number of paths that fit.
    pub(super) fn room(&self) -> usize {
        self.words.len() / 2
    }

    /// The slot where the search for a tag begins.
    #[inline]
    pub(super) fn first(&self, tag: u32) -> usize {
        ((u64::from(tag) << self.bits) >> 32) as usize
    }

    #[inline]
    pub(super) fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.words.len() - 1)
    }

    #[inline]
    pub(super) fn at(&self, slot: usize) -> &AtomicU64 {
        &self.words[slot]
    }

    /// Returns a larger copy. The caller has exclusive access.
    pub(super) fn grown(&self, paths: usize) -> HashSlots {
        let grown = HashSlots::new(paths.max(self.words.len()));
        for word in self.words.iter().map(|word| word.load(Ordering::Relaxed)).filter(|&word| word != 0) {
            let mut slot = grown.first(unpack(word).1);
            while grown.at(slot).load(Ordering::Relaxed) != 0 {
                slot = grown.after(slot);
            }
            grown.at(slot).store(word, Ordering::Relaxed);
        }
        grown
    }

    pub(super) fn freeze(self) -> FrozenWords {
        self.words.freeze()
    }
}
