//! What is known of files and edges while they are walked. Flat arrays of plain numbers, 0 at first: memory is taken
//! where a walk comes, and nowhere else. Does not know what the walk makes of it.

use crate::disk::Mtime;
use crate::ids::{EdgeId, NodeId};

/// The walk will see the file as it is noted here, but has not come to it.
const PREFETCHED: u8 = 1;
/// The walk has looked at the file.
const SEEN: u8 = 2;
const EXISTS: u8 = 4;
const DIRTY: u8 = 8;

/// The files, by node.
#[derive(Default)]
pub(super) struct FileStates {
    /// Of a phony output that does not exist: the newest of its inputs'.
    mtimes: Vec<Mtime>,
    marks: Vec<u8>,
}

impl FileStates {
    /// Nothing is known of any of them.
    pub(super) fn new(count: usize) -> Self {
        FileStates { mtimes: vec![0; count], marks: vec![0; count] }
    }

    /// Makes room for nodes that have joined the graph.
    pub(super) fn cover(&mut self, count: usize) {
        if count > self.marks.len() {
            self.mtimes.resize(count, 0);
            self.marks.resize(count, 0);
        }
    }

    fn has(&self, node: NodeId, mark: u8) -> bool {
        self.marks.get(node.index()).is_some_and(|marks| marks & mark != 0)
    }

    fn set(&mut self, node: NodeId, mark: u8, on: bool) {
        let marks = &mut self.marks[node.index()];
        *marks = if on { *marks | mark } else { *marks & !mark };
    }

    /// The mtime as the walk has seen it; 0 where it has not.
    pub(super) fn seen_mtime(&self, node: NodeId) -> Mtime {
        if self.is_seen(node) { self.mtimes[node.index()] } else { 0 }
    }

    /// The mtime as far as it is known, to the walk or not.
    pub(super) fn mtime(&self, node: NodeId) -> Mtime {
        self.mtimes[node.index()]
    }

    pub(super) fn set_mtime(&mut self, node: NodeId, mtime: Mtime) {
        self.mtimes[node.index()] = mtime;
    }

    pub(super) fn is_seen(&self, node: NodeId) -> bool {
        self.has(node, SEEN)
    }

    /// Is it known whether the file exists?
    pub(super) fn is_known(&self, node: NodeId) -> bool {
        self.has(node, SEEN | PREFETCHED)
    }

    pub(super) fn exists(&self, node: NodeId) -> bool {
        self.has(node, EXISTS)
    }

    pub(super) fn is_dirty(&self, node: NodeId) -> bool {
        self.has(node, DIRTY)
    }

    pub(super) fn set_dirty(&mut self, node: NodeId, dirty: bool) {
        self.set(node, DIRTY, dirty);
    }

    /// What the walk will see.
    pub(super) fn set_prefetched(&mut self, node: NodeId, mtime: Mtime) {
        self.mtimes[node.index()] = mtime;
        self.marks[node.index()] = PREFETCHED | if mtime == 0 { 0 } else { EXISTS };
    }

    /// The walk looks at the file, of which it is known what it will see.
    pub(super) fn mark_seen(&mut self, node: NodeId) {
        self.set(node, SEEN, true);
    }

    /// Forgets what the walk has not looked at.
    pub(super) fn drop_prefetched(&mut self, node: NodeId) {
        if !self.is_seen(node) {
            (self.mtimes[node.index()], self.marks[node.index()]) = (0, 0);
        }
    }
}

const IN_STACK: u8 = 1;
const DONE: u8 = 2;
const READY: u8 = 4;
const EXPANDED: u8 = 8;
const DEPS_MISSING: u8 = 16;
const DEPFILE_UNUSABLE: u8 = 32;

/// How far a walk has come with an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Unvisited,
    InStack,
    Done,
}

/// The edges.
#[derive(Default)]
pub(super) struct EdgeStates<'t> {
    marks: Vec<u8>,
    /// Which of the lists an edge has; 0 for none.
    deps_at: Vec<u32>,
    /// Inputs found by a depfile or the deps log; they stand after the implicit ones.
    deps: Vec<&'t [NodeId]>,
}

impl<'t> EdgeStates<'t> {
    /// Nothing is known of any of them.
    pub(super) fn new(count: usize) -> Self {
        EdgeStates { marks: vec![0; count], deps_at: vec![0; count], deps: vec![&[]] }
    }

    fn has(&self, edge: EdgeId, mark: u8) -> bool {
        self.marks[edge.index()] & mark != 0
    }

    fn set(&mut self, edge: EdgeId, mark: u8, on: bool) {
        let marks = &mut self.marks[edge.index()];
        *marks = if on { *marks | mark } else { *marks & !mark };
    }

    pub(super) fn mark(&self, edge: EdgeId) -> Mark {
        match self.marks[edge.index()] & (IN_STACK | DONE) {
            0 => Mark::Unvisited,
            IN_STACK => Mark::InStack,
            _ => Mark::Done,
        }
    }

    pub(super) fn is_done(&self, edge: EdgeId) -> bool {
        self.has(edge, DONE)
    }

    pub(super) fn set_mark(&mut self, edge: EdgeId, mark: Mark) {
        self.set(edge, IN_STACK, mark == Mark::InStack);
        self.set(edge, DONE, mark == Mark::Done);
    }

    /// Nothing of it, or below it, is to be built.
    pub(super) fn outputs_ready(&self, edge: EdgeId) -> bool {
        self.has(edge, READY)
    }

    pub(super) fn set_outputs_ready(&mut self, edge: EdgeId, ready: bool) {
        self.set(edge, READY, ready);
    }

    /// Its dyndep file and its discovered inputs have been looked at.
    pub(super) fn is_expanded(&self, edge: EdgeId) -> bool {
        self.has(edge, EXPANDED)
    }

    pub(super) fn set_expanded(&mut self, edge: EdgeId) {
        self.set(edge, EXPANDED, true);
    }

    /// It has a depfile or deps record, which is missing or void: it must run, and restat cannot clean it.
    pub(super) fn deps_missing(&self, edge: EdgeId) -> bool {
        self.has(edge, DEPS_MISSING)
    }

    pub(super) fn set_deps_missing(&mut self, edge: EdgeId) {
        self.set(edge, DEPS_MISSING, true);
    }

    /// The edge and all below it are clean: no walk needs to come here.
    pub(super) fn mark_clean(&mut self, edge: EdgeId) {
        self.set_mark(edge, Mark::Done);
        self.set_outputs_ready(edge, true);
    }

    /// A depfile was read before the walk: what it names, or that it is left to the walk.
    pub(super) fn set_prefetched_depfile(&mut self, edge: EdgeId, ins: Option<&'t [NodeId]>) {
        match ins {
            None => self.set(edge, DEPFILE_UNUSABLE, true),
            Some(ins) => {
                self.set_expanded(edge);
                self.set_deps(edge, ins);
            }
        }
    }

    /// What the edge's depfile names, if it was read.
    pub(super) fn prefetched_depfile(&self, edge: EdgeId) -> Option<&'t [NodeId]> {
        self.is_expanded(edge).then(|| self.deps(edge))
    }

    /// It was tried to read its depfile before the walk.
    pub(super) fn depfile_unusable(&self, edge: EdgeId) -> bool {
        self.has(edge, DEPFILE_UNUSABLE)
    }

    /// Forgets what was read, if the walk has not come to the edge.
    pub(super) fn drop_prefetched_depfile(&mut self, edge: EdgeId) {
        self.set(edge, DEPFILE_UNUSABLE, false);
        if self.mark(edge) == Mark::Unvisited {
            self.set(edge, EXPANDED, false);
            self.deps_at[edge.index()] = 0;
        }
    }

    /// Inputs found by a depfile or the deps log.
    pub(super) fn deps(&self, edge: EdgeId) -> &'t [NodeId] {
        self.deps[self.deps_at[edge.index()] as usize]
    }

    pub(super) fn set_deps(&mut self, edge: EdgeId, deps: &'t [NodeId]) {
        self.deps_at[edge.index()] = u32::try_from(self.deps.len()).expect("no extra lists than edges");
        self.deps.push(deps);
    }
}
