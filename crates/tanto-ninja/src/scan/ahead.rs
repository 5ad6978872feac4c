//! Asks for all files that a walk will look at before it begins, on several threads. Does not know what their mtimes
//! mean: the walk does all that it would do without this, and what it cannot find here it asks for itself.

use tanto_sys::threads::Threads;

use super::{Mark, NodeState, Scan, Seen};
use crate::graph::NodeId;

/// When to look ahead, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookAhead {
    /// Who asks. If that is one thread, nothing is gained, and nothing is asked for before the walk.
    pub threads: Threads,
    /// For fewer files there is no look ahead.
    pub least: usize,
}

impl Default for LookAhead {
    fn default() -> Self {
        LookAhead { threads: Threads::Fitting, least: LEAST }
    }
}

/// Listing costs 0.2 us a file. On 2 processors and with all in memory, the best of some hundred builds with nothing to
/// do took as long as without it up to 1,000 files, 8 % less at 2,000 and 24 % less at 8,000; where others keep the
/// processors busy, little is gained. With a cold disk a build of 22,000 files took a quarter of the time. Smaller,
/// small builds pay for nothing; larger, middling ones wait for a cold disk, one file after the other.
const LEAST: usize = 512;

impl Scan<'_, '_> {
    /// To be called before the walks from `targets`; `end_look_ahead` is to be called after them. A build that has
    /// begun changes files: it must find none here.
    pub fn look_ahead(&mut self, targets: &[NodeId]) {
        self.cover_new_nodes();
        let LookAhead { threads, least } = self.look_ahead;
        if threads == Threads::ONE || self.graph.node_count() < least {
            return;
        }
        self.list_files(targets);
        if self.ahead.len() < least {
            return self.end_look_ahead();
        }
        let paths: Vec<&[u8]> = self.ahead.iter().map(|&node| self.graph.path(node)).collect();
        let mtimes = self.disk.mtimes(&paths, threads);
        for (&node, mtime) in self.ahead.iter().zip(mtimes) {
            let state = &mut self.nodes[node.index()];
            match mtime {
                Some(mtime) => state.mtime = mtime,
                // The walk meets the error again, in its own order.
                None => state.seen = Seen::No,
            }
        }
    }

    /// Forgets what no walk has looked at.
    pub fn end_look_ahead(&mut self) {
        for node in self.ahead.drain(..) {
            let state = &mut self.nodes[node.index()];
            if state.seen == Seen::Ahead {
                state.seen = Seen::No;
            }
        }
    }

    /// Marks and lists the files that walks from `targets` will look at, as far as graph and deps log can tell.
    fn list_files(&mut self, targets: &[NodeId]) {
        let mut listed = vec![false; self.edges.len()];
        for &target in targets {
            list(&mut self.nodes, &mut self.ahead, target);
        }
        let mut next = 0;
        while let Some(&node) = self.ahead.get(next) {
            next += 1;
            let Some(edge) = self.graph.in_edge(node) else { continue };
            if std::mem::replace(&mut listed[edge.index()], true) || self.edges[edge.index()].mark == Mark::Done {
                continue;
            }
            let edge = self.graph.edge(edge);
            for &node in edge.outs.iter().chain(edge.ins).chain(edge.validations) {
                list(&mut self.nodes, &mut self.ahead, node);
            }
            for node in self.deps_log.deps(edge.outs[0]).into_iter().flat_map(|deps| deps.ins()) {
                list(&mut self.nodes, &mut self.ahead, node);
            }
        }
    }
}

fn list(nodes: &mut [NodeState], listed: &mut Vec<NodeId>, node: NodeId) {
    let state = &mut nodes[node.index()];
    if state.seen == Seen::No {
        state.seen = Seen::Ahead;
        listed.push(node);
    }
}
