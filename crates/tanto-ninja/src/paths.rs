//! Interned paths: many threads add paths, then the table is frozen. Paths are compared as bytes.
//!
//! The text of each path is stored once, in words: a head of id and length, the path, and one to eight zero bytes up
//! to the next word. An open-addressed index finds it. A slot is a word of tag and text offset; 0 is free, since
//! offset 0 is never used. The tag is the upper half of the path's hash. Its top bits are the slot where a search
//! begins, so that the index can grow without access to the text.

mod intern;
mod permuted;
mod segmented;
mod slots;
mod table;

pub use intern::{Interner, InternerHandle};
pub use permuted::PermutedPaths;
pub use table::{AllPaths, PathTable};

use crate::hash::rapidhash;

/// The head of a path's text.
fn head(id: u32, length: u32) -> u64 {
    pack(id, length)
}

/// Packs two numbers into a word, the first into its lower half.
fn pack(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Words of text of a path with this length, without the head.
fn words_for(length: usize) -> usize {
    length / 8 + 1
}

/// Mask of the tag: all bits, except in tests of tag collisions.
#[derive(Clone, Copy, Debug)]
struct TagMask(u32);

impl TagMask {
    const ALL: TagMask = TagMask(u32::MAX);

    fn of(self, path: &[u8]) -> u32 {
        (rapidhash(path) >> 32) as u32 & self.0
    }
}

/// Paths between two steps of one path, so that prefetched memory arrives meanwhile. Values from 8 to 32 make no
/// measurable difference.
const APART: usize = 16;

/// Ring buffer size of the states between the first and the last step.
const PLACES: usize = (2 * APART + 1).next_power_of_two();

/// A lookup in three steps, each of which prefetches the memory of the next.
trait LookupSteps {
    /// State of a path between steps.
    type Place: Copy + Default;

    fn first(&mut self, path: &[u8]) -> Self::Place;
    fn second(&mut self, path: &[u8], place: &mut Self::Place);
    fn third(&mut self, path: &[u8], place: Self::Place);
}

/// Runs all steps for all paths. Each step sees the paths in order.
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
