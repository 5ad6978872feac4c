//! Asks for all files that a walk will look at before it begins, on several threads, and finds out which edges are
//! clean, with all below them: these the walk passes by. Does not know why the others are not. All that it finds, the
//! walk would find; what it cannot tell is left to the walk.

mod bit_set;
mod clean_check;
mod depfiles;
mod discovered_deps;
mod parallel;
mod subgraph;
#[cfg(test)]
mod tests;

use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;

use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{BuildLog, DepsLog};

use super::Scan;
use super::output_check::DirtyInputs;
use super::state::{EdgeStates, FileStates};

use self::clean_check::{CleanCheck, CleanEdges, set_phony_mtimes};
use self::depfiles::prefetch_depfiles;
use self::discovered_deps::{DepsLookup, DiscoveredDeps, EdgeDeps, MIN_PER_THREAD};
use self::parallel::map_chunks;
use self::subgraph::{ExtraInputs, Subgraph};

/// When to look ahead, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefetchOptions {
    /// Who asks. If that is one thread, nothing is asked for before the walk.
    pub threads: ThreadLimit,
    /// For fewer files there is no look ahead.
    pub min_files: usize,
}

impl Default for PrefetchOptions {
    fn default() -> Self {
        PrefetchOptions { threads: ThreadLimit::Auto, min_files: MIN_FILES }
    }
}

/// Listing costs 0.2 us a file. On 2 processors and with all in memory, the best of some hundred builds with nothing to
/// do took as long as without it up to 1,000 files, 8 % less at 2,000 and 24 % less at 8,000; where others keep the
/// processors busy, little is gained. With a cold disk a build of 22,000 files took a quarter of the time. Smaller,
/// small builds pay for nothing; larger, middling ones wait for a cold disk, one file after the other.
const MIN_FILES: usize = 512;

/// So many times an order of the edges is made: anew if one turns out to read what is made behind it. Smaller, extra is
/// left to the walk where manifests do not say who makes a header; larger, a manifest that never comes to an end costs
/// extra than the walk.
const MAX_ORDERS: usize = 8;

impl Scan<'_, '_> {
    /// To be called before the walks from `targets`; `end_prefetch` is to be called after them. A build that has
    /// begun changes files: it must find none here.
    pub fn prefetch(&mut self, targets: &[NodeId]) {
        self.cover_new_nodes();
        let PrefetchOptions { threads, min_files } = self.prefetch;
        if threads == ThreadLimit::ONE || self.graph.node_count() < min_files {
            return;
        }
        let Scan { graph, disk, log, deps_log, files, edges, .. } = self;
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
        let graph: &GraphView<'_> = graph;
        // Records are walked once, as a rule, and what tells where files are is not what was looked at so far.
        graph.release();
        deps_log.release();
        let nodes = found.unknown(files);
        if nodes.len() < min_files {
            return;
        }
        let mut mtimes = vec![0; nodes.len()];
        disk.mtimes(&|number| graph.path_with_nul(nodes[number]), &mut mtimes, threads);
        graph.release();
        for (&node, mtime) in nodes.iter().zip(mtimes) {
            // Where that is an error the walk meets it again, in its own order.
            if mtime != UNKNOWN_MTIME {
                files.set_prefetched(node, mtime);
            }
        }
        self.prefetched = nodes;
        if !found.subgraph.needs_walk {
            let checked = found.check_clean(log, files, threads);
            // A void record, which the walk does not follow, may have been what led to an edge.
            if !(checked.any_stale_deps && found.has_extra_inputs) {
                found.mark_clean(&checked, &self.prefetched, files, edges);
            }
        } else {
            found.hash_commands(log, files, threads);
        }
    }

    /// Forgets what no walk has looked at.
    pub fn end_prefetch(&mut self) {
        for node in self.prefetched.drain(..) {
            self.files.drop_prefetched(node);
        }
        for edge in self.prefetched_depfiles.drain(..) {
            self.edges.drop_prefetched_depfile(edge);
        }
    }
}

/// What walks from some targets will come to.
struct Prefetch<'s, 't> {
    graph: &'s GraphView<'t>,
    deps_log: &'s DepsLog,
    subgraph: Subgraph,
    discovered: DiscoveredDeps<'s>,
    /// Some of the subgraph's edges are there for discovered inputs alone.
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

    /// FileStates of which nothing is known.
    fn unknown(&self, files: &FileStates) -> Vec<NodeId> {
        let nodes = self.subgraph.nodes.iter().map(|node| NodeId(node as u32));
        nodes.filter(|&node| !files.is_known(node)).collect()
    }

    /// Finds out which edges are clean. `files` are known, as far as they can be.
    fn check_clean(&self, log: &BuildLog, files: &mut FileStates, threads: ThreadLimit) -> CleanEdges {
        let groups = set_phony_mtimes(self.graph, &self.subgraph, files);
        let dirty_inputs = DirtyInputs { graph: self.graph, log, files };
        let nodes = self.deps_log.nodes();
        let checked = CleanCheck::new(&self.subgraph, &self.discovered, dirty_inputs, nodes).run(nodes, threads);
        for (_, group) in groups.into_iter().filter(|&(place, _)| !checked.clean[place]) {
            files.set_mtime(group, 0);
        }
        checked
    }

    /// Hashes the commands that the walk may ask for.
    fn hash_commands(&self, log: &BuildLog, files: &FileStates, threads: ThreadLimit) {
        let dirty_inputs = DirtyInputs { graph: self.graph, log, files };
        let is_asked = |edge: EdgeId| self.graph.edge(edge).outs.iter().all(|&out| files.exists(out));
        map_chunks(threads, MIN_PER_THREAD, self.subgraph.edges.len(), |first, same| {
            let edges = self.subgraph.edges[first..].iter();
            dirty_inputs.compare_commands(edges.map(|&edge| is_asked(edge).then_some(edge)), same);
        });
    }

    /// Walks past the clean edges: what is known of them, and of files, is what it would be after a walk.
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
        // Where no record is void, the walk would look at all of them. What is missing it may have to tell of.
        for &node in requested {
            if !checked.any_stale_deps && files.exists(node) {
                files.mark_seen(node);
            }
        }
    }
}
