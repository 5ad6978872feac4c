//! Which edges of a subgraph are clean, with all that is below them: judged edge by edge on several threads, and then in
//! the subgraph's order. Does not find out why one is not, nor what comes of it: that is the walk's.

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
use super::discovered_deps::{DiscoveredDeps, EdgeDeps, MIN_PER_THREAD};
use super::parallel::{map_chunks, map_indices};
use super::subgraph::Subgraph;

/// Newer than any file: one that is missing, or could not be asked for, and that nothing makes.
const MISSING: Mtime = Mtime::MAX;

/// What was found out about a subgraph.
pub(super) struct CleanEdges {
    /// By place in the subgraph: the edge, and all below it, needs no second look.
    pub(super) clean: Vec<bool>,
    /// The deps log knows what some edge read, but the edge's output is newer.
    pub(super) any_stale_deps: bool,
}

/// A subgraph whose files are known.
pub(super) struct CleanCheck<'s, 't, 'l> {
    subgraph: &'s Subgraph,
    discovered: &'s DiscoveredDeps<'l>,
    dirty_inputs: DirtyInputs<'s, 't>,
    /// By number in the deps log.
    mtimes: Vec<Mtime>,
    /// The newest of `mtimes`.
    newest: Mtime,
    any_stale_deps: AtomicBool,
}

impl<'s, 't, 'l> CleanCheck<'s, 't, 'l> {
    /// `nodes` are the files by their numbers in the deps log.
    pub(super) fn new(
        subgraph: &'s Subgraph,
        discovered: &'s DiscoveredDeps<'l>,
        dirty_inputs: DirtyInputs<'s, 't>,
        nodes: &[NodeId],
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
        CleanCheck { subgraph, discovered, dirty_inputs, mtimes, newest, any_stale_deps: AtomicBool::new(false) }
    }

    /// Judges all edges.
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

    /// Is the edge clean if all that it needs is, and if its command is what it was?
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
        let newest =
            newest_of(self.dirty_inputs.files, edge.dirtying_ins()).max(newest_of(self.dirty_inputs.files, listed));
        self.outputs_clean(id, newest, deps)
    }

    /// Is it a file that is not there, or could not be asked for, and that nothing makes?
    fn is_missing(&self, node: NodeId) -> bool {
        !self.dirty_inputs.files.exists(node) && self.dirty_inputs.graph.in_edge(node).is_none()
    }

    /// Against the newest of all files that any edge reads, and where that does not do, of those that this one does.
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

    /// Which edges are clean, if these are good.
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
        // The walk tells of a validation when it comes to the edge that names it, if that edge is clean or not.
        for (good, edge) in good.iter_mut().zip(&self.subgraph.edges) {
            *good &= graph.edge(*edge).validations.is_empty();
        }
        self.propagate(good, nodes).0
    }

    /// Which edges are clean, and which nodes are outputs of others, if these edges are good and their validations
    /// do not matter.
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

/// The mtime of the newest of them.
pub(super) fn newest_of(files: &FileStates, nodes: &[NodeId]) -> Mtime {
    nodes.iter().map(|&node| files.mtime(node)).max().unwrap_or(NO_INPUT)
}

/// Gives groups that are no files the mtimes of their newest members. False of those that are not clean: it has to be
/// taken back.
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
