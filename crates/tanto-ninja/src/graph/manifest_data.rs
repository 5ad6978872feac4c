//! Immutable data of the manifests in flat arrays, built by a load or mapped from a snapshot.

use std::ops::Range;
use std::sync::Arc;

use super::Edge;
use super::bindings::RuleBlockCache;
use super::command_hashes::CommandHashes;
use super::env::Env;
use super::lazy_text::Manifests;
use crate::flat::{Blocks, Slab};
use crate::ids::{EdgeId, NodeId, PoolId, RuleId};
use crate::paths::PathTable;
use crate::syntax::statements::Span;

tanto_sys::pod! {
    /// The paths of an edge, and other data for the dirty check.
    #[derive(Default, Debug)]
    pub(crate) struct EdgeShape {
        /// Index of its first output in the id list; inputs and validations follow.
        pub(crate) first: u32,
        pub(crate) outs: u32,
        pub(crate) explicit_outs: u32,
        pub(crate) ins: u32,
        pub(crate) explicit_ins: u32,
        pub(crate) order_only: u32,
        pub(crate) validations: u32,
        pub(crate) rule: u32,
        pub(crate) pool: u32,
        /// Bit set of the rule variables it binds.
        pub(crate) reserved: u16,
        /// Combination of `NAMES_ITSELF`, `HAS_DYNDEP` and `HAS_BINDINGS`.
        pub(crate) flags: u16,
    }
}

/// See `Edge::names_itself`.
pub(crate) const NAMES_ITSELF: u16 = 1;
pub(crate) const HAS_DYNDEP: u16 = 2;
/// The edge has bindings, of rule variables or others.
pub(crate) const HAS_BINDINGS: u16 = 4;

/// The role of a node in an edge that uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutEdgeKind {
    Input,
    /// Built as well if the edge is in the plan.
    Validation,
}

impl EdgeShape {
    /// Returns the role of the id at this index of the edge's ids; `None` for an output or beyond the end.
    fn role_of(&self, position: u32) -> Option<OutEdgeKind> {
        match position {
            _ if position < self.outs => None,
            _ if position < self.outs.saturating_add(self.ins) => Some(OutEdgeKind::Input),
            _ => ((position as usize) < self.ids()).then_some(OutEdgeKind::Validation),
        }
    }

    pub(crate) fn ids(&self) -> usize {
        self.outs as usize + self.ins as usize + self.validations as usize
    }

    /// Checks that the counts are consistent and the ids end at or before `end`.
    fn is_intact(&self, end: usize) -> bool {
        let ins = u64::from(self.explicit_ins) + u64::from(self.order_only);
        self.outs > 0
            && self.explicit_outs <= self.outs
            && ins <= u64::from(self.ins)
            && self.first as usize + self.ids() <= end
    }
}

/// Replaces an invalid edge of a damaged snapshot: a phony edge that builds the first node.
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
    /// The location of an edge's bindings, and its scope.
    #[derive(Default, Debug)]
    pub(crate) struct EdgeBindings {
        pub(crate) span: Span,
        pub(crate) scope: u32,
    }
}

#[derive(Default)]
pub(crate) struct ManifestData {
    /// Paths of the nodes that manifests name. In a snapshot, paths that only the deps log names follow.
    pub(crate) paths: PathTable,
    /// By node; `EdgeId::NONE` if no edge builds it.
    pub(crate) in_edges: Slab<EdgeId>,
    /// In the order of the manifest.
    pub(crate) edges: Slab<EdgeShape>,
    /// By edge.
    pub(crate) edge_bindings: Slab<EdgeBindings>,
    /// The nodes of all edges.
    pub(crate) ids: Slab<NodeId>,
    /// Edges with a dyndep file, ascending.
    pub(crate) dyndep_edges: Slab<EdgeId>,
    /// The dyndep files of `dyndep_edges`.
    pub(crate) dyndep_files: Slab<NodeId>,
    pub(crate) defaults: Slab<NodeId>,
    pub(crate) env: Env,
    pub(crate) manifests: Manifests,
    pub(crate) rule_blocks: RuleBlockCache,
    pub(crate) hashes: CommandHashes,
    /// In the order of the manifest.
    pub(crate) notices: Vec<Notice>,
    /// The snapshot that contains the data, if any.
    pub(crate) blocks: Option<Arc<Blocks>>,
    /// Bytes of manifests that were hashed to validate the snapshot. A rewritten snapshot saves that.
    pub(crate) verified_bytes: u64,
    pub(crate) logs: LogSections,
}

/// The indexes of the logs in a snapshot.
#[derive(Default)]
pub(crate) struct LogSections {
    /// The words that describe the build log and its index; `None` without one.
    pub(crate) build: Option<[u64; 8]>,
    /// The words that describe the deps log and its index; `None` without one.
    pub(crate) deps: Option<[u64; 7]>,
    /// The byte ranges of the arrays, in the order of the snapshot's sections.
    pub(crate) ranges: [Range<usize>; 6],
}

/// A message that is repeated on each load, also from a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    Warning(Vec<u8>),
    /// The `ninja_required_version` of a manifest.
    Requires(Vec<u8>),
}

impl ManifestData {
    /// Returns true if any data read from the snapshot so far was damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.is_damaged())
    }

    /// Number of node ids named by manifests, including unused ids.
    #[inline]
    pub(crate) fn named(&self) -> usize {
        self.in_edges.len()
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    #[inline]
    pub(crate) fn in_edge(&self, node: NodeId) -> Option<EdgeId> {
        // A damaged snapshot may contain an invalid id.
        Some(self.in_edges.get(node.index())).filter(|edge| edge.index() < self.edges.len())
    }

    #[inline]
    pub(crate) fn edge(&self, id: EdgeId) -> Edge<'_> {
        let shape = self.edges.get(id.index());
        if !self.is_valid_shape(&shape, id) {
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

    /// Edges that have the node as an input or validation, in order.
    pub(crate) fn out_edges(&self, node: NodeId) -> impl Iterator<Item = (EdgeId, OutEdgeKind)> {
        let uses = self.ids.all().iter().enumerate().filter(move |(_, id)| **id == node);
        uses.filter_map(|(position, _)| {
            let edge = self.edge_at(position as u32)?;
            let shape = self.edges.get(edge.index());
            Some((edge, shape.role_of((position as u32).checked_sub(shape.first)?)?))
        })
    }

    /// Returns the last edge with ids that begin at or before this index.
    fn edge_at(&self, position: u32) -> Option<EdgeId> {
        let (mut low, mut high) = (0, self.edges.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.edges.get(middle).first <= position { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map(|edge| EdgeId(edge as u32))
    }

    /// Returns true if the shape is valid; only a damaged snapshot has invalid ones.
    #[inline]
    fn is_valid_shape(&self, shape: &EdgeShape, id: EdgeId) -> bool {
        if self.blocks.is_none() {
            return true;
        }
        // The ids of edges must not overlap, which limits their total number.
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
}
