//! Paths and their numbers, which nobody changes any more. Does not know whether they were read from text or mapped.

use std::ffi::CStr;

use super::pieces::Pieces;
use super::{Tags, halves, words_for};
use crate::flat::Slab;
use crate::graph::NodeId;

/// Paths and their numbers. Made from a damaged file it answers nonsense, but it answers; ask the file's
/// [`Blocks`](crate::flat::Blocks) before anything is done with it.
#[derive(Debug)]
pub struct PathTable {
    text: Pieces,
    spans: Pieces,
    index: Slab<u64>,
    tags: Tags,
}

/// What a path table is made of: rows of words, in pieces that belong one after the other.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The text of all paths, each behind its number and length.
    pub text: Vec<&'a [u64]>,
    /// Where the text of each number lies, and how long it is.
    pub spans: Vec<&'a [u64]>,
    /// Where the text with a certain hash lies.
    pub index: &'a [u64],
}

impl PathTable {
    pub(super) fn new(text: Pieces, spans: Pieces, index: Slab<u64>, tags: Tags) -> PathTable {
        PathTable { text, spans, index, tags }
    }

    /// A table from the [`Parts`] of another one, each of them in one piece.
    pub fn from_parts(text: Slab<u64>, spans: Slab<u64>, index: Slab<u64>) -> PathTable {
        PathTable::new(text.into(), spans.into(), index, Tags::ALL)
    }

    /// What to keep, to make the same table again.
    pub fn parts(&self) -> Parts<'_> {
        Parts { text: self.text.all(), spans: self.spans.all(), index: self.index.all() }
    }

    /// One more than the largest number. Not every number below it has a path, if several threads have filled the
    /// table.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Is there no path?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path with this number; empty if there is none.
    #[inline]
    pub fn path(&self, id: NodeId) -> &[u8] {
        let (at, length) = halves(self.spans.get(id.index()));
        if length == 0 { &[] } else { self.bytes(at, length, length as usize) }
    }

    /// The path with this number, for the kernel; empty if there is none. It ends at the first zero byte.
    #[inline]
    pub fn c_path(&self, id: NodeId) -> &CStr {
        let (at, length) = halves(self.spans.get(id.index()));
        if length == 0 {
            return c"";
        }
        CStr::from_bytes_until_nul(self.bytes(at, length, length as usize + 1)).unwrap_or_default()
    }

    /// The number of a path.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        let slots = self.index.len();
        let tag = self.tags.of(path);
        let bits = slots.checked_ilog2()?;
        let first = ((u64::from(tag) << bits) >> u32::BITS) as usize;
        // The index of a damaged file may have no free slot.
        for slot in (first..slots).chain(0..first) {
            let (at, other) = halves(self.index.get(slot));
            if at == 0 {
                return None;
            }
            if other == tag
                && let Some(id) = self.is_text(at, path)
            {
                return Some(id);
            }
        }
        None
    }

    /// The number of the path, if its text lies here.
    #[inline]
    fn is_text(&self, at: u32, path: &[u8]) -> Option<NodeId> {
        let (id, length) = halves(self.text.get(at as usize));
        let same = length as usize == path.len() && self.bytes(at, length, path.len()) == path;
        (same && (id as usize) < self.len()).then_some(NodeId(id))
    }

    /// So many bytes of the text of a path of this length; none if a damaged file has them not.
    #[inline]
    fn bytes(&self, at: u32, length: u32, count: usize) -> &[u8] {
        let words = self.text.slice(at as usize + 1, words_for(length as usize));
        bytemuck::cast_slice(words).get(..count).unwrap_or_default()
    }
}
