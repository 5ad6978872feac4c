//! `.ninja_deps`: the inputs that commands of `deps` edges have discovered.

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::error::{Error, Result};
use crate::graph::{Graph, GraphView};
use crate::ids::NodeId;

use super::ReadPlan;
use super::deps_log_format::{ReadStatus, check_header};
use super::deps_log_records::{RecordDraft, RecordIndex, Records, TooLong};
use super::file::{LockedLog, LogFile, cannot_load, read_head, truncated_error, with_context};
use super::fingerprint::LogFingerprint;
use super::log_buffer::Content;
use super::saved_index::DepsLogIndex;
use super::saved_index::DepsLogState;

pub use super::deps_log_records::Deps;

pub struct DepsLog {
    records: Records,
    file: Option<LogFile>,
    status: Status,
    /// `open` was called: records are written to the file.
    writes: bool,
    /// Queued records, not in the file yet.
    notes: Vec<Note>,
}

/// Queued records are written when they have this many bytes.
const MAX_DRAFT: usize = 1 << 20;

struct Note {
    output: NodeId,
    mtime: Mtime,
    ins: Vec<NodeId>,
}

/// Returns whether a file exists. Errors count as yes.
type Exists<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Missing,
    /// Another version or another file. It is removed once writing is allowed.
    Unsupported,
    /// The end is damaged. It is cut off once writing is allowed.
    Torn,
    Valid,
}

impl DepsLog {
    pub fn in_memory() -> Self {
        DepsLog { records: Records::default(), file: None, status: Status::Missing, writes: false, notes: Vec::new() }
    }

    /// Returns whether there is no log at `path`, or one of the supported version. Reads only the header.
    pub fn has_supported_header(path: &[u8]) -> bool {
        read_head(path).is_some_and(|bytes| bytes.is_empty() || check_header(&bytes) == ReadStatus::Valid)
    }

    /// Loads the log at `path` without writing. Each path in it becomes a node. The second value is a warning.
    pub fn load(path: &[u8], graph: &mut Graph<'_>, threads: ThreadLimit) -> Result<(Self, Option<Vec<u8>>)> {
        let failed = |e| cannot_load(b"loading deps log ", path, e);
        let (mut file, content) = LogFile::load(path).map_err(failed)?;
        let mut records = Records::default();
        let mut read = |records: &mut Records, content: Content| {
            let plan = ReadPlan::of(content.len(), threads);
            records.read(content, graph, plan)
        };
        let mut status = content.map(|content| read(&mut records, content));
        if records.bytes().is_torn() {
            records.clear();
            status = Some(read(&mut records, file.read_again().map_err(failed)?));
        }
        Ok(Self::judged(records, file, status))
    }

    fn judged(records: Records, file: LogFile, status: Option<ReadStatus>) -> (Self, Option<Vec<u8>>) {
        let (status, warning) = match status {
            None => (Status::Missing, None),
            Some(ReadStatus::Valid) => (Status::Valid, None),
            Some(ReadStatus::Torn) => (Status::Torn, Some("premature end of file; recovering")),
            Some(ReadStatus::Unsupported) => {
                (Status::Unsupported, Some("bad deps log signature or version; starting over"))
            }
            Some(ReadStatus::Version1) => (Status::Unsupported, Some("deps log version change; rebuilding")),
        };
        (DepsLog { records, file: Some(file), status, writes: false, notes: Vec::new() }, warning.map(Into::into))
    }

    /// The state to save in a snapshot; `None` without a valid log file.
    pub fn state(&self) -> Option<DepsLogState> {
        Some(self.records.state(self.file.as_ref()?.fingerprint(self.records.bytes())?))
    }

    /// The number of bytes that are not covered by the saved index.
    pub fn unsaved_bytes(&self) -> usize {
        self.records.unsaved_bytes()
    }

    /// Like `load`, but starts from a saved index and reads only the bytes appended since. Node ids must be those of
    /// the index. Returns `None` if the file was replaced or rewritten, or if the index does not fit the graph. Paths
    /// that no manifest names become nodes in one step.
    pub fn resume(
        path: &[u8],
        parts: DepsLogIndex,
        graph: &mut Graph<'_>,
        threads: ThreadLimit,
    ) -> Option<(Self, Option<Vec<u8>>)> {
        let DepsLogIndex { header: [total, unique, fingerprint @ ..], nodes, ids, deps } = parts;
        let fingerprint = LogFingerprint::from_words(fingerprint);
        if total.max(unique) > fingerprint.length() as u64 {
            return None;
        }
        let (file, bytes) = LogFile::resume(path, &fingerprint)?;
        let plan = ReadPlan::of(bytes.len() - fingerprint.length(), threads);
        let index = RecordIndex { total: total as usize, unique: unique as usize, nodes, ids, deps };
        if !graph.show_discovered() {
            return None;
        }
        let resumed = Records::resume(bytes, fingerprint.length(), index, graph, plan);
        let sound = resumed.filter(|(records, _)| !records.bytes().is_torn());
        if sound.is_none() {
            graph.hide_discovered();
        }
        sound.map(|(records, status)| Self::judged(records, file, Some(status)))
    }

    /// Returns whether the file exists, supported or not.
    pub fn has_file(&self) -> bool {
        self.status != Status::Missing
    }

    pub fn deps(&self, output: NodeId) -> Option<Deps<'_>> {
        self.records.get(output)
    }

    /// Lets the kernel drop pages read so far; they can be read again.
    pub fn release(&self) {
        self.records.bytes().release();
    }

    /// All paths in file order, which is also the order of `-t deps`.
    pub fn nodes(&self) -> &[NodeId] {
        self.records.nodes()
    }

    /// The first output, in file order, whose command read `input`. `input^` on the command line means this output if
    /// no edge has the input.
    pub fn first_reader(&self, input: NodeId) -> Option<NodeId> {
        let reads = |&output: &NodeId| self.deps(output).is_some_and(|deps| deps.ins().any(|node| node == input));
        self.nodes().iter().copied().find(reads)
    }

    /// Allows writing. Removes a damaged part now, and rewrites the log, as `recompact` does, if most of its records are
    /// superseded; otherwise writes nothing before the first record.
    pub fn open(&mut self, graph: &mut Graph<'_>, exists: Exists<'_>) -> Result<()> {
        let opened = match self.status {
            Status::Unsupported => self.start_over(graph),
            Status::Torn => self.cut_torn_tail(graph),
            Status::Valid if self.records.needs_recompaction() && graph.is_intact() => self.rewrite(graph, exists),
            _ => Ok(()),
        };
        opened.map_err(with_context(b"opening deps log: "))?;
        self.writes = true;
        Ok(())
    }

    /// Queues a record: the command that made `output`, with this mtime, read `ins`. The log does not contain it before
    /// the next `flush`.
    pub fn note(&mut self, output: NodeId, mtime: Mtime, ins: Vec<NodeId>) {
        self.notes.push(Note { output, mtime, ins });
    }

    /// Writes the queued records that are not in the log yet. Records of other processes may add nodes to the graph.
    pub fn flush(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        let notes = std::mem::take(&mut self.notes);
        if notes.is_empty() {
            return Ok(());
        }
        self.append(graph, &notes).map_err(with_context(b"Error writing to deps log: "))
    }

    /// Queues a record and writes it.
    pub fn record(&mut self, graph: &mut Graph<'_>, output: NodeId, mtime: Mtime, ins: &[NodeId]) -> Result<()> {
        self.note(output, mtime, ins.to_vec());
        self.flush(graph)
    }

    /// Lets another process write to the log: creates the file with its header. The next write reads appended records.
    pub fn close(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        if !self.writes || self.records.len() > 0 {
            return Ok(());
        }
        self.append(graph, &[]).map_err(with_context(b"Error writing to deps log: "))
    }

    /// `-t recompact`: rewrites the log without superseded records, and without outputs that need none. Does nothing
    /// without a log.
    ///
    /// Unlike ninja, keeps the records of outputs that no edge of this manifest makes as long as their files exist, since
    /// another manifest may share the log (`ninja -f`). Without them it would run all its commands again.
    pub fn recompact(&mut self, graph: &mut Graph<'_>, exists: Exists<'_>) -> Result<()> {
        let done = match self.status {
            Status::Missing => Ok(()),
            Status::Unsupported => self.start_over(graph),
            Status::Torn | Status::Valid => self.rewrite(graph, exists),
        };
        done.map_err(with_context(b"failed recompaction: "))
    }

    /// Appends the records, or only the header if there are none. Continues after an error, and returns the first one.
    fn append(&mut self, graph: &mut Graph<'_>, notes: &[Note]) -> Result<()> {
        let DepsLog { records, file, writes, .. } = self;
        let mut locked = match file {
            Some(file) if *writes => Some(file.lock()?),
            _ => None,
        };
        if let Some(locked) = &mut locked {
            read_appended(records, locked, graph)?;
        }
        let mut done = Ok(());
        let mut draft = records.draft();
        for note in notes {
            done = done.and(note.add_to(&mut draft, records, graph));
            if draft.bytes.len() >= MAX_DRAFT {
                done = done.and(put(records, &mut locked, draft));
                draft = records.draft();
            }
        }
        done.and(put(records, &mut locked, draft))
    }

    fn cut_torn_tail(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        let DepsLog { records, file: Some(file), .. } = self else { return Ok(()) };
        read_appended(records, &mut file.lock()?, graph)?;
        self.status = Status::Valid;
        Ok(())
    }

    fn rewrite(&mut self, graph: &mut Graph<'_>, exists: Exists<'_>) -> Result<()> {
        let DepsLog { records, file: Some(file), .. } = self else { return Ok(()) };
        let mut locked = file.lock()?;
        read_appended(records, &mut locked, graph)?;
        let new = records.rewritten(graph, |output| match graph.in_edge(output) {
            Some(_) => is_deps_entry_live(graph, output),
            None => exists(graph.path(output)),
        });
        if records.bytes().is_torn() {
            return Err(truncated_error());
        }
        locked.replace(".recompact", &new.bytes().parts())?;
        *records = new;
        self.status = Status::Valid;
        Ok(())
    }

    /// Removes an unreadable log, unless another process has replaced it by a valid one.
    fn start_over(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        let DepsLog { records, file: Some(file), .. } = self else { return Ok(()) };
        let mut locked = file.lock()?;
        read_appended(records, &mut locked, graph)?;
        if records.len() > 0 {
            self.status = Status::Valid;
        } else {
            locked.remove()?;
            self.status = Status::Missing;
        }
        Ok(())
    }
}

impl Note {
    fn add_to(&self, draft: &mut RecordDraft, records: &mut Records, graph: &Graph<'_>) -> Result<()> {
        // Ninja's wording for its own limit.
        let too_long = |TooLong| Error::from("Numerical result out of range");
        records.add(draft, graph, self.output, self.mtime, &self.ins).map_err(too_long)
    }
}

/// Appends a draft to the file, if there is one, and to the records.
fn put(records: &mut Records, locked: &mut Option<LockedLog<'_>>, draft: RecordDraft) -> Result<()> {
    if let Some(locked) = locked
        && !draft.bytes.is_empty()
        && let Err(error) = locked.append(records.len(), &draft.bytes)
    {
        records.roll_back(&draft);
        return Err(error.into());
    }
    records.commit(draft);
    Ok(())
}

/// Returns whether an edge with `deps` still makes the output. If not, its record is obsolete.
pub fn is_deps_entry_live(graph: &GraphView<'_>, output: NodeId) -> bool {
    let Some(edge) = graph.in_edge(output) else { return false };
    // On an error, the record is kept.
    graph.flag(edge, b"deps").unwrap_or(true)
}

/// Reads records that other processes appended, and cuts off a damaged end.
fn read_appended(records: &mut Records, locked: &mut LockedLog<'_>, graph: &mut Graph<'_>) -> Result<()> {
    let tail = locked.tail(records.len())?;
    if tail.restart {
        records.clear();
    }
    if !tail.bytes.is_empty() {
        // After an unsupported header, nothing is kept and the log is started over.
        records.read(Content::Read(tail.bytes), graph, ReadPlan::ONE);
    }
    Ok(locked.cut(records.len())?)
}
