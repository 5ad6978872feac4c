//! Where things are by their names' hashes: an open-addressed table of numbers. Does not know the names.

use std::ops::Range;
use std::sync::Arc;

use crate::flat::{Blocks, Slab};

/// A table that does not change any more.
pub(crate) struct HashIndex {
    /// A number and one, or 0 for a free slot; a power of two of them, or none.
    slots: Slab<u32>,
}

impl HashIndex {
    /// A table that lies in a file.
    pub(crate) fn mapped(blocks: &Arc<Blocks>, slots: Range<usize>) -> HashIndex {
        HashIndex { slots: Slab::mapped(blocks, slots) }
    }

    /// What to keep, to make the same table again.
    pub(crate) fn slots(&self) -> &[u32] {
        self.slots.all()
    }

    /// The number with this hash for which `is_match` holds.
    pub(crate) fn find(&self, hash: u64, is_match: impl Fn(u32) -> bool) -> Option<u32> {
        find(self.slots.len(), |slot| self.slots.get(slot), hash, is_match)
    }
}

/// A table that is being filled, with 0, 1, 2 and so on.
#[derive(Default)]
pub(crate) struct HashIndexBuilder {
    slots: Vec<u32>,
    /// By number: so the names need not be looked at again when the table grows, nor where another hash is enough to
    /// tell that it is not the one.
    hashes: Vec<u32>,
}

/// Slots of the smallest table.
const MIN_SLOTS: usize = 16;

impl HashIndexBuilder {
    /// As `HashIndex::find`.
    pub(crate) fn find(&self, hash: u64, is_match: impl Fn(u32) -> bool) -> Option<u32> {
        let is_match = |number: u32| self.hashes[number as usize] == hash as u32 && is_match(number);
        find(self.slots.len(), |slot| self.slots[slot], hash, is_match)
    }

    /// Adds the next number.
    pub(crate) fn push(&mut self, hash: u64) {
        self.hashes.push(hash as u32);
        if self.hashes.len() * 2 > self.slots.len() {
            self.slots = vec![0; (self.slots.len() * 2).max(MIN_SLOTS)];
            for (slot, hash) in (1..).zip(&self.hashes) {
                position(&mut self.slots, *hash, slot);
            }
        } else {
            position(&mut self.slots, hash as u32, self.hashes.len() as u32);
        }
    }

    /// The table as it is now.
    pub(crate) fn finish(self) -> HashIndex {
        HashIndex { slots: self.slots.into() }
    }
}

fn position(slots: &mut [u32], hash: u32, slot: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at] != 0 {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

fn find(length: usize, slot: impl Fn(usize) -> u32, hash: u64, is_match: impl Fn(u32) -> bool) -> Option<u32> {
    let mask = length.checked_sub(1)?;
    // A table that comes from a file might be full, or of another length.
    for step in 0..length {
        match slot(hash.wrapping_add(step as u64) as usize & mask) {
            0 => return None,
            found if is_match(found - 1) => return Some(found - 1),
            _ => {}
        }
    }
    None
}
