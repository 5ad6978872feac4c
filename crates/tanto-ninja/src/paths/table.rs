//! Paths and their numbers, which nobody changes any more. Does not know whether they were read from text or mapped.

use std::ffi::CStr;

use super::segmented::SegmentedWords;
use super::{LookupSteps, run_pipelined};
use super::{TagMask, unpack, words_for};
use crate::flat::Slab;
use crate::ids::NodeId;

/// Paths and their numbers. Made from a damaged file it answers nonsense, but it answers; ask the file's
/// [`Blocks`](crate::flat::Blocks) before anything is done with it.
#[derive(Debug)]
pub struct PathTable {
    text: SegmentedWords,
    spans: SegmentedWords,
    index: Slab<u64>,
    tags: TagMask,
}

/// What a path table is made of: rows of words, in segments that belong one after the other.
#[derive(Debug)]
pub struct PathTableParts<'a> {
    /// The text of all paths, each behind its number and length.
    pub text: Vec<&'a [u64]>,
    /// Where the text of each number lies, and how long it is.
    pub spans: Vec<&'a [u64]>,
    /// Where the text with a certain hash lies.
    pub index: &'a [u64],
}

impl PathTable {
    pub(super) fn new(text: SegmentedWords, spans: SegmentedWords, index: Slab<u64>, tags: TagMask) -> PathTable {
        PathTable { text, spans, index, tags }
    }

    /// A table from the [`PathTableParts`] of another one, each of them in one segment.
    pub fn from_parts(text: Slab<u64>, spans: Slab<u64>, index: Slab<u64>) -> PathTable {
        PathTable::new(text.into(), spans.into(), index, TagMask::ALL)
    }

    /// What to keep, to make the same table again.
    pub fn parts(&self) -> PathTableParts<'_> {
        PathTableParts { text: self.text.all(), spans: self.spans.all(), index: self.index.all() }
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
        let (at, length) = unpack(self.spans.get(id.index()));
        if length == 0 { &[] } else { self.bytes(at, length, length as usize) }
    }

    /// Asks for the memory of the path with this number.
    #[inline]
    pub fn prefetch(&self, id: NodeId) {
        let (at, length) = unpack(self.spans.get(id.index()));
        if length > 0 {
            self.text.prefetch(at as usize + 1, words_for(length as usize));
        }
    }

    /// The path with this number, for the kernel; empty if there is none. It ends at the first zero byte.
    #[inline]
    pub fn c_path(&self, id: NodeId) -> &CStr {
        let (at, length) = unpack(self.spans.get(id.index()));
        if length == 0 {
            return c"";
        }
        CStr::from_bytes_until_nul(self.bytes(at, length, length as usize + 1)).unwrap_or_default()
    }

    /// The number of a path.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        self.search(path, self.query(path)?)
    }

    /// Appends the number of each path, if it has one. Many at once cost less than each alone.
    pub fn lookup_all(&self, paths: &[&[u8]], ids: &mut Vec<Option<NodeId>>) {
        ids.reserve(paths.len());
        run_pipelined(&mut Lookup { table: self, ids }, paths);
    }

    /// Where the search for a path begins. None if there is no index.
    #[inline]
    fn query(&self, path: &[u8]) -> Option<LookupQuery> {
        let bits = self.index.len().checked_ilog2()?;
        let tag = self.tags.of(path);
        Some(LookupQuery { tag, slot: ((u64::from(tag) << bits) >> u32::BITS) as usize })
    }

    /// The slots in which the search goes on, each once: the index of a damaged file may have none that is free.
    #[inline]
    fn slots(&self, from: usize) -> impl Iterator<Item = usize> {
        let slots = self.index.len();
        (from..slots).chain(0..from.min(slots))
    }

    fn search(&self, path: &[u8], query: LookupQuery) -> Option<NodeId> {
        for slot in self.slots(query.slot) {
            let (at, tag) = unpack(self.index.get(slot));
            if at == 0 {
                return None;
            }
            if tag == query.tag
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
        let (id, length) = unpack(self.text.get(at as usize));
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

/// A path that is looked for.
#[derive(Clone, Copy, Default)]
struct LookupQuery {
    tag: u32,
    /// The next slot that may know it.
    slot: usize,
}

/// Paths that are looked for at once.
struct Lookup<'t> {
    table: &'t PathTable,
    ids: &'t mut Vec<Option<NodeId>>,
}

impl LookupSteps for Lookup<'_> {
    type Place = Option<LookupQuery>;

    #[inline]
    fn first(&mut self, path: &[u8]) -> Option<LookupQuery> {
        let query = self.table.query(path)?;
        self.table.index.prefetch(query.slot);
        Some(query)
    }

    #[inline]
    fn second(&mut self, path: &[u8], place: &mut Option<LookupQuery>) {
        let Some(query) = place else { return };
        let known = |&slot: &usize| {
            let (at, tag) = unpack(self.table.index.get(slot));
            at == 0 || tag == query.tag
        };
        let Some(slot) = self.table.slots(query.slot).find(known) else { return };
        query.slot = slot;
        let (at, _) = unpack(self.table.index.get(slot));
        if at != 0 {
            self.table.text.prefetch(at as usize, 1 + words_for(path.len()));
        }
    }

    #[inline]
    fn third(&mut self, path: &[u8], place: Option<LookupQuery>) {
        self.ids.push(place.and_then(|query| self.table.search(path, query)));
    }
}

/// Paths by number.
#[derive(Clone, Copy)]
pub struct AllPaths<'t> {
    /// The first ones.
    pub table: &'t PathTable,
    /// The others, in order.
    pub others: &'t [&'t [u8]],
}

impl<'t> AllPaths<'t> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.table.len() + self.others.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path with this number; empty if there is none.
    #[inline]
    pub fn path(&self, id: NodeId) -> &'t [u8] {
        match id.index().checked_sub(self.table.len()) {
            None => self.table.path(id),
            Some(other) => self.others.get(other).copied().unwrap_or_default(),
        }
    }
}
