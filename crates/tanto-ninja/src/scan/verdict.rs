//! Which edges of a cone are clean, with all that is below them: judged edge by edge on several threads, and then in
//! the cone's order. Does not find out why one is not, nor what comes of it: that is the walk's.

use std::sync::atomic::{AtomicBool, Ordering};

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::Deps;

use super::bits::Bits;
use super::cone::Cone;
use super::headers::{Found, Headers, WORTH_A_THREAD};
use super::measure::{Facts, NO_INPUT};
use super::slices::{answers, pieces};
use super::state::Files;

/// Newer than any file: one that is missing, or could not be asked for, and that nothing makes.
const MISSING: Mtime = Mtime::MAX;

/// What was found out about a cone.
pub(super) struct Verdict {
    /// By place in the cone: the edge, and all below it, needs no second look.
    pub(super) clean: Vec<bool>,
    /// The deps log knows what some edge read, but the edge's output is newer.
    pub(super) any_void: bool,
}

/// A cone whose files are known.
pub(super) struct Court<'s, 't, 'l> {
    cone: &'s Cone,
    headers: &'s Headers<'l>,
    facts: Facts<'s, 't>,
    /// By number in the deps log.
    mtimes: Vec<Mtime>,
    /// The newest of `mtimes`.
    newest: Mtime,
    any_void: AtomicBool,
}

impl<'s, 't, 'l> Court<'s, 't, 'l> {
    /// `nodes` are the files by their numbers in the deps log.
    pub(super) fn new(cone: &'s Cone, headers: &'s Headers<'l>, facts: Facts<'s, 't>, nodes: &[NodeId]) -> Self {
        let mut mtimes = vec![0; nodes.len()];
        let mut newest = NO_INPUT;
        for number in headers.numbers() {
            let node = nodes[number as usize];
            let is_missing = !facts.files.exists(node) && !headers.is_made(number);
            let mtime = if is_missing { MISSING } else { facts.files.mtime(node) };
            mtimes[number as usize] = mtime;
            newest = newest.max(mtime);
        }
        Court { cone, headers, facts, mtimes, newest, any_void: AtomicBool::new(false) }
    }

    /// Judges all edges.
    pub(super) fn verdict(&self, nodes: &[NodeId], threads: ThreadLimit) -> Verdict {
        let count = self.cone.edges.len();
        let mut good = answers(threads, WORTH_A_THREAD, count, |place| self.is_good(place).unwrap_or(false));
        let mut clean = self.settle(&mut good, nodes);
        let same_command = pieces(threads, WORTH_A_THREAD, count, |first, same| {
            let edges = self.cone.edges[first..].iter().zip(&clean[first..]);
            self.facts.compare_commands(edges.map(|(&edge, clean)| clean.then_some(edge)), same);
        });
        if same_command.iter().zip(&clean).any(|(same, clean)| !same && *clean) {
            good.iter_mut().zip(&same_command).zip(&clean).for_each(|((good, same), clean)| *good &= same | !clean);
            clean = self.settle(&mut good, nodes);
        }
        Verdict { clean, any_void: self.any_void.load(Ordering::Relaxed) }
    }

    /// Is the edge clean if all that it needs is, and if its command is what it was?
    fn is_good(&self, place: usize) -> Result<bool> {
        let id = self.cone.edges[place];
        let edge = self.facts.graph.edge(id);
        let (deps, listed) = match self.headers.found[place] {
            Found::Unknown | Found::Unread => return Ok(false),
            Found::None => (None, &[][..]),
            Found::Listed(ins) => (None, ins),
            Found::Logged(deps) => (Some(deps), &[][..]),
        };
        if deps.is_some_and(|deps| self.facts.files.mtime(edge.outs[0]) > deps.mtime) {
            self.any_void.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        if edge.ins.iter().chain(listed).any(|&input| self.is_missing(input)) {
            return Ok(false);
        }
        if edge.is_phony() {
            let files = self.facts.files;
            return Ok(edge.outs.iter().all(|&out| files.exists(out) || (files.is_known(out) && !edge.ins.is_empty())));
        }
        let newest = newest_of(self.facts.files, edge.dirtying_ins()).max(newest_of(self.facts.files, listed));
        self.are_outputs_good(id, newest, deps)
    }

    /// Is it a file that is not there, or could not be asked for, and that nothing makes?
    fn is_missing(&self, node: NodeId) -> bool {
        !self.facts.files.exists(node) && self.facts.graph.in_edge(node).is_none()
    }

    /// Against the newest of all files that any edge reads, and where that does not do, of those that this one does.
    fn are_outputs_good(&self, edge: EdgeId, newest: Mtime, deps: Option<Deps<'_>>) -> Result<bool> {
        let Some(deps) = deps else { return self.facts.are_good(&mut self.facts.measure_but_command(edge, newest)?) };
        let mut measure = self.facts.measure_but_command(edge, newest.max(self.newest))?;
        if self.facts.are_good(&mut measure)? {
            return Ok(true);
        }
        let read = deps.numbers().map(|number| self.mtimes[number as usize]).max();
        measure.newest = newest.max(read.unwrap_or(NO_INPUT));
        Ok(measure.newest != MISSING && self.facts.are_good(&mut measure)?)
    }

    /// Which edges are clean, if these are good.
    fn settle(&self, good: &mut [bool], nodes: &[NodeId]) -> Vec<bool> {
        let graph = self.facts.graph;
        let mut validations = self.cone.validated.iter().flat_map(|&edge| graph.edge(edge).validations);
        if self.cone.stale.is_empty()
            && good.iter().all(|good| *good)
            && !validations.any(|&node| self.is_missing(node))
        {
            return good.to_vec();
        }
        let (clean, soiled) = self.spread(good, nodes);
        let is_soiled = |&node: &NodeId| soiled.has(node.index()) || self.is_missing(node);
        if !self.cone.validated.iter().any(|&edge| graph.edge(edge).validations.iter().any(is_soiled)) {
            return clean;
        }
        // The walk tells of a validation when it comes to the edge that names it, if that edge is clean or not.
        for (good, edge) in good.iter_mut().zip(&self.cone.edges) {
            *good &= graph.edge(*edge).validations.is_empty();
        }
        self.spread(good, nodes).0
    }

    /// Which edges are clean, and which nodes are outputs of others, if these edges are good and their validations
    /// do not matter.
    fn spread(&self, good: &[bool], nodes: &[NodeId]) -> (Vec<bool>, Bits) {
        let graph = self.facts.graph;
        let mut soiled = Bits::new(graph.node_count());
        self.cone.stale.iter().for_each(|node| soiled.add(node.index()));
        let mut clean = good.to_vec();
        for ((clean, found), &edge) in clean.iter_mut().zip(&self.headers.found).zip(&self.cone.edges) {
            let edge = graph.edge(edge);
            let is_soiled = |node: NodeId| soiled.has(node.index());
            *clean = *clean && !edge.ins.iter().any(|&input| is_soiled(input));
            *clean = *clean
                && match found {
                    Found::Logged(deps) => {
                        let mut made = deps.numbers().filter(|&number| self.headers.is_made(number));
                        !made.any(|number| is_soiled(nodes[number as usize]))
                    }
                    Found::Listed(ins) => !ins.iter().any(|&input| is_soiled(input)),
                    Found::None | Found::Unknown | Found::Unread => true,
                };
            if !*clean {
                edge.outs.iter().for_each(|out| soiled.add(out.index()));
            }
        }
        (clean, soiled)
    }
}

/// The mtime of the newest of them.
pub(super) fn newest_of(files: &Files, nodes: &[NodeId]) -> Mtime {
    nodes.iter().map(|&node| files.mtime(node)).max().unwrap_or(NO_INPUT)
}

/// Gives groups that are no files the mtimes of their newest members. False of those that are not clean: it has to be
/// taken back.
pub(super) fn date_groups(graph: &GraphView<'_>, cone: &Cone, files: &mut Files) -> Vec<(usize, NodeId)> {
    let mut dated = Vec::new();
    for (place, &edge) in cone.edges.iter().enumerate() {
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
