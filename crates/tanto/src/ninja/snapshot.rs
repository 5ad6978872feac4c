//! The snapshot of a run: the graph is loaded from it if there is one, checked before anything is done or said that
//! hangs on it, and written if there was none. Does not know what is in it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::monitor::orphans;
use tanto_ninja::error::Result;
use tanto_ninja::flat::Blocks;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::load::{self, LoadOptions, ParallelOptions};
use tanto_ninja::snapshot::{PendingSnapshot, Snapshot, SnapshotPolicy};
use tanto_sys::machine::cpu;
use tanto_sys::process::detach;

use super::build_dir_lock::ANCESTORS;
use super::logs::Logs;
use super::{End, Invocation, RealDisk, Step};
use crate::flags::door::Door;

/// What is known of the run's snapshot.
#[derive(Default)]
pub(super) struct Doubts {
    /// The file in which this round's graph lies, until it is known to be good.
    blocks: Option<Arc<Blocks>>,
    /// It was damaged: this run loads from text.
    given_up: bool,
    /// What was said in this round, and in the one that was given up.
    said: Vec<Vec<u8>>,
    said_before: Vec<Vec<u8>>,
}

impl Doubts {
    /// Was something wrong with what this round has read so far? Then nothing of it is to be said or done.
    pub(super) fn are_right(&self) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.is_damaged())
    }

    /// Another round begins.
    pub(super) fn new_round(&mut self) {
        self.said.clear();
    }

    /// Is this to be said? Not if the round that was given up has said it.
    fn is_new(&mut self, text: &[u8]) -> bool {
        if let Some(at) = self.said_before.iter().position(|said| said == text) {
            self.said_before.swap_remove(at);
            return false;
        }
        if self.blocks.is_some() {
            self.said.push(text.into());
        }
        true
    }
}

impl Invocation<'_> {
    pub(super) fn load<'t>(&mut self, arena: &'t Arena) -> Step<Graph<'t>> {
        self.doubts.blocks = None;
        self.doubts.new_round();
        if let Some(graph) = self.open_snapshot(arena)? {
            return Ok(graph);
        }
        let options = self.load_options();
        let (view, doubts) = (&mut self.view, &mut self.doubts);
        let mut warn = |text: &[u8]| {
            if doubts.is_new(text) {
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
            threads: self.options.threads,
            parallel: ParallelOptions::default(),
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let wanted = self.options.snapshots != SnapshotPolicy::Off && !self.doubts.given_up;
        wanted.then(|| Snapshot::new(self.state.clone(), &self.options.manifest, self.load_options()))
    }

    fn open_snapshot<'t>(&mut self, arena: &'t Arena) -> Step<Option<Graph<'t>>> {
        let Some(snapshot) = self.snapshot() else { return Ok(None) };
        let mut warnings = Vec::new();
        let opening = || snapshot.open(arena, &mut |text| warnings.push(text.to_vec()));
        let opened: Result<Option<Graph<'t>>> = self.stats.time("snapshot", opening);
        if let Ok(Some(graph)) = &opened {
            self.doubts.blocks = graph.blocks().cloned();
        }
        warnings.iter().for_each(|text| self.say(Level::Warning, text));
        opened.map_err(|error| self.failed(&error))
    }

    /// Says something to the user, unless that is in doubt.
    pub(super) fn say(&mut self, level: Level, text: &[u8]) {
        if !self.doubts.are_right() && self.doubts.is_new(text) {
            self.view.event(Event::Notice { level, text });
        }
    }

    /// Ends the round if something was wrong with what it has read so far.
    pub(super) fn check(&mut self) -> Step<()> {
        if self.doubts.are_right() { Err(End(1)) } else { Ok(()) }
    }

    /// Looks at the whole snapshot, and ends the round if something is wrong with it. From now on there is no way back.
    pub(super) fn check_all(&mut self) -> Step<()> {
        let Some(blocks) = &self.doubts.blocks else { return Ok(()) };
        if !blocks.check_all(self.threads()) {
            return Err(End(1));
        }
        self.doubts.blocks = None;
        Ok(())
    }

    /// If the round was ended because of its snapshot: the next one will do without.
    pub(super) fn gives_up_snapshot(&mut self) -> bool {
        if !self.doubts.are_right() {
            return false;
        }
        self.snapshot().iter().for_each(Snapshot::remove);
        let said_before = std::mem::take(&mut self.doubts.said);
        self.doubts = Doubts { given_up: true, said_before, ..Doubts::default() };
        true
    }

    /// The snapshot that this run is to write, without the logs.
    pub(super) fn saving<'t>(&self, graph: &Graph<'t>, logs: &Logs) -> Option<PendingSnapshot<'t>> {
        let always = self.options.snapshots == SnapshotPolicy::Always;
        let unsaved = logs.build.unsaved_bytes() + logs.deps.unsaved_bytes();
        self.snapshot().filter(|_| !self.options.dry_run)?.prepare(graph, unsaved, always)
    }

    /// Writes it when there is nothing else to do. For a build that a user started at a terminal another process does so,
    /// and the user need not wait. Other starters may kill what a build leaves behind, and a directory in the tree may be
    /// removed as soon as the build has ended.
    /// With `--watch` this process goes on, and would have to wait for the other.
    pub(super) fn save(&mut self, saving: &PendingSnapshot<'_>) {
        let threads = self.threads();
        if self.may_detach() && detach::spawn_detached(|| drop(saving.run(threads))).is_ok() {
            return;
        }
        let saved = saving.run(threads);
        self.saved(saved);
    }

    fn may_detach(&self) -> bool {
        let is_job = std::env::var_os(ANCESTORS).is_some() || orphans::are_looked_for();
        let fits = self.options.snapshots == SnapshotPolicy::Auto && self.options.door == Door::Ninja;
        fits && !is_job && io::stdout().is_terminal()
    }

    /// Does `work` while it is written, if one is to be written.
    pub(super) fn save_beside<T>(
        &mut self,
        saving: Option<&PendingSnapshot<'_>>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(saving) = saving else { return work(self) };
        let (done, saved) = thread::scope(|scope| {
            let writer = thread::Builder::new().spawn_scoped(scope, || saving.run(1));
            let done = work(self);
            // Where no thread can be started, there is none the next time either, perhaps.
            (done, writer.map_or(Ok(()), |writer| writer.join().unwrap_or(Ok(()))))
        });
        self.saved(saved);
        done
    }

    fn saved(&mut self, saved: Result<()>) {
        if let Err(error) = saved {
            self.say(Level::Warning, &error.text());
        }
    }

    /// As many of our own as fit the machine and the user's wishes.
    pub(super) fn threads(&self) -> usize {
        self.options.threads.limit(cpu::count())
    }
}
