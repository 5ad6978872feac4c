//! Asks for all files that a walk will look at before it begins, on several threads, and finds out which edges are
//! clean, with all below them: these the walk passes by. Does not know why the others are not. All that it finds, the
//! walk would find; what it cannot tell is left to the walk.

use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;

use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{BuildLog, DepsLog};

use super::Scan;
use super::cone::{Cone, More};
use super::depfiles::read_ahead;
use super::headers::{Found, Headers, Lookup, WORTH_A_THREAD};
use super::measure::Facts;
use super::slices::pieces;
use super::state::{Edges, Files};
use super::verdict::{Court, Verdict, date_groups};

/// When to look ahead, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookAhead {
    /// Who asks. If that is one thread, nothing is asked for before the walk.
    pub threads: ThreadLimit,
    /// For fewer files there is no look ahead.
    pub least: usize,
}

impl Default for LookAhead {
    fn default() -> Self {
        LookAhead { threads: ThreadLimit::Auto, least: LEAST }
    }
}

/// Listing costs 0.2 us a file. On 2 processors and with all in memory, the best of some hundred builds with nothing to
/// do took as long as without it up to 1,000 files, 8 % less at 2,000 and 24 % less at 8,000; where others keep the
/// processors busy, little is gained. With a cold disk a build of 22,000 files took a quarter of the time. Smaller,
/// small builds pay for nothing; larger, middling ones wait for a cold disk, one file after the other.
const LEAST: usize = 512;

/// So many times an order of the edges is made: anew if one turns out to read what is made behind it. Smaller, more is
/// left to the walk where manifests do not say who makes a header; larger, a manifest that never comes to an end costs
/// more than the walk.
const MOST_ORDERS: usize = 8;

impl Scan<'_, '_> {
    /// To be called before the walks from `targets`; `end_look_ahead` is to be called after them. A build that has
    /// begun changes files: it must find none here.
    pub fn look_ahead(&mut self, targets: &[NodeId]) {
        self.cover_new_nodes();
        let LookAhead { threads, least } = self.look_ahead;
        if threads == ThreadLimit::ONE || self.graph.node_count() < least {
            return;
        }
        let Scan { graph, disk, log, deps_log, files, edges, .. } = self;
        let outlook = loop {
            let outlook = Outlook::new(graph, deps_log, files, edges, targets, threads);
            let unread = outlook.headers.unread(&outlook.cone);
            if unread.is_empty() {
                break outlook;
            }
            read_ahead(graph, &**disk, edges, &unread, threads);
            files.cover(graph.node_count());
            self.read_ahead.extend(unread);
        };
        let graph: &GraphView<'_> = graph;
        // Records are walked once, as a rule, and what tells where files are is not what was looked at so far.
        graph.release();
        deps_log.release();
        let nodes = outlook.unknown(files);
        if nodes.len() < least {
            return;
        }
        let mut mtimes = vec![0; nodes.len()];
        disk.mtimes(&|number| graph.path_with_nul(nodes[number]), &mut mtimes, threads);
        graph.release();
        for (&node, mtime) in nodes.iter().zip(mtimes) {
            // Where that is an error the walk meets it again, in its own order.
            if mtime != UNKNOWN_MTIME {
                files.foretell(node, mtime);
            }
        }
        self.ahead = nodes;
        if !outlook.cone.is_odd {
            let verdict = outlook.judge(log, files, threads);
            // A void record, which the walk does not follow, may have been what led to an edge.
            if !(verdict.any_void && outlook.reaches_further) {
                outlook.pass_by(&verdict, &self.ahead, files, edges);
            }
        } else {
            outlook.hash_commands(log, files, threads);
        }
    }

    /// Forgets what no walk has looked at.
    pub fn end_look_ahead(&mut self) {
        for node in self.ahead.drain(..) {
            self.files.forget_ahead(node);
        }
        for edge in self.read_ahead.drain(..) {
            self.edges.forget_read_ahead(edge);
        }
    }
}

/// What walks from some targets will come to.
struct Outlook<'s, 't> {
    graph: &'s GraphView<'t>,
    deps_log: &'s DepsLog,
    cone: Cone,
    headers: Headers<'s>,
    /// Some of the cone's edges are there for discovered inputs alone.
    reaches_further: bool,
}

impl<'s, 't> Outlook<'s, 't> {
    fn new(
        graph: &'s GraphView<'t>,
        deps_log: &'s DepsLog,
        files: &Files,
        edges: &Edges<'s>,
        targets: &[NodeId],
        threads: ThreadLimit,
    ) -> Self {
        let mut more = More::default();
        let mut orders = 1;
        loop {
            let mut cone = Cone::new(graph, files, edges, &more, targets);
            let headers = Lookup { graph, known: edges, cone: &cone, log: deps_log }.all(threads);
            if headers.late.is_empty() || cone.is_odd || orders == MOST_ORDERS {
                cone.is_odd |= !headers.late.is_empty();
                headers.nodes(deps_log).for_each(|node| cone.add(graph, files, edges, node));
                return Outlook { graph, deps_log, cone, headers, reaches_further: !more.is_empty() };
            }
            headers.late.iter().for_each(|&(edge, node)| more.entry(edge).or_default().push(node));
            orders += 1;
        }
    }

    /// Files of which nothing is known.
    fn unknown(&self, files: &Files) -> Vec<NodeId> {
        let nodes = self.cone.nodes.iter().map(|node| NodeId(node as u32));
        nodes.filter(|&node| !files.is_known(node)).collect()
    }

    /// Finds out which edges are clean. `files` are known, as far as they can be.
    fn judge(&self, log: &BuildLog, files: &mut Files, threads: ThreadLimit) -> Verdict {
        let groups = date_groups(self.graph, &self.cone, files);
        let facts = Facts { graph: self.graph, log, files };
        let nodes = self.deps_log.nodes();
        let verdict = Court::new(&self.cone, &self.headers, facts, nodes).verdict(nodes, threads);
        for (_, group) in groups.into_iter().filter(|&(place, _)| !verdict.clean[place]) {
            files.set_mtime(group, 0);
        }
        verdict
    }

    /// Hashes the commands that the walk may ask for.
    fn hash_commands(&self, log: &BuildLog, files: &Files, threads: ThreadLimit) {
        let facts = Facts { graph: self.graph, log, files };
        let is_asked = |edge: EdgeId| self.graph.edge(edge).outs.iter().all(|&out| files.exists(out));
        pieces(threads, WORTH_A_THREAD, self.cone.edges.len(), |first, same| {
            let edges = self.cone.edges[first..].iter();
            facts.compare_commands(edges.map(|&edge| is_asked(edge).then_some(edge)), same);
        });
    }

    /// Walks past the clean edges: what is known of them, and of files, is what it would be after a walk.
    fn pass_by(&self, verdict: &Verdict, asked: &[NodeId], files: &mut Files, edges: &mut Edges<'_>) {
        for (place, &id) in self.cone.edges.iter().enumerate() {
            if !verdict.clean[place] {
                continue;
            }
            edges.pass_by(id);
            let edge = self.graph.edge(id);
            edge.outs.iter().for_each(|&out| files.see(out));
            if verdict.any_void {
                edge.ins.iter().for_each(|&input| files.see(input));
                match self.headers.found[place] {
                    Found::Logged(deps) => deps.ins().for_each(|input| files.see(input)),
                    Found::Listed(ins) => ins.iter().for_each(|&input| files.see(input)),
                    Found::None | Found::Unknown | Found::Unread => {}
                }
            }
        }
        // Where no record is void, the walk would look at all of them. What is missing it may have to tell of.
        for &node in asked {
            if !verdict.any_void && files.exists(node) {
                files.see(node);
            }
        }
    }
}
