//! Lines of the build log whose outputs are no nodes, by their paths. Does not know what the lines say.

use std::sync::OnceLock;

use hashbrown::HashTable;

use crate::flat::Slab;

use super::overlay_vec::OverlayVec;
use crate::hash::rapidhash as hash;

/// Places of lines, in the order of the file; of those with one output the last counts.
#[derive(Default)]
pub(super) struct UnindexedLines {
    at: OverlayVec<u64>,
    /// Those that count. LoggedCommand when someone asks for one of them.
    table: OnceLock<HashTable<u64>>,
}

impl UnindexedLines {
    /// From the places of lines, as `places` gives them.
    pub(super) fn new(places: Slab<u64>) -> UnindexedLines {
        UnindexedLines { at: places.into(), table: OnceLock::new() }
    }

    /// The places of all lines.
    pub(super) fn places(&self) -> &[u64] {
        self.at.all()
    }

    /// Another line. `output_at` says for any of them which output it is about.
    pub(super) fn put<'a>(&mut self, at: u64, output_at: impl Fn(u64) -> &'a [u8]) {
        self.at.to_mut().push(at);
        if let Some(table) = self.table.get_mut() {
            put(table, at, output_at);
        }
    }

    /// The line that counts for an output.
    pub(super) fn find<'a>(&self, output: &[u8], output_at: impl Fn(u64) -> &'a [u8]) -> Option<u64> {
        if self.at.len() == 0 {
            return None;
        }
        self.table(&output_at).find(hash(output), |&at| output_at(at) == output).copied()
    }

    /// How many outputs there are.
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
    fn the_last_line_of_an_output_counts() {
        let outputs: [&[u8]; 5] = [b"a", b"b", b"a", b"c", b"b"];
        let output_at = |at: u64| outputs[at as usize];
        for asked in 0..outputs.len() {
            let mut side = UnindexedLines::default();
            for at in 0..outputs.len() {
                if at == asked {
                    assert_eq!(side.find(b"none", output_at), None);
                }
                side.put(at as u64, output_at);
            }
            let found = [b"a", b"b", b"c", b"d"].map(|output| side.find(output, output_at));
            assert_eq!(found, [Some(2), Some(4), Some(3), None], "a table from line {asked} on");
            assert_eq!(side.count(output_at), 3);
        }
    }
}
