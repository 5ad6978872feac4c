//! Build log lines of outputs that are not nodes, looked up by path.

use std::sync::OnceLock;

use hashbrown::HashTable;

use crate::flat::Slab;

use super::overlay_vec::OverlayVec;
use crate::hash::rapidhash as hash;

/// The offsets of lines in file order. The last line of an output counts.
#[derive(Default)]
pub(super) struct UnindexedLines {
    at: OverlayVec<u64>,
    /// The last line of each output; built for the first lookup.
    table: OnceLock<HashTable<u64>>,
}

impl UnindexedLines {
    pub(super) fn new(places: Slab<u64>) -> UnindexedLines {
        UnindexedLines { at: places.into(), table: OnceLock::new() }
    }

    pub(super) fn places(&self) -> &[u64] {
        self.at.all()
    }

    /// Adds a line. `output_at` returns the output of the line at an offset.
    pub(super) fn put<'a>(&mut self, at: u64, output_at: impl Fn(u64) -> &'a [u8]) {
        self.at.to_mut().push(at);
        if let Some(table) = self.table.get_mut() {
            put(table, at, output_at);
        }
    }

    /// The offset of an output's last line.
    pub(super) fn find<'a>(&self, output: &[u8], output_at: impl Fn(u64) -> &'a [u8]) -> Option<u64> {
        if self.at.len() == 0 {
            return None;
        }
        self.table(&output_at).find(hash(output), |&at| output_at(at) == output).copied()
    }

    /// The number of outputs.
    pub(super) fn count<'a>(&self, output_at: impl Fn(u64) -> &'a [u8]) -> usize {
        self.table(&output_at).len()
    }

    fn table<'a>(&self, output_at: &impl Fn(u64) -> &'a [u8]) -> &HashTable<u64> {
        self.table.get_or_init(|| {
            let mut table = HashTable::with_capacity(self.at.len());
            for &at in self.places() {
                put(&mut table, at, output_at);
            }
            table
        })
    }
}

fn put<'a>(table: &mut HashTable<u64>, at: u64, output_at: impl Fn(u64) -> &'a [u8]) {
    let output = output_at(at);
    let entry = table.entry(hash(output), |&at| output_at(at) == output, |&at| hash(output_at(at)));
    entry.and_modify(|latest| *latest = at).or_insert(at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_of_an_output_counts() {
        let outputs: [&[u8]; 5] = [b"a", b"b", b"a", b"c", b"b"];
        let output_at = |at: u64| outputs[at as usize];
        for asked in 0..outputs.len() {
            let mut unindexed = UnindexedLines::default();
            for at in 0..outputs.len() {
                if at == asked {
                    assert_eq!(unindexed.find(b"none", output_at), None);
                }
                unindexed.put(at as u64, output_at);
            }
            let found = [b"a", b"b", b"c", b"d"].map(|output| unindexed.find(output, output_at));
            assert_eq!(found, [Some(2), Some(4), Some(3), None], "a table from line {asked} on");
            assert_eq!(unindexed.count(output_at), 3);
        }
    }
}
