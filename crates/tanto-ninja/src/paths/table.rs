//! Immutable tables of paths, frozen from an interner or mapped from a file.

use std::ffi::CStr;

use super::segmented::SegmentedWords;
use super::{LookupSteps, TagMask, run_pipelined, unpack, words_for};
use crate::flat::Slab;
use crate::ids::NodeId;

/// Paths by id, and an index. A table from a damaged file gives wrong answers, but does not panic; check the file's
/// [`Blocks`](crate::flat::Blocks) before using them.
#[derive(Debug)]
pub struct PathTable {
    text: SegmentedWords,
    spans: SegmentedWords,
    index: Slab<u64>,
    tags: TagMask,
}

impl PathTable {
    pub(super) fn new(text: SegmentedWords, spans: SegmentedWords, index: Slab<u64>, tags: TagMask) -> PathTable {
        PathTable { text, spans, index, tags }
    }

    /// Creates a table from its arrays in a file.
    pub fn from_parts(text: Slab<u64>, spans: Slab<u64>, index: Slab<u64>) -> PathTable {
        PathTable::new(text.into(), spans.into(), index, TagMask::ALL)
    }

    /// One more than the largest id. If several threads filled the table, some smaller ids are unused.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the path with this id; empty if there is none.
    #[inline]
    pub fn path(&self, id: NodeId) -> &[u8] {
        let (at, length) = unpack(self.spans.get(id.index()));
        if length == 0 { &[] } else { self.bytes(at, length, length as usize) }
    }

    /// Returns the path for a system call; it ends at the first zero byte. Empty if there is none.
    #[inline]
    pub fn c_path(&self, id: NodeId) -> &CStr {
        let (at, length) = unpack(self.spans.get(id.index()));
        if length == 0 {
            return c"";
        }
        CStr::from_bytes_until_nul(self.bytes(at, length, length as usize + 1)).unwrap_or_default()
    }

    /// Returns the id of a path.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        self.search(path, self.query(path)?)
    }

    /// Appends the id of each path, if it has one. A batch is cheaper than single lookups.
    pub fn lookup_all(&self, paths: &[&[u8]], ids: &mut Vec<Option<NodeId>>) {
        ids.reserve(paths.len());
        run_pipelined(&mut Lookup { table: self, ids }, paths);
    }

    /// Returns the start of a search; `None` if there is no index.
    #[inline]
    fn query(&self, path: &[u8]) -> Option<LookupQuery> {
        let bits = self.index.len().checked_ilog2()?;
        let tag = self.tags.of(path);
        Some(LookupQuery { tag, slot: ((u64::from(tag) << bits) >> u32::BITS) as usize })
    }

    /// Slots in search order, each once: the index of a damaged file may have no free slot.
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

    /// Returns the id of the path if its text is at this offset.
    #[inline]
    fn is_text(&self, at: u32, path: &[u8]) -> Option<NodeId> {
        let (id, length) = unpack(self.text.get(at as usize));
        let same = length as usize == path.len() && self.bytes(at, length, path.len()) == path;
        (same && (id as usize) < self.len()).then_some(NodeId(id))
    }

    /// Returns the first `count` bytes of the text of a path of this length; empty if a damaged file does not contain
    /// them.
    #[inline]
    fn bytes(&self, at: u32, length: u32, count: usize) -> &[u8] {
        let words = self.text.slice(at as usize + 1, words_for(length as usize));
        bytemuck::cast_slice(words).get(..count).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Default)]
struct LookupQuery {
    tag: u32,
    /// The next slot to check.
    slot: usize,
}

/// A batch of lookups.
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

/// The paths of a table, followed by others.
#[derive(Clone, Copy)]
pub struct AllPaths<'t> {
    /// The first paths.
    pub table: &'t PathTable,
    /// The other paths, in order of their ids.
    pub others: &'t [&'t [u8]],
}

impl<'t> AllPaths<'t> {
    /// Number of ids.
    pub fn len(&self) -> usize {
        self.table.len() + self.others.len()
    }

    /// Returns the path with this id; empty if there is none.
    #[inline]
    pub fn path(&self, id: NodeId) -> &'t [u8] {
        match id.index().checked_sub(self.table.len()) {
            None => self.table.path(id),
            Some(other) => self.others.get(other).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    impl super::PathTable {
        /// Returns the segments of text, spans and index.
        pub(in crate::paths) fn parts(&self) -> [Vec<&[u64]>; 3] {
            [self.text.all(), self.spans.all(), vec![self.index.all()]]
        }
    }
}
