//! A path table in a new order: its text, spans and index, to be written to a file.

use tanto_sys::memory::prefetch;
use tanto_sys::threads::map_parallel;

use super::{TagMask, head, pack, unpack, words_for};

/// Paths to prefetch ahead: about the number of cache misses that a CPU handles at a time.
const PREFETCH_DISTANCE: usize = 8;

const CACHE_LINE: usize = 64;

const PATHS_PER_TASK: usize = 16 << 10;

/// Parts of the new table. The text is produced in pieces, since it is long.
pub struct PermutedPaths<'t> {
    paths: &'t [&'t [u8]],
    /// Offset and length of the text, by id.
    pub(crate) spans: Vec<u64>,
    /// The hash index of the texts.
    pub(crate) index: Vec<u64>,
    /// Length of the text in words.
    pub(crate) words: usize,
}

impl<'t> PermutedPaths<'t> {
    /// The id of a path is its index in `paths`, which must be distinct. `None` if there are too many.
    pub fn new(paths: &'t [&'t [u8]], threads: usize) -> Option<PermutedPaths<'t>> {
        let mut words = 1_usize;
        let mut spans = Vec::with_capacity(paths.len());
        for path in paths {
            spans.push(pack(u32::try_from(words).ok()?, u32::try_from(path.len()).ok()?));
            words += 1 + words_for(path.len());
        }
        let index = index(paths, &spans, threads);
        Some(PermutedPaths { paths, spans, index, words })
    }

    /// Writes the words of the text from `from` on.
    pub fn fill(&self, from: usize, out: &mut [u64]) {
        out.fill(0);
        let end = from + out.len();
        // The last text that begins at or before `from`, which may reach beyond it. Word 0 belongs to none.
        let first = self.spans.partition_point(|&span| unpack(span).0 as usize <= from).saturating_sub(1);
        for number in first..self.spans.len() {
            let (at, length) = unpack(self.spans[number]);
            let at = at as usize;
            if at >= end {
                break;
            }
            prefetch_path(self.paths, number + PREFETCH_DISTANCE);
            let words = at..at + 1 + words_for(length as usize);
            if words.start >= from && words.end <= end {
                self.write_path(number, &mut out[words.start - from..words.end - from]);
            } else {
                self.write_part(number, words, from, out);
            }
        }
    }

    /// Writes head and path into zeroed memory.
    fn write_path(&self, number: usize, out: &mut [u64]) {
        let path = self.paths[number];
        let (first, rest) = out.split_first_mut().expect("room for a head");
        *first = head(number as u32, path.len() as u32);
        bytemuck::cast_slice_mut(rest)[..path.len()].copy_from_slice(path);
    }

    /// Like `write_path` for a part of a text.
    fn write_part(&self, number: usize, words: std::ops::Range<usize>, from: usize, out: &mut [u64]) {
        let mut whole = vec![0; words.len()];
        self.write_path(number, &mut whole);
        let (start, end) = (words.start.max(from), words.end.min(from + out.len()));
        if start < end {
            out[start - from..end - from].copy_from_slice(&whole[start - words.start..end - words.start]);
        }
    }
}

fn index(paths: &[&[u8]], spans: &[u64], threads: usize) -> Vec<u64> {
    let tags = map_parallel(threads, paths.chunks(PATHS_PER_TASK).collect(), tags).concat();
    let bits = (paths.len() * 2).next_power_of_two().ilog2();
    let mut index = vec![0; 1 << bits];
    tanto_sys::memory::advise_huge_pages(&index);
    let mask = index.len() - 1;
    for (&span, tag) in spans.iter().zip(tags) {
        let mut slot = ((u64::from(tag) << bits) >> u32::BITS) as usize;
        while index[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        index[slot] = pack(unpack(span).0, tag);
    }
    index
}

fn tags(paths: &[&[u8]]) -> Vec<u32> {
    let tag = |(number, path): (usize, &&[u8])| {
        prefetch_path(paths, number + PREFETCH_DISTANCE);
        TagMask::ALL.of(path)
    };
    paths.iter().enumerate().map(tag).collect()
}

fn prefetch_path(paths: &[&[u8]], number: usize) {
    let lines = paths.get(number).into_iter().flat_map(|path| path.iter().step_by(CACHE_LINE));
    lines.for_each(prefetch::for_read);
}
