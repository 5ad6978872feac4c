//! Plain data in a row, most of which may lie in a snapshot, with what has changed since. Does not know what it means.

use bytemuck::Pod;

use crate::flat::Slab;
use crate::hash::Map;

/// A row in a snapshot is copied when one in so many has changed: then a copy is not larger than what is noted beside
/// it. Smaller, much is noted; larger, a few changes cost a copy of everything.
const WORTH_A_COPY: usize = 16;

/// A row that can be changed.
pub(super) enum Row<T> {
    Own(Vec<T>),
    /// What was kept, and what holds in its place.
    Kept(Slab<T>, Map<usize, T>),
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Row::Own(Vec::new())
    }
}

impl<T: Pod> From<Slab<T>> for Row<T> {
    fn from(kept: Slab<T>) -> Self {
        Row::Kept(kept, Map::default())
    }
}

impl<T: Pod> Row<T> {
    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Row::Own(items) => items.len(),
            Row::Kept(kept, _) => kept.len(),
        }
    }

    /// One of them, if it is there.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<T> {
        match self {
            Row::Own(items) => items.get(at).copied(),
            Row::Kept(kept, changed) => {
                (at < kept.len()).then(|| changed.get(&at).copied().unwrap_or_else(|| kept.get(at)))
            }
        }
    }

    /// Changes one that is there.
    #[inline]
    pub(super) fn set(&mut self, at: usize, item: T) {
        match self {
            Row::Kept(kept, changed) if changed.len() < kept.len() / WORTH_A_COPY => {
                changed.insert(at, item);
            }
            _ => self.own()[at] = item,
        }
    }

    /// The row, to be made longer or shorter; copied if it lies in a snapshot.
    #[inline]
    pub(super) fn own(&mut self) -> &mut Vec<T> {
        if let Row::Kept(..) = self {
            *self = Row::Own(self.to_vec());
        }
        let Row::Own(items) = self else { unreachable!("just copied") };
        items
    }

    /// A copy of it.
    pub(super) fn to_vec(&self) -> Vec<T> {
        match self {
            Row::Own(items) => items.clone(),
            Row::Kept(kept, changed) => {
                let mut items = kept.all().to_vec();
                // Of a damaged snapshot there may be less.
                items.resize(kept.len(), T::zeroed());
                changed.iter().for_each(|(&at, &item)| items[at] = item);
                items
            }
        }
    }

    /// All of them, of a row of which none was ever changed, only its length.
    pub(super) fn all(&self) -> &[T] {
        match self {
            Row::Own(items) => items,
            Row::Kept(kept, changed) => {
                assert!(changed.is_empty(), "such a row is only made longer or shorter");
                kept.all()
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
    fn a_row_is_the_same_wherever_it_lies() {
        let items: Vec<u32> = (0..100).collect();
        for row in [Row::Own(items.clone()), Row::from(Slab::from(items.clone()))] {
            let (mut row, mut items) = (row, items.clone());
            assert_eq!(row.all(), items);
            for (step, at) in [5, 99, 5, 0, 17, 23, 42, 60].into_iter().enumerate() {
                row.set(at, step as u32 + 1000);
                items[at] = step as u32 + 1000;
                assert_eq!((row.len(), row.get(at), row.get(6), row.get(100)), (100, Some(items[at]), Some(6), None));
                assert_eq!(row.to_vec(), items);
            }
            row.own().push(7);
            assert_eq!((row.len(), row.get(99), row.get(100)), (101, Some(items[99]), Some(7)));
        }
    }

    #[test]
    fn a_row_of_a_damaged_snapshot_is_as_long_as_it_was() {
        let dir = tanto_testing::Scratch::new("row");
        dir.write("f", [7; 40]);
        let map = Map::new(&File::open(dir.at("f")).expect("open"), 40).expect("map");
        let blocks = Arc::new(Blocks::new(map, 0..40, vec![123]));
        let mut row: Row<u32> = Slab::mapped(&blocks, 0..40).into();
        assert_eq!((row.len(), row.get(9), row.get(10), row.all()), (10, Some(0), None, [0_u32; 0].as_slice()));
        row.set(9, 5);
        assert_eq!(row.to_vec(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert!(blocks.is_damaged());
    }
}
