//! What the manifests say, in flat arrays: made by a load, or mapped from a snapshot; never changed. Does not know how
//! it was made, nor what joined the graph later.

use crate::ids::EdgeId;
use crate::ids::NodeId;
use crate::ids::PoolId;
use crate::ids::RuleId;
use crate::ids::ScopeId;
use crate::syntax::statements::Span;
use std::ops::Range;
use std::sync::Arc;

use super::Edge;
use super::bindings::RuleBlockCache;
use super::command_hashes::CommandHashes;
use super::env::{Env, EnvBuilder};
use super::lazy_text::Manifests;
use crate::flat::{Blocks, Slab};
use crate::paths::{Interner, PathTable};

tanto_sys::pod! {
    /// The paths of an edge and what else the dirty check asks of it.
    #[derive(Default, Debug)]
    pub(crate) struct EdgeShape {
        /// Where in the id list its outputs begin; behind them come its inputs, then its validations.
        pub(crate) first: u32,
        pub(crate) outs: u32,
        pub(crate) explicit_outs: u32,
        pub(crate) ins: u32,
        pub(crate) explicit_ins: u32,
        pub(crate) order_only: u32,
        pub(crate) validations: u32,
        pub(crate) rule: u32,
        pub(crate) pool: u32,
        /// Which of the reserved variables it has bindings for, a bit each.
        pub(crate) reserved: u16,
        /// `NAMES_ITSELF` and so on.
        pub(crate) flags: u16,
    }
}

/// `Edge::names_itself`
pub(crate) const NAMES_ITSELF: u16 = 1;
/// It has a dyndep file.
pub(crate) const HAS_DYNDEP: u16 = 2;
/// It has bindings of its own, reserved or not.
pub(crate) const HAS_BINDINGS: u16 = 4;

/// What an edge wants a node for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutEdgeKind {
    /// It is an input.
    Input,
    /// It is to be built as well when the edge is in the plan.
    Validation,
}

impl EdgeShape {
    /// What the id at a position among the edge's is for; None for an output, or behind the last.
    fn use_of(&self, position: u32) -> Option<OutEdgeKind> {
        match position {
            _ if position < self.outs => None,
            _ if position < self.outs.saturating_add(self.ins) => Some(OutEdgeKind::Input),
            _ => ((position as usize) < self.ids()).then_some(OutEdgeKind::Validation),
        }
    }

    /// How many ids it has.
    pub(crate) fn ids(&self) -> usize {
        self.outs as usize + self.ins as usize + self.validations as usize
    }

    /// Do its numbers fit together, and leave room for the ids behind `end`, which are others'?
    fn is_intact(&self, end: usize) -> bool {
        let ins = u64::from(self.explicit_ins) + u64::from(self.order_only);
        self.outs > 0
            && self.explicit_outs <= self.outs
            && ins <= u64::from(self.ins)
            && self.first as usize + self.ids() <= end
    }
}

/// What takes the position of an edge that a damaged snapshot has not: a group that the first node stands for.
const NO_EDGE: Edge<'static> = Edge {
    rule: RuleId::PHONY,
    pool: PoolId::DEFAULT,
    outs: &[NodeId(0)],
    explicit_outs: 1,
    ins: &[],
    explicit_ins: 0,
    order_only_ins: 0,
    validations: &[],
    dyndep: None,
    names_itself: false,
};

tanto_sys::pod! {
    /// Where an edge's bindings stand, and in which scope.
    #[derive(Default, Debug)]
    pub(crate) struct EdgeBindings {
        /// The indented lines.
        pub(crate) span: Span,
        pub(crate) scope: u32,
    }
}

/// What the manifests say.
pub(crate) struct ManifestData {
    /// Those of the nodes that the manifests name; in a snapshot, those that the deps log alone knows come behind them.
    pub(crate) paths: PathTable,
    /// By node that the manifests name; `EdgeId::NONE` where nothing makes it.
    pub(crate) in_edges: Slab<EdgeId>,
    /// By edge, in the order of the manifest.
    pub(crate) edges: Slab<EdgeShape>,
    /// By edge.
    pub(crate) edge_bindings: Slab<EdgeBindings>,
    /// The nodes of all edges.
    pub(crate) ids: Slab<NodeId>,
    /// Edges that have a dyndep file, in order.
    pub(crate) dyndep_edges: Slab<EdgeId>,
    /// Their files.
    pub(crate) dyndep_files: Slab<NodeId>,
    pub(crate) defaults: Slab<NodeId>,
    pub(crate) env: Env,
    pub(crate) manifests: Manifests,
    pub(crate) rule_blocks: RuleBlockCache,
    pub(crate) hashes: CommandHashes,
    /// What the loader had to say, in this order.
    pub(crate) notices: Vec<Notice>,
    /// The snapshot that all this lies in, if it does.
    pub(crate) blocks: Option<Arc<Blocks>>,
    /// So many bytes of manifests were read to tell that it is a picture of them, and need not be read again if it is
    /// written again.
    pub(crate) verified_bytes: u64,
    /// The indexes of the logs in that snapshot.
    pub(crate) logs: LogSections,
}

/// Where a snapshot holds the indexes of the logs.
#[derive(Default)]
pub(crate) struct LogSections {
    /// The words that describe the build log and its index; `None` without one.
    pub(crate) build: Option<[u64; 8]>,
    /// The words that describe the deps log and its index; `None` without one.
    pub(crate) deps: Option<[u64; 7]>,
    /// The byte ranges of the arrays, in the order of the snapshot's sections.
    pub(crate) ranges: [Range<usize>; 6],
}

/// What is said each time the manifests are loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// A warning.
    Warning(Vec<u8>),
    /// They ask for this version of ninja, or a newer one.
    Requires(Vec<u8>),
}

impl Default for ManifestData {
    /// That of an empty manifest.
    fn default() -> Self {
        ManifestData {
            paths: Interner::new(0).freeze(),
            in_edges: Vec::new().into(),
            edges: Vec::new().into(),
            edge_bindings: Vec::new().into(),
            ids: Vec::new().into(),
            dyndep_edges: Vec::new().into(),
            dyndep_files: Vec::new().into(),
            defaults: Vec::new().into(),
            env: EnvBuilder::new().finish(),
            manifests: Manifests::default(),
            rule_blocks: RuleBlockCache::default(),
            hashes: CommandHashes::default(),
            notices: Vec::new(),
            blocks: None,
            verified_bytes: 0,
            logs: LogSections::default(),
        }
    }
}

impl ManifestData {
    /// Was something wrong with what was read of the snapshot so far?
    pub(crate) fn is_damaged(&self) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.is_damaged())
    }

    /// How many nodes the manifests name, with holes.
    #[inline]
    pub(crate) fn named(&self) -> usize {
        self.in_edges.len()
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    #[inline]
    pub(crate) fn in_edge(&self, node: NodeId) -> Option<EdgeId> {
        // A snapshot may name one that is not there.
        Some(self.in_edges.get(node.index())).filter(|edge| edge.index() < self.edges.len())
    }

    #[inline]
    pub(crate) fn edge(&self, id: EdgeId) -> Edge<'_> {
        let shape = self.edges.get(id.index());
        if !self.is_ours(&shape, id) {
            return self.no_edge();
        }
        let first = shape.first as usize;
        let ids = self.ids.slice(first..first + shape.ids());
        let Some((outs, rest)) = ids.split_at_checked(shape.outs as usize) else { return self.no_edge() };
        let Some((ins, validations)) = rest.split_at_checked(shape.ins as usize) else { return self.no_edge() };
        Edge {
            rule: RuleId(shape.rule),
            pool: PoolId(shape.pool),
            outs,
            explicit_outs: shape.explicit_outs,
            ins,
            explicit_ins: shape.explicit_ins,
            order_only_ins: shape.order_only,
            validations,
            dyndep: if shape.flags & HAS_DYNDEP == 0 { None } else { self.dyndep_of(id) },
            names_itself: shape.flags & NAMES_ITSELF != 0,
        }
    }

    /// Which edges have a node as an input or validation, in their order.
    pub(crate) fn out_edges(&self, node: NodeId) -> impl Iterator<Item = (EdgeId, OutEdgeKind)> {
        let places = self.ids.all().iter().enumerate().filter(move |(_, id)| **id == node);
        places.filter_map(|(position, _)| {
            let edge = self.edge_with(position as u32)?;
            let shape = self.edges.get(edge.index());
            Some((edge, shape.use_of((position as u32).checked_sub(shape.first)?)?))
        })
    }

    /// The last edge whose ids begin at `position` or before.
    fn edge_with(&self, position: u32) -> Option<EdgeId> {
        let (mut low, mut high) = (0, self.edges.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.edges.get(middle).first <= position { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map(|edge| EdgeId(edge as u32))
    }

    /// Is this the shape of an edge? Only a snapshot's may be none.
    #[inline]
    fn is_ours(&self, shape: &EdgeShape, id: EdgeId) -> bool {
        if self.blocks.is_none() {
            return true;
        }
        // No edge's ids are another's too: all of them together have a limit.
        let next = id.index() + 1;
        let end = if next < self.edges.len() { self.edges.get(next).first as usize } else { self.ids.len() };
        shape.is_intact(end)
    }

    #[cold]
    fn no_edge(&self) -> Edge<'_> {
        self.blocks.iter().for_each(|blocks| blocks.set_damaged());
        NO_EDGE
    }

    fn dyndep_of(&self, edge: EdgeId) -> Option<NodeId> {
        let at = self.dyndep_edges.all().binary_search(&edge).ok()?;
        Some(self.dyndep_files.get(at))
    }

    /// Is it the dyndep file of an edge?
    pub(crate) fn is_dyndep(&self, node: NodeId) -> bool {
        self.dyndep_files.all().contains(&node)
    }

    pub(crate) fn has_bindings(&self, edge: EdgeId) -> bool {
        self.edges.get(edge.index()).flags & HAS_BINDINGS != 0
    }

    pub(crate) fn scope(&self, edge: EdgeId) -> ScopeId {
        ScopeId(self.edge_bindings.get(edge.index()).scope)
    }
}
