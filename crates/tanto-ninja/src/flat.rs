//! Plain data in a row, in memory of our own or in a mapped file. Does not know what the data means, nor how such a
//! file is laid out.

mod blocks;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use tanto_sys::memory::FrozenWords;
use tanto_sys::memory::prefetch;

pub use blocks::{BLOCK_SIZE, Blocks, WordLimit};

/// A row of `T`. Where it lies in memory of our own, asking for what is not there is a bug, and panics; where it lies
/// in a file, the answer is zeros or nothing, and the file's [`Blocks`] say that it is damaged.
#[derive(Debug)]
pub struct Slab<T>(Kind<T>);

#[derive(Debug)]
enum Kind<T> {
    Owned(Vec<T>),
    /// For `T` of a word's size or alignment, or less.
    Frozen(FrozenWords),
    Mapped(MappedRange),
}

/// These bytes of a file.
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
    /// What lies at these bytes of a file. If they are not in it, or no row of `T`, or not aligned for `T`, the file is
    /// damaged and the row empty.
    pub fn mapped(blocks: &Arc<Blocks>, range: Range<usize>) -> Slab<T> {
        let fits = range.start.is_multiple_of(align_of::<T>()) && range.len().is_multiple_of(size_of::<T>());
        let fits = fits && blocks.holds(&range);
        if !fits {
            blocks.set_damaged();
        }
        let range = if fits { range } else { 0..0 };
        Slab(Kind::Mapped(MappedRange { blocks: Arc::clone(blocks), range }))
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Owned(items) => items.len(),
            Kind::Frozen(words) => bytemuck::cast_slice::<u64, T>(words).len(),
            Kind::Mapped(part) => part.range.len() / size_of::<T>(),
        }
    }

    /// Is there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
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

    /// Asks for the memory of one that will be needed soon. If there is none, nothing happens.
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

    /// Some of them, side by side.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> &[T] {
        match &self.0 {
            Kind::Owned(items) => &items[range],
            Kind::Frozen(words) => &bytemuck::cast_slice(words)[range],
            Kind::Mapped(part) => bytemuck::try_cast_slice(part.bytes::<T>(range)).unwrap_or_default(),
        }
    }

    /// All of them. In a file, this checks all that was not touched yet.
    pub fn all(&self) -> &[T] {
        self.slice(0..self.len())
    }
}

impl MappedRange {
    /// The bytes of these items; none if they are not all there.
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
