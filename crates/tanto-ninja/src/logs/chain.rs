//! One pass over a piece of `.ninja_deps`, as far as that needs nothing from the pieces before it. Does not know ids.

use crate::graph::GraphView;
use crate::ids::NodeId;

use super::record::{self, Record, highest_id};

/// What was found in a piece, in the order of the file.
pub(super) struct Piece {
    /// Where its first record begins.
    pub(super) start: usize,
    pub(super) items: Vec<Item>,
    /// For each of the paths among them the node that it has already.
    pub(super) nodes: Vec<Option<NodeId>>,
    /// Where the record behind the last one begins, in the next piece if this one is sound to its end.
    pub(super) end: usize,
}

/// A record, and where it begins, counted from the piece's start.
pub(super) enum Item {
    /// The path's own id.
    Path { at: u32, id: u32 },
    /// The output's id, and the highest of that and the inputs'.
    Deps { at: u32, output: u32, highest: u32 },
}

/// Reads the records that begin between `start` and `limit`, up to the first that has not its form. `limit` is less
/// than 2^32 behind `start`.
pub(super) fn read(bytes: &[u8], start: usize, limit: usize, graph: &GraphView<'_>) -> Piece {
    let (mut items, mut paths) = (Vec::new(), Vec::new());
    let mut end = start;
    while end < limit
        && let Some((record, next)) = record::read(bytes, end)
    {
        let at = (end - start) as u32;
        items.push(match record {
            Record::Path { path, id } => {
                paths.push(path);
                Item::Path { at, id }
            }
            Record::Deps { output, ins, .. } => Item::Deps { at, output, highest: highest_id(output, ins) },
        });
        end = next;
    }
    let mut nodes = Vec::new();
    graph.lookup_all(&paths, &mut nodes);
    Piece { start, items, nodes, end }
}
