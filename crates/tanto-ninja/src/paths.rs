//! Paths by number: filled by many threads at once, then frozen. Does not know what a path leads to, nor what is
//! canonical.
//!
//! The text of each path is kept once, in words: one of its number and length, then the path, a zero byte, and zeros up
//! to the next word. An index finds it: open addresses, each a word of tag and place. The tag is the upper half of the
//! path's hash, and its uppermost bits are the place in the index where the search begins; so the index grows without
//! a look at any text. Place 0 of the text is never used: a word of zeros in the index is free.

mod all;
mod intern;
mod pieces;
mod relaid;
mod slots;
mod steps;
mod table;

pub use all::AllPaths;
pub use intern::{Interner, Writer};
pub use relaid::Relaid;
pub use table::{Parts, PathTable};

use crate::hash::rapidhash;

/// The head of a path's text: its number and length.
fn head(id: u32, length: u32) -> u64 {
    pair(id, length)
}

/// Two numbers in a word, the first in its lower half.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The numbers in a word.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Words of text for a path of so many bytes, without the head.
fn words_for(length: usize) -> usize {
    length / 8 + 1
}

/// Which bits of the hash are a path's tag: all of the upper half, but in tests, where different paths must have the
/// same tag.
#[derive(Clone, Copy, Debug)]
struct Tags(u32);

impl Tags {
    const ALL: Tags = Tags(u32::MAX);

    fn of(self, path: &[u8]) -> u32 {
        (rapidhash(path) >> 32) as u32 & self.0
    }
}

#[cfg(test)]
mod tests;
