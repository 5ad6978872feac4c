//! A vector with a base that may be mapped from a snapshot; changes are kept in a map beside it.

use bytemuck::Pod;

use crate::flat::Slab;
use crate::hash::Map;

/// A mapped vector is copied when 1 of this many items has changed; then the copy is not larger than the map of
/// changes.
const WORTH_A_COPY: usize = 16;

pub(super) enum OverlayVec<T> {
    Owned(Vec<T>),
    /// The base, and changed items by index.
    Mapped(Slab<T>, Map<usize, T>),
}

impl<T> Default for OverlayVec<T> {
    fn default() -> Self {
        OverlayVec::Owned(Vec::new())
    }
}

impl<T: Pod> From<Slab<T>> for OverlayVec<T> {
    fn from(saved: Slab<T>) -> Self {
        OverlayVec::Mapped(saved, Map::default())
    }
}

impl<T: Pod> OverlayVec<T> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            OverlayVec::Owned(items) => items.len(),
            OverlayVec::Mapped(saved, _) => saved.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<T> {
        match self {
            OverlayVec::Owned(items) => items.get(at).copied(),
            OverlayVec::Mapped(saved, changed) => {
                (at < saved.len()).then(|| changed.get(&at).copied().unwrap_or_else(|| saved.get(at)))
            }
        }
    }

    /// Replaces an existing item.
    #[inline]
    pub(super) fn set(&mut self, at: usize, item: T) {
        match self {
            OverlayVec::Mapped(saved, changed) if changed.len() < saved.len() / WORTH_A_COPY => {
                changed.insert(at, item);
            }
            _ => self.to_mut()[at] = item,
        }
    }

    /// The items as a vector that can grow; a mapped one is copied first.
    #[inline]
    pub(super) fn to_mut(&mut self) -> &mut Vec<T> {
        if let OverlayVec::Mapped(..) = self {
            *self = OverlayVec::Owned(self.to_vec());
        }
        let OverlayVec::Owned(items) = self else { unreachable!("just copied") };
        items
    }

    pub(super) fn to_vec(&self) -> Vec<T> {
        match self {
            OverlayVec::Owned(items) => items.clone(),
            OverlayVec::Mapped(saved, changed) => {
                let mut items = saved.all().to_vec();
                // A damaged snapshot may be shorter.
                items.resize(saved.len(), T::zeroed());
                changed.iter().for_each(|(&at, &item)| items[at] = item);
                items
            }
        }
    }

    /// All items. Must not be called after `set`.
    pub(super) fn all(&self) -> &[T] {
        match self {
            OverlayVec::Owned(items) => items,
            OverlayVec::Mapped(saved, changed) => {
                assert!(changed.is_empty(), "such a row is only made longer or shorter");
                saved.all()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use tanto_sys::memory::map::Map;

    use super::*;
    use crate::flat::Blocks;

    #[test]
    fn owned_and_mapped_vectors_behave_alike() {
        let items: Vec<u32> = (0..100).collect();
        for row in [OverlayVec::Owned(items.clone()), OverlayVec::from(Slab::from(items.clone()))] {
            let (mut row, mut items) = (row, items.clone());
            assert_eq!(row.all(), items);
            for (step, at) in [5, 99, 5, 0, 17, 23, 42, 60].into_iter().enumerate() {
                row.set(at, step as u32 + 1000);
                items[at] = step as u32 + 1000;
                assert_eq!((row.len(), row.get(at), row.get(6), row.get(100)), (100, Some(items[at]), Some(6), None));
                assert_eq!(row.to_vec(), items);
            }
            row.to_mut().push(7);
            assert_eq!((row.len(), row.get(99), row.get(100)), (101, Some(items[99]), Some(7)));
        }
    }

    #[test]
    fn vector_of_a_damaged_snapshot_keeps_its_length() {
        let dir = tanto_testing::Scratch::new("row");
        dir.write("f", [7; 40]);
        let map = Map::new(&File::open(dir.at("f")).expect("open"), 40).expect("map");
        let blocks = Arc::new(Blocks::new(map, 0..40, vec![123]));
        let mut row: OverlayVec<u32> = Slab::mapped(&blocks, 0..40).into();
        assert_eq!((row.len(), row.get(9), row.get(10), row.all()), (10, Some(0), None, [0_u32; 0].as_slice()));
        row.set(9, 5);
        assert_eq!(row.to_vec(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert!(blocks.is_damaged());
    }
}
