//! Flat arrays of plain data, in memory or in a mapped file.

mod blocks;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use tanto_sys::memory::{FrozenWords, prefetch};

pub use blocks::{BLOCK_SIZE, Blocks, WordLimit};

/// An array of `T`. In memory, an index out of bounds panics. In a mapped file, the result is zero or empty, and the
/// file's [`Blocks`] are marked as damaged.
#[derive(Debug)]
pub struct Slab<T>(Kind<T>);

#[derive(Debug)]
enum Kind<T> {
    Owned(Vec<T>),
    /// For a `T` no larger than a word and no more aligned.
    Frozen(FrozenWords),
    Mapped(MappedRange),
}

/// A byte range of a mapped file.
#[derive(Debug)]
struct MappedRange {
    blocks: Arc<Blocks>,
    range: Range<usize>,
}

impl<T> From<Vec<T>> for Slab<T> {
    fn from(items: Vec<T>) -> Slab<T> {
        Slab(Kind::Owned(items))
    }
}

impl From<FrozenWords> for Slab<u64> {
    fn from(words: FrozenWords) -> Slab<u64> {
        Slab(Kind::Frozen(words))
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Vec::new().into()
    }
}

impl<T: Pod> Slab<T> {
    /// Maps a byte range. If it is outside of the file, misaligned or not a multiple of the size of `T`, the array is
    /// empty and the file is marked as damaged.
    pub fn mapped(blocks: &Arc<Blocks>, range: Range<usize>) -> Slab<T> {
        let fits = range.start.is_multiple_of(align_of::<T>()) && range.len().is_multiple_of(size_of::<T>());
        let fits = fits && blocks.holds(&range);
        if !fits {
            blocks.set_damaged();
        }
        let range = if fits { range } else { 0..0 };
        Slab(Kind::Mapped(MappedRange { blocks: Arc::clone(blocks), range }))
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Owned(items) => items.len(),
            Kind::Frozen(words) => bytemuck::cast_slice::<u64, T>(words).len(),
            Kind::Mapped(part) => part.range.len() / size_of::<T>(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn get(&self, at: usize) -> T {
        match &self.0 {
            Kind::Owned(items) => items[at],
            Kind::Frozen(words) => bytemuck::cast_slice::<u64, T>(words)[at],
            Kind::Mapped(part) => {
                let bytes = part.bytes::<T>(at..at.wrapping_add(1));
                if bytes.is_empty() { T::zeroed() } else { bytemuck::pod_read_unaligned(bytes) }
            }
        }
    }

    /// Prefetches an element, if it exists.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        match &self.0 {
            Kind::Owned(items) => items.get(at).into_iter().for_each(prefetch::for_read),
            Kind::Frozen(words) => {
                bytemuck::cast_slice::<u64, T>(words).get(at).into_iter().for_each(prefetch::for_read)
            }
            Kind::Mapped(part) => {
                part.blocks.prefetch(part.range.start.saturating_add(at.saturating_mul(size_of::<T>())))
            }
        }
    }

    #[inline]
    pub fn slice(&self, range: Range<usize>) -> &[T] {
        match &self.0 {
            Kind::Owned(items) => &items[range],
            Kind::Frozen(words) => &bytemuck::cast_slice(words)[range],
            Kind::Mapped(part) => bytemuck::try_cast_slice(part.bytes::<T>(range)).unwrap_or_default(),
        }
    }

    /// Returns all elements. In a file, this checks all blocks that were not read yet.
    pub fn all(&self) -> &[T] {
        self.slice(0..self.len())
    }
}

impl MappedRange {
    /// Returns the bytes of these elements; empty if some do not exist.
    #[inline]
    fn bytes<T>(&self, items: Range<usize>) -> &[u8] {
        let Range { start, end } = items;
        if start > end || end > self.range.len() / size_of::<T>() {
            return self.blocks.missing();
        }
        if start == end {
            return &[];
        }
        let at = |item: usize| self.range.start + item * size_of::<T>();
        self.blocks.covered(at(start)..at(end))
    }
}

#[cfg(test)]
mod tests;
