//! `.ninja_log`: the command that last made each output, its duration, and the mtime the output was up to date with.
//!
//! Outputs are indexed by the nodes of one graph, which all functions take as an argument, or by path if they are not
//! nodes or became nodes after loading.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::disk::{Disk, Mtime};
use crate::error::{Error, Result};
use crate::graph::GraphView;
use crate::ids::NodeId;

use tanto_sys::threads::ThreadLimit;

use super::ReadPlan;
use super::build_log_entries::{Entries, EntryIndex};
use super::build_log_line::{Entry, Header, NEWEST, OLDEST, read_header};
use super::file::{LockedLog, LogFile, cannot_load, read_head, truncated_error, with_context};
use super::fingerprint::LogFingerprint;
use super::log_buffer::Content;
use super::saved_index::BuildLogState;
use super::saved_index::{BuildLogIndex, LoggedCommand};
use crate::hash;

pub struct BuildLog {
    entries: Entries,
    file: Option<LogFile>,
    status: Status,
    /// `open` was called: entries are written to the file.
    writes: bool,
    /// Queued entries, not in the file yet.
    notes: Vec<(Vec<u8>, Entry)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Missing,
    /// Another version. The file is removed once writing is allowed.
    Unsupported,
    Valid,
}

impl BuildLog {
    /// An empty log without a file.
    pub fn in_memory(version: u32) -> Self {
        BuildLog {
            entries: Entries::new(version, 0),
            file: None,
            status: Status::Missing,
            writes: false,
            notes: Vec::new(),
        }
    }

    /// Returns whether there is no log at `path`, or one of a supported version. Reads only the header.
    pub fn has_supported_header(path: &[u8]) -> bool {
        read_head(path).is_some_and(|text| text.is_empty() || read_header(&text).0 == Header::Supported)
    }

    /// Describes the version of the log at `path`, from its first line.
    pub fn describe(path: &Path) -> Vec<u8> {
        let Ok(file) = File::open(path) else {
            return "none".into();
        };
        let mut line = Vec::new();
        let read = BufReader::new(file.take(64)).read_until(b'\n', &mut line);
        match (read, line.trim_ascii_end().strip_prefix(b"# ninja log v")) {
            (Ok(_), Some(version)) if !version.is_empty() && version.iter().all(u8::is_ascii_digit) => {
                [b"version ", version].concat()
            }
            _ => "not a log of ninja".into(),
        }
    }

    /// Loads the log at `path` without writing. A log of version 5, 6 or 7 keeps its version; a new one, also in place
    /// of an unreadable one, gets `new_version`. The second value is a warning.
    pub fn load(
        path: &[u8],
        new_version: u32,
        graph: &GraphView<'_>,
        threads: ThreadLimit,
    ) -> Result<(Self, Option<Vec<u8>>)> {
        let failed = |e| cannot_load(b"loading build log ", path, e);
        let (mut file, content) = LogFile::load(path).map_err(failed)?;
        let mut entries = Entries::new(new_version, graph.steady_count());
        let read = |entries: &mut Entries, content: Content| {
            let plan = ReadPlan::of(content.len(), threads);
            entries.read(content, graph, plan)
        };
        let mut header = content.map(|content| read(&mut entries, content));
        if entries.text().is_torn() {
            entries = Entries::new(new_version, graph.steady_count());
            header = Some(read(&mut entries, file.read_again().map_err(failed)?));
        }
        let (status, warning) = match header {
            None => (Status::Missing, None),
            Some(Header::Supported) => (Status::Valid, None),
            Some(Header::TooOld) => (Status::Unsupported, Some("build log version is too old; starting over")),
            Some(Header::TooNew) => (Status::Unsupported, Some("build log version is too new; starting over")),
        };
        let log = BuildLog { entries, file: Some(file), status, writes: false, notes: Vec::new() };
        Ok((log, warning.map(Into::into)))
    }

    /// The state to save in a snapshot; `None` without a valid log file.
    pub fn state(&self) -> Option<BuildLogState> {
        Some(self.entries.state(self.file.as_ref()?.fingerprint(self.entries.text())?))
    }

    /// The number of bytes that are not covered by the saved index.
    pub fn unsaved_bytes(&self) -> usize {
        self.entries.unsaved_bytes()
    }

    /// Like `load`, but starts from a saved index and reads only the bytes appended since. Node ids must be those of
    /// the index. Returns `None` if the file was replaced or rewritten, or if the index does not fit the graph.
    pub fn resume(path: &[u8], parts: BuildLogIndex, graph: &GraphView<'_>, threads: ThreadLimit) -> Option<Self> {
        let BuildLogIndex { header: [version, lines, nodes, fingerprint @ ..], last, unindexed, logged } = parts;
        let version = u32::try_from(version).ok().filter(|version| (OLDEST..=NEWEST).contains(version))?;
        let fingerprint = LogFingerprint::from_words(fingerprint);
        if last.len() > graph.node_count() || lines.max(nodes) > fingerprint.length() as u64 {
            return None;
        }
        let (file, text) = LogFile::resume(path, &fingerprint)?;
        let plan = ReadPlan::of(text.len() - fingerprint.length(), threads);
        let index = EntryIndex { version, lines: lines as usize, nodes: nodes as usize, last, unindexed, logged };
        let entries = Entries::resume(text, fingerprint.length(), index, graph, plan);
        let is_torn = entries.text().is_torn();
        (!is_torn).then_some(BuildLog {
            entries,
            file: Some(file),
            status: Status::Valid,
            writes: false,
            notes: Vec::new(),
        })
    }

    /// Sets the version of a log that does not exist yet; has no effect on an existing one.
    pub fn set_new_version(&mut self, version: u32, graph: &GraphView<'_>) {
        if !self.was_found() && self.entries.len() == 0 {
            self.entries = Entries::new(version, graph.steady_count());
        }
    }

    /// Returns whether ninja 1.11 or older logged this output with this command. It appends hashes of version 5 to logs
    /// of version 7.
    pub fn logged_by_older_ninja(&self, graph: &GraphView<'_>, output: NodeId, command: &[u8]) -> bool {
        let logged = || self.logged_command(graph, output).map(|entry| entry.command_hash);
        self.hash_kind() == 7 && logged() == Some(hash::murmur64a(command))
    }

    /// Returns whether the file exists, supported or not.
    pub fn has_file(&self) -> bool {
        self.status != Status::Missing
    }

    /// Returns whether a valid log was loaded. `-t restat` does not warn if there is none.
    pub fn was_found(&self) -> bool {
        self.status == Status::Valid
    }

    /// 5, 6 or 7.
    pub fn version(&self) -> u32 {
        self.entries.version()
    }

    /// The meaning of an entry's mtime, apart from 0 for a dry run.
    ///
    /// False (versions 6 and 7): the file system's time when the command started; for a `restat` or `generator` edge
    /// the newest output's mtime if that is later, but again the start if restat found an output unchanged.
    ///
    /// True (version 5): the newest output's mtime; if restat found an output unchanged, the newest mtime of all inputs
    /// except order-only ones, or the depfile's if that is newer, there is no `deps`, and some input exists.
    ///
    /// In all versions, an output whose entry is older than its newest input is dirty, and for a `restat` edge only the
    /// entry counts.
    pub fn records_output_mtime(&self) -> bool {
        self.version() == 5
    }

    /// The oldest version with the same command hash.
    pub(crate) fn hash_kind(&self) -> u32 {
        if self.version() < 7 { 5 } else { 7 }
    }

    pub fn hash_command(&self, command: &[u8]) -> u64 {
        if self.hash_kind() == 5 { hash::murmur64a(command) } else { hash::rapidhash(command) }
    }

    pub fn lookup(&self, graph: &GraphView<'_>, output: NodeId) -> Option<Entry> {
        self.entries.get(graph, output)
    }

    /// The parts of the entry that matter for the dirty check.
    pub fn logged_command(&self, graph: &GraphView<'_>, output: NodeId) -> Option<LoggedCommand> {
        self.entries.logged_command(graph, output)
    }

    /// All outputs with their entries, without duplicates, in log order.
    pub fn entries<'a>(&'a self, graph: &GraphView<'_>) -> impl Iterator<Item = (&'a [u8], Entry)> {
        self.entries.iter(graph)
    }

    /// Allows writing. Rewrites the log without obsolete outputs if most of its lines are superseded, and removes it if
    /// it cannot be read; otherwise writes nothing before the first entry.
    pub fn open(&mut self, graph: &GraphView<'_>, is_obsolete: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let opened = match self.status {
            Status::Unsupported => self.start_over(graph),
            Status::Valid if self.entries.needs_recompaction() && graph.is_intact() => {
                self.rewrite(graph, ".recompact", |output, _| Ok(!is_obsolete(output)))
            }
            _ => Ok(()),
        };
        opened.map_err(with_context(b"opening build log: "))?;
        self.writes = true;
        Ok(())
    }

    /// Queues an entry for each output. The log does not contain it before the next `flush`.
    pub fn note<'a>(&mut self, outputs: impl IntoIterator<Item = &'a [u8]>, entry: Entry) {
        self.notes.extend(outputs.into_iter().map(|output| (output.to_vec(), entry)));
    }

    /// Loads a log that another process has created, so that new entries fit its version.
    pub fn adopt_new_file(&mut self, graph: &GraphView<'_>) -> Result<()> {
        let BuildLog { entries, file: Some(file), writes: true, .. } = self else { return Ok(()) };
        if entries.len() == 0 && file.is_there() {
            read_appended(entries, &mut file.lock()?, graph)?;
        }
        Ok(())
    }

    /// Writes all queued entries. On error they stay queued.
    pub fn flush(&mut self, graph: &GraphView<'_>) -> Result<()> {
        if self.notes.is_empty() {
            return Ok(());
        }
        self.append(graph).map_err(with_context(b"Error writing to build log: "))
    }

    /// Queues an entry and writes it.
    pub fn record<'a>(
        &mut self,
        graph: &GraphView<'_>,
        outputs: impl IntoIterator<Item = &'a [u8]>,
        entry: Entry,
    ) -> Result<()> {
        self.note(outputs, entry);
        self.flush(graph)
    }

    /// Lets another process write to the log: creates the file with its header. The next write reads appended entries.
    pub fn close(&mut self, graph: &GraphView<'_>) -> Result<()> {
        if !self.writes || self.entries.len() > 0 {
            return Ok(());
        }
        self.append(graph).map_err(with_context(b"Error writing to build log: "))
    }

    /// `-t recompact`: rewrites the log with one line for each output that is not obsolete. Does nothing without a
    /// file.
    pub fn recompact(&mut self, graph: &GraphView<'_>, is_obsolete: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let done = match self.status {
            Status::Missing => Ok(()),
            Status::Unsupported => self.start_over(graph),
            Status::Valid => self.rewrite(graph, ".recompact", |output, _| Ok(!is_obsolete(output))),
        };
        done.map_err(with_context(b"failed recompaction: "))
    }

    /// `-t restat`: sets the mtime in the entries of these outputs (all, if empty) to the file's current mtime.
    pub fn restat(&mut self, graph: &GraphView<'_>, disk: &mut dyn Disk, outputs: &[&[u8]]) -> Result<()> {
        let restat = |output: &[u8], entry: &mut Entry| {
            if outputs.is_empty() || outputs.contains(&output) {
                entry.mtime = mtime(disk, output)?;
            }
            Ok(true)
        };
        let done = match self.status {
            Status::Missing => Ok(()),
            Status::Unsupported => self.start_over(graph),
            Status::Valid => self.rewrite(graph, ".restat", restat),
        };
        done.map_err(with_context(b"failed recompaction: "))
    }

    fn append(&mut self, graph: &GraphView<'_>) -> Result<()> {
        let BuildLog { entries, file, writes, notes, .. } = self;
        let draft = match file {
            Some(file) if *writes => {
                let mut locked = file.lock()?;
                read_appended(entries, &mut locked, graph)?;
                let draft = entries.draft(notes);
                locked.append(entries.len(), &draft.text)?;
                draft
            }
            _ => entries.draft(notes),
        };
        entries.commit(draft, graph);
        notes.clear();
        Ok(())
    }

    fn rewrite(
        &mut self,
        graph: &GraphView<'_>,
        suffix: &str,
        keep: impl FnMut(&[u8], &mut Entry) -> Result<bool>,
    ) -> Result<()> {
        let BuildLog { entries, file, .. } = self;
        let Some(file) = file else { return Ok(()) };
        let mut locked = file.lock()?;
        read_appended(entries, &mut locked, graph)?;
        let text = entries.rewritten(graph, keep)?;
        if entries.text().is_torn() {
            return Err(truncated_error());
        }
        locked.replace(suffix, &[&text])?;
        entries.clear(graph);
        let header = entries.read(Content::Read(text), graph, ReadPlan::ONE);
        assert_eq!(header, Header::Supported, "a log that we wrote is one that we read");
        Ok(())
    }

    /// Removes an unreadable log, unless another process has replaced it by a valid one.
    fn start_over(&mut self, graph: &GraphView<'_>) -> Result<()> {
        let BuildLog { entries, file: Some(file), .. } = self else { return Ok(()) };
        let mut locked = file.lock()?;
        read_appended(entries, &mut locked, graph)?;
        if entries.len() > 0 {
            self.status = Status::Valid;
        } else {
            locked.remove()?;
            self.status = Status::Missing;
        }
        Ok(())
    }
}

/// Reads entries that other processes appended, and cuts off an incomplete line.
fn read_appended(entries: &mut Entries, locked: &mut LockedLog<'_>, graph: &GraphView<'_>) -> Result<()> {
    let tail = locked.tail(entries.len())?;
    if tail.restart {
        entries.clear(graph);
    }
    if !tail.bytes.is_empty() {
        // After an unsupported header, nothing is kept and the log is started over.
        entries.read(Content::Read(tail.bytes), graph, ReadPlan::ONE);
    }
    Ok(locked.cut(entries.len())?)
}

fn mtime(disk: &mut dyn Disk, output: &[u8]) -> Result<Mtime> {
    disk.mtime(output).map_err(|error| Error::stat(output, &error))
}
