//! Ninja's side of the run loop: what an edge's job needs before it runs, and what its end means for the logs and
//! for the rest of the plan. Does not know how a command is run, nor who looks on.

use std::fs::File;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::CostLookup;
use tanto_exec::job::{Capture, Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::schedule::Schedule;
use tanto_sys::error::text as os_text;

use crate::builddir;
use crate::depfile;
use crate::disk::Mtime;
use crate::error::{Error, Result};
use crate::graph::Escape;
use crate::graph::GraphView;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId, PoolId};
use crate::logs::Entry;
use crate::msvc;
use crate::plan::{Plan, PlanContext};
use crate::scan::Scan;

/// What the user may choose job_info a build.
#[derive(Clone, Copy, Default, Debug)]
pub struct FrontendOptions {
    /// `-n`: commands are only shown; nothing is written.
    pub dry_run: bool,
    /// `-d keepdepfile`: a depfile stays after it was read.
    pub keep_depfile: bool,
    /// `-d keeprsp`: a response file stays after its command succeeded.
    pub keep_rspfile: bool,
    /// Somebody keeps a record of the build: groups are told of too, and for each job which others it waited for.
    pub detail: bool,
}

/// What is to be remembered of an edge while its command runs.
struct RunningEdge {
    /// The file system's clock at its start; 0 if that could not be had.
    start: Mtime,
    /// The kind of its command's hash, and the hash.
    hash: (u32, u64),
    /// What its depfile, or its output, said it read.
    discovered: Vec<NodeId>,
    /// Empty if it has none.
    depfile: Vec<u8>,
    /// Likewise.
    rspfile: Vec<u8>,
    deps: DepsSource,
}

/// What says what a command has read.
struct DepsSource {
    /// `gcc` or `msvc`; empty if nothing does.
    kind: Vec<u8>,
    /// What stands before a file's name in the output; for `msvc` alone.
    prefix: Vec<u8>,
}

impl DepsSource {
    fn of(graph: &GraphView<'_>, edge: EdgeId) -> Result<DepsSource> {
        let kind = graph.binding(edge, b"deps", Escape::Shell)?;
        let prefix = || graph.binding(edge, b"msvc_deps_prefix", Escape::Shell);
        Ok(DepsSource { prefix: if kind == b"msvc" { prefix()? } else { Vec::new() }, kind })
    }
}

/// What the manifest says of a command that is to be started.
struct EdgeCommand {
    command: Vec<u8>,
    description: Vec<u8>,
    /// As `RunningEdge` has it.
    hash: (u32, u64),
    depfile: Vec<u8>,
    rspfile: Vec<u8>,
    rspfile_content: Vec<u8>,
    generator: bool,
    deps: DepsSource,
}

impl EdgeCommand {
    fn of(graph: &GraphView<'_>, edge: EdgeId) -> Result<EdgeCommand> {
        let rspfile = graph.binding(edge, b"rspfile", Escape::None)?;
        let content = || graph.binding(edge, b"rspfile_content", Escape::Shell);
        Ok(EdgeCommand {
            generator: graph.flag(edge, b"generator")?,
            deps: DepsSource::of(graph, edge)?,
            depfile: graph.binding(edge, b"depfile", Escape::None)?,
            rspfile_content: if rspfile.is_empty() { Vec::new() } else { content()? },
            rspfile,
            command: graph.binding(edge, b"command", Escape::Shell)?,
            hash: (0, 0),
            description: graph.binding(edge, b"description", Escape::Shell)?,
        })
    }
}

/// A build of some targets.
pub struct NinjaFrontend<'a, 't> {
    /// What is dirty.
    pub scan: Scan<'a, 't>,
    /// Who remembers what commands cost, besides the log.
    pub cost_history: Option<CostLookup<'a>>,
    plan: Plan<'a>,
    options: FrontendOptions,
    running: Map<JobId, RunningEdge>,
    /// A file without a name, from the first start on, that is touched at each start to read the file system's clock.
    clock: Option<File>,
    /// The name under which it is made.
    clock_file: Vec<u8>,
}

impl<'a, 't> NinjaFrontend<'a, 't> {
    /// A build over what `scan` knows.
    pub fn new(scan: Scan<'a, 't>, options: FrontendOptions) -> Self {
        let clock_file = builddir::join(builddir::path(scan.graph), ".ninja_lock");
        NinjaFrontend {
            scan,
            cost_history: None,
            plan: Plan::default(),
            options,
            running: Map::default(),
            clock: None,
            clock_file,
        }
    }

    /// Forgets the plan, for another build over the same scan.
    pub fn new_plan(&mut self) {
        self.plan = Plan::default();
        self.running.clear();
    }

    /// Adds targets, one after the other. Their files are asked for at once where that pays.
    pub fn add_targets(&mut self, schedule: &mut Schedule, view: &mut dyn View, targets: &[NodeId]) -> Result<()> {
        self.scan.prefetch(targets);
        let added = targets.iter().try_for_each(|&target| self.add_target(schedule, view, target));
        self.scan.end_prefetch();
        added
    }

    /// Adds a target, what it needs and what is to be validated with it.
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

    /// Lets the schedule begin, for so many commands at a time, when all targets have been added.
    pub fn begin(&mut self, schedule: &mut Schedule, slots: usize) {
        self.plan.begin(&self.scan, schedule, slots, self.cost_history);
    }

    fn start_edge(&mut self, job: JobId) -> Result<Start> {
        let edge = self.plan.edge(job);
        let graph = &self.scan.graph;
        if graph.edge(edge).is_phony() {
            return Ok(Start::NoOp(self.noop_info(job)));
        }
        // A build within this one finds in the logs what was done before it.
        self.flush_logs()?;
        let evaluated = match self.evaluated(edge) {
            // The manifest is not what it was: what to run is not known any more.
            Err(error) if !error.fatal => {
                return Ok(Start::Fail(self.job_info(job, Vec::new(), Vec::new()), error.text));
            }
            evaluated => evaluated?,
        };
        if evaluated.generator {
            self.scan.log.close(self.scan.graph)?;
        }
        let start = if self.options.dry_run { 0 } else { self.prepare(edge, &evaluated)? };
        let EdgeCommand { command: line, description, hash, depfile, rspfile, deps, .. } = evaluated;
        self.running.insert(job, RunningEdge { start, hash, discovered: Vec::new(), depfile, rspfile, deps });
        let job_info = self.job_info(job, line.clone(), description);
        Ok(Start::Run(Command { line, console: job_info.console, limits: None }, job_info))
    }

    /// All that is needed of the manifest, now and when the command has ended: it may change meanwhile.
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

    /// The hash of a command, and its kind.
    fn hash(&self, edge: EdgeId, line: &[u8]) -> Result<(u32, u64)> {
        let log = &self.scan.log;
        let hash = self.scan.graph.hash_of(edge, line, log.hash_kind(), |command| log.hash_command(command))?;
        Ok((log.hash_kind(), hash))
    }

    /// What may be shown of a job that runs nothing. The outputs of a command that need not run after all are told
    /// nowhere else either.
    fn noop_info(&self, job: JobId) -> JobInfo {
        let edge = self.scan.graph.edge(self.plan.edge(job));
        let named = self.options.detail && edge.is_phony();
        let outputs = if named { self.outputs(job) } else { Vec::new() };
        JobInfo { outputs, after: self.dependencies(job), ..JobInfo::default() }
    }

    fn dependencies(&self, job: JobId) -> Vec<JobId> {
        if self.options.detail { self.plan.dependencies(&self.scan, job) } else { Vec::new() }
    }

    /// Makes directories and the response file; says what the file system's clock showed.
    fn prepare(&mut self, edge: EdgeId, evaluated: &EdgeCommand) -> Result<Mtime> {
        let mut start = None;
        for &out in self.scan.graph.edge(edge).outs {
            let path = self.scan.graph.path(out);
            self.make_parents(path)?;
            if start.is_none() {
                start = Some(self.file_system_now());
            }
        }
        if !evaluated.depfile.is_empty() {
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

    /// The file system's clock; 0 if that cannot be had.
    fn file_system_now(&mut self) -> Mtime {
        self.scan.disk.now(&self.clock_file, &mut self.clock).unwrap_or(0)
    }

    /// Reads what the command discovered. An error makes the command fail.
    fn extract_deps(&mut self, completion: &mut Completion) -> Result<Vec<NodeId>> {
        let Some(RunningEdge { deps, depfile, .. }) = self.running.get(&completion.job) else { return Ok(Vec::new()) };
        match deps.kind.as_slice() {
            b"" => Ok(Vec::new()),
            b"msvc" if completion.capture != Capture::Complete => {
                Err("too much output to find in it what was included".into())
            }
            b"msvc" => Ok(self.scan.intern_all(&msvc::take_includes(&mut completion.output, &deps.prefix))),
            b"gcc" => {
                let path = depfile.clone();
                self.read_depfile(&path)
            }
            other => Err(Error::fatal(&[b"unknown deps type '", other, b"'"])),
        }
    }

    fn read_depfile(&mut self, path: &[u8]) -> Result<Vec<NodeId>> {
        if path.is_empty() {
            return Err("edge with deps=gcc but no depfile makes no sense".into());
        }
        if self.options.dry_run {
            // One that is there is none of this run's.
            return Ok(Vec::new());
        }
        let text = match self.scan.disk.read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| Error::new(&[&os_text(&error)]))?,
        };
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let found = depfile::parse(&text)?;
        if !self.options.keep_depfile {
            let removed = self.scan.disk.remove(path);
            removed.map_err(|error| Error::new(&[b"deleting depfile: ", (&os_text(&error)), b"\n"]))?;
        }
        Ok(self.scan.intern_all(&found.ins))
    }

    /// The command succeeded: what that means for the plan, then for the logs.
    fn succeeded(&mut self, job: JobId, times: (i64, i64), schedule: &mut Schedule, view: &mut dyn View) -> Result<()> {
        let edge = self.plan.edge(job);
        let running = self.running.remove(&job).expect("a job that ran was started");
        if !self.options.dry_run {
            // A nested build may have begun one of another version.
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
        self.record(edge, times, mtime, running.hash)?;
        if running.deps.kind.is_empty() { Ok(()) } else { self.record_deps(edge, running.discovered) }
    }

    /// The mtime that the log is to hold: when the command started, or of what it made where that is later. With
    /// `restat`, outputs that did not change clean what depends on them.
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
            // A missing output that was missing before did not change either.
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

    /// What a log of version 5 holds: the newest output's mtime or, if restat cleaned anything, the newest input's.
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

    /// The edge's outputs are as they should be: dyndep files among them are loaded.
    fn outputs_done(&mut self, edge: EdgeId, schedule: &mut Schedule, view: &mut dyn View) -> Result<()> {
        self.scan.set_outputs_ready(edge);
        let is_pending = |&out: &NodeId| self.scan.graph.dyndep_pending(out);
        let files: Vec<NodeId> = self.scan.graph.edge(edge).outs.iter().copied().filter(is_pending).collect();
        if files.is_empty() {
            return Ok(());
        }
        // What is dirty now may depend on what the logs say of this build.
        self.flush_logs()?;
        // All of them before the plan looks at any: a ctx that met the next one would load it behind its back.
        let mut updates = Vec::new();
        for &file in &files {
            let loaded = self.scan.load_dyndep(file);
            self.explain(view);
            updates.extend(loaded?);
        }
        let mut ctx = PlanContext { scan: &mut self.scan, schedule, view };
        self.plan.apply_dyndeps(&mut ctx, &files, &updates)
    }

    /// Says what cannot wait for a command.
    fn explain(&mut self, view: &mut dyn View) {
        for text in self.scan.explanations.take_announcements() {
            view.event(Event::Notice { level: Level::Explain, text: &text });
        }
    }

    fn remove_rspfile(&mut self, rspfile: &[u8]) {
        if !rspfile.is_empty() && !self.options.keep_rspfile {
            // It is only in the way; ninja does not mind either.
            let _ = self.scan.disk.remove(rspfile);
        }
    }

    /// Notes that the command has made its outputs. The log has it with the next flush.
    fn record(&mut self, edge: EdgeId, times: (i64, i64), mtime: Mtime, (kind, hash): (u32, u64)) -> Result<()> {
        let clip = |ms: i64| i32::try_from(ms).unwrap_or(i32::MAX);
        let graph = &self.scan.graph;
        let log = &mut self.scan.log;
        // A step of this build may have put a log of another version in the place of ours.
        let command_hash = match kind == log.hash_kind() {
            true => hash,
            false => graph.command_hash(edge, log.hash_kind(), |command| log.hash_command(command))?,
        };
        let entry = Entry { command_hash, start_ms: clip(times.0), end_ms: clip(times.1), mtime };
        log.note(graph.edge(edge).outs.iter().map(|&out| graph.path(out)), entry);
        Ok(())
    }

    /// One record for each output, with the output's own mtime: a newer output voids it.
    fn record_deps(&mut self, edge: EdgeId, ins: Vec<NodeId>) -> Result<()> {
        for &out in self.scan.graph.edge(edge).outs {
            let mtime = self.stat(out)?;
            self.scan.deps_log.note(out, mtime, ins.clone());
        }
        Ok(())
    }

    /// Writes what was noted of the jobs that are done.
    fn flush_logs(&mut self) -> Result<()> {
        let build = self.scan.log.flush(self.scan.graph);
        build.and(self.scan.deps_log.flush(self.scan.graph))
    }

    /// Removes what an interrupted command may have half written.
    fn remove_outputs(&mut self, edge: EdgeId, depfile: &[u8], view: &mut dyn View) {
        for &out in self.scan.graph.edge(edge).outs {
            let path = self.scan.graph.path(out);
            let changed = match self.stat(out) {
                Ok(mtime) => mtime != self.scan.mtime(out),
                Err(error) => {
                    view.event(Event::Notice { level: Level::Error, text: &error.text });
                    true
                }
            };
            // A command with a depfile may have written that and not yet its output.
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
            Err(error) if error.fatal => return Err(fatal(error)),
            Err(error) if completion.exit.success() => {
                completion.append_line(&error.text);
                completion.exit = Exit::Code(1);
            }
            Err(_) => {}
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

fn fatal(error: Error) -> Fatal {
    Fatal { message: error.text, invalid_input: error.fatal }
}
