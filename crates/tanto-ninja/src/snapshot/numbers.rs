//! New numbers for nodes: first those that manifests name, then those that only the deps log knows, both in the order of
//! their paths. Does not know what has the numbers.

use super::logs::SeenLogs;
use super::order::by_path;
use crate::graph::NodeId;
use crate::graph::base::Base;
use crate::paths::AllPaths;

/// The numbers.
pub(super) struct Numbers {
    /// The old ones, by the new ones.
    pub(super) order: Vec<NodeId>,
    /// How many of these nodes the manifests name.
    pub(super) named: usize,
    /// The new ones, by the old ones; `NodeId::NONE` for a node that is left behind.
    pub(super) new: Vec<NodeId>,
}

impl Numbers {
    pub(super) fn new(base: &Base, paths: AllPaths<'_>, logs: &SeenLogs<'_>, threads: usize) -> Numbers {
        let old = (0..base.named() as u32).map(NodeId);
        let mut order: Vec<NodeId> = by_path(paths, old, threads).collect();
        let named = order.len();
        order.extend(by_path(paths, logs.discovered(base.named()), threads));
        let mut new = vec![NodeId::NONE; paths.len()];
        for (number, id) in (0..).zip(&order) {
            new[id.index()] = NodeId(number);
        }
        Numbers { order, named, new }
    }
}
