//! Paths to numbers, on many threads. Does not know where the paths come from.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use tanto_sys::memory::prefetch;

use super::segmented::{GrowingWords, out_of_memory};
use super::slots::HashSlots;
use super::table::PathTable;
use super::{LookupSteps, run_pipelined};
use super::{TagMask, head, pack, unpack, words_for};
use crate::ids::NodeId;

/// Paths that are looked for in one turn. After it, another thread may let the index grow.
const BATCH: usize = 256;

/// Numbers that a thread takes at once: as many as it may need in a turn. It never has twice as many.
const IDS: usize = BATCH;

/// Words of text that a thread takes at once: 64 KiB.
const TEXT: usize = 8 << 10;

/// Paths, and their numbers from 0 on. Equal paths get the same number, on whatever thread; which number that is
/// depends on the threads, unless there is only one: then they count in the order of first sight.
#[derive(Debug)]
pub struct Interner {
    slots: RwLock<HashSlots>,
    text: GrowingWords,
    /// Place and length of the text, by number.
    spans: GrowingWords,
    tags: TagMask,
}

impl Interner {
    /// With room in the index for so many different paths. It grows.
    pub fn new(expected: usize) -> Interner {
        Interner::with_tags(expected, TagMask::ALL)
    }

    pub(super) fn with_tags(expected: usize, tags: TagMask) -> Interner {
        let slots = RwLock::new(HashSlots::new(expected));
        Interner { slots, text: GrowingWords::new(1), spans: GrowingWords::new(0), tags }
    }

    /// What one thread needs to add paths.
    pub fn handle(&self) -> InternerHandle<'_> {
        InternerHandle { interner: self, ids: 0..0, more_ids: 0..0, room: 0..0 }
    }

    /// The table of all paths. No path is copied.
    pub fn freeze(self) -> PathTable {
        let slots = self.slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        PathTable::new(self.text.freeze(), self.spans.freeze(), slots.freeze().into(), self.tags)
    }

    fn slots(&self) -> RwLockReadGuard<'_, HashSlots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room in the index for so many paths.
    #[cold]
    fn grow(&self, paths: usize) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.room() < paths {
            *slots = slots.grown(paths);
        }
    }

    /// Is this the text of the path?
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

/// What one thread needs to add paths to an [`Interner`].
#[derive(Debug)]
pub struct InternerHandle<'i> {
    interner: &'i Interner,
    /// Numbers to be used next, and after them.
    ids: Range<u32>,
    more_ids: Range<u32>,
    /// Words of text that are this thread's.
    room: Range<u32>,
}

/// A path that is looked for.
#[derive(Clone, Copy, Default)]
struct InternQuery {
    tag: u32,
    /// Where a text with this tag lies; 0 if there is none yet.
    at: u32,
    /// The slot that says so.
    slot: usize,
}

impl<'i> InternerHandle<'i> {
    /// Appends a number for each path, known or new. The paths are canonical: equal files have equal paths. What is
    /// empty is no path, and gets `NodeId::NONE`. Many at once cost less than each alone.
    pub fn intern_all(&mut self, paths: &[&[u8]], ids: &mut Vec<NodeId>) {
        ids.reserve(paths.len());
        for paths in paths.chunks(BATCH) {
            let slots = &self.slots();
            let room = self.room.start;
            run_pipelined(&mut InternBatch { writer: self, slots, room, ids }, paths);
        }
    }

    /// The index, with room for all numbers that anybody has, and so for all paths; and numbers for a turn.
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

    /// Takes more numbers, of which there are none beside `ids`: more than that would be enough for a turn.
    fn take_ids(&mut self) {
        let taken = self.interner.spans.take(IDS);
        if self.ids.end == taken.start {
            self.ids.end = taken.end;
        } else {
            self.more_ids = taken;
        }
    }

    /// Goes on with the search, and ends it with a new number if need be.
    #[inline(never)]
    fn find_or_insert(&mut self, slots: &HashSlots, query: InternQuery, path: &[u8]) -> NodeId {
        if path.is_empty() {
            return NodeId::NONE;
        }
        let InternQuery { tag, mut slot, .. } = query;
        // A new text, which nobody sees yet.
        let mut written = None;
        loop {
            let mut word = slots.at(slot).load(Ordering::Acquire);
            if word == 0 {
                let at = *written.get_or_insert_with(|| self.write(path));
                let known = slots.at(slot).compare_exchange(0, pack(at, tag), Ordering::Release, Ordering::Acquire);
                match known {
                    Ok(_) => return self.keep(at, path),
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

    /// Writes the text where the next one would lie as well: it is not kept yet.
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

    /// Keeps the text that was written last, and its number.
    fn keep(&mut self, at: u32, path: &[u8]) -> NodeId {
        let id = self.next_id();
        // `write` has seen that both fit.
        self.interner.spans.from(id)[0].store(pack(at, path.len() as u32), Ordering::Relaxed);
        self.room.start += (1 + words_for(path.len())) as u32;
        self.ids.start += 1;
        NodeId(id)
    }

    /// The next number, of which `with_ids` has seen that there is one.
    fn next_id(&mut self) -> u32 {
        if self.ids.is_empty() {
            self.ids = std::mem::take(&mut self.more_ids);
        }
        self.ids.start
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

/// The paths that are looked for in one turn.
struct InternBatch<'t, 'i> {
    writer: &'t mut InternerHandle<'i>,
    slots: &'t HashSlots,
    /// Where the text of the next new path will lie, most likely.
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
            each_line(text.from(query.at), count, prefetch::for_read);
        } else {
            prefetch::for_write(self.slots.at(query.slot));
            if self.room < self.writer.room.end {
                each_line(text.from(self.room), count, prefetch::for_write);
                self.room = self.room.saturating_add(count as u32);
            }
        }
    }

    #[inline]
    fn third(&mut self, path: &[u8], query: InternQuery) {
        // What the slots lead to was written before them.
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

/// One of the words in each line of memory in which the first `count` lie, as far as there are so many.
#[inline]
fn each_line(words: &[AtomicU64], count: usize, act: impl Fn(&AtomicU64)) {
    let words = &words[..count.min(words.len())];
    words.iter().step_by(8).chain(words.last()).for_each(act);
}

/// The words of a path: its bytes, and zeros after them, of which there is at least one.
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
