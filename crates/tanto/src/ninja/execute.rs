//! The two builds of a run: of the manifest itself, then of the targets. Does not know how commands are run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tanto_exec::event::Level;
use tanto_exec::job::ResourceLimits;
use tanto_exec::jobserver::{Client, Jobserver};
use tanto_exec::monitor::watcher::{CgroupUse, LONG_MS, Leftovers, WatchOptions};
use tanto_exec::resource_sampler;
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::Runner;
use tanto_exec::runner::dry::DryRunner;
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::schedule::{self, Schedule};
use tanto_ninja::builddir;
use tanto_ninja::canon::canonical;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::graph::Graph;
use tanto_ninja::ids::NodeId;
use tanto_ninja::scan::Scan;
use tanto_ninja::snapshot::PendingSnapshot;
use tanto_ninja::targets::{LookupOptions, TargetNames, collect_target, collect_targets};
use tanto_record::views::live::Follow;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::signals::TerminationSignals;

use crate::flags::Options;
use crate::flags::door::Door;
use crate::flags::low::Followed;

use super::{End, Invocation, Step, build_dir_lock, clang_worker, job_slots};
use crate::settings::layer::Memory;

/// What is to be run.
struct Plan<'p> {
    schedule: &'p mut Schedule,
    jobserver: Option<Client>,
    /// It brings the manifest itself up to date.
    manifest: bool,
}

impl Invocation<'_> {
    /// Builds the manifest if it is an output and dirty. True if it may have changed and must be loaded again.
    pub(super) fn rebuild_manifest(&mut self, frontend: &mut NinjaFrontend<'_, '_>) -> Step<bool> {
        let Some(manifest) = self.manifest_node(frontend.scan.graph) else { return Ok(false) };
        let mut schedule = Schedule::new();
        match frontend.add_targets(&mut schedule, &mut self.view, &[manifest]) {
            Err(error) if error.is_fatal() => return Err(self.fatal(&error.text())),
            Err(error) => return Err(self.cannot_rebuild(&error.text())),
            Ok(()) => {}
        }
        let builddir = builddir::path(frontend.scan.graph).to_vec();
        self.warn_of_older_ninja(frontend.scan.found_older_ninja(), &builddir);
        if !schedule.has_work() {
            frontend.new_plan();
            return Ok(false);
        }
        // ninja lets a second signal end it before it says why; so do we.
        let plan = Plan { schedule: &mut schedule, jobserver: None, manifest: true };
        let (verdict, _) = self.execute(frontend, plan)?;
        match verdict {
            BuildOutcome::Succeeded => {}
            BuildOutcome::Interrupted => return Err(self.cannot_rebuild(b"interrupted by user")),
            BuildOutcome::Failed { reason: why, .. } => return Err(self.cannot_rebuild(&why)),
            BuildOutcome::InvalidInput(why) => return Err(self.fatal(&why)),
        }
        if frontend.scan.is_dirty(manifest) {
            return Ok(true);
        }
        // Its command left it as it was (restat); but who knows what else that command changed.
        frontend.scan.reset();
        frontend.new_plan();
        Ok(false)
    }

    /// The node of the manifest, if it is one.
    pub(super) fn manifest_node(&self, graph: &Graph<'_>) -> Option<NodeId> {
        graph.lookup(&canonical(&self.options.manifest))
    }

    fn cannot_rebuild(&mut self, why: &[u8]) -> End {
        self.error(&[b"rebuilding '", &self.options.manifest[..], b"': ", why].concat())
    }

    /// Builds what the command line names.
    pub(super) fn build_targets(
        &mut self,
        frontend: &mut NinjaFrontend<'_, '_>,
        builddir: &[u8],
        saving: &mut Option<PendingSnapshot<'_>>,
    ) -> Step<()> {
        let targets = self.targets(frontend, builddir)?;
        self.follow(frontend, builddir)?;
        let jobserver = self.client();
        let mut schedule = Schedule::new();
        let view = &mut self.view;
        let adding = || frontend.add_targets(&mut schedule, view, &targets);
        self.stats.time("dirty check", adding).map_err(|error| self.failed(&error))?;
        self.check()?;
        self.warn_of_older_ninja(frontend.scan.found_older_ninja(), builddir);
        if !schedule.has_work() {
            if self.options.verbosity != Verbosity::Quiet {
                self.info(b"no work to do.");
            }
            return Ok(());
        }
        let Scan { graph, log, deps_log, .. } = &frontend.scan;
        let saving = saving.take().map(|saving| saving.with_logs(graph, log, deps_log));
        let executed = self.save_beside(saving.as_ref(), |this| {
            let executed = this.execute(frontend, Plan { schedule: &mut schedule, jobserver, manifest: false });
            if let (Ok((BuildOutcome::Interrupted, _)), Some(saving)) = (&executed, &saving) {
                saving.cancel();
            }
            executed
        });
        let (verdict, _until_said) = executed?;
        let (why, code) = match verdict {
            BuildOutcome::Succeeded => return Ok(()),
            BuildOutcome::Interrupted => (b"interrupted by user".to_vec(), 130),
            BuildOutcome::Failed { code, reason: why } => {
                self.name_record();
                (why, code)
            }
            BuildOutcome::InvalidInput(why) => return Err(self.fatal(&why)),
        };
        self.info(&[b"build stopped: ", &why[..], b"."].concat());
        Err(End(code))
    }

    fn targets(&mut self, frontend: &NinjaFrontend<'_, '_>, builddir: &[u8]) -> Step<Vec<NodeId>> {
        let hints = LookupOptions { builddir, deps_log: Some(frontend.scan.deps_log), names: self.target_names() };
        let targets = collect_targets(frontend.scan.graph, hints, &self.options.targets);
        targets.map_err(|error| self.failed(&error))
    }

    /// Tells the view whose output it is to show.
    fn follow(&mut self, frontend: &NinjaFrontend<'_, '_>, builddir: &[u8]) -> Step<()> {
        let Some(followed) = &self.options.follow else { return Ok(()) };
        let follow = match followed {
            Followed::Longest => Follow::Longest,
            Followed::Target(name) => {
                let graph = &*frontend.scan.graph;
                let hints =
                    LookupOptions { builddir, deps_log: Some(frontend.scan.deps_log), ..LookupOptions::default() };
                let node = collect_target(graph, hints, name).map_err(|error| self.failed(&error))?;
                let edge = graph.in_edge(node).map(|edge| graph.edge(edge)).filter(|edge| !edge.is_phony());
                let Some(edge) = edge else {
                    return Err(self.error(&[b"--follow: no command makes '", graph.path(node), b"'"].concat()));
                };
                Follow::Maker(graph.path(edge.outs[0]).to_vec())
            }
        };
        if !self.view.shown.follow(follow) {
            self.say(
                Level::Warning,
                b"--follow does nothing here: it needs the rows that --format=live shows on a terminal",
            );
        }
        Ok(())
    }

    /// The names that targets may be. Under the name `ninja`, they are ninja's.
    pub(super) fn target_names(&self) -> TargetNames {
        match self.options.door {
            Door::Ninja => TargetNames::Nodes,
            Door::Tanto => TargetNames::Patterns,
        }
    }

    /// Runs the plan to its end. A second interrupt ends the program, but not before the caller has said how the
    /// build ended: while it keeps what is returned beside the verdict, signals wait.
    fn execute(
        &mut self,
        frontend: &mut NinjaFrontend<'_, '_>,
        plan: Plan<'_>,
    ) -> Step<(BuildOutcome, Option<TerminationSignals>)> {
        let Plan { schedule, jobserver, manifest } = plan;
        self.check_all()?;
        if let Err(bad) = self.view.shown.check_format() {
            return Err(self.fatal(&bad.0));
        }
        let parallelism = self.options.jobs.limit(tanto_sys::machine::cpu::count);
        let jobserver = self.share(jobserver, parallelism, builddir::path(frontend.scan.graph));
        frontend.begin(schedule, self.slots(parallelism, jobserver.as_ref()));
        let signals_wait = match self.options.dry_run {
            true => None,
            false => Some(self.listen()?),
        };
        let mut runner: Box<dyn Runner> = match self.options.dry_run {
            true => Box::new(DryRunner::default()),
            false => {
                let builddir = builddir::path(frontend.scan.graph);
                let watch = self.watch(schedule);
                Box::new(self.spawn_runner(parallelism, jobserver, watch, builddir)?)
            }
        };
        self.ration(schedule, parallelism, builddir::path(frontend.scan.graph));
        let mut sampler = resource_sampler::machine();
        self.begin_record(manifest);
        let run = Build {
            frontend,
            schedule,
            runner: &mut *runner,
            view: &mut self.view,
            clock: &self.clock,
            failures_allowed: self.options.keep_going as usize,
            sampler: &mut sampler,
        };
        let verdict = self.stats.time("run", || run.run());
        self.was_interrupted = verdict == BuildOutcome::Interrupted;
        drop(runner);
        self.end_record();
        Ok((verdict, signals_wait))
    }

    fn listen(&mut self) -> Step<TerminationSignals> {
        TerminationSignals::listen().map_err(|error| self.fatal(&tanto_sys::error::text(&error)))
    }

    /// How commands are watched. Under the name `ninja` only if that is asked for.
    fn watch(&self, schedule: &Schedule) -> Option<WatchOptions> {
        let Options { hang_timeout: hang_ms, timeout: total_ms, leftovers, door, .. } = *self.options;
        let limits = ResourceLimits { hang_ms, total_ms, sample: door == Door::Tanto, ..ResourceLimits::NONE };
        let wanted = limits.sample || hang_ms.is_some() || total_ms.is_some() || leftovers != Leftovers::Ignore;
        // Where no command is worth a control group, not even that is made in which they would be.
        let groups = match () {
            () if hang_ms.is_some() => CgroupUse::All,
            () if limits.sample && schedule.has_job_expecting(LONG_MS) => CgroupUse::Long,
            () => CgroupUse::None,
        };
        wanted.then_some(WatchOptions { limits, leftovers, cgroups: groups })
    }

    fn spawn_runner(
        &mut self,
        parallelism: usize,
        jobserver: Option<Jobserver>,
        watch: Option<WatchOptions>,
        builddir: &[u8],
    ) -> Step<ProcessRunner> {
        // Jobs that are Tantos themselves know us by this, and do not wait for us.
        let ancestors = (build_dir_lock::ANCESTORS.into(), build_dir_lock::for_jobs(self.turn.as_ref()));
        let environment = [ancestors].into_iter().chain(job_slots::environment(jobserver.as_ref())).collect();
        let max_load = self.options.max_load;
        let own = self.own_state(builddir);
        let overflow = Some(Path::new(OsStr::from_bytes(if builddir.is_empty() { b"." } else { builddir })).into());
        // An empty path cannot be written: nothing is remembered.
        let known = own.as_ref().map(|own| own.join(clang_worker::KNOWN)).unwrap_or_default();
        let writer = Rc::clone(&self.writer);
        let Options { clang_worker, checkpoints, verify_checkpoints, .. } = *self.options;
        let kept = own.map(|own| own.join(clang_worker::KEPT));
        let checkpoints = kept.and_then(|place| clang_worker::checkpoints(checkpoints, verify_checkpoints, place));
        let worker = clang_worker::find(clang_worker, known, checkpoints).map_err(|why| self.fatal(&why))?;
        let options = RunnerOptions {
            parallelism,
            max_load,
            jobserver,
            environment,
            watch,
            overflow,
            writer,
            wake_fd: None,
            clang_worker: worker,
        };
        ProcessRunner::new(options).map_err(|error| self.fatal(&tanto_sys::error::text(&error)))
    }

    /// The directory for Tanto's own state of the build directory, made if that is possible. In the tree it is named though
    /// it could not be made: what is to be written there says why it is lost.
    pub(super) fn own_state(&self, builddir: &[u8]) -> Option<PathBuf> {
        let state = self.state_of(builddir);
        let made = state.make().ok();
        if state.is_best_effort() { made } else { state.write_dir() }.map(Path::to_path_buf)
    }

    /// Lets commands share memory as the user wants it.
    fn ration(&self, schedule: &mut Schedule, parallelism: usize, builddir: &[u8]) {
        let memory_kib = match self.options.memory {
            Memory::Off => return,
            Memory::Free => None,
            // Checkpoints are a part of what builds in this directory take. What is free is less by them anyway.
            Memory::AtMost(kib) => {
                let held = clang_worker::held(&self.state_of(builddir)).map_or(0, |held| held.memory_kib);
                Some(kib.saturating_sub(held).max(1))
            }
        };
        if !self.options.dry_run {
            schedule.limit_admission(schedule::AdmissionLimits {
                memory_kib,
                slots: job_slots::yielding(self.options, parallelism),
            });
        }
    }

    /// How many commands the schedule is to reckon with.
    fn slots(&self, parallelism: usize, jobserver: Option<&Jobserver>) -> usize {
        match () {
            () if self.options.dry_run => 1,
            // Nobody knows how many tokens there will be; on a machine of our own it would be as many.
            () if matches!(jobserver, Some(Jobserver::Client(_))) => tanto_sys::machine::cpu::count().max(2),
            () => parallelism,
        }
    }
}
