//! Parallel interning of paths.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use tanto_sys::memory::prefetch;

use super::segmented::{GrowingWords, out_of_memory};
use super::slots::HashSlots;
use super::table::PathTable;
use super::{LookupSteps, TagMask, head, pack, run_pipelined, unpack, words_for};
use crate::ids::NodeId;

/// Paths interned with one borrow of the index. Between batches another thread may grow it.
const BATCH: usize = 256;

/// Ids that a thread reserves at a time: enough for a batch. It never holds twice as many.
const IDS: usize = BATCH;

/// Words of text that a thread reserves at a time: 64 KiB.
const TEXT: usize = 8 << 10;

/// Assigns ids from 0 on to paths. Equal paths get the same id on any thread. With one thread, ids are in the order
/// of first occurrence; otherwise the order is unspecified.
#[derive(Debug)]
pub struct Interner {
    slots: RwLock<HashSlots>,
    text: GrowingWords,
    /// Offset and length of the text, by id.
    spans: GrowingWords,
    tags: TagMask,
}

impl Interner {
    /// `expected` paths fit into the index without growing.
    pub fn new(expected: usize) -> Interner {
        Interner::with_tags(expected, TagMask::ALL)
    }

    pub(super) fn with_tags(expected: usize, tags: TagMask) -> Interner {
        let slots = RwLock::new(HashSlots::new(expected));
        Interner { slots, text: GrowingWords::new(1), spans: GrowingWords::new(0), tags }
    }

    /// Returns the state that one thread needs to add paths.
    pub fn handle(&self) -> InternerHandle<'_> {
        InternerHandle { interner: self, ids: 0..0, more_ids: 0..0, room: 0..0 }
    }

    /// Returns the table of all paths without copying them.
    pub fn freeze(self) -> PathTable {
        let slots = self.slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        PathTable::new(self.text.freeze(), self.spans.freeze(), slots.freeze().into(), self.tags)
    }

    fn slots(&self) -> RwLockReadGuard<'_, HashSlots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows the index to hold this many paths.
    #[cold]
    fn grow(&self, paths: usize) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.room() < paths {
            *slots = slots.grown(paths);
        }
    }

    /// Returns true if the text at this offset is the path.
    #[inline]
    fn is_text(&self, at: u32, path: &[u8]) -> bool {
        let words = self.text.from(at);
        let Some((first, words)) = words.split_first() else { return false };
        unpack(first.load(Ordering::Relaxed)).1 as usize == path.len() && is_same(words, path)
    }

    #[inline]
    fn id_at(&self, at: u32) -> NodeId {
        NodeId(unpack(self.text.from(at)[0].load(Ordering::Relaxed)).0)
    }
}

/// The state that one thread needs to add paths to an [`Interner`].
#[derive(Debug)]
pub struct InternerHandle<'i> {
    interner: &'i Interner,
    /// The reserved ids: the current range and the next.
    ids: Range<u32>,
    more_ids: Range<u32>,
    /// Reserved words of text.
    room: Range<u32>,
}

#[derive(Clone, Copy, Default)]
struct InternQuery {
    tag: u32,
    /// Offset of a text with this tag; 0 if there is none yet.
    at: u32,
    /// Its slot.
    slot: usize,
}

impl<'i> InternerHandle<'i> {
    /// Appends an id for each path, adding unknown ones. Paths must be canonical. An empty path gets `NodeId::NONE`.
    /// A batch is cheaper than single paths.
    pub fn intern_all(&mut self, paths: &[&[u8]], ids: &mut Vec<NodeId>) {
        ids.reserve(paths.len());
        for paths in paths.chunks(BATCH) {
            let slots = &self.slots();
            let room = self.room.start;
            run_pipelined(&mut InternBatch { writer: self, slots, room, ids }, paths);
        }
    }

    /// Reserves ids for a batch, and returns the index with space for all reserved ids, thus for all paths.
    fn slots(&mut self) -> RwLockReadGuard<'i, HashSlots> {
        if self.ids.len() + self.more_ids.len() < BATCH {
            self.take_ids();
        }
        let needed = self.ids.end.max(self.more_ids.end) as usize;
        let slots = self.interner.slots();
        if slots.room() >= needed {
            return slots;
        }
        drop(slots);
        self.interner.grow(needed);
        self.interner.slots()
    }

    /// Reserves more ids. At most one range may be in use.
    fn take_ids(&mut self) {
        let taken = self.interner.spans.take(IDS);
        if self.ids.end == taken.start {
            self.ids.end = taken.end;
        } else {
            self.more_ids = taken;
        }
    }

    /// Continues the search; adds the path if it is not found.
    #[inline(never)]
    fn find_or_insert(&mut self, slots: &HashSlots, query: InternQuery, path: &[u8]) -> NodeId {
        if path.is_empty() {
            return NodeId::NONE;
        }
        let InternQuery { tag, mut slot, .. } = query;
        // A new text that other threads cannot see yet.
        let mut written = None;
        loop {
            let mut word = slots.at(slot).load(Ordering::Acquire);
            if word == 0 {
                let at = *written.get_or_insert_with(|| self.write(path));
                let known = slots.at(slot).compare_exchange(0, pack(at, tag), Ordering::Release, Ordering::Acquire);
                match known {
                    Ok(_) => return self.commit(at, path),
                    Err(other) => word = other,
                }
            }
            let (at, other) = unpack(word);
            if other == tag && self.interner.is_text(at, path) {
                return self.interner.id_at(at);
            }
            slot = slots.after(slot);
        }
    }

    /// Writes the text to reserved memory without using it up.
    fn write(&mut self, path: &[u8]) -> u32 {
        let count = 1 + words_for(path.len());
        if self.room.len() < count {
            self.interner.text.give_back(self.room.clone());
            self.room = self.interner.text.take(count.max(TEXT));
        }
        let length = u32::try_from(path.len()).unwrap_or_else(|_| out_of_memory(count));
        let words = self.interner.text.from(self.room.start);
        words[0].store(head(self.next_id(), length), Ordering::Relaxed);
        copy(path, &words[1..]);
        self.room.start
    }

    /// Uses up the text that was written last, and an id.
    fn commit(&mut self, at: u32, path: &[u8]) -> NodeId {
        let id = self.next_id();
        // `write` checked that both fit.
        self.interner.spans.from(id)[0].store(pack(at, path.len() as u32), Ordering::Relaxed);
        self.room.start += (1 + words_for(path.len())) as u32;
        self.ids.start += 1;
        NodeId(id)
    }

    /// Returns the next id; `slots` has reserved one.
    fn next_id(&mut self) -> u32 {
        if self.ids.is_empty() {
            self.ids = std::mem::take(&mut self.more_ids);
        }
        self.ids.start
    }
}

impl Default for PathTable {
    fn default() -> Self {
        Interner::new(0).freeze()
    }
}

impl Drop for InternerHandle<'_> {
    fn drop(&mut self) {
        let Interner { text, spans, .. } = self.interner;
        spans.give_back(self.more_ids.clone());
        spans.give_back(self.ids.clone());
        text.give_back(self.room.clone());
    }
}

/// The paths of a batch.
struct InternBatch<'t, 'i> {
    writer: &'t mut InternerHandle<'i>,
    slots: &'t HashSlots,
    /// Expected offset of the next new text.
    room: u32,
    ids: &'t mut Vec<NodeId>,
}

impl LookupSteps for InternBatch<'_, '_> {
    type Place = InternQuery;

    #[inline]
    fn first(&mut self, path: &[u8]) -> InternQuery {
        let tag = self.writer.interner.tags.of(path);
        let slot = self.slots.first(tag);
        prefetch::for_read(self.slots.at(slot));
        InternQuery { tag, at: 0, slot }
    }

    #[inline]
    fn second(&mut self, path: &[u8], query: &mut InternQuery) {
        query.find(self.slots);
        let text = &self.writer.interner.text;
        let count = 1 + words_for(path.len());
        if query.at != 0 {
            for_each_cache_line(text.from(query.at), count, prefetch::for_read);
        } else {
            prefetch::for_write(self.slots.at(query.slot));
            if self.room < self.writer.room.end {
                for_each_cache_line(text.from(self.room), count, prefetch::for_write);
                self.room = self.room.saturating_add(count as u32);
            }
        }
    }

    #[inline]
    fn third(&mut self, path: &[u8], query: InternQuery) {
        // Text was written before the slots that refer to it.
        fence(Ordering::Acquire);
        let interner = self.writer.interner;
        let known = query.at != 0 && interner.is_text(query.at, path);
        self.ids.push(if known {
            interner.id_at(query.at)
        } else {
            self.writer.find_or_insert(self.slots, query, path)
        });
    }
}

impl InternQuery {
    /// Finds the first slot that is free or has the tag.
    #[inline]
    fn find(&mut self, slots: &HashSlots) {
        loop {
            let (at, tag) = unpack(slots.at(self.slot).load(Ordering::Relaxed));
            self.at = at;
            if at == 0 || tag == self.tag {
                return;
            }
            self.slot = slots.after(self.slot);
        }
    }
}

/// Calls `act` for one word in each cache line of the first `count` words.
#[inline]
fn for_each_cache_line(words: &[AtomicU64], count: usize, act: impl Fn(&AtomicU64)) {
    let words = &words[..count.min(words.len())];
    words.iter().step_by(8).chain(words.last()).for_each(act);
}

/// The words of a path, and the last one, which ends with at least one zero byte.
#[inline]
fn words_of(path: &[u8]) -> (impl ExactSizeIterator<Item = u64>, u64) {
    let (words, rest) = path.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    (words.iter().map(|word| u64::from_ne_bytes(*word)), u64::from_ne_bytes(last))
}

fn copy(path: &[u8], to: &[AtomicU64]) {
    let (words, last) = words_of(path);
    to[words.len()].store(last, Ordering::Relaxed);
    words.zip(to).for_each(|(word, to)| to.store(word, Ordering::Relaxed));
}

#[inline]
fn is_same(text: &[AtomicU64], path: &[u8]) -> bool {
    let (words, last) = words_of(path);
    let end = words.len();
    end < text.len()
        && words.zip(text).all(|(word, text)| text.load(Ordering::Relaxed) == word)
        && text[end].load(Ordering::Relaxed) == last
}
