//! The way back: which edges have a node as an input. Does not know what they want it for.

use super::{Edge, EdgeId, Known, NodeId};

/// For each node the edges that have it as an input, in the order of the manifest; made in one pass when someone
/// needs it.
pub struct OutEdges {
    starts: Vec<u32>,
    edges: Vec<EdgeId>,
}

impl OutEdges {
    /// Counts, then fills. `lists` says which of an edge's nodes count: its inputs, or its validations.
    pub fn new<'t>(graph: &Known<'t>, lists: impl Fn(&Edge<'t>) -> &'t [NodeId]) -> Self {
        let mut starts = vec![0u32; graph.node_count() + 1];
        for edge in graph.edges() {
            for node in lists(&edge) {
                starts[node.index() + 1] += 1;
            }
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut edges = vec![EdgeId(0); starts[starts.len() - 1] as usize];
        for (number, edge) in graph.edges().enumerate() {
            for node in lists(&edge) {
                edges[next[node.index()] as usize] = EdgeId(number as u32);
                next[node.index()] += 1;
            }
        }
        OutEdges { starts, edges }
    }

    /// The edges that have `node` as an input; an edge that names it twice comes twice.
    pub fn of(&self, node: NodeId) -> &[EdgeId] {
        let at = |i: usize| self.starts[i] as usize;
        &self.edges[at(node.index())..at(node.index() + 1)]
    }
}
