//! What walks from some targets will come to, as far as manifests and deps log can tell, and in which order it can be
//! judged. Does not look at files.

use crate::graph::GraphView;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};

use super::bits::Bits;
use super::state::{Edges, Files};

/// An edge's rank while its inputs are being visited.
const IN_STACK: u32 = u32::MAX;

/// Inputs that edges have beside those of the manifest.
pub(super) type More = Map<EdgeId, Vec<NodeId>>;

/// Files and edges below some targets.
pub(super) struct Cone {
    /// Edges that no walk has come to yet, each behind all that make its inputs.
    pub(super) edges: Vec<EdgeId>,
    /// The targets, and inputs, outputs and validations of all edges.
    pub(super) nodes: Bits,
    /// By edge: its place in `edges`, counted from 1; 0 where it has none.
    ranks: Vec<u32>,
    /// Outputs, among the inputs, of which an earlier walk found that they are to be built.
    pub(super) stale: Vec<NodeId>,
    /// Edges with validations.
    pub(super) validated: Vec<EdgeId>,
    /// There is a cycle, or a dyndep file that has not been loaded: only a walk can tell what comes of it.
    pub(super) is_odd: bool,
}

impl Cone {
    /// What walks from `targets` come to, after those walks by which `files` and `edges` are known.
    pub(super) fn new(
        graph: &GraphView<'_>,
        files: &Files,
        edges: &Edges<'_>,
        more: &More,
        targets: &[NodeId],
    ) -> Cone {
        let cone = Cone {
            edges: Vec::new(),
            nodes: Bits::new(graph.node_count()),
            ranks: vec![0; graph.edge_count()],
            stale: Vec::new(),
            validated: Vec::new(),
            is_odd: false,
        };
        let mut visit = Visit { graph, files, known: edges, more, cone, roots: targets.to_vec(), stack: Vec::new() };
        visit.all();
        visit.cone
    }

    /// Does the edge stand before this place?
    #[inline]
    pub(super) fn is_before(&self, edge: EdgeId, place: usize) -> bool {
        (1..=place).contains(&(self.ranks[edge.index()] as usize))
    }

    /// A discovered input is in the cone, too.
    pub(super) fn add(&mut self, graph: &GraphView<'_>, files: &Files, edges: &Edges<'_>, node: NodeId) {
        if self.nodes.has(node.index()) {
            return;
        }
        self.nodes.add(node.index());
        if graph.in_edge(node).is_some_and(|edge| files.is_dirty(node) || !edges.outputs_ready(edge)) {
            self.stale.push(node);
        }
    }
}

/// An edge whose inputs are being visited.
struct Frame<'s> {
    edge: EdgeId,
    rest: &'s [NodeId],
    /// What comes after `rest`.
    more: &'s [NodeId],
}

struct Visit<'s, 't> {
    graph: &'s GraphView<'t>,
    files: &'s Files,
    known: &'s Edges<'t>,
    more: &'s More,
    cone: Cone,
    roots: Vec<NodeId>,
    stack: Vec<Frame<'s>>,
}

impl<'s, 't: 's> Visit<'s, 't> {
    fn all(&mut self) {
        let mut next = 0;
        while let Some(&root) = self.roots.get(next) {
            next += 1;
            self.come_to(root);
            while let Some(frame) = self.stack.last_mut() {
                if let Some((&node, rest)) = frame.rest.split_first() {
                    frame.rest = rest;
                    self.come_to(node);
                } else if !frame.more.is_empty() {
                    frame.rest = std::mem::take(&mut frame.more);
                } else {
                    let edge = frame.edge;
                    self.stack.pop();
                    self.leave(edge);
                }
            }
        }
    }

    /// An output is in the cone's set only when its edge is left: whatever is there needs no second look.
    fn come_to(&mut self, node: NodeId) {
        if self.cone.nodes.has(node.index()) {
            return;
        }
        match self.graph.in_edge(node) {
            None => self.cone.nodes.add(node.index()),
            Some(edge) if self.known.is_done(edge) => self.cone.add(self.graph, self.files, self.known, node),
            Some(edge) => self.enter(edge),
        }
    }

    fn enter(&mut self, id: EdgeId) {
        let rank = &mut self.cone.ranks[id.index()];
        match std::mem::replace(rank, IN_STACK) {
            0 => {}
            before => {
                *rank = before;
                self.cone.is_odd = true;
                return;
            }
        }
        let edge = self.graph.edge(id);
        let more = self.more.get(&id).map_or(self.known.deps(id), Vec::as_slice);
        self.stack.push(Frame { edge: id, rest: edge.ins, more });
        self.cone.is_odd |= edge.dyndep.is_some_and(|file| self.graph.dyndep_pending(file));
    }

    fn leave(&mut self, id: EdgeId) {
        let edge = self.graph.edge(id);
        edge.outs.iter().for_each(|out| self.cone.nodes.add(out.index()));
        self.cone.edges.push(id);
        self.cone.ranks[id.index()] = self.cone.edges.len() as u32;
        if !edge.validations.is_empty() {
            self.cone.validated.push(id);
            self.roots.extend(edge.validations);
        }
    }
}
