//! The paths of a table in another order, as a new table has them: its text laid path by path, its spans and its index.
//! Does not know what the order is, nor where the new table goes.

use tanto_sys::threads::each;

use super::{AllPaths, Tags, halves, head, pair, words_for};
use crate::graph::NodeId;

/// How many paths ahead memory is asked for: as many as the processor can wait for at a time.
const AHEAD: usize = 8;

/// Paths that a thread takes at a time.
const PIECE: usize = 16 << 10;

/// What a new table consists of. The text is made piece by piece, since it is long.
pub struct Relaid<'t> {
    paths: AllPaths<'t>,
    /// The old numbers, by the new ones.
    order: &'t [NodeId],
    spans: Vec<u64>,
    index: Vec<u64>,
    /// Words of text.
    words: usize,
}

impl<'t> Relaid<'t> {
    /// The paths with these numbers, all of them different, under new ones: 0 and so on. None if there are too many.
    pub fn new(paths: AllPaths<'t>, order: &'t [NodeId], threads: usize) -> Option<Relaid<'t>> {
        let mut words = 1_usize;
        let mut spans = Vec::with_capacity(order.len());
        for &id in order {
            let length = paths.path(id).len();
            spans.push(pair(u32::try_from(words).ok()?, u32::try_from(length).ok()?));
            words += 1 + words_for(length);
        }
        let index = index(paths, order, &spans, threads);
        Some(Relaid { paths, order, spans, index, words })
    }

    /// Where the text of each number lies, and how long it is.
    pub fn spans(&self) -> &[u64] {
        &self.spans
    }

    /// Where the text with a certain hash lies.
    pub fn index(&self) -> &[u64] {
        &self.index
    }

    /// How many words the text has.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Writes the words of the text from this one on.
    pub fn fill(&self, from: usize, out: &mut [u64]) {
        out.fill(0);
        let end = from + out.len();
        // The text that begins last before `from`, which may reach beyond it; word 0 belongs to none.
        let first = self.spans.partition_point(|&span| halves(span).0 as usize <= from).saturating_sub(1);
        for number in first..self.spans.len() {
            let (at, length) = halves(self.spans[number]);
            let at = at as usize;
            if at >= end {
                break;
            }
            self.prefetch(number + AHEAD);
            let words = at..at + 1 + words_for(length as usize);
            if words.start >= from && words.end <= end {
                self.lay(number, &mut out[words.start - from..words.end - from]);
            } else {
                self.lay_part(number, words, from, out);
            }
        }
    }

    fn prefetch(&self, number: usize) {
        self.order.get(number).into_iter().for_each(|&id| self.paths.prefetch(id));
    }

    /// Writes the head and the path, where there are zeros.
    fn lay(&self, number: usize, out: &mut [u64]) {
        let path = self.paths.path(self.order[number]);
        let (first, rest) = out.split_first_mut().expect("room for a head");
        *first = head(number as u32, path.len() as u32);
        bytemuck::cast_slice_mut(rest)[..path.len()].copy_from_slice(path);
    }

    /// The same for a text of which only a part is wanted.
    fn lay_part(&self, number: usize, words: std::ops::Range<usize>, from: usize, out: &mut [u64]) {
        let mut whole = vec![0; words.len()];
        self.lay(number, &mut whole);
        let (start, end) = (words.start.max(from), words.end.min(from + out.len()));
        if start < end {
            out[start - from..end - from].copy_from_slice(&whole[start - words.start..end - words.start]);
        }
    }
}

fn index(paths: AllPaths<'_>, order: &[NodeId], spans: &[u64], threads: usize) -> Vec<u64> {
    let pieces: Vec<&[NodeId]> = order.chunks(PIECE).collect();
    let tags = each(threads, pieces, |ids| tags(paths, ids)).concat();
    let bits = (order.len() * 2).next_power_of_two().ilog2();
    let mut index = vec![0; 1 << bits];
    tanto_sys::memory::huge_pages(&index);
    let mask = index.len() - 1;
    for (&span, tag) in spans.iter().zip(tags) {
        let mut slot = ((u64::from(tag) << bits) >> u32::BITS) as usize;
        while index[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        index[slot] = pair(halves(span).0, tag);
    }
    index
}

fn tags(paths: AllPaths<'_>, ids: &[NodeId]) -> Vec<u32> {
    let tag = |(number, &id): (usize, &NodeId)| {
        ids.get(number + AHEAD).into_iter().for_each(|&id| paths.prefetch(id));
        Tags::ALL.of(paths.path(id))
    };
    ids.iter().enumerate().map(tag).collect()
}
