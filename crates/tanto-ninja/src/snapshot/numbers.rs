//! New numbers for nodes: first those that manifests name, then those that only the deps log knows, each sorted by path.

use super::logs::SeenLogs;
use super::order::by_path;
use crate::graph::manifest_data::ManifestData;
use crate::ids::NodeId;
use crate::paths::AllPaths;

/// The numbers.
pub(super) struct Numbers<'p> {
    /// The old ones, by the new ones.
    pub(super) order: Vec<NodeId>,
    /// The paths, by the new numbers.
    pub(super) paths: Vec<&'p [u8]>,
    /// How many of these nodes the manifests name.
    pub(super) named: usize,
    /// The new ones, by the old ones; `NodeId::NONE` for a node that is left behind.
    pub(super) new: Vec<NodeId>,
}

impl<'p> Numbers<'p> {
    pub(super) fn new(data: &ManifestData, paths: AllPaths<'p>, logs: &SeenLogs<'_>, threads: usize) -> Numbers<'p> {
        let old = (0..data.named() as u32).map(NodeId);
        let (mut order, mut sorted): (Vec<NodeId>, Vec<&[u8]>) = by_path(paths, old, threads).unzip();
        let named = order.len();
        for (id, path) in by_path(paths, logs.discovered(data.named()), threads) {
            order.push(id);
            sorted.push(path);
        }
        let mut new = vec![NodeId::NONE; paths.len()];
        for (number, id) in (0..).zip(&order) {
            new[id.index()] = NodeId(number);
        }
        Numbers { order, paths: sorted, named, new }
    }
}
