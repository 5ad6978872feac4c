//! The bytes of `.ninja_deps` and what they say: for each output of a `deps` edge the files its command read. Does
//! not touch the disk.
//!
//! All numbers are 32 bits, little-endian. After the signature and the version come records: a length in bytes,
//! then as many bytes. Of two kinds:
//!
//! - a path: its text, up to three NULs to fill a word, and the complement of its id. Ids count paths from 0 in the
//!   order of the file; the complement is there to notice two processes that both took one id.
//! - deps, with the length's highest bit set: the output's id, its mtime (low half, high half), the inputs' ids. A
//!   later record for the same output wins.
//!
//! Reading ends at the first record that is not sound: too long, cut off, with an id that no path has, a path that
//! has an id already, none of its own, or no name that a file can have.

use crate::disk::Mtime;
use crate::graph::{Graph, NodeId};

const HEADER: &[u8; 16] = b"# ninjadeps\n\x04\0\0\0";
const SIGNATURE_LENGTH: usize = 12;

/// The longest record, in bytes.
pub(super) const LONGEST_RECORD: usize = (1 << 19) - 1;

const IS_DEPS: u32 = 1 << 31;
/// Output and mtime, in bytes.
const DEPS_HEAD: usize = 12;
const NO_ID: u32 = u32::MAX;

/// What became of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// All of it was sound.
    Sound,
    /// Something at the end was not, and is not kept.
    Torn,
    /// Not a log of ours; nothing is kept.
    Foreign,
    /// Version 1, which could hold false data; nothing is kept.
    Ancient,
}

/// What is known of one output.
#[derive(Clone, Copy)]
pub struct Deps<'a> {
    /// The output's mtime when this was recorded. A newer output voids it.
    pub mtime: Mtime,
    ids: &'a [u8],
    nodes: &'a [NodeId],
}

impl<'a> Deps<'a> {
    /// The files that the command read, in the order in which it named them.
    pub fn ins(self) -> impl ExactSizeIterator<Item = NodeId> + Clone + 'a {
        self.numbers().map(move |number| self.nodes[number as usize])
    }

    /// Their numbers in the log, of which each is an index into `DepsLog::nodes`.
    pub fn numbers(self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        self.ids.chunks_exact(4).map(|id| word(id, 0))
    }
}

/// A picture of the file, as far as it is sound, with indexes.
#[derive(Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// By id.
    nodes: Vec<NodeId>,
    /// By node; `NO_ID` or past the end for none.
    ids: Vec<u32>,
    /// By id, or past the end: where in `bytes` the output's record begins; 0 for none.
    deps: Vec<usize>,
    /// How many deps records were read.
    total: usize,
    /// For how many outputs.
    unique: usize,
}

impl Records {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Records::default();
    }

    /// Reads more bytes; keeps those that are sound. New paths become nodes.
    pub(super) fn read(&mut self, bytes: Vec<u8>, graph: &mut Graph<'_>) -> Verdict {
        let mut at = self.bytes.len();
        if at == 0 {
            let verdict = judge_header(&bytes);
            if verdict != Verdict::Sound {
                return verdict;
            }
            self.bytes = bytes;
            at = HEADER.len();
        } else {
            self.bytes.extend_from_slice(&bytes);
        }
        let bytes = std::mem::take(&mut self.bytes);
        while let Some(length) = self.read_record(&bytes, at, graph) {
            at += length;
        }
        let verdict = if at == bytes.len() { Verdict::Sound } else { Verdict::Torn };
        self.bytes = bytes;
        self.bytes.truncate(at);
        verdict
    }

    /// The record's whole length; None at the end, or if it is not sound.
    fn read_record(&mut self, bytes: &[u8], at: usize, graph: &mut Graph<'_>) -> Option<usize> {
        let size = word(bytes.get(at..at + 4)?, 0);
        let length = (size & !IS_DEPS) as usize;
        if length > LONGEST_RECORD {
            return None;
        }
        let record = bytes.get(at + 4..at + 4 + length)?;
        if size & IS_DEPS == 0 {
            self.read_path(record, graph)?
        } else {
            self.read_deps(record, at)?
        }
        Some(4 + length)
    }

    fn read_path(&mut self, record: &[u8], graph: &mut Graph<'_>) -> Option<()> {
        let (padded, complement) = record.split_last_chunk::<4>()?;
        let padding = padded.iter().rev().take(3).take_while(|&&byte| byte == 0).count();
        let path = &padded[..padded.len() - padding];
        let id = self.nodes.len() as u32;
        if path.is_empty() || path.contains(&0) || !u32::from_le_bytes(*complement) != id {
            return None;
        }
        let node = graph.intern(path);
        (self.id(node) == NO_ID).then(|| self.name(node))
    }

    fn read_deps(&mut self, record: &[u8], at: usize) -> Option<()> {
        let known = |id: &[u8]| (word(id, 0) as usize) < self.nodes.len();
        if record.len() < DEPS_HEAD || !record.len().is_multiple_of(4) {
            return None;
        }
        if !known(record) || !record[DEPS_HEAD..].chunks_exact(4).all(known) {
            return None;
        }
        self.total += 1;
        self.set_deps(word(record, 0), at);
        Some(())
    }

    fn set_deps(&mut self, id: u32, at: usize) {
        let id = id as usize;
        if id >= self.deps.len() {
            self.deps.resize(self.nodes.len(), 0);
        }
        self.unique += usize::from(self.deps[id] == 0);
        self.deps[id] = at;
    }

    fn id(&self, node: NodeId) -> u32 {
        self.ids.get(node.index()).copied().unwrap_or(NO_ID)
    }

    /// Gives the node the next id.
    fn name(&mut self, node: NodeId) {
        if node.index() >= self.ids.len() {
            self.ids.resize(node.index() + 1, NO_ID);
        }
        self.ids[node.index()] = self.nodes.len() as u32;
        self.nodes.push(node);
    }

    /// What is known of an output.
    pub(super) fn get(&self, output: NodeId) -> Option<Deps<'_>> {
        let at = *self.deps.get(self.id(output) as usize)?;
        if at == 0 {
            return None;
        }
        let length = (word(&self.bytes[at..], 0) & !IS_DEPS) as usize;
        let record = &self.bytes[at + 4..at + 4 + length];
        let mtime = u64::from(word(record, 4)) | u64::from(word(record, 8)) << 32;
        Some(Deps { mtime: mtime as Mtime, ids: &record[DEPS_HEAD..], nodes: &self.nodes })
    }

    /// All nodes that have an id, in the order of the file.
    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Draws up what has to be appended for the file to say this of `output`. The nodes get their ids now: `commit`
    /// or `roll_back` must follow. An error is a record beyond the limit; then nothing has changed.
    pub(super) fn draft(
        &mut self,
        graph: &Graph<'_>,
        output: NodeId,
        mtime: Mtime,
        ins: &[NodeId],
    ) -> Result<Draft, TooLong> {
        let mut draft = Draft { bytes: Vec::new(), named: self.nodes.len(), deps: None };
        if self.bytes.is_empty() {
            draft.bytes.extend_from_slice(HEADER);
        }
        let limit = |length: usize| if length > LONGEST_RECORD { Err(TooLong) } else { Ok(()) };
        limit(DEPS_HEAD + 4 * ins.len())?;
        for &node in [output].iter().chain(ins) {
            limit(graph.path(node).len().next_multiple_of(4) + 4)?;
        }
        for &node in [output].iter().chain(ins) {
            if self.id(node) == NO_ID {
                write_path(&mut draft.bytes, graph.path(node), self.nodes.len() as u32);
                self.name(node);
            }
        }
        let unchanged = |deps: Deps<'_>| deps.mtime == mtime && deps.ins().eq(ins.iter().copied());
        if !self.get(output).is_some_and(unchanged) {
            draft.deps = Some((self.id(output), self.bytes.len() + draft.bytes.len()));
            let ids = ins.iter().map(|&node| self.id(node));
            write_deps(&mut draft.bytes, self.id(output), mtime, ids);
        }
        Ok(draft)
    }

    /// The header alone, where there is nothing.
    pub(super) fn draft_header(&self) -> Draft {
        let bytes = if self.bytes.is_empty() { HEADER.to_vec() } else { Vec::new() };
        Draft { bytes, named: self.nodes.len(), deps: None }
    }

    /// The draft is in the file now.
    pub(super) fn commit(&mut self, draft: Draft) {
        self.bytes.extend_from_slice(&draft.bytes);
        if let Some((id, at)) = draft.deps {
            self.set_deps(id, at);
        }
    }

    /// The draft did not get into the file.
    pub(super) fn roll_back(&mut self, draft: &Draft) {
        for node in self.nodes.drain(draft.named..) {
            self.ids[node.index()] = NO_ID;
        }
    }

    /// New records, with those outputs alone that `is_live` keeps.
    pub(super) fn rewritten(&self, graph: &Graph<'_>, mut is_live: impl FnMut(NodeId) -> bool) -> Records {
        let mut new = Records { bytes: HEADER.to_vec(), ..Records::default() };
        for &output in &self.nodes {
            if let Some(deps) = self.get(output)
                && is_live(output)
            {
                let ins: Vec<NodeId> = deps.ins().collect();
                let draft = new.draft(graph, output, deps.mtime, &ins);
                new.commit(draft.expect("a record that was read is within the limits"));
            }
        }
        new
    }

    /// Is it mostly records that later ones made void?
    pub(super) fn is_overgrown(&self) -> bool {
        self.total > 1000 && self.total > self.unique * 3
    }

    /// How many bytes the file has, as far as we know it.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The file's bytes, as far as we know them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A record is beyond ninja's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong;

/// Records that are to be appended.
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    /// How many nodes had ids before.
    named: usize,
    /// The output's id, and where in the file its record will begin.
    deps: Option<(u32, usize)>,
}

fn judge_header(bytes: &[u8]) -> Verdict {
    if bytes.starts_with(HEADER) {
        return Verdict::Sound;
    }
    match bytes.get(SIGNATURE_LENGTH..HEADER.len()) {
        Some([1, 0, 0, 0]) => Verdict::Ancient,
        _ => Verdict::Foreign,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn write_path(bytes: &mut Vec<u8>, path: &[u8], id: u32) {
    assert!(!path.is_empty(), "an empty path cannot be recorded");
    let padding = path.len().next_multiple_of(4) - path.len();
    bytes.extend_from_slice(&((path.len() + padding + 4) as u32).to_le_bytes());
    bytes.extend_from_slice(path);
    bytes.extend_from_slice(&[0; 3][..padding]);
    bytes.extend_from_slice(&(!id).to_le_bytes());
}

fn write_deps(bytes: &mut Vec<u8>, id: u32, mtime: Mtime, ins: impl ExactSizeIterator<Item = u32>) {
    let length = (DEPS_HEAD + 4 * ins.len()) as u32;
    bytes.extend_from_slice(&(length | IS_DEPS).to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&mtime.to_le_bytes());
    for id in ins {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
}
