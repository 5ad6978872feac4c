//! The index while it grows. Does not know the paths.

use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::memory::{FrozenWords, SharedWords};

use super::segmented::out_of_memory;
use super::unpack;

/// The smallest index has 2 to this power slots: 8 KiB, which a small build can afford to clear.
const MIN_BITS: u32 = 10;

/// Words of place and tag, in the order of the tags as far as collisions allow. At most half of them are ever used.
#[derive(Debug)]
pub(super) struct HashSlots {
    words: SharedWords,
    bits: u32,
}

impl HashSlots {
    /// With room for so many paths.
    pub(super) fn new(paths: usize) -> HashSlots {
        let bits = MIN_BITS.max((paths * 2).next_power_of_two().ilog2());
        let words = SharedWords::new(1 << bits).unwrap_or_else(|_| out_of_memory(1 << bits));
        HashSlots { words, bits }
    }

    /// How many paths it has room for.
    pub(super) fn room(&self) -> usize {
        self.words.len() / 2
    }

    /// The slot where the search for a tag begins.
    #[inline]
    pub(super) fn first(&self, tag: u32) -> usize {
        ((u64::from(tag) << self.bits) >> 32) as usize
    }

    /// The slot after this one.
    #[inline]
    pub(super) fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.words.len() - 1)
    }

    #[inline]
    pub(super) fn at(&self, slot: usize) -> &AtomicU64 {
        &self.words[slot]
    }

    /// The same, with more room. Nobody else has it meanwhile.
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
