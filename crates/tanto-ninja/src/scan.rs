//! Which outputs are dirty: the graph against the file system and the two logs. Does not know which of them are to
//! be built, nor runs anything.
//!
//! The walk is iterative: a chain of a million edges needs no deeper stack than one of ten.

mod ahead;

use tanto_sys::error::text as os_text;

use crate::bindings::Escape;
use crate::canon::{canonical, canonicalize_into};
use crate::depfile;
use crate::disk::{Disk, Mtime};
use crate::dyndep;
use crate::error::{Error, Result};
use crate::explain::Explanations;
use crate::graph::{EdgeId, Graph, Map, NodeId};
use crate::log::{BuildLog, DepsLog};

pub use self::ahead::LookAhead;

/// Has a file been looked at?
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    No,
    /// Not by the walk, but what it will see is known.
    Ahead,
    /// By the walk.
    Yes,
}

/// What is known of a node's file.
#[derive(Clone, Copy, Default)]
struct NodeState {
    /// Of a phony output that does not exist: the newest of its inputs'.
    mtime: Mtime,
    seen: Seen,
    exists: bool,
    dirty: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    Unvisited,
    InStack,
    Done,
}

/// What is known of an edge.
#[derive(Clone, Copy, Default)]
struct EdgeState<'t> {
    mark: Mark,
    /// Nothing of it, or below it, is to be built.
    outputs_ready: bool,
    deps_loaded: bool,
    /// It has a depfile or deps record, which is missing or void: it must run, and restat cannot clean it.
    deps_missing: bool,
    /// Inputs found by a depfile or the deps log; they stand after the implicit ones.
    deps: &'t [NodeId],
}

/// What the outputs of an edge are measured by.
struct Measure {
    edge: EdgeId,
    restat: bool,
    generator: bool,
    /// The first of the newest that make the edge dirty.
    newest_input: Option<NodeId>,
    /// Made when first needed.
    command_hash: Option<u64>,
}

/// Why an output is dirty though none of its inputs is.
enum Reason {
    Missing,
    /// Its file is older than this input.
    OlderThan(NodeId),
    NotLogged,
    OtherCommand,
    /// Its mtime in the log is older than this input.
    LoggedBefore(NodeId, Mtime),
}

/// The state of the files, as far as a walk has come.
pub struct Scan<'a, 't> {
    /// The graph; dyndep files add to it while it is walked.
    pub graph: &'a mut Graph<'t>,
    /// The files.
    pub disk: &'a mut dyn Disk,
    /// What was run last time.
    pub log: &'a mut BuildLog,
    /// What was discovered last time.
    pub deps_log: &'a mut DepsLog,
    /// Why things are dirty.
    pub explanations: Explanations,
    /// Which files are asked for before the walk.
    pub look_ahead: LookAhead,
    /// What the look ahead has asked for.
    ahead: Vec<NodeId>,
    nodes: Vec<NodeState>,
    edges: Vec<EdgeState<'t>>,
    dyndep_users: Option<Map<NodeId, Vec<EdgeId>>>,
}

/// An edge whose inputs are being visited.
struct Frame {
    /// The output by which the walk came here.
    node: NodeId,
    edge: EdgeId,
    /// Its dyndep file, outputs and discovered inputs have been looked at.
    opened: bool,
    /// How many inputs are done with.
    next: usize,
    dirty: bool,
    newest_input: Option<NodeId>,
}

impl<'a, 't> Scan<'a, 't> {
    /// Nothing is known yet.
    pub fn new(
        graph: &'a mut Graph<'t>,
        disk: &'a mut dyn Disk,
        log: &'a mut BuildLog,
        deps_log: &'a mut DepsLog,
        explanations: Explanations,
    ) -> Self {
        let (nodes, edges) =
            (vec![NodeState::default(); graph.node_count()], vec![EdgeState::default(); graph.edge_count()]);
        Scan {
            graph,
            disk,
            log,
            deps_log,
            explanations,
            look_ahead: LookAhead::default(),
            ahead: Vec::new(),
            nodes,
            edges,
            dyndep_users: None,
        }
    }

    /// Forgets what was seen of the files and of discovered inputs. What dyndep files said stays.
    pub fn reset(&mut self) {
        self.ahead.clear();
        self.nodes.fill(NodeState::default());
        self.edges.fill(EdgeState::default());
    }

    /// Is the node known to be out of date or missing?
    pub fn is_dirty(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_some_and(|state| state.dirty)
    }

    /// The node's mtime as seen before its command ran.
    pub fn mtime(&self, node: NodeId) -> Mtime {
        self.nodes.get(node.index()).filter(|state| state.seen == Seen::Yes).map_or(0, |state| state.mtime)
    }

    /// Nothing of the edge, or below it, is to be built (or all has been).
    pub fn outputs_ready(&self, edge: EdgeId) -> bool {
        self.edges[edge.index()].outputs_ready
    }

    /// The edge's command has run, or need not run.
    pub fn set_outputs_ready(&mut self, edge: EdgeId) {
        self.edges[edge.index()].outputs_ready = true;
    }

    /// Is the edge to run because nobody knows what it reads?
    pub fn deps_missing(&self, edge: EdgeId) -> bool {
        self.edges[edge.index()].deps_missing
    }

    /// Has a walk been here? If so, the next one will walk the edge again.
    pub fn unmark(&mut self, edge: EdgeId) -> bool {
        std::mem::take(&mut self.edges[edge.index()].mark) != Mark::Unvisited
    }

    /// How long the edge's command took last time, in milliseconds.
    pub fn expected_ms(&self, edge: EdgeId) -> Option<i64> {
        let entry = self.graph.edge(edge).outs.iter().find_map(|&out| self.log.lookup(self.graph.path(out)))?;
        Some(i64::from(entry.end_ms) - i64::from(entry.start_ms))
    }

    /// The node turned out not to have changed.
    pub fn set_clean(&mut self, node: NodeId) {
        self.nodes[node.index()].dirty = false;
    }

    /// Inputs whose change makes the edge dirty, discovered ones included.
    pub fn dirtying_ins(&self, edge: EdgeId) -> impl Iterator<Item = NodeId> + use<'t> {
        let deps = self.edges[edge.index()].deps;
        self.graph.edge(edge).dirtying_ins().iter().chain(deps).copied()
    }

    /// All inputs: those of the manifest, the discovered, the order-only.
    pub fn all_ins(&self, edge: EdgeId) -> impl Iterator<Item = NodeId> + use<'t> {
        self.dirtying_ins(edge).chain(self.graph.edge(edge).order_only().iter().copied())
    }

    /// Finds out whether `target` is dirty, and everything that it needs. Validations that the walk meets are walked
    /// too; they come back in the order in which they were met.
    pub fn recompute(&mut self, target: NodeId) -> Result<Vec<NodeId>> {
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

    /// Begins to visit a node; a leaf is done at once.
    fn enter(&mut self, node: NodeId, stack: &mut Vec<Frame>) -> Result<()> {
        let Some(edge) = self.graph.in_edge(node) else { return self.visit_leaf(node) };
        let state = &mut self.edges[edge.index()];
        match state.mark {
            Mark::Done => return Ok(()),
            Mark::InStack => return Err(self.cycle(node, edge, stack)),
            Mark::Unvisited => {}
        }
        state.mark = Mark::InStack;
        state.outputs_ready = true;
        let dirty = state.deps_missing;
        stack.push(Frame { node, edge, opened: false, next: 0, dirty, newest_input: None });
        Ok(())
    }

    fn visit_leaf(&mut self, node: NodeId) -> Result<()> {
        if self.is_seen(node) {
            return Ok(());
        }
        self.stat(node)?;
        let exists = self.nodes[node.index()].exists;
        if !exists {
            self.explanations.note(node, &[self.graph.path(node), b" has no in-edge and is missing"]);
        }
        self.nodes[node.index()].dirty = !exists;
        Ok(())
    }

    /// Goes on with an edge; says which node is to be visited before it can go further.
    fn advance(&mut self, frame: &mut Frame, validations: &mut Vec<NodeId>) -> Result<Option<NodeId>> {
        if !frame.opened {
            if let Some(file) = self.unvisited_dyndep(frame.edge) {
                return Ok(Some(file));
            }
            self.open(frame, validations)?;
        }
        while let Some(input) = self.input(frame.edge, frame.next) {
            match self.graph.in_edge(input) {
                None => self.visit_leaf(input)?,
                Some(edge) if self.edges[edge.index()].mark != Mark::Done => return Ok(Some(input)),
                Some(edge) => self.edges[frame.edge.index()].outputs_ready &= self.edges[edge.index()].outputs_ready,
            }
            self.weigh_input(frame, input);
            frame.next += 1;
        }
        Ok(None)
    }

    /// The edge's dyndep file, if it is pending and has not been visited by this walk.
    fn unvisited_dyndep(&self, edge: EdgeId) -> Option<NodeId> {
        let file = self.graph.edge(edge).dyndep?;
        let visited = match self.graph.in_edge(file) {
            Some(maker) => self.edges[maker.index()].mark == Mark::Done,
            None => self.is_seen(file),
        };
        (!self.edges[edge.index()].deps_loaded && self.graph.dyndep_pending(file) && !visited).then_some(file)
    }

    /// The edge's first look at itself, after its dyndep file was visited.
    fn open(&mut self, frame: &mut Frame, validations: &mut Vec<NodeId>) -> Result<()> {
        frame.opened = true;
        let first_time = !self.edges[frame.edge.index()].deps_loaded;
        if first_time {
            self.load_ready_dyndep(frame.edge)?;
        }
        for &out in self.graph.edge(frame.edge).outs {
            self.stat_if_unknown(out)?;
        }
        if first_time {
            self.edges[frame.edge.index()].deps_loaded = true;
            if !self.load_deps(frame.edge)? {
                self.edges[frame.edge.index()].deps_missing = true;
                frame.dirty = true;
            }
        }
        validations.extend(self.graph.edge(frame.edge).validations);
        Ok(())
    }

    /// Loads the edge's dyndep file if it need not be built first. If it must, it will be loaded during the build.
    fn load_ready_dyndep(&mut self, edge: EdgeId) -> Result<()> {
        let Some(file) = self.graph.edge(edge).dyndep else { return Ok(()) };
        if self.graph.dyndep_pending(file) && self.graph.in_edge(file).is_none_or(|maker| self.outputs_ready(maker)) {
            self.load_dyndep(file)?;
        }
        Ok(())
    }

    /// Applies a dyndep file to the graph.
    pub fn load_dyndep(&mut self, file: NodeId) -> Result<Vec<dyndep::Update>> {
        self.explanations.say(&[b"loading dyndep file '", self.graph.path(file), b"'"]);
        let users = self.dyndep_users.get_or_insert_with(|| dyndep::users(self.graph));
        let users = users.get(&file).map_or(&[] as &[EdgeId], Vec::as_slice);
        let updates = dyndep::load(self.graph, self.disk, file, users)?;
        self.cover_new_nodes();
        Ok(updates)
    }

    /// The edge's input of that number, in the order of `all_ins`.
    pub fn input(&self, edge: EdgeId, at: usize) -> Option<NodeId> {
        let it = self.graph.edge(edge);
        let (dirtying, deps) = (it.dirtying_ins(), self.edges[edge.index()].deps);
        if let Some(&input) = dirtying.get(at) {
            return Some(input);
        }
        let at = at - dirtying.len();
        deps.get(at).or_else(|| it.order_only().get(at - deps.len())).copied()
    }

    /// What a visited input means for the edge; an order-only one means nothing.
    fn weigh_input(&mut self, frame: &mut Frame, input: NodeId) {
        let dirtying = self.graph.edge(frame.edge).dirtying_ins().len() + self.edges[frame.edge.index()].deps.len();
        if frame.next >= dirtying {
            return;
        }
        if self.nodes[input.index()].dirty {
            frame.dirty = true;
            self.explanations.note(frame.node, &[self.graph.path(input), b" is dirty"]);
        } else if frame.newest_input.is_none_or(|newest| self.mtime(input) > self.mtime(newest)) {
            frame.newest_input = Some(input);
        }
    }

    /// All inputs are visited: the edge's outputs are dirty or not.
    fn leave(&mut self, frame: &Frame) -> Result<()> {
        let dirty = frame.dirty || self.outputs_dirty(frame.edge, frame.newest_input)?;
        let edge = self.graph.edge(frame.edge);
        if dirty {
            for out in edge.outs {
                self.nodes[out.index()].dirty = true;
            }
            // A phony edge without inputs has nothing to do: whatever waits for it need not wait.
            if !(edge.is_phony() && edge.ins.is_empty()) {
                self.edges[frame.edge.index()].outputs_ready = false;
            }
        }
        self.edges[frame.edge.index()].mark = Mark::Done;
        Ok(())
    }

    /// Is any output missing, older than `newest_input`, or made by another command than now?
    pub fn outputs_dirty(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> Result<bool> {
        if self.graph.edge(edge).is_phony() {
            return Ok(self.phony_outputs_dirty(edge, newest_input));
        }
        let (restat, generator) = (self.graph.flag(edge, b"restat")?, self.graph.flag(edge, b"generator")?);
        let mut measure = Measure { edge, restat, generator, newest_input, command_hash: None };
        for &out in self.graph.edge(edge).outs {
            if let Some(reason) = self.reason(&mut measure, out)? {
                self.note_reason(out, reason);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn phony_outputs_dirty(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> bool {
        let edge = self.graph.edge(edge);
        let newest = newest_input.map(|input| self.mtime(input));
        for &out in edge.outs {
            let state = &mut self.nodes[out.index()];
            if edge.ins.is_empty() && !state.exists {
                let path = self.graph.path(out);
                self.explanations.note(out, &[b"output ", path, b" of phony edge with no inputs doesn't exist"]);
                return true;
            }
            // Whatever depends on a group sees the newest of the group's members.
            if let (false, Some(newest)) = (state.exists, newest) {
                state.mtime = state.mtime.max(newest);
            }
        }
        false
    }

    fn reason(&self, measure: &mut Measure, out: NodeId) -> Result<Option<Reason>> {
        let state = self.nodes[out.index()];
        if !state.exists {
            return Ok(Some(Reason::Missing));
        }
        let entry = self.log.lookup(self.graph.path(out));
        let newest = measure.newest_input;
        let newer_than = |mtime| newest.filter(|&input| mtime < self.mtime(input));
        // A restat command may have left its output older than its input on purpose: then the log knows better.
        if !(measure.restat && entry.is_some())
            && let Some(input) = newer_than(state.mtime)
        {
            return Ok(Some(Reason::OlderThan(input)));
        }
        let Some(entry) = entry else { return Ok((!measure.generator).then_some(Reason::NotLogged)) };
        if !measure.generator && self.command_hash(measure)? != entry.command_hash {
            return Ok(Some(Reason::OtherCommand));
        }
        Ok(newer_than(entry.mtime).map(|input| Reason::LoggedBefore(input, entry.mtime)))
    }

    fn command_hash(&self, measure: &mut Measure) -> Result<u64> {
        match measure.command_hash {
            Some(hash) => Ok(hash),
            None => {
                let hash = self.log.hash_command(&self.graph.command_for_hash(measure.edge)?);
                Ok(*measure.command_hash.insert(hash))
            }
        }
    }

    fn note_reason(&mut self, out: NodeId, reason: Reason) {
        if !self.explanations.wanted() {
            return;
        }
        let path = self.graph.path(out);
        let newer = |input| (self.graph.path(input), self.mtime(input));
        match reason {
            Reason::Missing => self.explanations.note(out, &[b"output ", path, b" doesn't exist"]),
            Reason::OlderThan(input) => {
                let (input, theirs) = newer(input);
                let times = times(self.mtime(out), theirs);
                self.explanations.note(out, &[b"output ", path, b" older than most recent input ", input, &times]);
            }
            Reason::NotLogged => self.explanations.note(out, &[b"command line not found in log for ", path]),
            Reason::OtherCommand => self.explanations.note(out, &[b"command line changed for ", path]),
            Reason::LoggedBefore(input, ours) => {
                let (input, theirs) = newer(input);
                let middle = b" older than most recent input ";
                self.explanations.note(out, &[b"recorded mtime of ", path, middle, input, &times(ours, theirs)]);
            }
        }
    }

    /// Adds what a depfile or the deps log says the edge reads. False if that is not known: the edge must run.
    fn load_deps(&mut self, edge: EdgeId) -> Result<bool> {
        if self.graph.flag(edge, b"deps")? {
            return Ok(self.load_logged_deps(edge));
        }
        let depfile = self.graph.binding(edge, b"depfile", Escape::None)?;
        if depfile.is_empty() { Ok(true) } else { self.load_depfile(edge, &depfile) }
    }

    fn load_logged_deps(&mut self, edge: EdgeId) -> bool {
        let out = self.graph.edge(edge).outs[0];
        let (path, out_mtime) = (self.graph.path(out), self.mtime(out));
        let Some(deps) = self.deps_log.deps(out) else {
            self.explanations.note(out, &[b"deps for '", path, b"' are missing"]);
            return false;
        };
        if out_mtime > deps.mtime {
            if self.explanations.wanted() {
                let times = times(deps.mtime, out_mtime);
                self.explanations.note(out, &[b"stored deps info out of date for '", path, b"'", &times]);
            }
            return false;
        }
        let ins: Vec<NodeId> = deps.ins().collect();
        self.edges[edge.index()].deps = self.graph.arena.alloc_slice_copy(&ins);
        true
    }

    fn load_depfile(&mut self, edge: EdgeId, path: &[u8]) -> Result<bool> {
        let out = self.graph.edge(edge).outs[0];
        let text = match self.disk.read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::of(&[b"loading '", path, b"': ", &os_text(&error)])),
        };
        if text.is_empty() {
            self.explanations.note(out, &[b"depfile '", path, b"' is missing"]);
            return Ok(false);
        }
        let found = depfile::parse(&text).map_err(|error| Error::of(&[path, b": ", &error.text]))?;
        if !self.depfile_is_for(edge, path, &found)? {
            return Ok(false);
        }
        let ins = self.intern_all(&found.ins);
        self.edges[edge.index()].deps = self.graph.arena.alloc_slice_copy(&ins);
        Ok(true)
    }

    /// The nodes of files that a compiler named.
    pub fn intern_all(&mut self, paths: &[impl AsRef<[u8]>]) -> Vec<NodeId> {
        let mut canonical = Vec::new();
        let intern = |path: &[u8]| {
            canonicalize_into(path, &mut canonical);
            self.graph.intern(&canonical)
        };
        let nodes = paths.iter().map(AsRef::as_ref).map(intern).collect();
        self.cover_new_nodes();
        nodes
    }

    /// A depfile must name the edge's first output first, and no output that is not the edge's.
    fn depfile_is_for(&mut self, edge: EdgeId, path: &[u8], found: &depfile::Depfile) -> Result<bool> {
        let outs = self.graph.edge(edge).outs;
        let Some(first) = found.outs.first() else { return Err(Error::of(&[path, b": no outputs declared"])) };
        let primary = canonical(first);
        let expected = self.graph.path(outs[0]);
        if primary != expected {
            let parts: [&[u8]; 7] =
                [b"expected depfile '", path, b"' to mention '", expected, b"', got '", &primary, b"'"];
            self.explanations.note(outs[0], &parts);
            return Ok(false);
        }
        let is_ours = |name: &[u8]| outs.iter().any(|&out| self.graph.path(out) == name);
        match found.outs[1..].iter().find(|name| !is_ours(name)) {
            None => Ok(true),
            Some(name) => {
                let tail = b"' as an output, but no such output was declared";
                Err(Error::of(&[path, b": depfile mentions '", name, tail]))
            }
        }
    }

    /// The cycle as a path that begins and ends with the node by which it was closed.
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
        if self.is_seen(node) { Ok(()) } else { self.stat(node) }
    }

    fn is_seen(&self, node: NodeId) -> bool {
        self.nodes[node.index()].seen == Seen::Yes
    }

    fn stat(&mut self, node: NodeId) -> Result<()> {
        let state = &mut self.nodes[node.index()];
        if state.seen != Seen::Ahead {
            let path = self.graph.path(node);
            state.mtime = self.disk.mtime(path).map_err(|error| Error::stat(path, &error))?;
        }
        (state.exists, state.seen) = (state.mtime != 0, Seen::Yes);
        Ok(())
    }

    /// Depfiles and dyndep files may have named files that the manifest does not.
    fn cover_new_nodes(&mut self) {
        self.nodes.resize(self.graph.node_count(), NodeState::default());
    }
}

/// Two mtimes, for an explanation.
fn times(ours: Mtime, theirs: Mtime) -> Vec<u8> {
    format!(" ({ours} vs {theirs})").into_bytes()
}
