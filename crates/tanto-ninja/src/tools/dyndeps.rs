//! Loads dyndep files for the tools that want them. Does not know what a tool does about a broken one.

use super::Context;
use crate::dyndep;
use crate::error::Result;
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};

/// Who waits for which dyndep file.
pub(super) struct Dyndeps {
    users: Map<NodeId, Vec<EdgeId>>,
}

impl Dyndeps {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        Dyndeps { users: dyndep::users(graph) }
    }

    /// The edges that share an edge's dyndep file; none if it has been loaded.
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
