//! `.ninja_log`: what ran last to make each output, how long it took, and what the output was up to date with.
//! Does not know edges, nor whether an output is still wanted: it asks.
//!
//! It knows its outputs by the nodes of one graph, which all its functions are given, and by their paths if they are
//! no nodes or became nodes after the log was loaded.

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

/// The build log: entries in memory, and their file.
pub struct BuildLog {
    entries: Entries,
    file: Option<LogFile>,
    status: Status,
    /// `open` was called: what is recorded goes into the file.
    writes: bool,
    /// Noted, and not yet in the file.
    notes: Vec<(Vec<u8>, Entry)>,
}

/// What loading found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Missing,
    /// A version that is not ours: the file goes as soon as we may write.
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

    /// Is there no log at `path`, or one of a version that is read? Looks at its beginning alone.
    pub fn has_supported_header(path: &[u8]) -> bool {
        read_head(path).is_some_and(|text| text.is_empty() || read_header(&text).0 == Header::Supported)
    }

    /// Reads the log at `path`, writing nothing. A log of version 5, 6 or 7 stays what it is; where there is none,
    /// or none that can be read, a new one is to have `new_version`. The second value is a warning.
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

    /// What is known of the log now, to be kept. None if there is no file with such a log.
    pub fn state(&self) -> Option<BuildLogState> {
        Some(self.entries.state(self.file.as_ref()?.fingerprint(self.entries.text())?))
    }

    /// How many bytes of the log are not known from what was kept.
    pub fn unsaved_bytes(&self) -> usize {
        self.entries.unsaved_bytes()
    }

    /// As `load`, but from what was kept, where the nodes have the numbers that they had there: only what was added to
    /// the log since is read. None if that cannot be done: the file is another one now, or was written again, or the
    /// parts do not fit the graph.
    pub fn resume(path: &[u8], parts: BuildLogIndex, graph: &GraphView<'_>, threads: ThreadLimit) -> Option<Self> {
        let BuildLogIndex { facts: [version, lines, nodes, fingerprint @ ..], last, side, made } = parts;
        let version = u32::try_from(version).ok().filter(|version| (OLDEST..=NEWEST).contains(version))?;
        let fingerprint = LogFingerprint::from_words(fingerprint);
        if last.len() > graph.node_count() || lines.max(nodes) > fingerprint.length() as u64 {
            return None;
        }
        let (file, text) = LogFile::resume(path, &fingerprint)?;
        let plan = ReadPlan::of(text.len() - fingerprint.length(), threads);
        let index = EntryIndex { version, lines: lines as usize, nodes: nodes as usize, last, side, made };
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

    /// Gives a log that is yet to be made another version. Does nothing to one that was found.
    pub fn set_new_version(&mut self, version: u32, graph: &GraphView<'_>) {
        if !self.was_found() && self.entries.len() == 0 {
            self.entries = Entries::new(version, graph.steady_count());
        }
    }

    /// Did a ninja up to 1.11 log this output, which was made by this command? It takes a log of version 7 for one of its
    /// own, and adds hashes of version 5.
    pub fn logged_by_older_ninja(&self, graph: &GraphView<'_>, output: NodeId, command: &[u8]) -> bool {
        let logged = || self.logged_command(graph, output).map(|made| made.command_hash);
        self.hash_kind() == 7 && logged() == Some(hash::murmur64a(command))
    }

    /// Is there a file, of ours or not?
    pub fn has_file(&self) -> bool {
        self.status != Status::Missing
    }

    /// Is there a log that could be read? (`-t restat` does not even warn where there is none.)
    pub fn was_found(&self) -> bool {
        self.status == Status::Valid
    }

    /// 5, 6 or 7.
    pub fn version(&self) -> u32 {
        self.entries.version()
    }

    /// What an entry's mtime is to be, apart from 0 for a dry run.
    ///
    /// False (versions 6 and 7): the clock of the file system when the command was started; for a `restat` or
    /// `generator` edge the newest output's mtime if that is larger, but the start again if an output was found
    /// unchanged and cleaned.
    ///
    /// True (version 5): the newest output's mtime; if an output was found unchanged and cleaned, the newest mtime
    /// of the inputs that are not order-only, or the depfile's if that is newer, there is no `deps` and some input
    /// exists.
    ///
    /// Read it the same way in all versions: an output whose entry is older than its newest input is dirty, and
    /// for a `restat` edge the entry alone counts.
    pub fn records_output_mtime(&self) -> bool {
        self.version() == 5
    }

    /// The oldest version whose hashes are those of this log.
    pub(crate) fn hash_kind(&self) -> u32 {
        if self.version() < 7 { 5 } else { 7 }
    }

    /// The hash of a command, as entries of this log have it.
    pub fn hash_command(&self, command: &[u8]) -> u64 {
        if self.hash_kind() == 5 { hash::murmur64a(command) } else { hash::rapidhash(command) }
    }

    /// What made `output` last.
    pub fn lookup(&self, graph: &GraphView<'_>, output: NodeId) -> Option<Entry> {
        self.entries.get(graph, output)
    }

    /// The same, as far as it decides whether the output is dirty.
    pub fn logged_command(&self, graph: &GraphView<'_>, output: NodeId) -> Option<LoggedCommand> {
        self.entries.logged_command(graph, output)
    }

    /// All outputs with their entries, each once, in the order of the log.
    pub fn entries<'a>(&'a self, graph: &GraphView<'_>) -> impl Iterator<Item = (&'a [u8], Entry)> {
        self.entries.iter(graph)
    }

    /// From now on the log may be written to. It is rewritten without the dead outputs if most of its lines are void,
    /// and removed if it cannot be read; otherwise nothing is written before the first record.
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

    /// Notes for each of the outputs that a command has made it. The log does not know it before the next `flush`.
    pub fn note<'a>(&mut self, outputs: impl IntoIterator<Item = &'a [u8]>, entry: Entry) {
        self.notes.extend(outputs.into_iter().map(|output| (output.to_vec(), entry)));
    }

    /// Takes in a log that another process has made where there was none, so that what is noted next fits its version.
    pub fn adopt_new_file(&mut self, graph: &GraphView<'_>) -> Result<()> {
        let BuildLog { entries, file: Some(file), writes: true, .. } = self else { return Ok(()) };
        if entries.len() == 0 && file.is_there() {
            read_appended(entries, &mut file.lock()?, graph)?;
        }
        Ok(())
    }

    /// Writes what was noted. Where that cannot be, all of it stays noted.
    pub fn flush(&mut self, graph: &GraphView<'_>) -> Result<()> {
        if self.notes.is_empty() {
            return Ok(());
        }
        self.append(graph).map_err(with_context(b"Error writing to build log: "))
    }

    /// As `note`, but it is in the file when this returns.
    pub fn record<'a>(
        &mut self,
        graph: &GraphView<'_>,
        outputs: impl IntoIterator<Item = &'a [u8]>,
        entry: Entry,
    ) -> Result<()> {
        self.note(outputs, entry);
        self.flush(graph)
    }

    /// Lets others have the log: after this there is a file, if only with a header. The next record takes in what
    /// they did.
    pub fn close(&mut self, graph: &GraphView<'_>) -> Result<()> {
        if !self.writes || self.entries.len() > 0 {
            return Ok(());
        }
        self.append(graph).map_err(with_context(b"Error writing to build log: "))
    }

    /// `-t recompact`: rewrites the log, one line for each output that is not dead. Does nothing without a
    /// file.
    pub fn recompact(&mut self, graph: &GraphView<'_>, is_obsolete: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let done = match self.status {
            Status::Missing => Ok(()),
            Status::Unsupported => self.start_over(graph),
            Status::Valid => self.rewrite(graph, ".recompact", |output, _| Ok(!is_obsolete(output))),
        };
        done.map_err(with_context(b"failed recompaction: "))
    }

    /// `-t restat`: gives the entries of these outputs (of all, if there are none) the mtime that the file has now.
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

    /// Removes a log that cannot be read, unless another process has made it one that can.
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

/// Takes in what other processes did to the file, and cuts off what is not sound.
fn read_appended(entries: &mut Entries, locked: &mut LockedLog<'_>, graph: &GraphView<'_>) -> Result<()> {
    let tail = locked.tail(entries.len())?;
    if tail.restart {
        entries.clear(graph);
    }
    if !tail.bytes.is_empty() {
        // A header that is not known leaves nothing: the log is started over.
        entries.read(Content::Read(tail.bytes), graph, ReadPlan::ONE);
    }
    Ok(locked.cut(entries.len())?)
}

fn mtime(disk: &mut dyn Disk, output: &[u8]) -> Result<Mtime> {
    disk.mtime(output).map_err(|error| Error::stat(output, &error))
}
