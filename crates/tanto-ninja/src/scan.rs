//! Finds the dirty outputs: compares the graph with the file system and both logs.
//!
//! The graph walk is iterative, so that a chain of a million edges needs no deeper stack than one of ten.

mod content_check;
mod content_record;
mod load_deps;
mod output_check;
mod prefetch;
mod state;

use tanto_sys::fs::fingerprint::FileSystems;

use crate::content::Contents;
use crate::disk::{Disk, Mtime};
use crate::dyndep;
use crate::error::{Error, Result};
use crate::explain::{Explanation, Explanations, NewestInput};
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{BuildLog, DepsLog};

use self::output_check::{DirtyInputs, DirtyReason, NO_INPUT};
use self::state::{EdgeStates, FileStates, Mark};

pub use self::content_check::Renewal;
pub use self::prefetch::PrefetchOptions;

/// The states of all files and edges, as far as walks have visited them.
pub struct Scan<'a, 't> {
    /// Loading a dyndep file adds to it.
    pub graph: &'a mut Graph<'t>,
    pub disk: &'a mut dyn Disk,
    pub log: &'a mut BuildLog,
    pub deps_log: &'a mut DepsLog,
    pub explanations: Explanations,
    pub prefetch: PrefetchOptions,
    /// Nodes with a prefetched mtime.
    prefetched: Vec<NodeId>,
    /// Edges with a prefetched depfile.
    prefetched_depfiles: Vec<EdgeId>,
    files: FileStates,
    edges: EdgeStates<'t>,
    dyndep_users: Option<Map<NodeId, Vec<EdgeId>>>,
    older_ninja: OlderNinja,
    systems: FileSystems,
    /// The content of files; `None` if only times decide.
    pub contents: Option<Contents>,
    /// Commands that are up to date although files are newer. Their outputs and log entries get new times.
    renewals: Vec<Renewal>,
    /// The user wants commands to run that may be up to date.
    any_forced: bool,
}

/// Whether ninja 1.11 or older has appended to a log of version 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OlderNinja {
    /// The number of changed commands compared so far.
    NotFound(u32),
    Found,
}

/// The maximum number of changed commands to compare with hashes of older ninja. The limit matters after a change of
/// flags, which changes every command.
const MAX_COMPARED: u32 = 64;

struct Frame {
    /// The output through which the walk reached the edge.
    node: NodeId,
    edge: EdgeId,
    /// The dyndep file, the outputs and the discovered inputs were loaded.
    expanded: bool,
    /// The index of the next input to visit.
    next: usize,
    dirty: bool,
    newest_input: Option<NodeId>,
}

impl<'a, 't> Scan<'a, 't> {
    pub fn new(
        graph: &'a mut Graph<'t>,
        disk: &'a mut dyn Disk,
        log: &'a mut BuildLog,
        deps_log: &'a mut DepsLog,
        explanations: Explanations,
    ) -> Self {
        let (files, edges) = (FileStates::new(graph.node_count()), EdgeStates::new(graph.edge_count()));
        Scan {
            graph,
            disk,
            log,
            deps_log,
            explanations,
            prefetch: PrefetchOptions::default(),
            prefetched: Vec::new(),
            prefetched_depfiles: Vec::new(),
            files,
            edges,
            dyndep_users: None,
            older_ninja: OlderNinja::NotFound(0),
            systems: FileSystems::default(),
            contents: None,
            renewals: Vec::new(),
            any_forced: false,
        }
    }

    /// Returns whether a command seemed to have changed because ninja 1.11 or older appended to a log of version 7.
    pub fn found_older_ninja(&self) -> bool {
        self.older_ninja == OlderNinja::Found
    }

    /// Resets the states of files and the discovered inputs. Loaded dyndep files stay loaded.
    pub fn reset(&mut self) {
        self.prefetched.clear();
        self.prefetched_depfiles.clear();
        self.files = FileStates::new(self.graph.node_count());
        self.edges = EdgeStates::new(self.graph.edge_count());
        self.systems = FileSystems::default();
        self.renewals.clear();
        self.contents.iter_mut().for_each(Contents::reset);
    }

    /// Returns whether the node is known to be out of date or missing.
    pub fn is_dirty(&self, node: NodeId) -> bool {
        self.files.is_dirty(node)
    }

    /// Returns the node's mtime from before its command ran.
    pub fn mtime(&self, node: NodeId) -> Mtime {
        self.files.seen_mtime(node)
    }

    /// Returns whether neither the edge nor any edge below it has to run, or all of them have run.
    pub fn outputs_ready(&self, edge: EdgeId) -> bool {
        self.edges.outputs_ready(edge)
    }

    pub fn set_outputs_ready(&mut self, edge: EdgeId) {
        self.edges.set_outputs_ready(edge, true);
    }

    /// Returns whether the edge must run because its discovered inputs are unknown.
    pub fn deps_missing(&self, edge: EdgeId) -> bool {
        self.edges.deps_missing(edge)
    }

    /// Returns whether the edge must run whatever its inputs are.
    pub fn must_run(&self, edge: EdgeId) -> bool {
        self.edges.deps_missing(edge) || self.edges.is_forced(edge)
    }

    /// Marks the edge as unvisited, so that the next walk visits it again. Returns whether it had been visited.
    pub fn unmark(&mut self, edge: EdgeId) -> bool {
        let visited = self.edges.mark(edge) != Mark::Unvisited;
        self.edges.set_mark(edge, Mark::Unvisited);
        visited
    }

    /// Returns the duration of the edge's command in the last build, in milliseconds.
    pub fn expected_ms(&self, edge: EdgeId) -> Option<i64> {
        let entry = self.graph.edge(edge).outs.iter().find_map(|&out| self.log.lookup(self.graph, out))?;
        Some(i64::from(entry.end_ms) - i64::from(entry.start_ms))
    }

    /// Makes the edge run even if it is up to date. Call before the walks.
    pub fn force(&mut self, edge: EdgeId) {
        self.any_forced = true;
        self.edges.force(edge);
        self.explanations.note(self.graph.edge(edge).outs[0], Explanation::Forced);
    }

    pub fn set_clean(&mut self, node: NodeId) {
        self.files.set_dirty(node, false);
    }

    /// Inputs that make the edge dirty when they change, including discovered ones.
    pub fn dirtying_ins(&self, edge: EdgeId) -> impl Iterator<Item = NodeId> + use<'t> {
        let deps = self.edges.deps(edge);
        self.graph.edge(edge).dirtying_ins().iter().chain(deps).copied()
    }

    /// All inputs: dirtying ones, then order-only ones.
    pub fn all_ins(&self, edge: EdgeId) -> impl Iterator<Item = NodeId> + use<'t> {
        self.dirtying_ins(edge).chain(self.graph.edge(edge).order_only().iter().copied())
    }

    /// Finds out whether `target` and everything it needs is dirty. Also walks the validations that it encounters, and
    /// returns them in that order.
    pub fn recompute_dirty(&mut self, target: NodeId) -> Result<Vec<NodeId>> {
        self.cover_new_nodes();
        let mut validations = Vec::new();
        self.walk(target, &mut validations)?;
        let mut next = 0;
        while let Some(&validation) = validations.get(next) {
            next += 1;
            self.walk(validation, &mut validations)?;
        }
        Ok(validations)
    }

    fn walk(&mut self, start: NodeId, validations: &mut Vec<NodeId>) -> Result<()> {
        let mut stack: Vec<Frame> = Vec::new();
        self.enter(start, &mut stack)?;
        while let Some(frame) = stack.last_mut() {
            match self.advance(frame, validations)? {
                Some(child) => self.enter(child, &mut stack)?,
                None => {
                    let frame = stack.pop().expect("the frame that advanced");
                    self.leave(&frame)?;
                }
            }
        }
        Ok(())
    }

    /// Pushes the node's edge on the stack. A leaf is finished at once.
    fn enter(&mut self, node: NodeId, stack: &mut Vec<Frame>) -> Result<()> {
        let Some(edge) = self.graph.in_edge(node) else { return self.visit_leaf(node) };
        match self.edges.mark(edge) {
            Mark::Done => return Ok(()),
            Mark::InStack => return Err(self.cycle(node, edge, stack)),
            Mark::Unvisited => {}
        }
        self.edges.set_mark(edge, Mark::InStack);
        self.edges.set_outputs_ready(edge, true);
        let dirty = self.edges.deps_missing(edge);
        stack.push(Frame { node, edge, expanded: false, next: 0, dirty, newest_input: None });
        Ok(())
    }

    fn visit_leaf(&mut self, node: NodeId) -> Result<()> {
        if self.files.is_seen(node) {
            return Ok(());
        }
        self.stat(node)?;
        let exists = self.files.exists(node);
        if !exists {
            self.explanations.note(node, Explanation::NoSource);
        }
        self.files.set_dirty(node, !exists);
        Ok(())
    }

    /// Advances the edge on top of the stack. Returns the node to visit before it can continue.
    fn advance(&mut self, frame: &mut Frame, validations: &mut Vec<NodeId>) -> Result<Option<NodeId>> {
        if !frame.expanded {
            if let Some(file) = self.unvisited_dyndep(frame.edge) {
                return Ok(Some(file));
            }
            self.open(frame, validations)?;
        }
        let dirtying = self.graph.edge(frame.edge).dirtying_ins().len() + self.edges.deps(frame.edge).len();
        for input in self.all_ins(frame.edge).skip(frame.next) {
            match self.graph.in_edge(input) {
                None => self.visit_leaf(input)?,
                Some(edge) if !self.edges.is_done(edge) => return Ok(Some(input)),
                Some(edge) if self.edges.outputs_ready(edge) => {}
                Some(_) => self.edges.set_outputs_ready(frame.edge, false),
            }
            if frame.next < dirtying {
                self.merge_input(frame, input);
            }
            frame.next += 1;
        }
        Ok(None)
    }

    /// Returns the edge's dyndep file if it is pending and this walk has not visited it.
    fn unvisited_dyndep(&self, edge: EdgeId) -> Option<NodeId> {
        let file = self.graph.edge(edge).dyndep?;
        let visited = match self.graph.in_edge(file) {
            Some(maker) => self.edges.is_done(maker),
            None => self.files.is_seen(file),
        };
        (!self.edges.is_expanded(edge) && self.graph.dyndep_pending(file) && !visited).then_some(file)
    }

    /// Loads the edge's dyndep file, the states of its outputs, and its discovered inputs.
    fn open(&mut self, frame: &mut Frame, validations: &mut Vec<NodeId>) -> Result<()> {
        frame.expanded = true;
        let first_time = !self.edges.is_expanded(frame.edge);
        if first_time {
            self.load_ready_dyndep(frame.edge)?;
        }
        for &out in self.graph.edge(frame.edge).outs {
            self.stat_if_unknown(out)?;
        }
        if first_time {
            self.edges.set_expanded(frame.edge);
            if !self.load_deps(frame.edge)? {
                self.edges.set_deps_missing(frame.edge);
            }
        }
        frame.dirty |= self.must_run(frame.edge);
        validations.extend(self.graph.edge(frame.edge).validations);
        Ok(())
    }

    /// Loads the edge's dyndep file unless that file must be built first; then it is loaded during the build.
    fn load_ready_dyndep(&mut self, edge: EdgeId) -> Result<()> {
        let Some(file) = self.graph.edge(edge).dyndep else { return Ok(()) };
        if self.graph.dyndep_pending(file) && self.graph.in_edge(file).is_none_or(|maker| self.outputs_ready(maker)) {
            self.load_dyndep(file)?;
        }
        Ok(())
    }

    pub fn load_dyndep(&mut self, file: NodeId) -> Result<Vec<dyndep::Update>> {
        self.explanations.announce(&[b"loading dyndep file '", self.graph.path(file), b"'"]);
        let users = self.dyndep_users.get_or_insert_with(|| dyndep::users(self.graph));
        let users = users.get(&file).map_or(&[] as &[EdgeId], Vec::as_slice);
        let updates = dyndep::load(self.graph, self.disk, file, users)?;
        self.cover_new_nodes();
        Ok(updates)
    }

    /// Returns the input with this index in the order of `all_ins`.
    pub fn input(&self, edge: EdgeId, at: usize) -> Option<NodeId> {
        let it = self.graph.edge(edge);
        let (dirtying, deps) = (it.dirtying_ins(), self.edges.deps(edge));
        if let Some(&input) = dirtying.get(at) {
            return Some(input);
        }
        let at = at - dirtying.len();
        deps.get(at).or_else(|| it.order_only().get(at - deps.len())).copied()
    }

    /// Updates the edge's dirty state with a visited input, which is not an order-only one.
    fn merge_input(&mut self, frame: &mut Frame, input: NodeId) {
        if self.files.is_dirty(input) {
            frame.dirty = true;
            self.explanations.note(frame.node, Explanation::Input(input));
        } else if frame.newest_input.is_none_or(|newest| self.mtime(input) > self.mtime(newest)) {
            frame.newest_input = Some(input);
        }
    }

    /// Called after all inputs were visited: sets the outputs' dirty states.
    fn leave(&mut self, frame: &Frame) -> Result<()> {
        let dirty = frame.dirty || self.is_out_of_date(frame.edge, frame.newest_input)?;
        let edge = self.graph.edge(frame.edge);
        if dirty {
            for out in edge.outs {
                self.files.set_dirty(*out, true);
            }
            // A phony edge without inputs has nothing to run, so its dependents need not wait.
            if !(edge.is_phony() && edge.ins.is_empty()) {
                self.edges.set_outputs_ready(frame.edge, false);
            }
        }
        self.edges.set_mark(frame.edge, Mark::Done);
        Ok(())
    }

    /// Returns whether any output is missing, older than `newest_input`, or made by a different command.
    fn outputs_dirty(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> Result<bool> {
        if self.graph.edge(edge).is_phony() {
            return Ok(self.phony_outputs_dirty(edge, newest_input));
        }
        let newest = newest_input.map_or(NO_INPUT, |input| self.mtime(input));
        let dirty_inputs = self.dirty_inputs();
        let mut output_check = dirty_inputs.output_check(edge, newest)?;
        let found =
            self.graph.edge(edge).outs.iter().find_map(|&out| match dirty_inputs.reason(&mut output_check, out) {
                Ok(None) => None,
                Ok(Some(reason)) => Some(Ok((out, reason))),
                Err(error) => Some(Err(error)),
            });
        let Some((out, reason)) = found.transpose()? else { return Ok(false) };
        if reason == DirtyReason::OtherCommand {
            self.detect_older_ninja(edge, out)?;
        }
        self.note_reason(out, reason, newest_input);
        Ok(true)
    }

    fn detect_older_ninja(&mut self, edge: EdgeId, out: NodeId) -> Result<()> {
        let OlderNinja::NotFound(compared) = self.older_ninja else { return Ok(()) };
        if compared < MAX_COMPARED {
            let is_of = self.log.logged_by_older_ninja(self.graph, out, &self.graph.command_for_hash(edge)?);
            self.older_ninja = if is_of { OlderNinja::Found } else { OlderNinja::NotFound(compared + 1) };
        }
        Ok(())
    }

    fn dirty_inputs(&self) -> DirtyInputs<'_, 't> {
        DirtyInputs { graph: self.graph, log: self.log, files: &self.files }
    }

    fn phony_outputs_dirty(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> bool {
        let edge = self.graph.edge(edge);
        let newest = newest_input.map(|input| self.mtime(input));
        for &out in edge.outs {
            let exists = self.files.exists(out);
            if edge.ins.is_empty() && !exists {
                self.explanations.note(out, Explanation::EmptyGroup);
                return true;
            }
            // Dependents of a phony target see the newest mtime of its inputs.
            if let (false, Some(newest)) = (exists, newest) {
                self.files.set_mtime(out, self.files.mtime(out).max(newest));
            }
        }
        false
    }

    fn note_reason(&mut self, out: NodeId, reason: DirtyReason, input: Option<NodeId>) {
        let newest = |ours| NewestInput { input, ours, theirs: input.map_or(0, |input| self.mtime(input)) };
        let why = match reason {
            DirtyReason::Missing => Explanation::Missing,
            DirtyReason::Older => Explanation::Older(newest(self.mtime(out))),
            DirtyReason::NotLogged => Explanation::NotLogged,
            DirtyReason::OtherCommand => Explanation::OtherCommand,
            DirtyReason::LoggedBefore(ours) => Explanation::LoggedBefore(newest(ours)),
        };
        self.explanations.note(out, why);
    }

    /// The error for a dependency cycle; the path begins and ends with `node`.
    fn cycle(&self, node: NodeId, edge: EdgeId, stack: &[Frame]) -> Error {
        let start = stack.iter().position(|frame| frame.edge == edge).expect("an edge in the stack");
        let mut text = b"dependency cycle: ".to_vec();
        for path in std::iter::once(node).chain(stack[start + 1..].iter().map(|frame| frame.node)) {
            text.extend_from_slice(self.graph.path(path));
            text.extend_from_slice(b" -> ");
        }
        text.extend_from_slice(self.graph.path(node));
        let it = self.graph.edge(edge);
        let no_implicit_ins = it.ins.len() == (it.explicit_ins + it.order_only_ins) as usize;
        if start + 1 == stack.len() && it.is_phony() && it.outs.len() == 1 && it.explicit_outs == 1 && no_implicit_ins {
            text.extend_from_slice(b" [-w phonycycle=err]");
        }
        text.into()
    }

    fn stat_if_unknown(&mut self, node: NodeId) -> Result<()> {
        if self.files.is_seen(node) { Ok(()) } else { self.stat(node) }
    }

    fn stat(&mut self, node: NodeId) -> Result<()> {
        if !self.files.is_known(node) {
            let path = self.graph.path(node);
            let found = self.disk.observe(path, &self.systems).map_err(|error| Error::stat(path, &error))?;
            self.files.set_prefetched(node, found);
        }
        self.files.mark_seen(node);
        Ok(())
    }

    /// Grows the states after depfiles or dyndep files have added nodes.
    fn cover_new_nodes(&mut self) {
        self.files.cover(self.graph.node_count());
    }
}
