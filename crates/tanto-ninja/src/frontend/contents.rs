//! Content beside times: renews what is up to date by content, skips commands whose inputs turn out to be unchanged, and
//! records what each command was run with.

use std::os::unix::ffi::OsStrExt;

use tanto_cas::{FileDigest, RecentDigests};
use tanto_exec::event::View;
use tanto_exec::schedule::Schedule;
use tanto_sys::fs::change_boundary::ChangeBoundary;
use tanto_sys::fs::file_stamp::fine_now;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint, Trust};
use tanto_sys::fs::stat::stat;
use tanto_sys::threads::ThreadLimit;

use crate::content::{BackgroundReader, CommandRecord, PathKey, SideEffects};
use crate::disk::Mtime;
use crate::error::Result;
use crate::hash::{Map, Set};
use crate::ids::{EdgeId, NodeId};
use crate::logs::{Entry, LoggedCommand};
use crate::plan::PlanContext;
use crate::scan::Renewal;

use super::{NinjaFrontend, RunningEdge};

/// Longest output whose content decides whether its dependents run, in bytes. The loop waits while it is read.
const MAX_CUTOFF_BYTES: u64 = 16 << 20;

/// What commands were run with, until the build ends.
pub(super) struct ContentRecorder {
    /// A boundary between earlier changes of files and those since the first command started.
    began: ChangeBoundary,
    /// In the order in which they ended.
    finished: Vec<FinishedCommand>,
    /// Outputs when their command ended.
    outputs: Map<NodeId, FileState>,
    /// Discovered inputs that no walk has seen, when they were discovered first.
    discovered: Map<NodeId, FileState>,
    /// By path: whether a directory was not changed since the build began.
    directories: Map<Vec<u8>, bool>,
    /// The working directory.
    cwd: Vec<u8>,
    /// Started with the first file, because signals are blocked only then.
    reader: Option<BackgroundReader>,
    /// Of files that the runner has read or written.
    recent: RecentDigests,
    /// Inputs that were queued for it.
    queued: Set<NodeId>,
}

struct FinishedCommand {
    edge: EdgeId,
    logged: LoggedCommand,
    discovered: Vec<NodeId>,
    side_effects: SideEffects,
}

impl ContentRecorder {
    pub(super) fn new(began: ChangeBoundary, recent: RecentDigests) -> ContentRecorder {
        let cwd = std::env::current_dir().map(|dir| dir.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        ContentRecorder {
            began,
            finished: Vec::new(),
            outputs: Map::default(),
            discovered: Map::default(),
            directories: Map::default(),
            cwd,
            reader: None,
            recent,
            queued: Set::default(),
        }
    }

    /// Reads a file in the background.
    fn queue(&mut self, node: NodeId, path: &[u8]) {
        if self.reader.is_none() {
            self.reader = BackgroundReader::start(self.recent.clone()).ok();
        }
        self.reader.iter_mut().for_each(|reader| reader.queue(node, path));
    }

    /// Returns whether no directory on the way to a file was replaced during the build. A directory whose entries changed
    /// could have been. The working directory and those above it could not.
    fn has_stable_directories(&mut self, path: &[u8], systems: &FileSystems) -> bool {
        let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        for dir in slashes.map(|at| &path[..at]) {
            let is_above = dir.split(|&byte| byte == b'/').all(|part| part == b"..")
                || (self.cwd.starts_with(dir) && matches!(self.cwd.get(dir.len()), None | Some(b'/')));
            if dir.is_empty() || is_above {
                continue;
            }
            let began = self.began;
            let is_stable = *self
                .directories
                .entry(dir.to_vec())
                .or_insert_with(|| matches!(stat(dir), Ok(Some(found)) if began.follows_change(dir, &found, systems)));
            if !is_stable {
                return false;
            }
        }
        true
    }
}

impl NinjaFrontend<'_, '_> {
    /// Returns whether outputs and log entries have to be renewed.
    pub fn has_renewals(&self) -> bool {
        self.scan.has_renewals()
    }

    /// Gives outputs and log entries of commands that are up to date by content the times that make them up to date for
    /// everyone. Returns the number of commands.
    pub fn renew(&mut self) -> Result<usize> {
        let renewals = self.scan.take_renewals();
        self.renew_all(&renewals)?;
        // While the logs are written, the outputs become known.
        let renewed = fine_now();
        self.flush_logs()?;
        let outputs: Vec<NodeId> = renewals.iter().flat_map(|it| it.outputs.iter().map(|&(out, _)| out)).collect();
        self.scan.settle(&outputs, renewed);
        Ok(renewals.len())
    }

    fn renew_all(&mut self, renewals: &[Renewal]) -> Result<()> {
        if renewals.is_empty() {
            return Ok(());
        }
        let renewed = self.scan.renew_outputs(renewals);
        for (renewal, renewed) in renewals.iter().zip(renewed) {
            // An output that cannot be renewed, or was changed just now, is found again by the next build.
            if renewed {
                self.renew_records(renewal)?;
            }
        }
        Ok(())
    }

    /// Queues log records with the time of the newest input.
    fn renew_records(&mut self, renewal: &Renewal) -> Result<()> {
        let Some(record) = self.scan.record_of(renewal.edge)? else { return Ok(()) };
        let graph = &self.scan.graph;
        let outs = graph.edge(renewal.edge).outs;
        let Some(before) = self.scan.log.lookup(graph, outs[0]) else { return Ok(()) };
        let mtime = before.mtime.max(renewal.newest);
        self.scan.log.note(outs.iter().map(|&out| graph.path(out)), Entry { mtime, ..before });
        let key = PathKey::of(graph.path(outs[0]));
        let log = LoggedCommand { mtime, ..record.log };
        // The state of a large result counts, and it has another time now.
        let outputs = match outs.iter().any(|&out| self.scan.is_large_result(out)) {
            true => self.scan.outputs_id(renewal.edge).unwrap_or(record.outputs),
            false => record.outputs,
        };
        if self.scan.graph.flag(renewal.edge, b"deps")? {
            let ins = self.scan.discovered_ins(renewal.edge);
            for &out in outs {
                let mtime = self.scan.mtime(out);
                self.scan.deps_log.note(out, mtime, ins.clone());
            }
        }
        if let Some(contents) = &mut self.scan.contents {
            contents.table().note_command(key, CommandRecord { log, outputs, ..record });
        }
        Ok(())
    }

    /// Removes the record of a command that is about to run.
    pub(super) fn void_record(&mut self, edge: EdgeId) {
        let key = PathKey::of(self.scan.graph.path(self.scan.graph.edge(edge).outs[0]));
        self.scan.contents.iter_mut().for_each(|contents| contents.void(key));
    }

    /// Notes what a command was run with. Its log entry may not be in the log yet.
    pub(super) fn note_contents(&mut self, edge: EdgeId, logged: LoggedCommand, running: &RunningEdge) {
        let Some(recorder) = &mut self.content_recorder else { return };
        for &out in self.scan.graph.edge(edge).outs {
            recorder.outputs.insert(out, self.scan.observe(out));
        }
        if !self.scan.has_record(edge).unwrap_or(false) {
            return;
        }
        let discovered = running.all_discovered(&mut self.scan);
        for &input in &discovered {
            if !self.scan.is_seen(input) {
                recorder.discovered.entry(input).or_insert_with(|| self.scan.observe(input));
            }
        }
        let side_effects = self.scan.side_effects(edge);
        recorder.finished.push(FinishedCommand { edge, logged, discovered, side_effects });
        self.queue_files(edge);
    }

    /// Returns the mtime of an output that was noted when its command ended; `None` if it is missing or unknown.
    pub(super) fn noted_mtime(&self, out: NodeId) -> Option<Mtime> {
        let state = state_of_output(&self.content_recorder, out);
        (state.fingerprint != Fingerprint::NONE).then_some(state.mtime)
    }

    /// Reads the outputs and the inputs of the last command in the background.
    fn queue_files(&mut self, edge: EdgeId) {
        let Some(recorder) = &mut self.content_recorder else { return };
        for &out in self.scan.graph.edge(edge).outs {
            if !self.scan.is_large_result(out) {
                recorder.queue(out, self.scan.graph.path(out));
            }
        }
        let discovered = recorder.finished.last().map_or(Vec::new(), |finished| finished.discovered.clone());
        for input in self.scan.graph.edge(edge).dirtying_ins().iter().copied().chain(discovered) {
            let is_source = self.scan.graph.in_edge(input).is_none();
            if is_source && recorder.queued.insert(input) && !self.scan.is_in_table(input) {
                recorder.queue(input, self.scan.graph.path(input));
            }
        }
    }

    /// Removes dependents from the plan that are up to date because the command wrote the same content as before.
    pub(super) fn cut_off(&mut self, edge: EdgeId, schedule: &mut Schedule, view: &mut dyn View) -> Result<()> {
        let is_last = |it: &&FinishedCommand| it.edge == edge && it.side_effects == SideEffects::None;
        let Some(recorder) = &self.content_recorder else { return Ok(()) };
        if recorder.finished.last().filter(is_last).is_none() {
            return Ok(());
        }
        for &out in self.scan.graph.edge(edge).outs {
            let state = state_of_output(&self.content_recorder, out);
            if self.plan.has_users(&self.scan, out) && self.scan.has_same_content(out, state, MAX_CUTOFF_BYTES) {
                let mut ctx = PlanContext { scan: &mut self.scan, schedule: &mut *schedule, view: &mut *view };
                self.plan.clean_node(&mut ctx, out)?;
            }
        }
        let renewals = self.scan.take_renewals();
        self.renew_all(&renewals)
    }

    /// Records what the commands of a build were run with. Call when the build has ended, for whatever reason.
    pub fn record_contents(&mut self, threads: ThreadLimit) -> Result<()> {
        let Some(mut recorder) = self.content_recorder.take() else { return Ok(()) };
        if recorder.finished.is_empty() || recorder.began.is_in_future() {
            return Ok(());
        }
        self.flush_logs()?;
        for finished in &recorder.finished {
            self.scan.set_discovered(finished.edge, &finished.discovered);
        }
        let files = self.files_of(&recorder.finished);
        let unstable = self.read_files(&files, &mut recorder, threads);
        for finished in &recorder.finished {
            self.record_command(finished, &unstable)?;
        }
        Ok(())
    }

    /// The inputs, with the members of groups, and the outputs of these commands.
    fn files_of(&self, finished: &[FinishedCommand]) -> Vec<NodeId> {
        let mut files = Set::default();
        for finished in finished {
            files.extend(self.scan.graph.edge(finished.edge).outs);
            self.scan.dirtying_ins(finished.edge).for_each(|input| self.scan.add_files(input, &mut files));
        }
        let mut files: Vec<NodeId> = files.into_iter().collect();
        files.sort_unstable();
        files
    }

    /// Reads files that are not in the table. Returns those that changed during the build, or could not be read.
    fn read_files(&mut self, files: &[NodeId], recorder: &mut ContentRecorder, threads: ThreadLimit) -> Set<NodeId> {
        let read = recorder.reader.take().map_or_else(Map::default, BackgroundReader::finish);
        let mut unstable = Set::default();
        let (mut known, mut unread) = (Vec::new(), Vec::new());
        for (&file, now) in files.iter().zip(self.scan.observe_all(files, threads)) {
            let made = recorder.outputs.get(&file).copied();
            let before =
                made.or_else(|| self.scan.seen_state(file)).or_else(|| recorder.discovered.get(&file).copied());
            if before != Some(now) || now == FileState::default() {
                unstable.insert(file);
                continue;
            }
            self.scan.set_state(file, now);
            if self.scan.is_in_table(file) {
                continue;
            }
            match read.get(&file).filter(|found| found.state == now) {
                Some(found) => known.push((file, Some(*found))),
                None if self.scan.is_large_result(file) => {}
                None => unread.push(file),
            }
        }
        let unread = unread.iter().copied().zip(self.scan.read_digests(&unread, threads));
        for (file, found) in known.into_iter().chain(unread) {
            match found.filter(|found| self.is_stable(file, found, recorder)) {
                Some(found) => self.scan.note_read_for_records(file, &found),
                None => _ = unstable.insert(file),
            }
        }
        unstable
    }

    /// Returns whether the commands have used this content.
    fn is_stable(&self, file: NodeId, found: &FileDigest, recorder: &mut ContentRecorder) -> bool {
        let (path, systems) = (self.scan.graph.path(file), self.scan.systems());
        if recorder.outputs.contains_key(&file) {
            return true;
        }
        if !recorder.began.follows_change(path, &found.stat, systems) {
            return false;
        }
        // Without a state from before the build, only the time of the change can tell.
        self.scan.is_seen(file) || found.trust != Trust::Never && recorder.has_stable_directories(path, systems)
    }

    fn record_command(&mut self, finished: &FinishedCommand, unstable: &Set<NodeId>) -> Result<()> {
        let edge = finished.edge;
        let graph = &self.scan.graph;
        let outs = graph.edge(edge).outs;
        let is_logged = outs.iter().all(|&out| self.scan.log.logged_command(graph, out) == Some(finished.logged));
        let mut files = Set::default();
        self.scan.dirtying_ins(edge).chain(outs.iter().copied()).for_each(|node| self.scan.add_files(node, &mut files));
        if !is_logged || files.iter().any(|file| unstable.contains(file)) {
            return Ok(());
        }
        let (Some(inputs), Some(outputs)) = (self.scan.inputs_id(edge)?, self.scan.outputs_id(edge)) else {
            return Ok(());
        };
        let key = PathKey::of(self.scan.graph.path(outs[0]));
        let Some(contents) = &mut self.scan.contents else { return Ok(()) };
        let made = contents.table().build();
        let side_effects = finished.side_effects;
        let record = CommandRecord { log: finished.logged, inputs, outputs, side_effects, made };
        contents.table().note_command(key, record);
        Ok(())
    }
}

fn state_of_output(recorder: &Option<ContentRecorder>, out: NodeId) -> FileState {
    recorder.as_ref().and_then(|recorder| recorder.outputs.get(&out)).copied().unwrap_or_default()
}
