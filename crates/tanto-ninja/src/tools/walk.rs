//! Graph traversals without recursion, since graphs are deeper than stacks.

use super::Context;
use crate::dyndep;
use crate::error::Result;
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};

pub(super) struct NodeWalk {
    visited: Vec<bool>,
}

impl NodeWalk {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        NodeWalk { visited: vec![false; graph.node_count()] }
    }

    /// Marks a node; returns false if it was marked. Nodes may be added to the graph meanwhile.
    fn mark(&mut self, node: NodeId) -> bool {
        if self.visited.len() <= node.index() {
            self.visited.resize(node.index() + 1, false);
        }
        !std::mem::replace(&mut self.visited[node.index()], true)
    }

    /// Visits everything `root` needs and then `root`, inputs first, each node once.
    pub(super) fn post_order(&mut self, graph: &Graph<'_>, root: NodeId, mut visit: impl FnMut(NodeId)) {
        if self.mark(root) {
            self.post_order_below(graph, root, &mut visit);
            visit(root);
        }
    }

    /// Like `post_order`, without `root` itself unless it is another root's input.
    pub(super) fn post_order_below(&mut self, graph: &Graph<'_>, root: NodeId, mut visit: impl FnMut(NodeId)) {
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

    /// Visits `root` and everything it needs, each node once and before its inputs. `visit` returns the nodes to visit
    /// next.
    pub(super) fn pre_order<'t, E>(
        &mut self,
        root: NodeId,
        mut visit: impl FnMut(NodeId) -> std::result::Result<&'t [NodeId], E>,
    ) -> std::result::Result<(), E> {
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

pub(super) fn inputs<'t>(graph: &Graph<'t>, node: NodeId) -> &'t [NodeId] {
    graph.in_edge(node).map_or(&[], |edge| graph.edge(edge).ins)
}

/// Collects the non-phony edges that make targets, in topological order.
pub(super) struct EdgeCollector {
    pub(super) found: Vec<EdgeId>,
    seen: Vec<bool>,
}

impl EdgeCollector {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        EdgeCollector { found: Vec::new(), seen: vec![false; graph.edge_count()] }
    }

    /// Adds all edges that `target` needs. Walks edges rather than nodes, so that on a cycle an edge is not entered
    /// again through another output.
    pub(super) fn add_all(&mut self, graph: &Graph<'_>, target: NodeId) {
        let mut path = Vec::new();
        path.extend(self.enter(graph, target));
        while let Some((edge, rest)) = path.last_mut() {
            let edge: EdgeId = *edge;
            if let Some(&input) = rest.next() {
                path.extend(self.enter(graph, input));
                continue;
            }
            path.pop();
            self.add(graph, edge);
        }
    }

    pub(super) fn add_last(&mut self, graph: &Graph<'_>, target: NodeId) {
        if let Some((edge, _)) = self.enter(graph, target) {
            self.add(graph, edge);
        }
    }

    /// Returns the edge that makes a node and the edge's inputs, unless it was seen.
    fn enter<'t>(&mut self, graph: &Graph<'t>, node: NodeId) -> Option<(EdgeId, std::slice::Iter<'t, NodeId>)> {
        let edge = graph.in_edge(node)?;
        let seen = std::mem::replace(&mut self.seen[edge.index()], true);
        (!seen).then(|| (edge, graph.edge(edge).ins.iter()))
    }

    fn add(&mut self, graph: &Graph<'_>, edge: EdgeId) {
        if !graph.edge(edge).is_phony() {
            self.found.push(edge);
        }
    }
}

/// The edges of each dyndep file.
pub(super) struct Dyndeps {
    users: Map<NodeId, Vec<EdgeId>>,
}

impl Dyndeps {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        Dyndeps { users: dyndep::users(graph) }
    }

    /// The edges that share an edge's dyndep file; empty if it was loaded.
    pub(super) fn pending(&self, graph: &Graph<'_>, edge: EdgeId) -> &[EdgeId] {
        let file = graph.edge(edge).dyndep.filter(|file| graph.dyndep_pending(*file));
        file.and_then(|file| self.users.get(&file)).map_or(&[], Vec::as_slice)
    }

    /// Loads the edge's dyndep file, unless that was tried before.
    pub(super) fn load(&self, context: &mut Context<'_, '_>, edge: EdgeId) -> Result<()> {
        let users = self.pending(context.graph, edge);
        match context.graph.edge(edge).dyndep {
            Some(file) if !users.is_empty() => dyndep::load(context.graph, context.disk, file, users).map(|_| ()),
            _ => Ok(()),
        }
    }
}
