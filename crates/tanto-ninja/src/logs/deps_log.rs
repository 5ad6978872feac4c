//! `.ninja_deps`: the files that the commands of `deps` edges read, by their own account. Does not know whether
//! they still exist, nor what made them.

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

/// The deps log: records in memory, and their file.
pub struct DepsLog {
    records: Records,
    file: Option<LogFile>,
    status: Status,
    /// `open` was called: what is recorded goes into the file.
    writes: bool,
    /// Noted, and not yet in the file.
    notes: Vec<Note>,
}

/// What a command said it read.
struct Note {
    output: NodeId,
    mtime: Mtime,
    ins: Vec<NodeId>,
}

/// Returns whether a file exists. Errors count as yes.
type Exists<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// What loading found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Missing,
    /// Not a log of ours: the file goes as soon as we may write.
    Unsupported,
    /// Something at the end is not sound: it goes as soon as we may write.
    Torn,
    Valid,
}

impl DepsLog {
    /// An empty log without a file.
    pub fn in_memory() -> Self {
        DepsLog { records: Records::default(), file: None, status: Status::Missing, writes: false, notes: Vec::new() }
    }

    /// Is there no log at `path`, or one of the version that is read? Looks at its beginning alone.
    pub fn has_supported_header(path: &[u8]) -> bool {
        read_head(path).is_some_and(|bytes| bytes.is_empty() || check_header(&bytes) == ReadStatus::Valid)
    }

    /// Reads the log at `path`, writing nothing; each path in it becomes a node. The second value is a warning.
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

    /// What is known of the log now, to be kept. None if there is no file with such a log.
    pub fn state(&self) -> Option<DepsLogState> {
        Some(self.records.state(self.file.as_ref()?.fingerprint(self.records.bytes())?))
    }

    /// How many bytes of the log are not known from what was kept.
    pub fn unsaved_bytes(&self) -> usize {
        self.records.unsaved_bytes()
    }

    /// As `load`, but from what was kept, where the nodes have the numbers that they had there: only what was added to
    /// the log since is read. None if that cannot be done: the file is another one now, or was written again, or the
    /// parts do not fit the graph. Those of its paths that no manifest names become nodes all at once.
    pub fn resume(
        path: &[u8],
        parts: DepsLogIndex,
        graph: &mut Graph<'_>,
        threads: ThreadLimit,
    ) -> Option<(Self, Option<Vec<u8>>)> {
        let DepsLogIndex { facts: [total, unique, fingerprint @ ..], nodes, ids, deps } = parts;
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

    /// Is there a file, of ours or not?
    pub fn has_file(&self) -> bool {
        self.status != Status::Missing
    }

    /// What is known of an output.
    pub fn deps(&self, output: NodeId) -> Option<Deps<'_>> {
        self.records.get(output)
    }

    /// Gives back the memory of what was read so far; it may be read again.
    pub fn release(&self) {
        self.records.bytes().release();
    }

    /// Every path of the log, in the order of the file (which is that of `-t deps`).
    pub fn nodes(&self) -> &[NodeId] {
        self.records.nodes()
    }

    /// The first output, in the order of the file's paths, whose command read `input`: what `input^` means on the
    /// command line when no edge names the input.
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

    /// Notes that the command which made `output`, now of this mtime, read `ins`. The log does not know it before the
    /// next `flush`.
    pub fn note(&mut self, output: NodeId, mtime: Mtime, ins: Vec<NodeId>) {
        self.notes.push(Note { output, mtime, ins });
    }

    /// Writes what was noted and the log does not say already. What other processes wrote may add nodes to the graph.
    pub fn flush(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        let notes = std::mem::take(&mut self.notes);
        if notes.is_empty() {
            return Ok(());
        }
        self.append(graph, &notes).map_err(with_context(b"Error writing to deps log: "))
    }

    /// As `note`, but it is in the file when this returns.
    pub fn record(&mut self, graph: &mut Graph<'_>, output: NodeId, mtime: Mtime, ins: &[NodeId]) -> Result<()> {
        self.note(output, mtime, ins.to_vec());
        self.flush(graph)
    }

    /// Lets others have the log: after this there is a file, if only with a header. The next record takes in what
    /// they did.
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

    /// Appends these, as far as it can, or else the header alone. The error is the first one.
    fn append(&mut self, graph: &mut Graph<'_>, notes: &[Note]) -> Result<()> {
        let DepsLog { records, file, writes, .. } = self;
        let mut locked = match file {
            Some(file) if *writes => Some(file.lock()?),
            _ => None,
        };
        if let Some(locked) = &mut locked {
            read_appended(records, locked, graph)?;
        }
        if notes.is_empty() {
            let header = records.draft_header();
            return put(records, &mut locked, header);
        }
        let mut done = Ok(());
        for note in notes {
            let put = note.draft(records, graph).and_then(|draft| put(records, &mut locked, draft));
            done = done.and(put);
        }
        done
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

    /// Removes a log that cannot be read, unless another process has made it one that can.
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
    fn draft(&self, records: &mut Records, graph: &Graph<'_>) -> Result<RecordDraft> {
        // As ninja words its own limit.
        let too_long = |TooLong| Error::from("Numerical result out of range");
        records.draft(graph, self.output, self.mtime, &self.ins).map_err(too_long)
    }
}

/// Puts a draft into the file, if there is one, and then among the records.
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

/// Is the output still made by an edge with `deps`? If not, what the log says of it is of no use.
pub fn is_deps_entry_live(graph: &GraphView<'_>, output: NodeId) -> bool {
    let Some(edge) = graph.in_edge(output) else { return false };
    // What cannot be told is kept.
    graph.flag(edge, b"deps").unwrap_or(true)
}

/// Takes in what other processes did to the file, and cuts off what is not sound.
fn read_appended(records: &mut Records, locked: &mut LockedLog<'_>, graph: &mut Graph<'_>) -> Result<()> {
    let tail = locked.tail(records.len())?;
    if tail.restart {
        records.clear();
    }
    if !tail.bytes.is_empty() {
        // A signature that is not ours leaves nothing: the log is started over.
        records.read(Content::Read(tail.bytes), graph, ReadPlan::ONE);
    }
    Ok(locked.cut(records.len())?)
}
