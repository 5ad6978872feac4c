//! The two builds of a run: first the manifest, then the targets.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tanto_exec::event::Level;
use tanto_exec::job::ResourceLimits;
use tanto_exec::jobserver::{Client, Jobserver, role};
use tanto_exec::monitor::watcher::{CgroupUse, LONG_MS, Leftovers, WatchOptions};
use tanto_exec::resource_sampler;
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::clang::installation;
use tanto_exec::runner::dry::DryRunner;
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::schedule::{self, Schedule};
use tanto_ninja::canon::canonical;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::graph::Graph;
use tanto_ninja::ids::NodeId;
use tanto_ninja::scan::Scan;
use tanto_ninja::snapshot::PendingSnapshot;
use tanto_ninja::targets::{LookupOptions, TargetNames, collect_target, collect_targets};
use tanto_ninja::{build_dir_lock, builddir};
use tanto_record::views::live::Follow;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::ipc::event_fd::EventFd;
use tanto_sys::signals::TerminationSignals;

use crate::invocation::Invocation;
use crate::settings::parser::FollowTarget;

use super::cache::BuildRunner;
use super::{BuildRun, ExitCode, RunResult, job_slots};
use crate::settings::values::Memory;

struct Execution<'p> {
    schedule: &'p mut Schedule,
    jobserver: Option<Client>,
    /// Whether this is the build of the manifest.
    manifest: bool,
}

impl BuildRun<'_> {
    /// Builds the manifest if it is a dirty output. Returns true if it may have changed and must be loaded again.
    pub(super) fn rebuild_manifest(&mut self, frontend: &mut NinjaFrontend<'_, '_>) -> RunResult<bool> {
        let Some(manifest) = self.manifest_node(frontend.scan.graph) else { return Ok(false) };
        let mut schedule = Schedule::new();
        match frontend.add_targets(&mut schedule, &mut self.view, &[manifest]) {
            Err(error) if error.is_fatal() => return Err(self.fatal(&error.text())),
            Err(error) => return Err(self.cannot_rebuild(&error.text())),
            Ok(()) => {}
        }
        let builddir = builddir::path(frontend.scan.graph).to_vec();
        self.warn_of_older_ninja(frontend.scan.found_older_ninja(), &builddir);
        self.renew(frontend)?;
        if !schedule.has_work() {
            frontend.new_plan();
            return Ok(false);
        }
        // As in ninja, a second signal ends the program before it prints the reason.
        let plan = Execution { schedule: &mut schedule, jobserver: None, manifest: true };
        let (outcome, _) = self.execute(frontend, plan)?;
        match outcome {
            BuildOutcome::Succeeded => {}
            BuildOutcome::Interrupted => return Err(self.cannot_rebuild(b"interrupted by user")),
            BuildOutcome::Failed { reason: why, .. } => return Err(self.cannot_rebuild(&why)),
            BuildOutcome::InvalidInput(why) => return Err(self.fatal(&why)),
        }
        if frontend.scan.is_dirty(manifest) {
            return Ok(true);
        }
        // Restat left the manifest unchanged, but its command may have changed other files.
        frontend.scan.reset();
        frontend.new_plan();
        Ok(false)
    }

    pub(super) fn manifest_node(&self, graph: &Graph<'_>) -> Option<NodeId> {
        graph.lookup(&canonical(&self.options.manifest))
    }

    fn cannot_rebuild(&mut self, why: &[u8]) -> ExitCode {
        self.error(&[b"rebuilding '", &self.options.manifest[..], b"': ", why].concat())
    }

    /// Builds the targets of the command line.
    pub(super) fn build_targets(
        &mut self,
        frontend: &mut NinjaFrontend<'_, '_>,
        builddir: &[u8],
        pending: &mut Option<PendingSnapshot<'_>>,
    ) -> RunResult<()> {
        let targets = self.targets(frontend, builddir)?;
        self.force_targets(frontend, &targets)?;
        self.follow(frontend, builddir)?;
        let jobserver = self.connect_jobserver();
        let mut schedule = Schedule::new();
        let view = &mut self.view;
        let adding = || frontend.add_targets(&mut schedule, view, &targets);
        self.stats.time("dirty check", adding).map_err(|error| self.failed(&error))?;
        self.check()?;
        self.warn_of_older_ninja(frontend.scan.found_older_ninja(), builddir);
        self.renew(frontend)?;
        if !schedule.has_work() {
            let text = self.note_up_to_date(frontend);
            if self.options.settings.verbosity.value != Verbosity::Quiet {
                self.info(&text);
            }
            return Ok(());
        }
        let Scan { graph, log, deps_log, .. } = &frontend.scan;
        let pending = pending.take().map(|pending| pending.with_logs(graph, log, deps_log));
        let executed = self.save_during(pending.as_ref(), |this| {
            let executed = this.execute(frontend, Execution { schedule: &mut schedule, jobserver, manifest: false });
            if let (Ok((BuildOutcome::Interrupted, _)), Some(pending)) = (&executed, &pending) {
                pending.cancel();
            }
            executed
        });
        // Signals stay blocked until the message below is printed.
        let (outcome, _signals) = executed?;
        let (why, code) = match outcome {
            BuildOutcome::Succeeded => return Ok(()),
            BuildOutcome::Interrupted => (b"interrupted by user".to_vec(), 130),
            BuildOutcome::Failed { code, reason: why } => {
                self.print_log_path();
                (why, code)
            }
            BuildOutcome::InvalidInput(why) => return Err(self.fatal(&why)),
        };
        self.info(&[b"build stopped: ", &why[..], b"."].concat());
        Err(ExitCode(code))
    }

    fn targets(&mut self, frontend: &NinjaFrontend<'_, '_>, builddir: &[u8]) -> RunResult<Vec<NodeId>> {
        let hints = LookupOptions { builddir, deps_log: Some(frontend.scan.deps_log), names: self.target_names() };
        let targets = collect_targets(frontend.scan.graph, hints, &self.options.targets);
        targets.map_err(|error| self.failed(&error))
    }

    /// Tells the view which command's output to show.
    fn follow(&mut self, frontend: &NinjaFrontend<'_, '_>, builddir: &[u8]) -> RunResult<()> {
        let Some(followed) = &self.options.follow else { return Ok(()) };
        let follow = match followed {
            FollowTarget::Longest => Follow::Longest,
            FollowTarget::Target(name) => {
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
        if !self.view.display.follow(follow) {
            self.say(
                Level::Warning,
                b"--follow does nothing here: it needs the rows that --format=live shows on a terminal",
            );
        }
        Ok(())
    }

    pub(super) fn target_names(&self) -> TargetNames {
        match self.options.invocation {
            Invocation::Ninja => TargetNames::Nodes,
            Invocation::Tanto => TargetNames::Patterns,
        }
    }

    /// Runs all jobs. Signals stay blocked until the returned guard is dropped, so that a second interrupt ends the
    /// program only after the caller has reported the outcome.
    fn execute(
        &mut self,
        frontend: &mut NinjaFrontend<'_, '_>,
        plan: Execution<'_>,
    ) -> RunResult<(BuildOutcome, Option<TerminationSignals>)> {
        let Execution { schedule, jobserver, manifest } = plan;
        self.check_all()?;
        if let Err(bad) = self.view.display.check_format() {
            return Err(self.fatal(&bad.0));
        }
        let parallelism = self.options.settings.jobs.value.limit(tanto_sys::machine::cpu::count);
        let jobserver = self.open_jobserver(jobserver, parallelism, builddir::path(frontend.scan.graph));
        frontend.begin(schedule, self.slots(parallelism, jobserver.as_ref()));
        let signals_wait = match self.options.dry_run {
            true => None,
            false => Some(self.listen()?),
        };
        let mut runner = match self.options.dry_run {
            true => BuildRunner::Dry(DryRunner::default()),
            false => {
                let builddir = builddir::path(frontend.scan.graph);
                let watch = self.watch_options(schedule);
                self.spawn_runner(parallelism, jobserver, watch, schedule.command_count(), builddir)?
            }
        };
        self.limit_admission(schedule, parallelism, builddir::path(frontend.scan.graph));
        let mut sampler = resource_sampler::machine();
        self.start_recording(manifest);
        self.report_renewed(frontend);
        let run = Build {
            frontend,
            schedule,
            runner: runner.runner(),
            view: &mut self.view,
            clock: &self.clock,
            failures_allowed: self.options.settings.keep_going.value as usize,
            sampler: &mut sampler,
        };
        let outcome = self.stats.time("run", || run.run());
        self.was_interrupted = outcome == BuildOutcome::Interrupted;
        self.finish_runner(runner);
        self.record_contents(frontend);
        self.finish_recording();
        Ok((outcome, signals_wait))
    }

    fn listen(&mut self) -> RunResult<TerminationSignals> {
        TerminationSignals::listen().map_err(|error| self.fatal(&tanto_sys::error::text(&error)))
    }

    /// Options for monitoring commands. Under the name `ninja`, commands are monitored only on request.
    fn watch_options(&self, schedule: &Schedule) -> Option<WatchOptions> {
        let settings = &self.options.settings;
        let (hang_ms, total_ms, leftovers) =
            (settings.hang_timeout.value, settings.timeout.value, settings.leftovers.value);
        let sample = self.options.invocation == Invocation::Tanto;
        let limits = ResourceLimits { hang_ms, total_ms, sample, ..ResourceLimits::NONE };
        let wanted = limits.sample || hang_ms.is_some() || total_ms.is_some() || leftovers != Leftovers::Ignore;
        // If no command needs a cgroup, not even the parent cgroup is created.
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
        planned: usize,
        builddir: &[u8],
    ) -> RunResult<BuildRunner> {
        // Nested Tanto processes use it to recognize the lock.
        let ancestors =
            (build_dir_lock::ANCESTORS.into(), build_dir_lock::ancestors_for_jobs(self.build_dir_lock.as_ref()));
        let environment: Vec<_> = [ancestors].into_iter().chain(role::environment(jobserver.as_ref())).collect();
        let max_load = self.options.settings.max_load.value;
        let own = self.own_state(builddir);
        let overflow = Some(Path::new(OsStr::from_bytes(if builddir.is_empty() { b"." } else { builddir })).into());
        // Writing to an empty path fails, so nothing is remembered.
        let costs_file = own.as_ref().map(|own| own.join(installation::STARTUP_COSTS)).unwrap_or_default();
        let writer = Rc::clone(&self.writer);
        let settings = &self.options.settings;
        let checkpoints = own.and_then(|own| {
            installation::checkpoints(settings.checkpoints.value.limit(), settings.verify_checkpoints.value, &own)
        });
        let worker = installation::find(settings.clang_worker.value, costs_file, planned, checkpoints)
            .map_err(|error| self.fatal(error.to_string().as_bytes()))?;
        let cache = self.cache_options(&environment);
        let wake = cache.as_ref().and_then(|_| EventFd::new().ok());
        let options = RunnerOptions {
            parallelism,
            max_load,
            jobserver,
            environment,
            watch,
            overflow,
            writer,
            wake_fd: wake.as_ref().and_then(|event| event.as_fd().try_clone_to_owned().ok()),
            clang_worker: worker,
            record_inputs: self.options.trace.is_some() || cache.is_some(),
        };
        let runner = ProcessRunner::new(options).map_err(|error| self.fatal(&tanto_sys::error::text(&error)))?;
        Ok(self.with_cache(runner, cache, wake))
    }

    /// Tanto's own state directory, created if possible. Returned even if it could not be created in the tree: the
    /// failure is reported on the first write.
    pub(super) fn own_state(&self, builddir: &[u8]) -> Option<PathBuf> {
        let state = self.state_of(builddir);
        let made = state.make().ok();
        if state.is_best_effort() { made } else { state.write_dir() }.map(Path::to_path_buf)
    }

    fn limit_admission(&self, schedule: &mut Schedule, parallelism: usize, builddir: &[u8]) {
        let memory_kib = match self.options.settings.memory.value {
            Memory::Off => return,
            Memory::Free => None,
            // Memory of checkpoints counts towards the limit. Free memory already excludes it.
            Memory::AtMost(kib) => {
                let held = installation::checkpoint_usage(&self.state_of(builddir)).map_or(0, |held| held.memory_kib);
                Some(kib.saturating_sub(held).max(1))
            }
        };
        if !self.options.dry_run {
            schedule.limit_admission(schedule::AdmissionLimits {
                memory_kib,
                slots: job_slots::yielding_slots(self.options, parallelism),
            });
        }
    }

    /// The number of slots for the schedule.
    fn slots(&self, parallelism: usize, jobserver: Option<&Jobserver>) -> usize {
        match () {
            () if self.options.dry_run => 1,
            // The number of tokens is unknown; assume one for each CPU.
            () if matches!(jobserver, Some(Jobserver::Client(_))) => tanto_sys::machine::cpu::count().max(2),
            () => parallelism,
        }
    }
}
