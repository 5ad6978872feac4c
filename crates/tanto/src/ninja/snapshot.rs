//! Uses snapshots in a run: loads the graph from one, verifies it before anything irreversible, and writes a new one.

use std::io::{self, IsTerminal};
use std::thread;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::monitor::orphans;
use tanto_ninja::build_dir_lock::ANCESTORS;
use tanto_ninja::build_logs::BuildLogs;
use tanto_ninja::error::Result;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::load::{self, LoadOptions, ParallelOptions};
use tanto_ninja::snapshot::{PendingSnapshot, Snapshot, SnapshotPolicy};
use tanto_sys::machine::cpu;
use tanto_sys::process::detach;

use super::{BuildRun, ExitCode, RealDisk, RunResult};
use crate::invocation::Invocation;

impl BuildRun<'_> {
    pub(super) fn load<'t>(&mut self, arena: &'t Arena) -> RunResult<Graph<'t>> {
        self.checks.new_round();
        if let Some(graph) = self.open_snapshot(arena)? {
            return Ok(graph);
        }
        let options = self.load_options();
        let (view, checks) = (&mut self.view, &mut self.checks);
        let mut warn = |text: &[u8]| {
            if checks.is_new(text) {
                view.event(Event::Notice { level: Level::Warning, text });
            }
        };
        let manifest = &self.options.manifest;
        let loading = || load::load(arena, &RealDisk, manifest, options, &mut warn);
        self.stats.time(".ninja parse", loading).map_err(|error| self.failed(&error))
    }

    pub(super) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            phony_cycle_is_error: self.options.phony_cycle_is_error,
            threads: self.options.settings.threads.value,
            parallel: ParallelOptions::default(),
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let wanted = self.options.settings.snapshots.value != SnapshotPolicy::Off && !self.checks.is_disabled();
        wanted.then(|| Snapshot::new(self.state.clone(), &self.options.manifest, self.load_options()))
    }

    fn open_snapshot<'t>(&mut self, arena: &'t Arena) -> RunResult<Option<Graph<'t>>> {
        let Some(snapshot) = self.snapshot() else { return Ok(None) };
        let mut warnings = Vec::new();
        let opening = || snapshot.open(arena, &mut |text| warnings.push(text.to_vec()));
        let opened: Result<Option<Graph<'t>>> = self.stats.time("snapshot", opening);
        if let Ok(Some(graph)) = &opened {
            self.checks.watch(graph);
        }
        warnings.iter().for_each(|text| self.say(Level::Warning, text));
        opened.map_err(|error| self.failed(&error))
    }

    /// Prints a message, unless the snapshot is damaged.
    pub(super) fn say(&mut self, level: Level, text: &[u8]) {
        if !self.checks.found_damage() && self.checks.is_new(text) {
            self.view.event(Event::Notice { level, text });
        }
    }

    /// Ends the round if damage was found so far.
    pub(super) fn check(&mut self) -> RunResult<()> {
        if self.checks.found_damage() { Err(ExitCode(1)) } else { Ok(()) }
    }

    /// Verifies the whole snapshot, and ends the round if it is damaged. After this the snapshot is trusted.
    pub(super) fn check_all(&mut self) -> RunResult<()> {
        let threads = self.options.settings.threads.value;
        if self.checks.check_all(|| threads.limit(cpu::count())) { Ok(()) } else { Err(ExitCode(1)) }
    }

    /// Removes the snapshot if damage has ended the round; the next round does without it.
    pub(super) fn discard_damaged_snapshot(&mut self) -> bool {
        if !self.checks.found_damage() {
            return false;
        }
        self.snapshot().iter().for_each(Snapshot::remove);
        self.checks.disable();
        true
    }

    /// The snapshot that this run has to write, without the logs.
    pub(super) fn pending_snapshot<'t>(&self, graph: &Graph<'t>, logs: &BuildLogs) -> Option<PendingSnapshot<'t>> {
        let always = self.options.settings.snapshots.value == SnapshotPolicy::Always;
        self.snapshot().filter(|_| !self.options.dry_run)?.prepare(graph, logs.unsaved_bytes(), always)
    }

    /// Writes the snapshot after the build. If the user has started ninja at a terminal, a detached process does it.
    /// Other callers may kill left-over processes, or remove the tree right after the build. With `--watch` this
    /// process continues and would have to wait for the other.
    pub(super) fn save(&mut self, pending: &PendingSnapshot<'_>) {
        let threads = self.threads();
        if self.may_detach() && detach::spawn_detached(|| drop(pending.run(threads))).is_ok() {
            return;
        }
        let saved = pending.run(threads);
        self.report_saved(saved);
    }

    fn may_detach(&self) -> bool {
        let is_job = std::env::var_os(ANCESTORS).is_some() || orphans::are_looked_for();
        let fits = self.options.settings.snapshots.value == SnapshotPolicy::Auto
            && self.options.invocation == Invocation::Ninja;
        fits && !is_job && io::stdout().is_terminal()
    }

    /// Writes the snapshot, if there is one, in a thread during `work`.
    pub(super) fn save_during<T>(
        &mut self,
        pending: Option<&PendingSnapshot<'_>>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(pending) = pending else { return work(self) };
        let (done, saved) = thread::scope(|scope| {
            let writer = thread::Builder::new().spawn_scoped(scope, || pending.run(1));
            let done = work(self);
            // If no thread can be started, no snapshot is written.
            (done, writer.map_or(Ok(()), |writer| writer.join().unwrap_or(Ok(()))))
        });
        self.report_saved(saved);
        done
    }

    fn report_saved(&mut self, saved: Result<()>) {
        if let Err(error) = saved {
            self.say(Level::Warning, &error.text());
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.options.settings.threads.value.limit(cpu::count())
    }
}
