//! The edges and nodes below some targets, as far as manifests and the deps log tell, in an order with producers first.

use crate::graph::GraphView;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};

use super::super::state::{EdgeStates, FileStates};
use super::bit_set::BitSet;

/// Rank of an edge on the stack.
const IN_STACK: u32 = u32::MAX;

/// Discovered inputs, by edge.
pub(super) type ExtraInputs = Map<EdgeId, Vec<NodeId>>;

pub(super) struct Subgraph {
    /// Edges not visited by any walk yet, each after the producers of its inputs.
    pub(super) edges: Vec<EdgeId>,
    /// The targets, and the inputs, outputs and validations of all edges.
    pub(super) nodes: BitSet,
    /// By edge: its position in `edges` plus 1, or 0.
    ranks: Vec<u32>,
    /// Inputs that an earlier walk found dirty.
    pub(super) dirty_outputs: Vec<NodeId>,
    pub(super) with_validations: Vec<EdgeId>,
    /// There is a cycle or an unloaded dyndep file, so only a walk can decide.
    pub(super) needs_walk: bool,
}

impl Subgraph {
    /// Skips edges that earlier walks, with states `files` and `edges`, have finished.
    pub(super) fn new(
        graph: &GraphView<'_>,
        files: &FileStates,
        edges: &EdgeStates<'_>,
        extra: &ExtraInputs,
        targets: &[NodeId],
    ) -> Subgraph {
        let subgraph = Subgraph {
            edges: Vec::new(),
            nodes: BitSet::new(graph.node_count()),
            ranks: vec![0; graph.edge_count()],
            dirty_outputs: Vec::new(),
            with_validations: Vec::new(),
            needs_walk: false,
        };
        let mut visit =
            SubgraphBuilder { graph, files, known: edges, extra, subgraph, roots: targets.to_vec(), stack: Vec::new() };
        visit.all();
        visit.subgraph
    }

    #[inline]
    pub(super) fn is_before(&self, edge: EdgeId, place: usize) -> bool {
        (1..=place).contains(&(self.ranks[edge.index()] as usize))
    }

    /// Adds a discovered input.
    pub(super) fn add(&mut self, graph: &GraphView<'_>, files: &FileStates, edges: &EdgeStates<'_>, node: NodeId) {
        if self.nodes.has(node.index()) {
            return;
        }
        self.nodes.add(node.index());
        if graph.in_edge(node).is_some_and(|edge| files.is_dirty(node) || !edges.outputs_ready(edge)) {
            self.dirty_outputs.push(node);
        }
    }
}

struct Frame<'s> {
    edge: EdgeId,
    rest: &'s [NodeId],
    /// Visited after `rest`.
    extra: &'s [NodeId],
}

struct SubgraphBuilder<'s, 't> {
    graph: &'s GraphView<'t>,
    files: &'s FileStates,
    known: &'s EdgeStates<'t>,
    extra: &'s ExtraInputs,
    subgraph: Subgraph,
    roots: Vec<NodeId>,
    stack: Vec<Frame<'s>>,
}

impl<'s, 't: 's> SubgraphBuilder<'s, 't> {
    fn all(&mut self) {
        let mut next = 0;
        while let Some(&root) = self.roots.get(next) {
            next += 1;
            self.visit(root);
            while let Some(frame) = self.stack.last_mut() {
                if let Some((&node, rest)) = frame.rest.split_first() {
                    frame.rest = rest;
                    self.visit(node);
                } else if !frame.extra.is_empty() {
                    frame.rest = std::mem::take(&mut frame.extra);
                } else {
                    let edge = frame.edge;
                    self.stack.pop();
                    self.leave(edge);
                }
            }
        }
    }

    /// An output enters the set only when its edge is left, so a node in the set needs no second visit.
    fn visit(&mut self, node: NodeId) {
        if self.subgraph.nodes.has(node.index()) {
            return;
        }
        match self.graph.in_edge(node) {
            None => self.subgraph.nodes.add(node.index()),
            Some(edge) if self.known.is_done(edge) => self.subgraph.add(self.graph, self.files, self.known, node),
            Some(edge) => self.enter(edge),
        }
    }

    fn enter(&mut self, id: EdgeId) {
        let rank = &mut self.subgraph.ranks[id.index()];
        match std::mem::replace(rank, IN_STACK) {
            0 => {}
            before => {
                *rank = before;
                self.subgraph.needs_walk = true;
                return;
            }
        }
        let edge = self.graph.edge(id);
        let extra = self.extra.get(&id).map_or(self.known.deps(id), Vec::as_slice);
        self.stack.push(Frame { edge: id, rest: edge.ins, extra });
        self.subgraph.needs_walk |= edge.dyndep.is_some_and(|file| self.graph.dyndep_pending(file));
    }

    fn leave(&mut self, id: EdgeId) {
        let edge = self.graph.edge(id);
        edge.outs.iter().for_each(|out| self.subgraph.nodes.add(out.index()));
        self.subgraph.edges.push(id);
        self.subgraph.ranks[id.index()] = self.subgraph.edges.len() as u32;
        if !edge.validations.is_empty() {
            self.subgraph.with_validations.push(id);
            self.roots.extend(edge.validations);
        }
    }
}
