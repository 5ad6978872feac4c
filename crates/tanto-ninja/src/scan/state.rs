//! The states of files and edges during walks, in zeroed flat arrays: untouched parts use no memory.

use tanto_sys::fs::fingerprint::{FileState, Fingerprint};

use crate::disk::Mtime;
use crate::ids::{EdgeId, NodeId};

/// The mtime was prefetched; no walk has used it yet.
const PREFETCHED: u8 = 1;
/// A walk has used the file's state.
const SEEN: u8 = 2;
const EXISTS: u8 = 4;
const DIRTY: u8 = 8;

#[derive(Default)]
pub(super) struct FileStates {
    /// For a missing phony output, the newest mtime of its inputs.
    mtimes: Vec<Mtime>,
    fingerprints: Vec<u64>,
    marks: Vec<u8>,
}

impl FileStates {
    pub(super) fn new(count: usize) -> Self {
        FileStates { mtimes: vec![0; count], fingerprints: vec![0; count], marks: vec![0; count] }
    }

    /// Grows to `count` nodes.
    pub(super) fn cover(&mut self, count: usize) {
        if count > self.marks.len() {
            self.mtimes.resize(count, 0);
            self.fingerprints.resize(count, 0);
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

    /// Returns the mtime that a walk has seen, or 0.
    pub(super) fn seen_mtime(&self, node: NodeId) -> Mtime {
        if self.is_seen(node) { self.mtimes[node.index()] } else { 0 }
    }

    /// Returns the mtime, also if it was only prefetched.
    pub(super) fn mtime(&self, node: NodeId) -> Mtime {
        self.mtimes[node.index()]
    }

    pub(super) fn set_mtime(&mut self, node: NodeId, mtime: Mtime) {
        self.mtimes[node.index()] = mtime;
    }

    pub(super) fn is_seen(&self, node: NodeId) -> bool {
        self.has(node, SEEN)
    }

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

    /// Returns the state of the file itself, also if it was only prefetched. Not for a missing phony output.
    pub(super) fn state(&self, node: NodeId) -> FileState {
        FileState { mtime: self.mtimes[node.index()], fingerprint: Fingerprint(self.fingerprints[node.index()]) }
    }

    pub(super) fn set_prefetched(&mut self, node: NodeId, found: FileState) {
        self.mtimes[node.index()] = found.mtime;
        self.fingerprints[node.index()] = found.fingerprint.0;
        self.marks[node.index()] = PREFETCHED | if found.mtime == 0 { 0 } else { EXISTS };
    }

    /// Replaces the state of an existing file.
    pub(super) fn set_state(&mut self, node: NodeId, state: FileState) {
        self.mtimes[node.index()] = state.mtime;
        self.fingerprints[node.index()] = state.fingerprint.0;
    }

    pub(super) fn mark_seen(&mut self, node: NodeId) {
        self.set(node, SEEN, true);
    }

    /// Drops a prefetched state unless a walk has used it.
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
const DEPS_STALE: u8 = 64;
const FORCED: u8 = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Unvisited,
    InStack,
    Done,
}

#[derive(Default)]
pub(super) struct EdgeStates<'t> {
    marks: Vec<u8>,
    /// Index into `deps`; 0 for none.
    deps_at: Vec<u32>,
    /// Lists of discovered inputs. They follow the implicit inputs.
    deps: Vec<&'t [NodeId]>,
}

impl<'t> EdgeStates<'t> {
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

    /// Neither the edge nor any edge below it has to run.
    pub(super) fn outputs_ready(&self, edge: EdgeId) -> bool {
        self.has(edge, READY)
    }

    pub(super) fn set_outputs_ready(&mut self, edge: EdgeId, ready: bool) {
        self.set(edge, READY, ready);
    }

    /// The dyndep file and the discovered inputs were loaded.
    pub(super) fn is_expanded(&self, edge: EdgeId) -> bool {
        self.has(edge, EXPANDED)
    }

    pub(super) fn set_expanded(&mut self, edge: EdgeId) {
        self.set(edge, EXPANDED, true);
    }

    /// The edge's depfile or deps record is missing or stale: it must run, and restat cannot clean it.
    pub(super) fn deps_missing(&self, edge: EdgeId) -> bool {
        self.has(edge, DEPS_MISSING)
    }

    pub(super) fn set_deps_missing(&mut self, edge: EdgeId) {
        self.set(edge, DEPS_MISSING, true);
    }

    /// The deps record is older than the output. It counts only if the output still has the recorded content.
    pub(super) fn deps_stale(&self, edge: EdgeId) -> bool {
        self.has(edge, DEPS_STALE)
    }

    pub(super) fn set_deps_stale(&mut self, edge: EdgeId) {
        self.set(edge, DEPS_STALE, true);
    }

    /// The user wants the command to run.
    pub(super) fn is_forced(&self, edge: EdgeId) -> bool {
        self.has(edge, FORCED)
    }

    pub(super) fn force(&mut self, edge: EdgeId) {
        self.set(edge, FORCED, true);
    }

    /// Marks the edge and everything below it as clean, so that walks skip it.
    pub(super) fn mark_clean(&mut self, edge: EdgeId) {
        self.set_mark(edge, Mark::Done);
        self.set_outputs_ready(edge, true);
    }

    /// Stores the inputs from a depfile, or `None` if the walk must read it.
    pub(super) fn set_prefetched_depfile(&mut self, edge: EdgeId, ins: Option<&'t [NodeId]>) {
        match ins {
            None => self.set(edge, DEPFILE_UNUSABLE, true),
            Some(ins) => {
                self.set_expanded(edge);
                self.set_deps(edge, ins);
            }
        }
    }

    pub(super) fn prefetched_depfile(&self, edge: EdgeId) -> Option<&'t [NodeId]> {
        self.is_expanded(edge).then(|| self.deps(edge))
    }

    pub(super) fn depfile_unusable(&self, edge: EdgeId) -> bool {
        self.has(edge, DEPFILE_UNUSABLE)
    }

    /// Drops a prefetched depfile unless a walk has visited the edge.
    pub(super) fn drop_prefetched_depfile(&mut self, edge: EdgeId) {
        self.set(edge, DEPFILE_UNUSABLE, false);
        if self.mark(edge) == Mark::Unvisited {
            self.set(edge, EXPANDED, false);
            self.deps_at[edge.index()] = 0;
        }
    }

    pub(super) fn deps(&self, edge: EdgeId) -> &'t [NodeId] {
        self.deps[self.deps_at[edge.index()] as usize]
    }

    pub(super) fn set_deps(&mut self, edge: EdgeId, deps: &'t [NodeId]) {
        self.deps_at[edge.index()] = u32::try_from(self.deps.len()).expect("no more lists than edges");
        self.deps.push(deps);
    }
}
