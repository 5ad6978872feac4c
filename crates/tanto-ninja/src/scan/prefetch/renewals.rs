//! Finds commands that are out of date by times alone, but up to date by their records, on several threads.
//!
//! Compares only commands whose inputs are sources, apart from order-only ones, and leaves the others to the walk.

use tanto_sys::threads::ThreadLimit;

use crate::content::{CommandRecord, ContentId, ContentTable, PathKey, PreparedFile};
use crate::error::Result;
use crate::graph::Edge;
use crate::ids::{EdgeId, NodeId, PoolId};

use super::super::Renewal;
use super::super::output_check::{DirtyInputs, NO_INPUT};
use super::super::state::EdgeStates;
use super::discovered_deps::{DiscoveredDeps, EdgeDeps, MIN_PER_THREAD};
use super::parallel::map_indices;
use super::subgraph::Subgraph;

pub(super) struct RenewalCheck<'s, 't> {
    pub(super) subgraph: &'s Subgraph,
    pub(super) discovered: &'s DiscoveredDeps<'s>,
    pub(super) dirty_inputs: DirtyInputs<'s, 't>,
    pub(super) edges: &'s EdgeStates<'t>,
    pub(super) table: &'s ContentTable,
    /// By node.
    pub(super) prepared: &'s [PreparedFile],
}

impl RenewalCheck<'_, '_> {
    /// Returns the renewals by position in the subgraph.
    pub(super) fn run(&self, threads: ThreadLimit) -> Vec<Option<Renewal>> {
        map_indices(threads, MIN_PER_THREAD, self.subgraph.edges.len(), |place| self.renewal(place).ok().flatten())
    }

    fn renewal(&self, place: usize) -> Result<Option<Renewal>> {
        let id = self.subgraph.edges[place];
        if self.edges.is_done(id) || !self.is_simple(id)? {
            return Ok(None);
        }
        let DirtyInputs { graph, files, .. } = self.dirty_inputs;
        let edge = graph.edge(id);
        let Some((discovered, is_stale)) = self.discovered_ins(place) else { return Ok(None) };
        let inputs: Vec<NodeId> = edge.dirtying_ins().iter().copied().chain(discovered).collect();
        let newest = inputs.iter().map(|&input| files.mtime(input)).max().unwrap_or(NO_INPUT);
        let Some(record) = self.record(id, &edge).filter(|_| self.are_ready(&edge, &inputs)) else { return Ok(None) };
        if !is_stale && self.dirty_inputs.all_clean(&mut self.dirty_inputs.output_check(id, newest)?)? {
            return Ok(None);
        }
        if self.id(edge.outs) != Some(record.outputs) || self.id(&inputs) != Some(record.inputs) {
            return Ok(None);
        }
        let older = edge.outs.iter().copied().filter(|&out| files.mtime(out) < newest);
        let outputs: Vec<_> = older.map(|out| (out, files.state(out).fingerprint)).collect();
        let may_renew = outputs.iter().all(|(out, _)| self.prepared[out.index()].may_renew == Some(true));
        Ok(may_renew.then_some(Renewal { edge: id, newest, outputs }))
    }

    /// Returns whether the edge is one that content can decide about, and has no property that needs a walk.
    fn is_simple(&self, id: EdgeId) -> Result<bool> {
        let graph = self.dirty_inputs.graph;
        let edge = graph.edge(id);
        let is_special = edge.is_phony() || edge.pool == PoolId::CONSOLE || edge.dyndep.is_some();
        Ok(!is_special
            && edge.validations.is_empty()
            && !graph.flag(id, b"generator")?
            && !graph.flag(id, b"restat")?)
    }

    /// Returns the discovered inputs, and whether the output is newer than their record; `None` if they are unknown.
    fn discovered_ins(&self, place: usize) -> Option<(Vec<NodeId>, bool)> {
        match self.discovered.edges[place] {
            EdgeDeps::Unknown | EdgeDeps::Unread => None,
            EdgeDeps::None => Some((Vec::new(), false)),
            EdgeDeps::Listed(ins) => Some((ins.to_vec(), false)),
            EdgeDeps::Logged(deps) => {
                let DirtyInputs { graph, files, .. } = self.dirty_inputs;
                let out = graph.edge(self.subgraph.edges[place]).outs[0];
                Some((deps.ins().collect(), files.mtime(out) > deps.mtime))
            }
        }
    }

    /// Returns whether the inputs are sources, and the order-only ones exist or nothing has to run for them.
    fn are_ready(&self, edge: &Edge<'_>, inputs: &[NodeId]) -> bool {
        let DirtyInputs { graph, files, .. } = self.dirty_inputs;
        let is_ready = |input: NodeId| match graph.in_edge(input) {
            None => files.exists(input),
            Some(maker) => self.edges.is_done(maker) && self.edges.outputs_ready(maker),
        };
        inputs.iter().all(|&input| graph.in_edge(input).is_none())
            && edge.order_only().iter().all(|&input| is_ready(input))
    }

    /// Returns the record of the last run of this command, if that was the last entry of its outputs in the log.
    fn record(&self, id: EdgeId, edge: &Edge<'_>) -> Option<&CommandRecord> {
        let DirtyInputs { graph, log, .. } = self.dirty_inputs;
        let record = self.table.command(PathKey::of(graph.path(edge.outs[0])))?;
        let is_last = edge.outs.iter().all(|&out| log.logged_command(graph, out) == Some(record.log));
        (is_last && self.dirty_inputs.known_hash(id) == Some(record.log.command_hash)).then_some(record)
    }

    /// Returns the id of these files; `None` if the content of one is unknown.
    fn id(&self, nodes: &[NodeId]) -> Option<ContentId> {
        let ids: Option<Vec<[u8; 16]>> =
            nodes.iter().map(|node| self.prepared[node.index()].id.map(|id| id.0)).collect();
        Some(ContentId::of(ids?.as_flattened()))
    }
}
