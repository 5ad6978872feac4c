//! The ways through the graph from a target to everything it needs, without recursion: graphs are deeper than
//! stacks. Does not know what is done at each stop.

use crate::graph::{EdgeId, Graph, NodeId};

/// Which nodes were visited.
pub(super) struct Walk {
    visited: Vec<bool>,
}

impl Walk {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        Walk { visited: vec![false; graph.nodes.len()] }
    }

    /// Marks a node; false if it was marked. Nodes may join the graph on the way.
    fn mark(&mut self, node: NodeId) -> bool {
        if self.visited.len() <= node.index() {
            self.visited.resize(node.index() + 1, false);
        }
        !std::mem::replace(&mut self.visited[node.index()], true)
    }

    /// Visits `root` and what it needs, what is needed before what needs it, each node once.
    pub(super) fn inputs_first(&mut self, graph: &Graph<'_>, root: NodeId, mut visit: impl FnMut(NodeId)) {
        if self.mark(root) {
            self.below(graph, root, &mut visit);
            visit(root);
        }
    }

    /// As `inputs_first`, without `root` itself (unless it is visited as another root's input).
    pub(super) fn below(&mut self, graph: &Graph<'_>, root: NodeId, mut visit: impl FnMut(NodeId)) {
        let mut path = vec![(root, inputs(graph, root).iter())];
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            if let Some(&input) = rest.next() {
                if self.mark(input) {
                    path.push((input, inputs(graph, input).iter()));
                }
                continue;
            }
            path.pop();
            if !path.is_empty() {
                visit(node);
            }
        }
    }

    /// Visits `root` and what it needs, each node once and before what it needs. `visit` says where to go on from a
    /// node.
    pub(super) fn users_first<'t, E>(
        &mut self,
        root: NodeId,
        mut visit: impl FnMut(NodeId) -> Result<&'t [NodeId], E>,
    ) -> Result<(), E> {
        let first = [root];
        let mut path = vec![first.iter()];
        while let Some(rest) = path.last_mut() {
            match rest.next() {
                Some(&node) if self.mark(node) => path.push(visit(node)?.iter()),
                Some(_) => {}
                None => {
                    path.pop();
                }
            }
        }
        Ok(())
    }
}

/// All inputs of the edge that makes a node.
pub(super) fn inputs<'t>(graph: &Graph<'t>, node: NodeId) -> &'t [NodeId] {
    graph.node(node).in_edge.map_or(&[], |edge| graph.edge(edge).ins)
}

/// The edges with commands that make targets, what is needed before what needs it, each once.
pub(super) struct Edges {
    pub(super) found: Vec<EdgeId>,
    seen: Vec<bool>,
    walk: Walk,
}

impl Edges {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        Edges { found: Vec::new(), seen: vec![false; graph.edges.len()], walk: Walk::new(graph) }
    }

    /// Adds all edges that `target` needs.
    pub(super) fn add_all(&mut self, graph: &Graph<'_>, target: NodeId) {
        let Edges { found, seen, walk } = self;
        walk.inputs_first(graph, target, |node| add(graph, node, found, seen));
    }

    /// Adds the edge that makes `target`.
    pub(super) fn add_last(&mut self, graph: &Graph<'_>, target: NodeId) {
        add(graph, target, &mut self.found, &mut self.seen);
    }
}

fn add(graph: &Graph<'_>, node: NodeId, found: &mut Vec<EdgeId>, seen: &mut [bool]) {
    let Some(edge) = graph.node(node).in_edge else { return };
    if !std::mem::replace(&mut seen[edge.index()], true) && !graph.edge(edge).is_phony() {
        found.push(edge);
    }
}
