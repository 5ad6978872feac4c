//! Paths by number: filled by many threads at once, then frozen. Does not know what a path leads to, nor what is
//! canonical.
//!
//! The text of each path is kept once, in words: one of its number and length, then the path, a zero byte, and zeros up
//! to the next word. An index finds it: open addresses, each a word of tag and place. The tag is the upper half of the
//! path's hash, and its uppermost bits are the place in the index where the search begins; so the index grows without
//! a look at any text. Place 0 of the text is never used: a word of zeros in the index is free.

mod intern;
mod permuted;
mod segmented;
mod slots;
mod table;

pub use intern::{Interner, InternerHandle};
pub use permuted::PermutedPaths;
pub use table::{AllPaths, PathTable, PathTableParts};

use crate::hash::rapidhash;

/// The head of a path's text: its number and length.
fn head(id: u32, length: u32) -> u64 {
    pack(id, length)
}

/// Two numbers in a word, the first in its lower half.
fn pack(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The numbers in a word.
fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Words of text for a path of so many bytes, without the head.
fn words_for(length: usize) -> usize {
    length / 8 + 1
}

/// Which bits of the hash are a path's tag: all of the upper half, but in tests, where different paths must have the
/// same tag.
#[derive(Clone, Copy, Debug)]
struct TagMask(u32);

impl TagMask {
    const ALL: TagMask = TagMask(u32::MAX);

    fn of(self, path: &[u8]) -> u32 {
        (rapidhash(path) >> 32) as u32 & self.0
    }
}

/// Paths between two steps for one path, so that the memory for it comes while they are dealt with. From 8 to 32 it
/// makes no difference that could be measured.
const APART: usize = 16;

/// Places for the paths between their first step and their last.
const PLACES: usize = (2 * APART + 1).next_power_of_two();

/// Three steps for each path.
trait LookupSteps {
    /// What is known of a path from one step to the next.
    type Place: Copy + Default;

    fn first(&mut self, path: &[u8]) -> Self::Place;
    fn second(&mut self, path: &[u8], place: &mut Self::Place);
    fn third(&mut self, path: &[u8], place: Self::Place);
}

/// Takes all paths through all steps. In each step they come in their order.
#[inline]
fn run_pipelined<S: LookupSteps>(steps: &mut S, paths: &[&[u8]]) {
    let mut places = [S::Place::default(); PLACES];
    for step in 0..paths.len() + 2 * APART {
        if let Some(path) = paths.get(step) {
            places[step % PLACES] = steps.first(path);
        }
        if let Some(path) = step.checked_sub(APART).and_then(|number| paths.get(number)) {
            steps.second(path, &mut places[(step - APART) % PLACES]);
        }
        if let Some(path) = step.checked_sub(2 * APART).and_then(|number| paths.get(number)) {
            steps.third(path, places[(step - 2 * APART) % PLACES]);
        }
    }
}

#[cfg(test)]
mod tests;
