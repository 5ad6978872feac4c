//! Open-addressed hash table from names to numbers; the names are stored by the user.

use std::ops::Range;
use std::sync::Arc;

use crate::flat::{Blocks, Slab};

pub(crate) struct HashIndex {
    /// A number plus one; 0 marks a free slot. The length is a power of two, or 0.
    slots: Slab<u32>,
}

impl HashIndex {
    pub(crate) fn mapped(blocks: &Arc<Blocks>, slots: Range<usize>) -> HashIndex {
        HashIndex { slots: Slab::mapped(blocks, slots) }
    }

    /// The array to store in a file.
    pub(crate) fn slots(&self) -> &[u32] {
        self.slots.all()
    }

    /// Returns the number with this hash for which `is_match` holds.
    pub(crate) fn find(&self, hash: u64, is_match: impl Fn(u32) -> bool) -> Option<u32> {
        find(self.slots.len(), |slot| self.slots.get(slot), hash, is_match)
    }
}

/// A table that is filled with 0, 1, 2 and so on.
#[derive(Default)]
pub(crate) struct HashIndexBuilder {
    slots: Vec<u32>,
    /// By number. The names are not needed when the table grows, and not compared if the hashes differ.
    hashes: Vec<u32>,
}

const MIN_SLOTS: usize = 16;

impl HashIndexBuilder {
    /// Like `HashIndex::find`.
    pub(crate) fn find(&self, hash: u64, is_match: impl Fn(u32) -> bool) -> Option<u32> {
        let is_match = |number: u32| self.hashes[number as usize] == hash as u32 && is_match(number);
        find(self.slots.len(), |slot| self.slots[slot], hash, is_match)
    }

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
    // A damaged file may contain a full table, or one of another length.
    for step in 0..length {
        match slot(hash.wrapping_add(step as u64) as usize & mask) {
            0 => return None,
            found if is_match(found - 1) => return Some(found - 1),
            _ => {}
        }
    }
    None
}
