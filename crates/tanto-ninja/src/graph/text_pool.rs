//! Text that is addressed by offset, in shared segments or in a snapshot.

use std::ops::Range;
use std::sync::Arc;

use crate::flat::{Blocks, Slab};

/// Preliminary offset of the first segment: the length of the text before it is not known yet.
const SEGMENT_BASE: u64 = 1 << 48;

/// Text in consecutive segments.
pub(crate) struct TextPool(Kind);

enum Kind {
    Segments(Segments),
    Mapped(Slab<u8>),
}

#[derive(Default)]
struct Segments {
    segments: Vec<Arc<Vec<u8>>>,
    starts: Vec<u64>,
    end: u64,
}

impl Segments {
    /// Adds a segment and returns its offset.
    fn add(&mut self, segment: Arc<Vec<u8>>) -> u64 {
        let start = self.end;
        self.end += segment.len() as u64;
        self.segments.push(segment);
        self.starts.push(start);
        start
    }

    /// Returns text that lies within one segment.
    fn get(&self, at: u64, length: usize) -> &[u8] {
        // The last segment that begins at or before the offset. Empty ones, which begin where the next does, come
        // before it.
        let Some(number) = self.starts.partition_point(|start| *start <= at).checked_sub(1) else { return &[] };
        let at = (at - self.starts[number]) as usize;
        &self.segments[number][at..at + length]
    }
}

impl TextPool {
    pub(crate) fn mapped(blocks: &Arc<Blocks>, range: Range<usize>) -> Self {
        TextPool(Kind::Mapped(Slab::mapped(blocks, range)))
    }

    /// Returns the text at an offset; empty if a damaged file does not contain it.
    pub(crate) fn get(&self, at: u64, length: usize) -> &[u8] {
        match &self.0 {
            Kind::Segments(segments) => segments.get(at, length),
            Kind::Mapped(text) => text.slice(at as usize..(at as usize).saturating_add(length)),
        }
    }

    /// Returns all segments in order.
    pub(crate) fn all(&self) -> Vec<&[u8]> {
        match &self.0 {
            Kind::Segments(segments) => segments.segments.iter().map(|segment| segment.as_slice()).collect(),
            Kind::Mapped(text) => vec![text.all()],
        }
    }
}

#[derive(Default)]
pub(crate) struct TextPoolBuilder {
    /// Copied text, which becomes the first segment.
    own: Vec<u8>,
    segments: Segments,
}

impl TextPoolBuilder {
    /// Copies a text and returns its preliminary offset.
    pub(crate) fn copy(&mut self, text: &[u8]) -> u64 {
        let at = self.own.len() as u64;
        self.own.extend_from_slice(text);
        at
    }

    /// Adds a segment and returns its preliminary offset.
    pub(crate) fn add(&mut self, segment: &Arc<Vec<u8>>) -> u64 {
        SEGMENT_BASE + self.segments.add(Arc::clone(segment))
    }

    pub(crate) fn get(&self, at: u64, length: usize) -> &[u8] {
        match at.checked_sub(SEGMENT_BASE) {
            None => &self.own[at as usize..at as usize + length],
            Some(at) => self.segments.get(at, length),
        }
    }

    /// Converts a preliminary offset to the final one.
    pub(crate) fn final_offset(&self, at: u64) -> u64 {
        if at < SEGMENT_BASE { at } else { at - SEGMENT_BASE + self.own.len() as u64 }
    }

    pub(crate) fn finish(self) -> TextPool {
        let mut all = Segments::default();
        for segment in [Arc::new(self.own)].into_iter().chain(self.segments.segments) {
            all.add(segment);
        }
        TextPool(Kind::Segments(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_before_and_after_finish() {
        let mut builder = TextPoolBuilder::default();
        let empty = builder.add(&Arc::default());
        let one = builder.add(&Arc::new(b"one".to_vec()));
        let a = builder.copy(b"a");
        let two = builder.add(&Arc::new(b"two".to_vec()));
        let bc = builder.copy(b"bc");
        let all = [(one, &b"one"[..]), (two, b"two"), (two + 1, b"wo"), (a, b"a"), (bc, b"bc"), (empty, b""), (a, b"")];
        assert!(all.iter().all(|(at, text)| builder.get(*at, text.len()) == *text));
        let final_offset = all.map(|(at, text)| (builder.final_offset(at), text));
        let texts = builder.finish();
        assert!(final_offset.iter().all(|(at, text)| texts.get(*at, text.len()) == *text));
        assert_eq!(texts.all().concat(), b"abconetwo");
        assert!(TextPoolBuilder::default().finish().get(0, 0).is_empty());
    }
}
