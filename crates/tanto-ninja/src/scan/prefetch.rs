//! Stats all files of a build with several threads before the walk, and marks edges that are clean together with
//! everything below them, so that the walk skips them. With content, also finds edges that are out of date by times alone.
//!
//! It finds nothing that the walk would not find. Everything it cannot decide, and all error messages, are left to the
//! walk.

mod bit_set;
mod clean_check;
mod content;
mod depfiles;
mod discovered_deps;
mod parallel;
mod renewals;
mod subgraph;
#[cfg(test)]
mod tests;

use bumpalo::Bump;
use tanto_sys::fs::fingerprint::{FileState, FileSystems};
use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;

use crate::content::Contents;
use crate::disk::Disk;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{BuildLog, DepsLog};

use super::output_check::DirtyInputs;
use super::state::{EdgeStates, FileStates};
use super::{Renewal, Scan};

use self::clean_check::{CleanCheck, CleanEdges, set_phony_mtimes};
use self::content::ContentChanges;
use self::depfiles::prefetch_depfiles;
use self::discovered_deps::{DepsLookup, DiscoveredDeps, EdgeDeps, MIN_PER_THREAD};
use self::parallel::map_chunks;
use self::renewals::RenewalCheck;
use self::subgraph::{ExtraInputs, Subgraph};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefetchOptions {
    /// With one thread, nothing is prefetched.
    pub threads: ThreadLimit,
    /// The minimum number of unknown files worth a prefetch.
    pub min_files: usize,
}

impl Default for PrefetchOptions {
    fn default() -> Self {
        PrefetchOptions { threads: ThreadLimit::Auto, min_files: MIN_FILES }
    }
}

/// Listing files costs 0.2 us each. On 2 CPUs with a warm cache, the best of some hundred no-op builds took the same
/// time at up to 1,000 files, 8 % less at 2,000 and 24 % less at 8,000; with busy CPUs the gain is small. With a cold
/// disk, a build of 22,000 files took a quarter of the time. A smaller limit makes small builds pay for nothing; with a
/// larger one, medium builds stat a cold disk one file at a time.
const MIN_FILES: usize = 512;

/// The maximum number of times the edge order is computed. It is recomputed when an edge reads a file made later in the
/// order. A smaller limit leaves more to the walk if manifests omit generated headers; a larger one can cost more than
/// the walk.
const MAX_ORDERS: usize = 8;

impl Scan<'_, '_> {
    /// Call before the walks from `targets`, and `end_prefetch` after them. Must not be called during a build, which
    /// changes files.
    pub fn prefetch(&mut self, targets: &[NodeId]) {
        self.cover_new_nodes();
        let PrefetchOptions { threads, min_files } = self.prefetch;
        self.contents.iter_mut().for_each(Contents::begin_walk);
        if threads == ThreadLimit::ONE || self.graph.node_count() < min_files || self.any_forced {
            return;
        }
        let Scan { graph, disk, log, deps_log, files, edges, systems, contents, explanations, renewals, .. } = self;
        let found = loop {
            let found = Prefetch::new(graph, deps_log, files, edges, targets, threads);
            let unread = found.discovered.unread(&found.subgraph);
            if unread.is_empty() {
                break found;
            }
            prefetch_depfiles(graph, &**disk, edges, &unread, threads);
            files.cover(graph.node_count());
            self.prefetched_depfiles.extend(unread);
        };
        let (arena, graph): (_, &GraphView<'_>) = (graph.arena, graph);
        // Records are usually read only once, and path lookup uses other pages.
        graph.release();
        deps_log.release();
        let nodes = found.unknown(files);
        if nodes.len() < min_files {
            return;
        }
        stat_files(&mut **disk, (graph, systems), &nodes, files, threads);
        self.prefetched = nodes;
        if let Some(contents) = contents {
            content::find_changes(contents, graph, (&**disk, systems), &found.subgraph, files, threads);
        }
        let mut changed = contents.as_mut().filter(|contents| !contents.is_unchanged);
        let changes = changed.as_deref_mut().map(|contents| ContentChanges::new(contents, graph, &found.subgraph));
        let is_marked = found.mark_clean_edges(log, (files, edges), changes, &self.prefetched, threads);
        let Some(contents) = changed else { return };
        let unfinished = found.unfinished(edges);
        if unfinished.len() < MIN_PER_THREAD.min(min_files) {
            return;
        }
        content::prepare_comparison(contents, graph, &**disk, &found.subgraph, (&unfinished, files), threads);
        // The walk announces each renewal.
        if is_marked && !explanations.are_announced() {
            found.hash_commands(log, files, threads);
            let renewed = found.check_renewals(log, (files, edges), contents, threads);
            found.mark_renewed(&renewed, arena, files, edges);
            renewals.extend(renewed.into_iter().flatten());
        }
    }

    /// Drops prefetched states that no walk has used.
    pub fn end_prefetch(&mut self) {
        self.contents.iter_mut().for_each(Contents::end_walk);
        for node in self.prefetched.drain(..) {
            self.files.drop_prefetched(node);
        }
        for edge in self.prefetched_depfiles.drain(..) {
            self.edges.drop_prefetched_depfile(edge);
        }
    }
}

/// Stats these nodes, and notes their states.
fn stat_files(
    disk: &mut dyn Disk,
    (graph, systems): (&GraphView<'_>, &FileSystems),
    nodes: &[NodeId],
    files: &mut FileStates,
    threads: ThreadLimit,
) {
    let mut found = vec![FileState::default(); nodes.len()];
    disk.observe_all(&|number| graph.path_with_nul(nodes[number]), systems, &mut found, threads);
    graph.release();
    for (&node, &state) in nodes.iter().zip(&found) {
        // On an error, the walk stats the file again and reports it in its own order.
        if state.mtime != UNKNOWN_MTIME {
            files.set_prefetched(node, state);
        }
    }
}

/// The part of the graph that walks from some targets will visit.
struct Prefetch<'s, 't> {
    graph: &'s GraphView<'t>,
    deps_log: &'s DepsLog,
    subgraph: Subgraph,
    discovered: DiscoveredDeps<'s>,
    /// Some edges are included only because of discovered inputs.
    has_extra_inputs: bool,
}

impl<'s, 't> Prefetch<'s, 't> {
    fn new(
        graph: &'s GraphView<'t>,
        deps_log: &'s DepsLog,
        files: &FileStates,
        edges: &EdgeStates<'s>,
        targets: &[NodeId],
        threads: ThreadLimit,
    ) -> Self {
        let mut extra = ExtraInputs::default();
        let mut orders = 1;
        loop {
            let mut subgraph = Subgraph::new(graph, files, edges, &extra, targets);
            let discovered = DepsLookup { graph, known: edges, subgraph: &subgraph, log: deps_log }.all(threads);
            if discovered.misordered.is_empty() || subgraph.needs_walk || orders == MAX_ORDERS {
                subgraph.needs_walk |= !discovered.misordered.is_empty();
                discovered.nodes(deps_log).for_each(|node| subgraph.add(graph, files, edges, node));
                return Prefetch { graph, deps_log, subgraph, discovered, has_extra_inputs: !extra.is_empty() };
            }
            discovered.misordered.iter().for_each(|&(edge, node)| extra.entry(edge).or_default().push(node));
            orders += 1;
        }
    }

    /// Returns the nodes that need a stat.
    fn unknown(&self, files: &FileStates) -> Vec<NodeId> {
        let nodes = self.subgraph.nodes.iter().map(|node| NodeId(node as u32));
        nodes.filter(|&node| !files.is_known(node)).collect()
    }

    /// Returns the edges that are not done.
    fn unfinished(&self, edges: &EdgeStates<'_>) -> Vec<EdgeId> {
        self.subgraph.edges.iter().copied().filter(|&edge| !edges.is_done(edge)).collect()
    }

    /// Marks the clean edges, unless only a walk can find them. Returns whether it did.
    fn mark_clean_edges(
        &self,
        log: &BuildLog,
        (files, edges): (&mut FileStates, &mut EdgeStates<'_>),
        changes: Option<ContentChanges<'_>>,
        requested: &[NodeId],
        threads: ThreadLimit,
    ) -> bool {
        if self.subgraph.needs_walk {
            self.hash_commands(log, files, threads);
            return false;
        }
        let checked = self.check_clean(log, files, changes, threads);
        // The walk ignores stale records, and an edge may be in the subgraph only because of one.
        let may_mark = !(checked.any_stale_deps && self.has_extra_inputs);
        if may_mark {
            self.mark_clean(&checked, requested, files, edges);
        }
        may_mark
    }

    /// Finds the clean edges. All files must have been prefetched.
    fn check_clean(
        &self,
        log: &BuildLog,
        files: &mut FileStates,
        changes: Option<ContentChanges<'_>>,
        threads: ThreadLimit,
    ) -> CleanEdges {
        let groups = set_phony_mtimes(self.graph, &self.subgraph, files);
        let dirty_inputs = DirtyInputs { graph: self.graph, log, files };
        let nodes = self.deps_log.nodes();
        let checked =
            CleanCheck::new(&self.subgraph, &self.discovered, dirty_inputs, changes, nodes).run(nodes, threads);
        for (_, group) in groups.into_iter().filter(|&(place, _)| !checked.clean[place]) {
            files.set_mtime(group, 0);
        }
        checked
    }

    /// Hashes the commands that the walk may need.
    fn hash_commands(&self, log: &BuildLog, files: &FileStates, threads: ThreadLimit) {
        let dirty_inputs = DirtyInputs { graph: self.graph, log, files };
        let is_asked = |edge: EdgeId| self.graph.edge(edge).outs.iter().all(|&out| files.exists(out));
        map_chunks(threads, MIN_PER_THREAD, self.subgraph.edges.len(), |first, same| {
            let edges = self.subgraph.edges[first..].iter();
            dirty_inputs.compare_commands(edges.map(|&edge| is_asked(edge).then_some(edge)), same);
        });
    }

    /// Puts clean edges and their files into the state in which a walk would leave them.
    fn mark_clean(
        &self,
        checked: &CleanEdges,
        requested: &[NodeId],
        files: &mut FileStates,
        edges: &mut EdgeStates<'_>,
    ) {
        for (place, &id) in self.subgraph.edges.iter().enumerate() {
            if !checked.clean[place] {
                continue;
            }
            edges.mark_clean(id);
            let edge = self.graph.edge(id);
            edge.outs.iter().for_each(|&out| files.mark_seen(out));
            if checked.any_stale_deps {
                edge.ins.iter().for_each(|&input| files.mark_seen(input));
                match self.discovered.edges[place] {
                    EdgeDeps::Logged(deps) => deps.ins().for_each(|input| files.mark_seen(input)),
                    EdgeDeps::Listed(ins) => ins.iter().for_each(|&input| files.mark_seen(input)),
                    EdgeDeps::None | EdgeDeps::Unknown | EdgeDeps::Unread => {}
                }
            }
        }
        // Without stale records, the walk would see all of these. It may have to report missing ones.
        for &node in requested {
            if !checked.any_stale_deps && files.exists(node) {
                files.mark_seen(node);
            }
        }
    }

    /// Finds renewals, by position in the subgraph. Clean edges must have been marked.
    fn check_renewals(
        &self,
        log: &BuildLog,
        (files, edges): (&FileStates, &EdgeStates<'t>),
        contents: &mut Contents,
        threads: ThreadLimit,
    ) -> Vec<Option<Renewal>> {
        let (subgraph, discovered) = (&self.subgraph, &self.discovered);
        let dirty_inputs = DirtyInputs { graph: self.graph, log, files };
        let (table, prepared) = contents.table_and_prepared();
        RenewalCheck { subgraph, discovered, dirty_inputs, edges, table, prepared }.run(threads)
    }

    /// Puts edges that will be renewed into the state in which a walk would leave them.
    fn mark_renewed(
        &self,
        renewals: &[Option<Renewal>],
        arena: &'t Bump,
        files: &mut FileStates,
        edges: &mut EdgeStates<'t>,
    ) {
        for (renewal, deps) in renewals.iter().zip(&self.discovered.edges) {
            let Some(Renewal { edge: id, newest, outputs }) = renewal else { continue };
            edges.mark_clean(*id);
            if let EdgeDeps::Logged(deps) = deps {
                edges.set_deps(*id, arena.alloc_slice_fill_iter(deps.ins()));
            }
            let edge = self.graph.edge(*id);
            edge.outs.iter().chain(edge.ins).chain(edges.deps(*id)).for_each(|&node| files.mark_seen(node));
            outputs.iter().for_each(|&(out, _)| files.set_mtime(out, *newest));
        }
    }
}
