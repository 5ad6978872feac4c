//! Why things are dirty, in ninja's words (`-d explain`). Costs nothing unless asked for. Does not know how it is
//! shown.

use crate::graph::{Map, NodeId};

/// Sentences by the node they are about, and those that are to be said at once.
pub struct Explanations {
    by_node: Option<Map<NodeId, Vec<Vec<u8>>>>,
    urgent: Vec<Vec<u8>>,
}

impl Explanations {
    /// Keeps sentences only if `wanted`.
    pub fn new(wanted: bool) -> Self {
        Explanations { by_node: wanted.then(Map::default), urgent: Vec::new() }
    }

    /// Notes a sentence; its parts are not joined unless it is kept.
    pub fn note(&mut self, node: NodeId, parts: &[&[u8]]) {
        if let Some(map) = &mut self.by_node {
            map.entry(node).or_default().push(parts.concat());
        }
    }

    /// Has something to say that belongs to no command.
    pub fn say(&mut self, parts: &[&[u8]]) {
        if self.wanted() {
            self.urgent.push(parts.concat());
        }
    }

    /// What is to be said at once, handed over.
    pub fn take_urgent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.urgent)
    }

    /// Is anything kept? To spare the making of parts that cost.
    pub fn wanted(&self) -> bool {
        self.by_node.is_some()
    }

    /// All sentences about these nodes, in order.
    pub fn about(&self, nodes: &[NodeId]) -> Vec<Vec<u8>> {
        let Some(map) = &self.by_node else { return Vec::new() };
        nodes.iter().filter_map(|node| map.get(node)).flatten().cloned().collect()
    }
}
