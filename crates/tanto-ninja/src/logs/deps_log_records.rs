//! The records of `.ninja_deps` with an index of the last record of each output.
//!
//! Reading stops at the first invalid record: too long, incomplete, with an unknown id, or with a duplicate,
//! misnumbered or impossible path. Records are parsed on demand.

use tanto_sys::threads::map_parallel;

use crate::disk::Mtime;
use crate::flat::Slab;
use crate::graph::{Graph, GraphView};
use crate::hash::Set;
use crate::ids::NodeId;

use super::ReadPlan;
use super::deps_log_format::{
    DEPS_HEAD, DepsRecord, HEADER, LONGEST_RECORD, ReadStatus, check_header, find_record_start, highest_id, read, word,
    write_deps, write_path,
};
use super::fingerprint::LogFingerprint;
use super::log_buffer::{Content, LogBuffer};
use super::overlay_vec::OverlayVec;
use super::saved_index::DepsLogState;

pub(super) const NO_ID: u32 = u32::MAX;

/// The discovered inputs of one output.
#[derive(Clone, Copy)]
pub struct Deps<'a> {
    /// The output's mtime when this was recorded. A newer output makes the record stale.
    pub mtime: Mtime,
    /// The output's id.
    id: u32,
    ids: &'a [u8],
    nodes: &'a [NodeId],
}

impl<'a> Deps<'a> {
    /// The inputs, in the order in which the command reported them.
    pub fn ins(self) -> impl ExactSizeIterator<Item = NodeId> + Clone + 'a {
        self.numbers().map(move |number| self.nodes[number as usize])
    }

    /// The inputs' ids, which are indexes into `DepsLog::nodes`.
    pub fn numbers(self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        // The ids were checked before. If the file is being changed concurrently, unknown ids are replaced by the
        // output's own.
        let known = move |id: u32| if (id as usize) < self.nodes.len() { id } else { self.id };
        self.ids.chunks_exact(4).map(move |id| known(word(id)))
    }
}

/// The index of a file, in saved form.
pub(super) struct RecordIndex {
    pub(super) total: usize,
    pub(super) unique: usize,
    pub(super) nodes: Slab<NodeId>,
    pub(super) ids: Slab<u32>,
    pub(super) deps: Slab<u64>,
}

#[derive(Default)]
pub(super) struct Records {
    bytes: LogBuffer,
    /// By id.
    nodes: OverlayVec<NodeId>,
    /// By node: the id. `NO_ID`, or past the end, if there is none.
    ids: OverlayVec<u32>,
    /// By id: the offset of the output's record. 0, or past the end, if there is none.
    deps: OverlayVec<u64>,
    /// The number of deps records.
    total: usize,
    /// The number of outputs with a record.
    unique: usize,
    /// The number of bytes covered by the saved index.
    saved: usize,
}

impl Records {
    pub(super) fn clear(&mut self) {
        *self = Records::default();
    }

    /// Continues from an index of the first `length` bytes; `None` if it does not fit the graph.
    pub(super) fn resume(
        bytes: LogBuffer,
        length: usize,
        index: RecordIndex,
        graph: &mut Graph<'_>,
        plan: ReadPlan,
    ) -> Option<(Self, ReadStatus)> {
        let RecordIndex { total, unique, nodes, ids, deps } = index;
        let count = graph.node_count();
        if nodes.all().len() != nodes.len() || nodes.all().iter().any(|node| node.index() >= count) {
            return None;
        }
        let (nodes, ids, deps) = (nodes.into(), ids.into(), deps.into());
        let mut records = Records { bytes, nodes, ids, deps, total, unique, saved: length };
        let status = records.read_from(length, graph, plan);
        Some((records, status))
    }

    pub(super) fn state(&self, fingerprint: LogFingerprint) -> DepsLogState {
        let (nodes, deps) = (self.nodes.all().to_vec(), self.deps.to_vec());
        DepsLogState { fingerprint, total: self.total, unique: self.unique, nodes, deps }
    }

    /// Reads more bytes and keeps the valid ones. New paths become nodes.
    pub(super) fn read(&mut self, content: Content, graph: &mut Graph<'_>, plan: ReadPlan) -> ReadStatus {
        let at = self.bytes.len();
        if at == 0 {
            let status = check_header(&content);
            if status != ReadStatus::Valid {
                return status;
            }
        }
        self.bytes.add(content);
        self.read_from(at.max(HEADER.len()), graph, plan)
    }

    /// Reads from the record at offset `at`.
    fn read_from(&mut self, at: usize, graph: &mut Graph<'_>, plan: ReadPlan) -> ReadStatus {
        let bytes = std::mem::take(&mut self.bytes);
        let end = at + self.read_records(bytes.rest(at), at, graph, plan);
        self.bytes = bytes;
        let status = if end == self.bytes.len() { ReadStatus::Valid } else { ReadStatus::Torn };
        self.bytes.truncate(end);
        status
    }

    /// Reads records that begin `base` bytes into the file; returns the number of valid bytes.
    fn read_records(&mut self, bytes: &[u8], base: usize, graph: &mut Graph<'_>, plan: ReadPlan) -> usize {
        let mut ahead = read_chunks(bytes, graph, plan).into_iter();
        let mut end = 0;
        for limit in limits(bytes, plan.chunk) {
            // The guessed start counts only if the records before lead to it.
            let guessed = ahead.next().flatten().filter(|chunk| chunk.start == end);
            let chunk = guessed.unwrap_or_else(|| read_chunk(bytes, end, limit, graph));
            end = self.apply_chunk(&chunk, bytes, base, graph);
            if end < limit {
                break;
            }
        }
        end
    }

    /// Applies the records of a chunk. Returns the offset of the first invalid record, or of the next chunk's first
    /// record.
    fn apply_chunk(&mut self, chunk: &RecordChunk, bytes: &[u8], base: usize, graph: &mut Graph<'_>) -> usize {
        let mut nodes = chunk.nodes.iter().copied();
        for item in &chunk.items {
            let (at, is_sound) = match *item {
                Item::Path { at, id } => {
                    let node = nodes.next().flatten();
                    (at, self.apply_path(bytes, chunk.start + at as usize, id, node, graph))
                }
                Item::Deps { at, output, highest } => {
                    (at, self.apply_deps(base + chunk.start + at as usize, output, highest))
                }
            };
            if !is_sound {
                return chunk.start + at as usize;
            }
        }
        chunk.end
    }

    fn apply_path(&mut self, bytes: &[u8], at: usize, id: u32, node: Option<NodeId>, graph: &mut Graph<'_>) -> bool {
        if id as usize != self.nodes.len() {
            return false;
        }
        let Some(node) = node.or_else(|| intern_at(bytes, at, graph)) else { return false };
        let is_new = self.id(node) == NO_ID;
        if is_new {
            self.name(node);
        }
        is_new
    }

    fn apply_deps(&mut self, at: usize, output: u32, highest: u32) -> bool {
        let is_known = (highest as usize) < self.nodes.len();
        if is_known {
            self.total += 1;
            self.set_deps(output, at);
        }
        is_known
    }

    fn set_deps(&mut self, id: u32, at: usize) {
        let id = id as usize;
        if id >= self.deps.len() {
            self.deps.to_mut().resize(self.nodes.len(), 0);
        }
        self.unique += usize::from(self.deps.get(id) == Some(0));
        self.deps.set(id, at as u64);
    }

    fn id(&self, node: NodeId) -> u32 {
        let id = self.ids.get(node.index()).unwrap_or(NO_ID);
        // A damaged snapshot may contain a wrong id.
        if self.nodes.get(id as usize) == Some(node) { id } else { NO_ID }
    }

    /// Assigns the next id to the node.
    fn name(&mut self, node: NodeId) {
        if node.index() >= self.ids.len() {
            self.ids.to_mut().resize(node.index() + 1, NO_ID);
        }
        self.ids.set(node.index(), self.nodes.len() as u32);
        self.nodes.to_mut().push(node);
    }

    /// Returns `None` also if the record is malformed because another process has written into the file.
    pub(super) fn get(&self, output: NodeId) -> Option<Deps<'_>> {
        let id = self.id(output);
        let (at, nodes) = (self.deps.get(id as usize)?, self.nodes.all());
        if at == 0 {
            return None;
        }
        match read(self.bytes.rest(at as usize), 0)? {
            (DepsRecord::Deps { output: its_id, mtime, ins }, _)
                if its_id == id && (highest_id(id, ins) as usize) < nodes.len() =>
            {
                Some(Deps { mtime, id, ids: ins, nodes })
            }
            _ => None,
        }
    }

    /// All nodes with an id, in file order.
    pub(super) fn nodes(&self) -> &[NodeId] {
        self.nodes.all()
    }

    /// Begins records to append: with the header, if the file is empty.
    pub(super) fn draft(&self) -> RecordDraft {
        let bytes = if self.bytes.len() == 0 { HEADER.to_vec() } else { Vec::new() };
        RecordDraft { bytes, named: self.nodes.len(), deps: Vec::new(), outputs: Set::default() }
    }

    /// Adds the records for `output` to a draft. Assigns ids to the nodes, so that `commit` or `roll_back` must follow.
    /// Fails, without changes, if a record would exceed the limit.
    pub(super) fn add(
        &mut self,
        draft: &mut RecordDraft,
        graph: &GraphView<'_>,
        output: NodeId,
        mtime: Mtime,
        ins: &[NodeId],
    ) -> Result<(), TooLong> {
        let limit = |length: usize| if length > LONGEST_RECORD { Err(TooLong) } else { Ok(()) };
        limit(DEPS_HEAD + 4 * ins.len())?;
        let nodes = || [output].into_iter().chain(ins.iter().copied());
        let mut ids: Vec<u32> = nodes().map(|node| self.id(node)).collect();
        if ids.contains(&NO_ID) {
            for node in nodes().filter(|&node| self.id(node) == NO_ID) {
                limit(graph.path(node).len().next_multiple_of(4) + 4)?;
            }
            for node in nodes() {
                if self.id(node) == NO_ID {
                    write_path(&mut draft.bytes, graph.path(node), self.nodes.len() as u32);
                    self.name(node);
                }
            }
            ids = nodes().map(|node| self.id(node)).collect();
        }
        let unchanged = |deps: Deps<'_>| deps.mtime == mtime && deps.ins().eq(ins.iter().copied());
        let id = ids[0];
        if draft.outputs.contains(&id) || !self.get(output).is_some_and(unchanged) {
            draft.deps.push((id, self.bytes.len() + draft.bytes.len()));
            draft.outputs.insert(id);
            write_deps(&mut draft.bytes, id, mtime, ids[1..].iter().copied());
        }
        Ok(())
    }

    /// Adds records that were written to the file.
    pub(super) fn commit(&mut self, draft: RecordDraft) {
        self.bytes.push(&draft.bytes);
        for (id, at) in draft.deps {
            self.total += 1;
            self.set_deps(id, at);
        }
    }

    /// Removes the ids of a draft that was not written.
    pub(super) fn roll_back(&mut self, draft: &RecordDraft) {
        for node in self.nodes.to_mut().split_off(draft.named) {
            self.ids.set(node.index(), NO_ID);
        }
    }

    /// New records for the outputs that `is_live` accepts.
    pub(super) fn rewritten(&self, graph: &GraphView<'_>, mut is_live: impl FnMut(NodeId) -> bool) -> Records {
        let mut new = Records::default();
        new.commit(new.draft());
        for &output in self.nodes() {
            if let Some(deps) = self.get(output)
                && is_live(output)
            {
                let ins: Vec<NodeId> = deps.ins().collect();
                let mut draft = new.draft();
                let added = new.add(&mut draft, graph, output, deps.mtime, &ins);
                added.expect("a record that was read is within the limits");
                new.commit(draft);
            }
        }
        new
    }

    /// Returns whether most records are superseded.
    pub(super) fn needs_recompaction(&self) -> bool {
        self.total > 1000 && self.total > self.unique * 3
    }

    /// The number of bytes known, which is the size of the file.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn unsaved_bytes(&self) -> usize {
        self.len().saturating_sub(self.saved)
    }

    pub(super) fn bytes(&self) -> &LogBuffer {
        &self.bytes
    }
}

/// The end offsets of the chunks.
fn limits(bytes: &[u8], chunk: usize) -> impl Iterator<Item = usize> {
    let length = bytes.len();
    (0..length.div_ceil(chunk)).map(move |number| length.min((number + 1) * chunk))
}

/// Reads all chunks in parallel, each from a guessed record start. Empty with one thread.
fn read_chunks(bytes: &[u8], graph: &GraphView<'_>, plan: ReadPlan) -> Vec<Option<RecordChunk>> {
    if plan.threads == 1 {
        return Vec::new();
    }
    let limits: Vec<usize> = limits(bytes, plan.chunk).collect();
    map_parallel(plan.threads, (0..limits.len()).collect(), |chunk| {
        let start = if chunk == 0 { 0 } else { find_record_start(bytes, limits[chunk - 1]..limits[chunk])? };
        Some(read_chunk(bytes, start, limits[chunk], graph))
    })
}

/// The node of a path that had none when its chunk was read.
fn intern_at(bytes: &[u8], at: usize, graph: &mut Graph<'_>) -> Option<NodeId> {
    match read(bytes, at)? {
        (DepsRecord::Path { path, .. }, _) => Some(graph.intern(path)),
        (DepsRecord::Deps { .. }, _) => None,
    }
}

/// A record exceeds ninja's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong;

/// Records to append.
pub(super) struct RecordDraft {
    pub(super) bytes: Vec<u8>,
    /// The number of ids before the draft.
    named: usize,
    /// The outputs' ids and the file offsets of their records.
    deps: Vec<(u32, usize)>,
    /// The ids in `deps`.
    outputs: Set<u32>,
}

/// The records of one chunk, parsed without knowledge of the chunks before it.
struct RecordChunk {
    /// The offset of the first record.
    start: usize,
    /// In file order.
    items: Vec<Item>,
    /// The existing node of each path among the items.
    nodes: Vec<Option<NodeId>>,
    /// The offset after the last record; in the next chunk if this one is valid to its end.
    end: usize,
}

/// A record and its offset from the start of the chunk.
enum Item {
    Path {
        at: u32,
        id: u32,
    },
    /// `highest` is the highest id of the output and the inputs.
    Deps {
        at: u32,
        output: u32,
        highest: u32,
    },
}

/// Parses the records that begin between `start` and `limit`, up to the first malformed one. `limit - start` must be
/// below 2^32.
fn read_chunk(bytes: &[u8], start: usize, limit: usize, graph: &GraphView<'_>) -> RecordChunk {
    let (mut items, mut paths) = (Vec::new(), Vec::new());
    let mut end = start;
    while end < limit
        && let Some((record, next)) = read(bytes, end)
    {
        let at = (end - start) as u32;
        items.push(match record {
            DepsRecord::Path { path, id } => {
                paths.push(path);
                Item::Path { at, id }
            }
            DepsRecord::Deps { output, ins, .. } => Item::Deps { at, output, highest: highest_id(output, ins) },
        });
        end = next;
    }
    let mut nodes = Vec::new();
    graph.lookup_all(&paths, &mut nodes);
    RecordChunk { start, items, nodes, end }
}
