//! What a snapshot holds of the two logs: where it lies in the file, and what is needed to write it. Does not know what
//! it means.

use std::ops::Range;
use std::sync::Arc;

use crate::flat::{Blocks, Slab};
use crate::graph::{Graph, NodeId};
use crate::log::{BuildLog, BuildParts, DepsLog, DepsParts, SeenBuild, SeenDeps};

use super::table::{Facts, Ranges, Section};

/// What lies in a snapshot, to be handed out when somebody asks.
#[derive(Default)]
pub(crate) struct KeptLogs(Option<Kept>);

struct Kept {
    blocks: Arc<Blocks>,
    facts: Facts,
    last: Range<usize>,
    side: Range<usize>,
    made: Range<usize>,
    nodes: Range<usize>,
    ids: Range<usize>,
    deps: Range<usize>,
}

impl KeptLogs {
    pub(super) fn new(blocks: &Arc<Blocks>, facts: Facts, ranges: &Ranges) -> KeptLogs {
        let range = |section: Section| ranges[section as usize].clone();
        KeptLogs(Some(Kept {
            blocks: Arc::clone(blocks),
            facts,
            last: range(Section::LogLast),
            side: range(Section::LogSide),
            made: range(Section::LogMade),
            nodes: range(Section::DepsNodes),
            ids: range(Section::DepsIds),
            deps: range(Section::DepsRecords),
        }))
    }

    fn build(&self) -> Option<BuildParts> {
        let Kept { blocks, facts, last, side, made, .. } = self.0.as_ref()?;
        Some(BuildParts {
            facts: facts.build?,
            last: Slab::mapped(blocks, last.clone()),
            side: Slab::mapped(blocks, side.clone()),
            made: Slab::mapped(blocks, made.clone()),
        })
    }

    fn deps(&self) -> Option<DepsParts> {
        let Kept { blocks, facts, nodes, ids, deps, .. } = self.0.as_ref()?;
        Some(DepsParts {
            facts: facts.deps?,
            nodes: Slab::mapped(blocks, nodes.clone()),
            ids: Slab::mapped(blocks, ids.clone()),
            deps: Slab::mapped(blocks, deps.clone()),
        })
    }
}

impl Graph<'_> {
    /// What the graph's snapshot holds of the build log; see [`BuildLog::resume`].
    pub fn build_parts(&self) -> Option<BuildParts> {
        self.base.logs.build()
    }

    /// What the graph's snapshot holds of the deps log; see [`DepsLog::resume`].
    pub fn deps_parts(&self) -> Option<DepsParts> {
        self.base.logs.deps()
    }
}

/// What is known of the logs when a snapshot is to be written. They may go on while it is.
#[derive(Default)]
pub(super) struct SeenLogs<'t> {
    build: Option<SeenBuild>,
    deps: Option<SeenDeps>,
    /// The paths of nodes that joined the graph.
    pub(super) joined: Vec<&'t [u8]>,
}

impl<'t> SeenLogs<'t> {
    pub(super) fn new(graph: &Graph<'t>, build: &BuildLog, deps: &DepsLog) -> SeenLogs<'t> {
        let joined = (graph.base.paths.len()..graph.node_count()).map(|node| graph.path(NodeId(node as u32)));
        SeenLogs { build: build.seen(), deps: deps.seen(), joined: joined.collect() }
    }

    /// The nodes behind the first `named` that the deps log knows.
    pub(super) fn discovered(&self, named: usize) -> impl Iterator<Item = NodeId> {
        let nodes = self.deps.iter().flat_map(SeenDeps::nodes);
        nodes.copied().filter(move |node| node.index() >= named)
    }

    /// The parts, where nodes have these numbers: so many, of which the first `named` are named by manifests.
    pub(super) fn parts(&self, numbers: &[NodeId], named: usize, count: usize, threads: usize) -> Parts {
        let build = self.build.as_ref().and_then(|log| log.parts(numbers, named, threads));
        let deps = self.deps.as_ref().and_then(|log| log.parts(numbers, count));
        Parts { build, deps }
    }
}

/// What is to be written of the logs.
pub(super) struct Parts {
    pub(super) build: Option<BuildParts>,
    pub(super) deps: Option<DepsParts>,
}

impl Parts {
    /// How many rows.
    pub(super) const ROWS: usize = 6;

    pub(super) fn facts(&self) -> Facts {
        Facts { build: self.build.as_ref().map(|parts| parts.facts), deps: self.deps.as_ref().map(|parts| parts.facts) }
    }

    /// The bytes of the rows, in the order of their sections.
    pub(super) fn rows(&self) -> [&[u8]; Parts::ROWS] {
        let (build, deps) = (self.build.as_ref(), self.deps.as_ref());
        [
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.last.all())),
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.side.all())),
            build.map_or(&[], |parts| bytemuck::cast_slice(parts.made.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.nodes.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.ids.all())),
            deps.map_or(&[], |parts| bytemuck::cast_slice(parts.deps.all())),
        ]
    }
}
