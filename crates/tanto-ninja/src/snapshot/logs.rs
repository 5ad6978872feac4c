//! The sections of a snapshot for the two logs.

use std::ops::Range;

use bytemuck::Pod;

use super::table::LogHeaders;
use crate::flat::Slab;
use crate::graph::Graph;
use crate::ids::NodeId;
use crate::logs::{BuildLog, BuildLogIndex, BuildLogState, DepsLog, DepsLogIndex, DepsLogState};

impl Graph<'_> {
    /// The index of the build log in the graph's snapshot; see [`BuildLog::resume`].
    pub fn build_log_index(&self) -> Option<BuildLogIndex> {
        let [last, unindexed, logged, ..] = &self.data.logs.ranges;
        Some(BuildLogIndex {
            header: self.data.logs.build?,
            last: self.row(last)?,
            unindexed: self.row(unindexed)?,
            logged: self.row(logged)?,
        })
    }

    /// The index of the deps log in the graph's snapshot; see [`DepsLog::resume`].
    pub fn deps_log_index(&self) -> Option<DepsLogIndex> {
        let [.., nodes, ids, deps] = &self.data.logs.ranges;
        Some(DepsLogIndex {
            header: self.data.logs.deps?,
            nodes: self.row(nodes)?,
            ids: self.row(ids)?,
            deps: self.row(deps)?,
        })
    }

    fn row<T: Pod>(&self, range: &Range<usize>) -> Option<Slab<T>> {
        self.data.blocks.as_ref().map(|blocks| Slab::mapped(blocks, range.clone()))
    }
}

/// State of the logs to be written. The logs may grow meanwhile.
#[derive(Default)]
pub(super) struct LogState<'t> {
    build: Option<BuildLogState>,
    deps: Option<DepsLogState>,
    /// Paths of nodes added to the graph.
    pub(super) added: Vec<&'t [u8]>,
}

impl<'t> LogState<'t> {
    pub(super) fn new(graph: &Graph<'t>, build: &BuildLog, deps: &DepsLog) -> LogState<'t> {
        let added = (graph.data.paths.len()..graph.node_count()).map(|node| graph.path(NodeId(node as u32)));
        LogState { build: build.state(), deps: deps.state(), added: added.collect() }
    }

    /// The nodes of the deps log with ids from `named` on.
    pub(super) fn discovered(&self, named: usize) -> impl Iterator<Item = NodeId> {
        let nodes = self.deps.iter().flat_map(DepsLogState::nodes);
        nodes.copied().filter(move |node| node.index() >= named)
    }

    /// Returns the sections for renumbered nodes. `count` is the number of nodes, of which manifests name the first
    /// `named`.
    pub(super) fn parts(&self, numbers: &[NodeId], named: usize, count: usize, threads: usize) -> LogSectionData {
        let build = self.build.as_ref().and_then(|log| log.parts(numbers, named, threads));
        let deps = self.deps.as_ref().and_then(|log| log.parts(numbers, count));
        LogSectionData { build, deps }
    }
}

/// Log data to be written.
pub(super) struct LogSectionData {
    pub(super) build: Option<BuildLogIndex>,
    pub(super) deps: Option<DepsLogIndex>,
}

impl LogSectionData {
    /// Number of sections.
    pub(super) const ROWS: usize = 6;

    pub(super) fn headers(&self) -> LogHeaders {
        LogHeaders {
            build: self.build.as_ref().map(|parts| parts.header),
            deps: self.deps.as_ref().map(|parts| parts.header),
        }
    }

    /// The bytes of the sections, in order.
    pub(super) fn rows(&self) -> [&[u8]; LogSectionData::ROWS] {
        let (build, deps) = (self.build.as_ref(), self.deps.as_ref());
        [
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.last.all())),
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.unindexed.all())),
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.logged.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.nodes.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.ids.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.deps.all())),
        ]
    }
}
