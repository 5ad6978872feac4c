//! What walks from some targets will come to, as far as manifests and deps log can tell, and in which order it can be
//! judged. Does not look at files.

use crate::graph::GraphView;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};

use super::super::state::{EdgeStates, FileStates};
use super::bit_set::BitSet;

/// An edge's rank while its inputs are being visited.
const IN_STACK: u32 = u32::MAX;

/// Inputs that edges have beside those of the manifest.
pub(super) type ExtraInputs = Map<EdgeId, Vec<NodeId>>;

/// FileStates and edges below some targets.
pub(super) struct Subgraph {
    /// EdgeStates that no walk has come to yet, each behind all that make its inputs.
    pub(super) edges: Vec<EdgeId>,
    /// The targets, and inputs, outputs and validations of all edges.
    pub(super) nodes: BitSet,
    /// By edge: its place in `edges`, counted from 1; 0 where it has none.
    ranks: Vec<u32>,
    /// Outputs, among the inputs, of which an earlier walk found that they are to be built.
    pub(super) dirty_outputs: Vec<NodeId>,
    /// EdgeStates with validations.
    pub(super) with_validations: Vec<EdgeId>,
    /// There is a cycle, or a dyndep file that has not been loaded: only a walk can tell what comes of it.
    pub(super) needs_walk: bool,
}

impl Subgraph {
    /// What walks from `targets` come to, after those walks by which `files` and `edges` are known.
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

    /// Does the edge stand before this place?
    #[inline]
    pub(super) fn is_before(&self, edge: EdgeId, place: usize) -> bool {
        (1..=place).contains(&(self.ranks[edge.index()] as usize))
    }

    /// A discovered input is in the subgraph, too.
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

/// An edge whose inputs are being visited.
struct Frame<'s> {
    edge: EdgeId,
    rest: &'s [NodeId],
    /// What comes after `rest`.
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

    /// An output is in the subgraph's set only when its edge is left: whatever is there needs no second look.
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
