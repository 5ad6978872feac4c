//! Implements the run loop's `Frontend` for ninja: prepares an edge before its command runs, and updates the logs and
//! the plan when it finishes.

mod contents;
mod edge_command;

use std::fs::File;

use tanto_cas::RecentDigests;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::CostLookup;
use tanto_exec::job::{
    CacheOutcome, Capture, Command, CommandFiles, Completion, Cost, Exit, InputRecording, JobId, JobInfo,
};
use tanto_exec::schedule::Schedule;
use tanto_sys::error::text as os_text;
use tanto_sys::fs::change_boundary::ChangeBoundary;

use crate::builddir;
use crate::depfile;
use crate::disk::Mtime;
use crate::error::{Error, Result};
use crate::graph::Escape;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId, PoolId, RuleId};
use crate::input_trace::InputTrace;
use crate::logs::{Entry, LoggedCommand};
use crate::msvc;
use crate::plan::{Plan, PlanContext};
use crate::scan::Scan;

use self::contents::ContentRecorder;
use self::edge_command::{DepsSource, EdgeCommand};

#[derive(Clone, Default, Debug)]
pub struct FrontendOptions {
    /// `-n`: show commands without running them or writing files.
    pub dry_run: bool,
    /// `-d keepdepfile`: keep a depfile after reading it.
    pub keep_depfile: bool,
    /// `-d keeprsp`: keep a response file after its command succeeded.
    pub keep_rspfile: bool,
    /// Include phony edges and dependencies in events, for recording the build.
    pub detail: bool,
    /// Pass the declared files of commands to the runner, for an action cache.
    pub declare_files: bool,
    /// Rules whose commands an action cache may trace: names, of which the last character can be `*`.
    pub traced_rules: Vec<Vec<u8>>,
}

/// The state of an edge while its command runs.
struct RunningEdge {
    /// The file system's time at the start; 0 if unknown.
    start: Mtime,
    /// The hash version and the hash of the command.
    hash: (u32, u64),
    /// Inputs from the depfile or the output.
    discovered: Vec<NodeId>,
    /// Empty if there is none.
    depfile: Vec<u8>,
    /// Empty if there is none.
    rspfile: Vec<u8>,
    deps: DepsSource,
    /// The cost of the real run, if the result came from a cache.
    cached_cost: Option<Cost>,
}

impl RunningEdge {
    /// Notes that the result came from a cache: a later change of an input is a change after the start.
    fn note_cached(&mut self, inputs_seen_at: Option<Mtime>, cost: Cost) {
        self.start = inputs_seen_at.map_or(self.start, |at| self.start.min(at));
        self.cached_cost = Some(cost);
    }

    /// Returns the discovered inputs, also those in a depfile that stays where it is.
    fn all_discovered(&self, scan: &mut Scan<'_, '_>) -> Vec<NodeId> {
        if self.deps.kind.is_empty()
            && let Ok(text) = scan.disk.read(&self.depfile)
            && let Ok(depfile) = depfile::parse(&text)
        {
            return scan.intern_all(&depfile.ins);
        }
        self.discovered.clone()
    }
}

pub struct NinjaFrontend<'a, 't> {
    pub scan: Scan<'a, 't>,
    /// Costs from earlier builds, by output path.
    pub cost_history: Option<CostLookup<'a>>,
    /// Receives the recorded inputs of commands. The runner must be able to record them.
    pub input_trace: Option<InputTrace>,
    /// Digests of files that the runner has read or written.
    pub recent_digests: RecentDigests,
    plan: Plan<'a>,
    options: FrontendOptions,
    /// What to record when the build ends; `None` before it begins, or if only times decide.
    content_recorder: Option<ContentRecorder>,
    running: Map<JobId, RunningEdge>,
    /// An unnamed file, created at the first start, and touched at each start to read the file system's clock.
    clock: Option<File>,
    /// The path at which it is created.
    clock_file: Vec<u8>,
}

impl<'a, 't> NinjaFrontend<'a, 't> {
    pub fn new(scan: Scan<'a, 't>, options: FrontendOptions) -> Self {
        let clock_file = builddir::join(builddir::path(scan.graph), ".ninja_lock");
        NinjaFrontend {
            scan,
            cost_history: None,
            input_trace: None,
            recent_digests: RecentDigests::default(),
            plan: Plan::default(),
            options,
            content_recorder: None,
            running: Map::default(),
            clock: None,
            clock_file,
        }
    }

    /// Clears the plan, for another build with the same scan.
    pub fn new_plan(&mut self) {
        self.plan = Plan::default();
        self.running.clear();
    }

    /// Adds the targets in order, prefetching the states of their files.
    pub fn add_targets(&mut self, schedule: &mut Schedule, view: &mut dyn View, targets: &[NodeId]) -> Result<()> {
        self.scan.prefetch(targets);
        let added = targets.iter().try_for_each(|&target| self.add_target(schedule, view, target));
        self.scan.end_prefetch();
        added
    }

    /// Adds a target, everything it needs, and its validations.
    fn add_target(&mut self, schedule: &mut Schedule, view: &mut dyn View, target: NodeId) -> Result<()> {
        let validations = self.scan.recompute_dirty(target);
        self.explain(view);
        let validations = validations?;
        self.add_to_plan(schedule, view, target)?;
        for validation in validations {
            if self.scan.graph.in_edge(validation).is_some() {
                self.add_to_plan(schedule, view, validation)?;
            }
        }
        Ok(())
    }

    fn add_to_plan(&mut self, schedule: &mut Schedule, view: &mut dyn View, target: NodeId) -> Result<()> {
        let edge = self.scan.graph.in_edge(target);
        if edge.is_some_and(|edge| self.scan.outputs_ready(edge)) {
            return Ok(());
        }
        let mut ctx = PlanContext { scan: &mut self.scan, schedule, view };
        self.plan.add_target(&mut ctx, target)
    }

    /// Starts the schedule with this many slots. Call after all targets were added.
    pub fn begin(&mut self, schedule: &mut Schedule, slots: usize) {
        self.plan.begin(&self.scan, schedule, slots, self.cost_history);
        if self.scan.contents.is_some() && !self.options.dry_run {
            let began = ChangeBoundary::now(self.scan.systems());
            self.content_recorder = Some(ContentRecorder::new(began, self.recent_digests.clone()));
        }
    }

    fn start_edge(&mut self, job: JobId) -> Result<Start> {
        let edge = self.plan.edge(job);
        let graph = &self.scan.graph;
        if graph.edge(edge).is_phony() {
            return Ok(Start::NoOp(self.noop_info(job)));
        }
        // A nested build must find the records of all commands before it.
        self.flush_logs()?;
        let evaluated = match self.evaluated(edge) {
            // The snapshot was found damaged, so the command is unknown.
            Err(error) if !error.is_fatal() => {
                return Ok(Start::Fail(self.job_info(job, Vec::new(), Vec::new()), error.text().into_owned()));
            }
            evaluated => evaluated?,
        };
        if evaluated.generator {
            self.scan.log.close(self.scan.graph)?;
        }
        let start = if self.options.dry_run { 0 } else { self.prepare(edge, &evaluated)? };
        let EdgeCommand { command: line, description, hash, depfile, rspfile, deps, .. } = evaluated;
        let files = self.options.declare_files.then(|| {
            let reads_depfile = deps.kind == b"gcc" && !self.options.keep_depfile;
            let (depfile, rspfile) = (depfile.clone(), rspfile.clone());
            let may_trace = self.is_traced(self.scan.graph.edge(edge).rule);
            Box::new(CommandFiles { outputs: self.outputs(job), depfile, rspfile, reads_depfile, may_trace })
        });
        let edge = RunningEdge { start, hash, discovered: Vec::new(), depfile, rspfile, deps, cached_cost: None };
        self.running.insert(job, edge);
        let job_info = self.job_info(job, line.clone(), description);
        let record_inputs = if self.input_trace.is_some() { InputRecording::Library } else { InputRecording::Off };
        let command = Command { line, console: job_info.console, record_inputs, files, ..Command::default() };
        Ok(Start::Run(command, job_info))
    }

    fn is_traced(&self, rule: RuleId) -> bool {
        let name = self.scan.graph.rule_name(rule);
        self.options.traced_rules.iter().any(|wanted| match wanted.strip_suffix(b"*") {
            Some(prefix) => name.starts_with(prefix),
            None => name == wanted,
        })
    }

    /// Evaluates all bindings before the command starts, because it may change the manifest.
    fn evaluated(&self, edge: EdgeId) -> Result<EdgeCommand> {
        let evaluated = EdgeCommand::of(self.scan.graph, edge)?;
        let hash = if self.options.dry_run { (0, 0) } else { self.hash(edge, &evaluated.command)? };
        Ok(EdgeCommand { hash, ..evaluated })
    }

    fn job_info(&self, job: JobId, command: Vec<u8>, description: Vec<u8>) -> JobInfo {
        let it = self.scan.graph.edge(self.plan.edge(job));
        JobInfo {
            command,
            description,
            outputs: self.outputs(job),
            console: it.pool == PoolId::CONSOLE,
            why: self.scan.explanations.of_nodes(self.scan.graph, it.outs),
            after: self.dependencies(job),
        }
    }

    /// Returns the hash version and the hash.
    fn hash(&self, edge: EdgeId, line: &[u8]) -> Result<(u32, u64)> {
        let log = &self.scan.log;
        let hash = self.scan.graph.hash_of(edge, line, log.hash_kind(), |command| log.hash_command(command))?;
        Ok((log.hash_kind(), hash))
    }

    /// Information about a job that runs nothing. Only phony edges have outputs here: no event names those of a command
    /// that was cleaned.
    fn noop_info(&self, job: JobId) -> JobInfo {
        let edge = self.scan.graph.edge(self.plan.edge(job));
        let named = self.options.detail && edge.is_phony();
        let outputs = if named { self.outputs(job) } else { Vec::new() };
        JobInfo { outputs, after: self.dependencies(job), ..JobInfo::default() }
    }

    fn dependencies(&self, job: JobId) -> Vec<JobId> {
        if self.options.detail { self.plan.dependencies(&self.scan, job) } else { Vec::new() }
    }

    /// Creates the directories and the response file. Returns the file system's time.
    fn prepare(&mut self, edge: EdgeId, evaluated: &EdgeCommand) -> Result<Mtime> {
        self.void_record(edge);
        let mut start = None;
        for &out in self.scan.graph.edge(edge).outs {
            let path = self.scan.graph.path(out);
            self.make_parents(path)?;
            if start.is_none() {
                start = Some(self.file_system_now());
            }
        }
        let outs = self.scan.graph.edge(edge).outs;
        let is_beside = |&out: &NodeId| dir_of(self.scan.graph.path(out)) == dir_of(&evaluated.depfile);
        if !evaluated.depfile.is_empty() && !outs.iter().any(is_beside) {
            self.make_parents(&evaluated.depfile)?;
        }
        if !evaluated.rspfile.is_empty() {
            let written = self.scan.disk.write(&evaluated.rspfile, &evaluated.rspfile_content);
            written.map_err(|error| Error::new(&[b"WriteFile(", &evaluated.rspfile, b"): ", &os_text(&error)]))?;
        }
        Ok(start.unwrap_or(0))
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<()> {
        // The error names the directory.
        self.scan.disk.make_parents(path).map_err(Error::from)
    }

    /// Returns 0 if unknown.
    fn file_system_now(&mut self) -> Mtime {
        self.scan.disk.now(&self.clock_file, &mut self.clock).unwrap_or(0)
    }

    /// Reads the discovered inputs. An error makes the command fail.
    fn extract_deps(&mut self, completion: &mut Completion) -> Result<Vec<NodeId>> {
        let Some(RunningEdge { deps, depfile, .. }) = self.running.get(&completion.job) else { return Ok(Vec::new()) };
        match deps.kind.as_slice() {
            b"" => Ok(Vec::new()),
            b"msvc" if completion.capture != Capture::Complete => {
                Err("too much output to search for included files".into())
            }
            b"msvc" => Ok(self.scan.intern_all(&msvc::take_includes(&mut completion.output, &deps.prefix))),
            b"gcc" => {
                let path = depfile.clone();
                match completion.depfile.take() {
                    Some(text) => self.parse_depfile(&text),
                    None => self.read_depfile(&path),
                }
            }
            other => Err(Error::fatal(&[b"unknown deps type '", other, b"'"])),
        }
    }

    fn read_depfile(&mut self, path: &[u8]) -> Result<Vec<NodeId>> {
        if path.is_empty() {
            return Err("edge with deps=gcc but no depfile makes no sense".into());
        }
        if self.options.dry_run {
            // An existing file is not from this run.
            return Ok(Vec::new());
        }
        let text = match self.scan.disk.read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| Error::new(&[&os_text(&error)]))?,
        };
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.parse_depfile(&text)?;
        if !self.options.keep_depfile {
            let removed = self.scan.disk.remove(path);
            removed.map_err(|error| Error::new(&[b"deleting depfile: ", (&os_text(&error)), b"\n"]))?;
        }
        Ok(found)
    }

    fn parse_depfile(&mut self, text: &[u8]) -> Result<Vec<NodeId>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.scan.intern_all(&depfile::parse(text)?.ins))
    }

    fn trace_inputs(&mut self, completion: &mut Completion) {
        let (Some(trace), Some(list)) = (&mut self.input_trace, completion.inputs.take()) else { return };
        let Some(running) = self.running.get(&completion.job) else { return };
        let discovered = running.all_discovered(&mut self.scan);
        let own = [running.depfile.as_slice(), running.rspfile.as_slice()];
        trace.record(self.scan.graph, self.plan.edge(completion.job), &discovered, &own, &list);
    }

    /// Updates the plan and then the logs.
    fn succeeded(&mut self, job: JobId, times: (i64, i64), schedule: &mut Schedule, view: &mut dyn View) -> Result<()> {
        let edge = self.plan.edge(job);
        let running = self.running.remove(&job).expect("a job that ran was started");
        if !self.options.dry_run {
            // A nested build may have created a log of another version.
            self.scan.log.adopt_new_file(self.scan.graph)?;
        }
        let mtime = match self.options.dry_run {
            true => 0,
            false => self.restat(edge, running.start, schedule, view)?,
        };
        self.outputs_done(edge, schedule, view)?;
        if self.options.dry_run {
            return Ok(());
        }
        self.remove_rspfile(&running.rspfile);
        // The log is a source of estimates.
        let times = running.cached_cost.map_or(times, |cost| (times.0, times.0 + i64::from(cost.wall_ms)));
        let logged = self.record(edge, times, mtime, running.hash)?;
        self.note_contents(edge, logged, &running);
        self.cut_off(edge, schedule, view)?;
        if running.deps.kind.is_empty() { Ok(()) } else { self.record_deps(edge, running.discovered) }
    }

    /// Returns the mtime for the log: the start of the command, or the newest output's if that is later. For `restat`
    /// edges, cleans the dependents of unchanged outputs.
    fn restat(&mut self, edge: EdgeId, start: Mtime, schedule: &mut Schedule, view: &mut dyn View) -> Result<Mtime> {
        let restat = self.scan.graph.flag(edge, b"restat")?;
        let generator = self.scan.graph.flag(edge, b"generator")?;
        let output_mtime_wanted = self.scan.log.records_output_mtime();
        if start != 0 && !restat && !generator && !output_mtime_wanted {
            return Ok(start);
        }
        let (mut newest, mut newest_output, mut cleaned) = (start, 0, false);
        for &out in self.scan.graph.edge(edge).outs {
            let mtime = self.stat(out)?;
            newest = newest.max(mtime);
            newest_output = newest_output.max(mtime);
            // This includes an output that is missing and was missing before.
            if restat && mtime == self.scan.mtime(out) {
                let mut ctx = PlanContext { scan: &mut self.scan, schedule: &mut *schedule, view: &mut *view };
                self.plan.clean_node(&mut ctx, out)?;
                cleaned = true;
            }
        }
        match (output_mtime_wanted, cleaned) {
            (true, cleaned) => self.v5_restat_mtime(edge, newest_output, cleaned),
            (false, true) => Ok(start),
            (false, false) => Ok(newest),
        }
    }

    /// The mtime for a log of version 5: the newest output's or, if restat cleaned anything, the newest input's.
    fn v5_restat_mtime(&mut self, edge: EdgeId, newest_output: Mtime, cleaned: bool) -> Result<Mtime> {
        if !cleaned {
            return Ok(newest_output);
        }
        let mut newest = 0;
        for input in self.scan.dirtying_ins(edge) {
            newest = newest.max(self.stat(input)?);
        }
        let depfile = self.scan.graph.binding(edge, b"depfile", Escape::None)?;
        if newest != 0 && !depfile.is_empty() && !self.scan.graph.flag(edge, b"deps")? {
            newest = newest.max(self.scan.disk.mtime(&depfile).map_err(|error| Error::stat(&depfile, &error))?);
        }
        Ok(newest)
    }

    fn stat(&mut self, node: NodeId) -> Result<Mtime> {
        let path = self.scan.graph.path(node);
        self.scan.disk.mtime(path).map_err(|error| Error::stat(path, &error))
    }

    /// Marks the outputs as ready, and loads the dyndep files among them.
    fn outputs_done(&mut self, edge: EdgeId, schedule: &mut Schedule, view: &mut dyn View) -> Result<()> {
        self.scan.set_outputs_ready(edge);
        let is_pending = |&out: &NodeId| self.scan.graph.dyndep_pending(out);
        let files: Vec<NodeId> = self.scan.graph.edge(edge).outs.iter().copied().filter(is_pending).collect();
        if files.is_empty() {
            return Ok(());
        }
        // The dirty check after loading reads the logs.
        self.flush_logs()?;
        // Load all files before updating the plan: otherwise a walk that reaches the next file would load it without
        // the plan's knowledge.
        let mut updates = Vec::new();
        for &file in &files {
            let loaded = self.scan.load_dyndep(file);
            self.explain(view);
            updates.extend(loaded?);
        }
        let mut ctx = PlanContext { scan: &mut self.scan, schedule, view };
        self.plan.apply_dyndeps(&mut ctx, &files, &updates)
    }

    /// Reports explanations that belong to no command.
    fn explain(&mut self, view: &mut dyn View) {
        for text in self.scan.explanations.take_announcements() {
            view.event(Event::Notice { level: Level::Explain, text: &text });
        }
    }

    fn remove_rspfile(&mut self, rspfile: &[u8]) {
        if !rspfile.is_empty() && !self.options.keep_rspfile {
            // Like ninja, ignore errors: a left-over response file is harmless.
            let _ = self.scan.disk.remove(rspfile);
        }
    }

    /// Queues log entries for the outputs, to be written by the next flush.
    fn record(
        &mut self,
        edge: EdgeId,
        times: (i64, i64),
        mtime: Mtime,
        (kind, hash): (u32, u64),
    ) -> Result<LoggedCommand> {
        let clip = |ms: i64| i32::try_from(ms).unwrap_or(i32::MAX);
        let graph = &self.scan.graph;
        let log = &mut self.scan.log;
        // A command may have replaced the log by one of another version.
        let command_hash = match kind == log.hash_kind() {
            true => hash,
            false => graph.command_hash(edge, log.hash_kind(), |command| log.hash_command(command))?,
        };
        let entry = Entry { command_hash, start_ms: clip(times.0), end_ms: clip(times.1), mtime };
        log.note(graph.edge(edge).outs.iter().map(|&out| graph.path(out)), entry);
        Ok(LoggedCommand { command_hash, mtime })
    }

    /// Queues a deps record for each output, with that output's mtime. A newer output makes the record stale.
    fn record_deps(&mut self, edge: EdgeId, ins: Vec<NodeId>) -> Result<()> {
        for &out in self.scan.graph.edge(edge).outs {
            let mtime = match self.noted_mtime(out) {
                Some(mtime) => mtime,
                None => self.stat(out)?,
            };
            self.scan.deps_log.note(out, mtime, ins.clone());
        }
        Ok(())
    }

    /// Writes the queued entries of finished jobs.
    fn flush_logs(&mut self) -> Result<()> {
        let build = self.scan.log.flush(self.scan.graph);
        build.and(self.scan.deps_log.flush(self.scan.graph))
    }

    /// Removes partial outputs of an interrupted command.
    fn remove_outputs(&mut self, edge: EdgeId, depfile: &[u8], view: &mut dyn View) {
        for &out in self.scan.graph.edge(edge).outs {
            let path = self.scan.graph.path(out);
            let changed = match self.stat(out) {
                Ok(mtime) => mtime != self.scan.mtime(out),
                Err(error) => {
                    view.event(Event::Notice { level: Level::Error, text: &error.text() });
                    true
                }
            };
            // A command with a depfile may have written the depfile before the output.
            if changed || !depfile.is_empty() {
                let _ = self.scan.disk.remove(path);
            }
        }
        if !depfile.is_empty() {
            let _ = self.scan.disk.remove(depfile);
        }
    }
}

impl Frontend for NinjaFrontend<'_, '_> {
    fn start(&mut self, job: JobId) -> std::result::Result<Start, Fatal> {
        self.start_edge(job).map_err(fatal)
    }

    fn describe_noop(&self, job: JobId) -> Option<JobInfo> {
        self.options.detail.then(|| self.noop_info(job))
    }

    fn finish_command(&mut self, completion: &mut Completion) -> std::result::Result<(), Fatal> {
        match self.extract_deps(completion) {
            Ok(nodes) => {
                if let Some(running) = self.running.get_mut(&completion.job) {
                    running.discovered = nodes;
                }
            }
            Err(error) if error.is_fatal() => return Err(fatal(error)),
            Err(error) if completion.exit.success() => {
                completion.append_line(&error.text());
                completion.exit = Exit::Code(1);
            }
            Err(_) => {}
        }
        self.trace_inputs(completion);
        if let Some(CacheOutcome::Hit(cost)) = completion.cache.as_ref().map(|cache| cache.outcome)
            && let Some(running) = self.running.get_mut(&completion.job)
        {
            running.note_cached(completion.inputs_seen_at, cost);
        }
        Ok(())
    }

    fn finish_job(
        &mut self,
        job: JobId,
        outcome: JobOutcome<'_>,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> std::result::Result<(), Fatal> {
        let edge = self.plan.edge(job);
        match outcome {
            JobOutcome::NoOp => self.outputs_done(edge, schedule, view),
            JobOutcome::Succeeded { start_ms, end_ms, .. } => self.succeeded(job, (start_ms, end_ms), schedule, view),
            JobOutcome::Failed => {
                self.running.remove(&job);
                Ok(())
            }
        }
        .map_err(fatal)
    }

    fn flush(&mut self, _: &mut dyn View) -> std::result::Result<(), Fatal> {
        self.flush_logs().map_err(fatal)
    }

    fn outputs(&self, job: JobId) -> Vec<Vec<u8>> {
        let graph = &self.scan.graph;
        graph.edge(self.plan.edge(job)).outs.iter().map(|&out| graph.path(out).to_vec()).collect()
    }

    fn on_abort(&mut self, job: JobId, view: &mut dyn View) {
        let edge = self.plan.edge(job);
        if let Some(running) = self.running.remove(&job)
            && !self.options.dry_run
        {
            self.remove_outputs(edge, &running.depfile, view);
        }
    }
}

/// Returns everything before the last slash.
fn dir_of(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|&byte| byte == b'/').map(|slash| &path[..slash])
}

fn fatal(error: Error) -> Fatal {
    Fatal { message: error.text().into_owned(), invalid_input: error.is_fatal() }
}
