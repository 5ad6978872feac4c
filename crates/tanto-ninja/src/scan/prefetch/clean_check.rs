//! Finds the edges that are clean together with everything below them: first each edge by itself, on several threads,
//! then in the order of the subgraph.

use std::sync::atomic::{AtomicBool, Ordering};

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::Deps;

use super::super::output_check::{DirtyInputs, NO_INPUT};
use super::super::state::FileStates;
use super::bit_set::BitSet;
use super::content::ContentChanges;
use super::discovered_deps::{DiscoveredDeps, EdgeDeps, MIN_PER_THREAD};
use super::parallel::{map_chunks, map_indices};
use super::subgraph::Subgraph;

/// Newer than any file: the mtime of a source that is missing or could not be checked.
const MISSING: Mtime = Mtime::MAX;

pub(super) struct CleanEdges {
    /// By position in the subgraph: the edge and everything below it is clean.
    pub(super) clean: Vec<bool>,
    /// Some deps record is older than its output.
    pub(super) any_stale_deps: bool,
}

pub(super) struct CleanCheck<'s, 't, 'l> {
    subgraph: &'s Subgraph,
    discovered: &'s DiscoveredDeps<'l>,
    dirty_inputs: DirtyInputs<'s, 't>,
    /// `None` if the content of no file changed.
    changes: Option<ContentChanges<'s>>,
    nodes: &'s [NodeId],
    /// By id in the deps log.
    mtimes: Vec<Mtime>,
    /// The maximum of `mtimes`.
    newest: Mtime,
    any_stale_deps: AtomicBool,
}

impl<'s, 't, 'l> CleanCheck<'s, 't, 'l> {
    /// `nodes` maps ids in the deps log to nodes.
    pub(super) fn new(
        subgraph: &'s Subgraph,
        discovered: &'s DiscoveredDeps<'l>,
        dirty_inputs: DirtyInputs<'s, 't>,
        changes: Option<ContentChanges<'s>>,
        nodes: &'s [NodeId],
    ) -> Self {
        let mut mtimes = vec![0; nodes.len()];
        let mut newest = NO_INPUT;
        for number in discovered.numbers() {
            let node = nodes[number as usize];
            let is_missing = !dirty_inputs.files.exists(node) && !discovered.is_generated(number);
            let mtime = if is_missing { MISSING } else { dirty_inputs.files.mtime(node) };
            mtimes[number as usize] = mtime;
            newest = newest.max(mtime);
        }
        let any_stale_deps = AtomicBool::new(false);
        CleanCheck { subgraph, discovered, dirty_inputs, changes, nodes, mtimes, newest, any_stale_deps }
    }

    pub(super) fn run(&self, nodes: &[NodeId], threads: ThreadLimit) -> CleanEdges {
        let count = self.subgraph.edges.len();
        let mut good =
            map_indices(threads, MIN_PER_THREAD, count, |place| self.is_locally_clean(place).unwrap_or(false));
        let mut clean = self.clean_edges(&mut good, nodes);
        let same_command = map_chunks(threads, MIN_PER_THREAD, count, |first, same| {
            let edges = self.subgraph.edges[first..].iter().zip(&clean[first..]);
            self.dirty_inputs.compare_commands(edges.map(|(&edge, clean)| clean.then_some(edge)), same);
        });
        if same_command.iter().zip(&clean).any(|(same, clean)| !same && *clean) {
            good.iter_mut().zip(&same_command).zip(&clean).for_each(|((good, same), clean)| *good &= same | !clean);
            clean = self.clean_edges(&mut good, nodes);
        }
        CleanEdges { clean, any_stale_deps: self.any_stale_deps.load(Ordering::Relaxed) }
    }

    /// Returns whether the edge is clean if all its inputs are clean and its command is unchanged.
    fn is_locally_clean(&self, place: usize) -> Result<bool> {
        let id = self.subgraph.edges[place];
        let edge = self.dirty_inputs.graph.edge(id);
        let (deps, listed) = match self.discovered.edges[place] {
            EdgeDeps::Unknown | EdgeDeps::Unread => return Ok(false),
            EdgeDeps::None => (None, &[][..]),
            EdgeDeps::Listed(ins) => (None, ins),
            EdgeDeps::Logged(deps) => (Some(deps), &[][..]),
        };
        if deps.is_some_and(|deps| self.dirty_inputs.files.mtime(edge.outs[0]) > deps.mtime) {
            self.any_stale_deps.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        if edge.ins.iter().chain(listed).any(|&input| self.is_missing(input)) {
            return Ok(false);
        }
        if edge.is_phony() {
            let files = self.dirty_inputs.files;
            return Ok(edge.outs.iter().all(|&out| files.exists(out) || (files.is_known(out) && !edge.ins.is_empty())));
        }
        let deps_of_edge = &self.discovered.edges[place];
        let concern =
            |changes: &ContentChanges<'_>| changes.concern(self.dirty_inputs.graph, id, deps_of_edge, self.nodes);
        if self.changes.as_ref().is_some_and(concern) {
            return Ok(false);
        }
        let newest =
            newest_of(self.dirty_inputs.files, edge.dirtying_ins()).max(newest_of(self.dirty_inputs.files, listed));
        self.outputs_clean(id, newest, deps)
    }

    /// Returns whether the node is a source that is missing or could not be checked.
    fn is_missing(&self, node: NodeId) -> bool {
        !self.dirty_inputs.files.exists(node) && self.dirty_inputs.graph.in_edge(node).is_none()
    }

    /// Compares with the newest file that any edge reads first, which is cheap; then with the newest that this edge
    /// reads.
    fn outputs_clean(&self, edge: EdgeId, newest: Mtime, deps: Option<Deps<'_>>) -> Result<bool> {
        let Some(deps) = deps else {
            return self.dirty_inputs.all_clean(&mut self.dirty_inputs.check_ignoring_unknown_command(edge, newest)?);
        };
        let mut output_check = self.dirty_inputs.check_ignoring_unknown_command(edge, newest.max(self.newest))?;
        if self.dirty_inputs.all_clean(&mut output_check)? {
            return Ok(true);
        }
        let read = deps.numbers().map(|number| self.mtimes[number as usize]).max();
        output_check.newest = newest.max(read.unwrap_or(NO_INPUT));
        Ok(output_check.newest != MISSING && self.dirty_inputs.all_clean(&mut output_check)?)
    }

    /// The clean edges, given the locally clean ones.
    fn clean_edges(&self, good: &mut [bool], nodes: &[NodeId]) -> Vec<bool> {
        let graph = self.dirty_inputs.graph;
        let mut validations = self.subgraph.with_validations.iter().flat_map(|&edge| graph.edge(edge).validations);
        if self.subgraph.dirty_outputs.is_empty()
            && good.iter().all(|good| *good)
            && !validations.any(|&node| self.is_missing(node))
        {
            return good.to_vec();
        }
        let (clean, dirty) = self.propagate(good, nodes);
        let is_dirty = |&node: &NodeId| dirty.has(node.index()) || self.is_missing(node);
        if !self.subgraph.with_validations.iter().any(|&edge| graph.edge(edge).validations.iter().any(is_dirty)) {
            return clean;
        }
        // The walk reports dirty validations at the edge that names them, even if that edge is clean.
        for (good, edge) in good.iter_mut().zip(&self.subgraph.edges) {
            *good &= graph.edge(*edge).validations.is_empty();
        }
        self.propagate(good, nodes).0
    }

    /// Propagates dirtiness upwards, ignoring validations. Returns the clean edges and the dirty nodes.
    fn propagate(&self, good: &[bool], nodes: &[NodeId]) -> (Vec<bool>, BitSet) {
        let graph = self.dirty_inputs.graph;
        let mut dirty = BitSet::new(graph.node_count());
        self.subgraph.dirty_outputs.iter().for_each(|node| dirty.add(node.index()));
        let mut clean = good.to_vec();
        for ((clean, found), &edge) in clean.iter_mut().zip(&self.discovered.edges).zip(&self.subgraph.edges) {
            let edge = graph.edge(edge);
            let is_dirty = |node: NodeId| dirty.has(node.index());
            *clean = *clean && !edge.ins.iter().any(|&input| is_dirty(input));
            *clean = *clean
                && match found {
                    EdgeDeps::Logged(deps) => {
                        let mut made = deps.numbers().filter(|&number| self.discovered.is_generated(number));
                        !made.any(|number| is_dirty(nodes[number as usize]))
                    }
                    EdgeDeps::Listed(ins) => !ins.iter().any(|&input| is_dirty(input)),
                    EdgeDeps::None | EdgeDeps::Unknown | EdgeDeps::Unread => true,
                };
            if !*clean {
                edge.outs.iter().for_each(|out| dirty.add(out.index()));
            }
        }
        (clean, dirty)
    }
}

pub(super) fn newest_of(files: &FileStates, nodes: &[NodeId]) -> Mtime {
    nodes.iter().map(|&node| files.mtime(node)).max().unwrap_or(NO_INPUT)
}

/// Gives missing phony outputs the newest mtime of their inputs. Returns them with the position of their edge; the
/// caller resets those of dirty edges.
pub(super) fn set_phony_mtimes(
    graph: &GraphView<'_>,
    subgraph: &Subgraph,
    files: &mut FileStates,
) -> Vec<(usize, NodeId)> {
    let mut dated = Vec::new();
    for (place, &edge) in subgraph.edges.iter().enumerate() {
        let edge = graph.edge(edge);
        if !edge.is_phony() {
            continue;
        }
        for &out in edge.outs.iter().filter(|_| !edge.ins.is_empty()) {
            if !files.exists(out) {
                files.set_mtime(out, newest_of(files, edge.dirtying_ins()).max(0));
                dated.push((place, out));
            }
        }
    }
    dated
}
