//! Hashes of commands, from a snapshot and from this run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tanto_sys::memory::SharedWords;

use crate::flat::Slab;
use crate::ids::EdgeId;

/// A snapshot is rewritten if the hashes it lacks exceed one in this many edges. Larger: a large snapshot is
/// rewritten for a few commands. Smaller: runs keep reading commands whose hashes could have been stored.
const REWRITE_FRACTION: usize = 32;

/// Hash of each edge's command. 0 means unknown.
#[derive(Default)]
pub(crate) struct CommandHashes {
    /// Hashes in the snapshot by edge; empty if there are none.
    stored: Slab<u64>,
    /// Hash function of `stored`, as a version of the log.
    stored_kind: u32,
    /// Hashes computed in this run, and their hash function.
    found: OnceLock<Option<(u32, SharedWords)>>,
    count: AtomicUsize,
}

impl CommandHashes {
    pub(crate) fn stored(stored: Slab<u64>, kind: u32) -> Self {
        CommandHashes { stored, stored_kind: kind, ..CommandHashes::default() }
    }

    /// Returns the hash if it is known.
    #[inline]
    pub(crate) fn get(&self, edge: EdgeId, kind: u32) -> Option<u64> {
        if let Some(Some((of, words))) = self.found.get()
            && *of == kind
            && let Some(word) = words.get(edge.index())
            && let hash @ 1.. = word.load(Ordering::Relaxed)
        {
            return Some(hash);
        }
        let known = self.stored_kind == kind && edge.index() < self.stored.len();
        if known { Some(self.stored.get(edge.index())).filter(|hash| *hash != 0) } else { None }
    }

    /// Stores a hash; does nothing if memory is short. `edges` is the number of edges.
    pub(crate) fn put(&self, edge: EdgeId, kind: u32, hash: u64, edges: usize) {
        let found = self.found.get_or_init(|| Some((kind, SharedWords::new(edges).ok()?)));
        if let Some((of, words)) = found
            && *of == kind
            && let Some(word) = words.get(edge.index())
        {
            word.store(hash, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true if there are enough new hashes to rewrite the snapshot.
    pub(crate) fn have_grown(&self, edges: usize) -> bool {
        self.count.load(Ordering::Relaxed) > edges / REWRITE_FRACTION
    }

    /// Returns one kind, and its known hashes by edge.
    pub(crate) fn all(&self, edges: usize) -> (u32, Vec<u64>) {
        let kind = self.found.get().and_then(Option::as_ref).map_or(self.stored_kind, |(kind, _)| *kind);
        let hash = |edge| self.get(EdgeId(edge), kind).unwrap_or(0);
        let known = kind == self.stored_kind && !self.stored.is_empty() || self.count.load(Ordering::Relaxed) > 0;
        (kind, if known { (0..edges as u32).map(hash).collect() } else { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_hashes_add_to_stored_ones() {
        let hashes = CommandHashes::stored(vec![7, 0, 9].into(), 5);
        let known = |kind| [0, 1, 2].map(|edge| hashes.get(EdgeId(edge), kind));
        assert_eq!(known(5), [Some(7), None, Some(9)]);
        assert_eq!(known(7), [None; 3]);
        hashes.put(EdgeId(1), 5, 8, 3);
        hashes.put(EdgeId(1), 7, 1, 3);
        assert_eq!(known(5), [Some(7), Some(8), Some(9)]);
        assert_eq!(known(7), [None; 3], "a run asks for one kind");
        assert_eq!(hashes.all(3), (5, vec![7, 8, 9]));
        assert!(hashes.have_grown(3) && !hashes.have_grown(64));
    }

    #[test]
    fn new_kind_replaces_stored_hashes() {
        let hashes = CommandHashes::stored(vec![7, 0].into(), 5);
        assert_eq!(hashes.all(2), (5, vec![7, 0]));
        hashes.put(EdgeId(0), 7, 3, 2);
        assert_eq!(hashes.all(2), (7, vec![3, 0]));
        assert_eq!(CommandHashes::default().all(2), (0, vec![]));
    }
}
