//! The fourth pass: resolves rules, pools and dyndep files of edges, and sets the edges that build nodes. Records
//! only the first edge with an error.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tanto_sys::threads::map_parallel;

use super::chunk::{Chunk, RawEdge};
use super::evaluate::Segment;
use super::lazy_paths::{self, LazyNodes};
use super::loader::File;
use crate::canon::canonical;
use crate::error::Result;
use crate::graph::Escape;
use crate::graph::bindings::{BindingBlock, DyndepRestat, EdgeVariables};
use crate::graph::env::Env;
use crate::graph::manifest_data::{EdgeBindings, EdgeShape, HAS_BINDINGS, HAS_DYNDEP, NAMES_ITSELF};
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId, PoolId, RuleId};
use crate::paths::PathTable;
use crate::syntax::statements::{Span, reserved_bit};

#[derive(Default)]
pub(super) struct LinkedEdges {
    pub(super) edges: Vec<EdgeShape>,
    pub(super) edge_bindings: Vec<EdgeBindings>,
    pub(super) ids: Vec<NodeId>,
    pub(super) in_edges: Vec<EdgeId>,
    /// Edges with their dyndep files, ascending.
    pub(super) dyndeps: Vec<(EdgeId, NodeId)>,
    /// Phony edges that name themselves, ascending.
    pub(super) self_references: Vec<EdgeId>,
    /// The first edge with an error.
    pub(super) first_error: Option<u32>,
}

pub(super) struct Linker<'l> {
    pub(super) files: &'l [File],
    pub(super) env: &'l Env,
    pub(super) paths: &'l PathTable,
    pub(super) phony_cycle_is_error: bool,
    /// Empty: dyndep files are loaded later.
    pub(super) no_scopes: Set<crate::ids::ScopeId>,
}

/// A segment, and storage for its edges.
struct SegmentTask<'r> {
    segment: &'r Segment,
    lazy: LazyNodes,
    edges: &'r mut [EdgeShape],
    edge_bindings: &'r mut [EdgeBindings],
    ids: &'r mut [NodeId],
    /// Index of the first of `ids` in the id list.
    first_id: u32,
}

#[derive(Default)]
struct SegmentResult {
    dyndeps: Vec<(EdgeId, NodeId)>,
    self_references: Vec<EdgeId>,
    first_error: Option<u32>,
}

impl SegmentResult {
    fn record_error(&mut self, edge: u32) {
        self.first_error = Some(self.first_error.map_or(edge, |first| first.min(edge)));
    }
}

impl Linker<'_> {
    /// Links the edges of all segments.
    pub(super) fn link(&self, segments: &[Segment], lazy_nodes: Vec<LazyNodes>, threads: usize) -> LinkedEdges {
        let counts: Vec<usize> = segments.iter().map(|segment| self.id_range(segment).len()).collect();
        let edges = segments.last().map_or(0, |last| last.first as usize + last.edges.len());
        let mut linked = LinkedEdges {
            edges: zeroed(edges),
            edge_bindings: zeroed(edges),
            ids: zeroed(counts.iter().sum()),
            ..LinkedEdges::default()
        };
        let in_edges: Vec<AtomicU32> = (0..self.paths.len()).map(|_| AtomicU32::new(EdgeId::NONE.0)).collect();
        let tasks = tasks(segments, lazy_nodes, &counts, &mut linked);
        let results = map_parallel(threads, tasks, |task| self.segment(task, &in_edges));
        for result in results {
            linked.dyndeps.extend(result.dyndeps);
            linked.self_references.extend(result.self_references);
            linked.first_error = linked.first_error.into_iter().chain(result.first_error).min();
        }
        linked.in_edges = in_edges.into_iter().map(|edge| EdgeId(edge.into_inner())).collect();
        linked
    }

    fn chunk(&self, segment: &Segment) -> &Chunk {
        &self.files[segment.file].chunks[segment.chunk]
    }

    /// The range of the segment's ids in its chunk.
    fn id_range(&self, segment: &Segment) -> Range<usize> {
        let chunk = self.chunk(segment);
        let at = |edge: u32| chunk.edges.get(edge as usize).map_or(chunk.ids.len(), |edge| edge.shape.first as usize);
        at(segment.edges.start)..at(segment.edges.end)
    }

    fn segment(&self, task: SegmentTask<'_>, in_edges: &[AtomicU32]) -> SegmentResult {
        let SegmentTask { segment, lazy, edges, edge_bindings, ids, first_id } = task;
        let chunk = self.chunk(segment);
        let from = self.id_range(segment);
        ids.copy_from_slice(&chunk.ids[from.clone()]);
        for (path, node) in lazy_paths::of_segment(segment, chunk).iter().zip(lazy.nodes) {
            ids[path.id as usize - from.start] = node;
        }
        let mut result = SegmentResult { first_error: lazy.first_error, ..SegmentResult::default() };
        let mut names = NameResolver { linker: self, segment, last: RuleId::PHONY };
        let raws = &chunk.edges[segment.edges.start as usize..segment.edges.end as usize];
        for (number, raw) in raws.iter().enumerate() {
            let first = raw.shape.first as usize - from.start;
            let id = segment.first + number as u32;
            let mut edge = LinkingEdge {
                id,
                raw,
                shape: EdgeShape { first: first_id + first as u32, ..raw.shape },
                ids: &mut ids[first..first + raw.shape.ids()],
            };
            if names.link(&mut edge, in_edges, &mut result).is_none() {
                result.record_error(id);
            }
            edges[number] = edge.shape;
            edge_bindings[number] = EdgeBindings { span: raw.span(segment.file), scope: segment.scope.0 };
        }
        result
    }

    pub(super) fn text(&self, span: Span) -> &[u8] {
        match &self.files[span.file as usize].source {
            Ok(source) if span.len > 0 => &source.bytes()[span.at as usize..span.at as usize + span.len as usize],
            _ => &[],
        }
    }

    /// Returns the variables of an edge with these explicit inputs and outputs.
    pub(super) fn values<'v>(
        &'v self,
        segment: &Segment,
        (id, raw): (u32, &RawEdge),
        rule: RuleId,
        [ins, outs]: [&'v [NodeId]; 2],
    ) -> EdgeVariables<'v> {
        let own = raw.shape.flags & HAS_BINDINGS != 0;
        EdgeVariables {
            env: self.env,
            paths: self.paths,
            restat: DyndepRestat { edge: false, scopes: &self.no_scopes },
            rule,
            rule_block: Arc::new(BindingBlock::new(self.text(self.env.rule(rule).span).into())),
            scope: segment.scope,
            position: id,
            bindings: own.then(|| BindingBlock::new(self.text(raw.span(segment.file)).into())),
            ins,
            outs,
        }
    }
}

impl RawEdge {
    /// The location of its bindings.
    pub(super) fn span(&self, file: usize) -> Span {
        Span { file: file as u32, at: self.bindings.start, len: self.bindings.len() as u32 }
    }
}

fn tasks<'r>(
    segments: &'r [Segment],
    lazy_nodes: Vec<LazyNodes>,
    counts: &[usize],
    linked: &'r mut LinkedEdges,
) -> Vec<SegmentTask<'r>> {
    let (mut edges, mut edge_bindings, mut ids) =
        (&mut linked.edges[..], &mut linked.edge_bindings[..], &mut linked.ids[..]);
    let mut first_id = 0;
    let mut tasks = Vec::with_capacity(segments.len());
    for ((segment, lazy), &count) in segments.iter().zip(lazy_nodes).zip(counts) {
        let (of_edges, of_texts, of_ids);
        (of_edges, edges) = edges.split_at_mut(segment.edges.len());
        (of_texts, edge_bindings) = edge_bindings.split_at_mut(segment.edges.len());
        (of_ids, ids) = ids.split_at_mut(count);
        tasks.push(SegmentTask { segment, lazy, edges: of_edges, edge_bindings: of_texts, ids: of_ids, first_id });
        first_id += count as u32;
    }
    tasks
}

/// Zeroed memory that the kernel provides when it is touched.
fn zeroed<T: bytemuck::Zeroable>(count: usize) -> Vec<T> {
    let zeroed = bytemuck::zeroed_vec(count);
    tanto_sys::memory::advise_huge_pages(&zeroed);
    zeroed
}

struct LinkingEdge<'o> {
    id: u32,
    raw: &'o RawEdge,
    shape: EdgeShape,
    ids: &'o mut [NodeId],
}

impl LinkingEdge<'_> {
    fn outs(&self) -> &[NodeId] {
        &self.ids[..self.shape.outs as usize]
    }

    fn ins(&self) -> &[NodeId] {
        &self.ids[self.shape.outs as usize..(self.shape.outs + self.shape.ins) as usize]
    }
}

/// Resolves names of a segment's edges.
struct NameResolver<'n> {
    linker: &'n Linker<'n>,
    segment: &'n Segment,
    /// The rule of the last edge. The next edge often has the same rule or the following one.
    last: RuleId,
}

impl NameResolver<'_> {
    /// Links an edge; `None` if it has an error.
    fn link(&mut self, edge: &mut LinkingEdge<'_>, in_edges: &[AtomicU32], result: &mut SegmentResult) -> Option<()> {
        let rule = self.rule(edge)?;
        edge.shape.rule = rule.0;
        edge.shape.pool = self.pool(edge, rule)?.0;
        if edge.ids.contains(&NodeId::NONE) {
            return None;
        }
        for out in edge.outs() {
            let other = in_edges[out.index()].fetch_min(edge.id, Ordering::Relaxed);
            if other != EdgeId::NONE.0 {
                result.record_error(other.max(edge.id));
            }
        }
        if !self.linker.phony_cycle_is_error && drop_self_reference(&mut edge.shape, edge.ids) {
            result.self_references.push(EdgeId(edge.id));
        }
        if let Some(file) = self.dyndep(edge, rule)? {
            edge.shape.flags |= HAS_DYNDEP;
            result.dyndeps.push((EdgeId(edge.id), file));
        }
        Some(())
    }

    fn rule(&mut self, edge: &LinkingEdge<'_>) -> Option<RuleId> {
        let (env, scope) = (self.linker.env, self.segment.scope);
        let name = self.linker.chunk(self.segment).text(&edge.raw.rule);
        let guess =
            [self.last, RuleId(self.last.0 + 1)].into_iter().find(|rule| env.is_rule(*rule, scope, name, edge.id));
        let rule = guess.or_else(|| env.rule_for(scope, name, edge.id))?;
        self.last = rule;
        Some(rule)
    }

    /// Returns true if the edge may have a value for this variable. Few edges do.
    fn may_have(&self, edge: &LinkingEdge<'_>, rule: RuleId, name: &[u8]) -> bool {
        let bit = reserved_bit(name).unwrap_or(0);
        (edge.shape.reserved | self.linker.env.rule(rule).set_vars) & bit != 0 || self.linker.env.may_set(name)
    }

    /// Returns the pool; `None` on an error. Evaluated before the edge has its paths: `$in` and `$out` are empty.
    fn pool(&self, edge: &LinkingEdge<'_>, rule: RuleId) -> Option<PoolId> {
        if !self.may_have(edge, rule, b"pool") {
            return Some(PoolId::DEFAULT);
        }
        let name = self.linker.pool_name(self.segment, (edge.id, edge.raw), rule).ok()?;
        if name.is_empty() {
            return Some(PoolId::DEFAULT);
        }
        self.linker.env.pool_named(&name, edge.id)
    }

    /// Returns the dyndep file; `None` on an error, for example if the file is not an input of the edge.
    fn dyndep(&self, edge: &LinkingEdge<'_>, rule: RuleId) -> Option<Option<NodeId>> {
        if !self.may_have(edge, rule, b"dyndep") {
            return Some(None);
        }
        let explicit =
            [&edge.ins()[..edge.shape.explicit_ins as usize], &edge.outs()[..edge.shape.explicit_outs as usize]];
        let path = self.linker.dyndep_path(self.segment, (edge.id, edge.raw), rule, explicit).ok()?;
        if path.is_empty() {
            return Some(None);
        }
        let node = self.linker.paths.lookup(&path).filter(|node| edge.ins().contains(node));
        node.map(Some)
    }
}

impl Linker<'_> {
    /// Returns the name of an edge's pool, evaluated at its position.
    pub(super) fn pool_name(&self, segment: &Segment, edge: (u32, &RawEdge), rule: RuleId) -> Result<Vec<u8>> {
        let position = edge.0;
        self.values(segment, edge, rule, [&[], &[]]).value(b"pool", Escape::Shell, position)
    }

    /// Returns the canonical path of an edge's dyndep file; empty if it has none.
    pub(super) fn dyndep_path(
        &self,
        segment: &Segment,
        edge: (u32, &RawEdge),
        rule: RuleId,
        explicit: [&[NodeId]; 2],
    ) -> Result<Vec<u8>> {
        let position = edge.0;
        let value = self.values(segment, edge, rule, explicit).value(b"dyndep", Escape::None, position)?;
        Ok(if value.is_empty() { value } else { canonical(&value) })
    }
}

/// Removes the edge's own output from its inputs: old versions of CMake wrote such phony edges. Like ninja, keeps the
/// number of order-only inputs, so that an explicit input may become order-only; a number that is too large counts as
/// 0. Returns false if the edge has no self-reference.
fn drop_self_reference(shape: &mut EdgeShape, ids: &mut [NodeId]) -> bool {
    let implicit_ins = shape.ins - shape.explicit_ins - shape.order_only;
    let plain = shape.rule == RuleId::PHONY.0 && shape.outs == 1 && shape.explicit_outs == 1 && implicit_ins == 0;
    let (outs, rest) = ids.split_at_mut(shape.outs as usize);
    let ins = &rest[..shape.ins as usize];
    if !plain || !ins.contains(&outs[0]) {
        return false;
    }
    let others: Vec<NodeId> = ins.iter().copied().filter(|node| *node != outs[0]).collect();
    let kept = others.len();
    rest.copy_within(shape.ins as usize.., kept);
    rest[..kept].copy_from_slice(&others);
    shape.ins = kept as u32;
    if shape.order_only > shape.ins {
        shape.order_only = 0;
    }
    shape.explicit_ins = shape.ins - shape.order_only;
    shape.flags |= NAMES_ITSELF;
    true
}
