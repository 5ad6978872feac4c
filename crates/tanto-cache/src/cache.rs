//! Finds results of actions, and prepares new ones for the cache.

use std::ffi::OsString;
use std::fs;
use std::sync::Arc;

use tanto_cas::RecentDigests;
use tanto_exec::input_recorder::input_list::{Input, InputList};
use tanto_exec::job::Cost;
use tanto_sys::fs::file;
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::process::Environment;
use tanto_sys::user;

use crate::action::{Action, Surroundings};
use crate::cache_dir::{CacheAccess, CacheDir};
use crate::counters::Counters;
use crate::entry::{ActionFile, ActionResult};
use crate::input_names::NameTable;
use crate::maintenance;
use crate::observer::{Evaluation, InputName, KnownFiles, Observer};
use crate::recorded_inputs::{NotStored, Run};
use crate::restore::Restoration;
use crate::workers::NewResult;

pub(crate) struct ActionCache {
    pub(crate) dir: Arc<CacheDir>,
    pub(crate) around: Surroundings,
    names: NameTable,
    observer: Observer,
    buffer: Vec<u8>,
}

/// A result that may be used.
pub(crate) struct Hit {
    pub(crate) restoration: Restoration,
    pub(crate) cost: Cost,
    /// No input has changed since then.
    pub(crate) seen_at: i64,
}

/// A command that ran and succeeded.
pub(crate) struct SuccessfulRun<'c> {
    /// The clock of file systems before it started.
    pub(crate) began: i64,
    pub(crate) inputs: &'c InputList,
    /// The printed text.
    pub(crate) text: &'c [u8],
    pub(crate) cost: Cost,
}

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Miss {
    /// The action is new.
    New,
    /// All results have other inputs.
    Changed,
}

impl ActionCache {
    pub(crate) fn new(dir: CacheDir, environment: &[(OsString, OsString)], recent: RecentDigests) -> ActionCache {
        let known = match dir.access() {
            CacheAccess::ReadOnly => KnownFiles::open_to_read(&dir.known_files()),
            CacheAccess::ReadWrite => KnownFiles::open(&dir.known_files()),
        };
        let names = NameTable::open(&dir.names());
        let around = Surroundings::new(Environment::inherit_with(environment));
        let observer = Observer::new(Environment::inherit_with(environment), known, recent);
        ActionCache { dir: Arc::new(dir), around, names, observer, buffer: Vec::new() }
    }

    /// Finds a result. If an action with hidden places turned out to depend on them, one with fewer of them replaces it: that with
    /// a result, or the first that may be used.
    pub(crate) fn find(&mut self, action: &mut Action) -> Result<Hit, Miss> {
        let mut way = Some(action.clone());
        let mut usable = None;
        let mut is_refused = false;
        while let Some(this) = way {
            let file = self.dir.read_action(&this.key);
            way = this.fallback();
            if file.depends_on_place && way.is_some() {
                is_refused = true;
                continue;
            }
            if let Some((result, evaluation)) = self.matching(&file, &this) {
                let hit = self.hit(&this, result, evaluation);
                *action = this;
                return Ok(hit);
            }
            usable.get_or_insert((this, if file.entries.is_empty() { Miss::New } else { Miss::Changed }));
            if !is_refused {
                break;
            }
        }
        let Some((this, miss)) = usable else { return Err(Miss::New) };
        *action = this;
        Err(miss)
    }

    fn matching<'f>(&mut self, file: &'f ActionFile, action: &Action) -> Option<(&'f ActionResult, Evaluation)> {
        let mut last = None;
        for entry in file.entries.iter().filter(|entry| !entry.needs_absent_outputs || !has_output(action)) {
            let is_same = last.as_ref().is_some_and(|(list, _)| *list == &entry.list);
            if !is_same {
                let names = self.names.unpack(&entry.list);
                // Options that replace a place would change these names here, but did not where the result was made.
                let names =
                    names.filter(|names| !names.iter().any(|input| action.places.begin(input.name, &mut self.buffer)));
                let evaluation = names.and_then(|names| self.observer.evaluate(&names, &action.places));
                last = Some((&entry.list, evaluation));
            }
            let evaluation = last.as_ref().and_then(|(_, evaluation)| *evaluation);
            if let Some(evaluation) = evaluation.filter(|it| it.digest == entry.inputs) {
                return Some((&entry.result, evaluation));
            }
        }
        None
    }

    fn hit(&self, action: &Action, result: &ActionResult, evaluation: Evaluation) -> Hit {
        let seen_at = evaluation.seen_at.min(coarse_now());
        let path = |path: &[u8]| file::path(path).to_path_buf();
        let restoration = Restoration {
            outputs: action.outputs.iter().map(|it| path(it)).zip(result.outputs.iter().copied()).collect(),
            depfile: action.depfile.as_ref().and_then(|it| Some((path(it), result.depfile?))),
            returns_depfile: action.returns_depfile,
            text: result.text,
            places: action.places.clone(),
            mtime: seen_at,
        };
        Hit { restoration, cost: result.cost, seen_at }
    }

    /// Prepares the result of a command that has succeeded. If it turns out to depend on a place, that is not hidden.
    pub(crate) fn prepare(&mut self, action: &Action, run: &SuccessfulRun<'_>) -> Result<NewResult, NotStored> {
        match self.prepare_as(action, run) {
            Err(NotStored::DependsOnPlace) => {
                let fallback = action.fallback().ok_or(NotStored::DependsOnPlace)?;
                let mut new = self.prepare(&fallback, run)?;
                new.refused_keys.push(action.key);
                Ok(new)
            }
            prepared => prepared,
        }
    }

    fn prepare_as(&mut self, action: &Action, run: &SuccessfulRun<'_>) -> Result<NewResult, NotStored> {
        let &SuccessfulRun { began, inputs, text, cost } = run;
        let run = Run { action, around: &self.around, began, has_printed: !text.is_empty() };
        let names = run.inputs(inputs, &mut self.observer)?;
        let mut buffer = Vec::new();
        let hidden: Vec<_> = names
            .iter()
            .map(|(aspect, name)| (*aspect, action.places.hide_in_path(name, &mut buffer).to_vec()))
            .collect();
        let mut names: Vec<InputName<'_>> =
            hidden.iter().map(|(aspect, name)| InputName { aspect: *aspect, name, id: None }).collect();
        let list = self.names.pack(&mut names).map_err(|error| NotStored::Io(error.to_string()))?;
        // As they were checked: a file that is read again now could have changed since.
        let evaluation = self.observer.evaluate_as_seen(&names, &action.places);
        let evaluation = evaluation.ok_or_else(|| NotStored::Changed(b"a file".to_vec()))?;
        Ok(NewResult {
            key: action.key,
            fallbacks: action.fallbacks().to_vec(),
            refused_keys: Vec::new(),
            list,
            inputs: evaluation.digest,
            places: action.places.clone(),
            needs_absent_outputs: inputs.inputs().contains(&Input::OutputAbsent),
            mask: action.is_traced().then(|| user::file_mode_mask().unwrap_or_default()),
            outputs: action.outputs.clone(),
            depfile: action.depfile.clone(),
            text: text.to_vec(),
            cost,
        })
    }

    /// A command has run. It may have changed any file, and results that are restored later must not be older than its
    /// outputs.
    pub(crate) fn command_ran(&mut self) {
        self.observer.distrust_all();
        self.around.programs.forget();
    }

    /// The result of an action was written.
    pub(crate) fn was_restored(&mut self, action: &Action) {
        if action.is_traced() {
            return self.command_ran();
        }
        for path in action.outputs.iter().chain(&action.depfile) {
            self.observer.file_was_written(path);
            self.around.programs.file_was_written(path);
        }
    }

    /// Writes the counters, and collects garbage. Failures only cost time.
    pub(crate) fn save(self, build: Counters, max_bytes: u64) {
        let dir = self.dir;
        if dir.access() == CacheAccess::ReadOnly {
            return;
        }
        let counters = Counters::update(&dir.counters(), |sum| sum.add(build));
        if counters.is_ok_and(|counters| counters.bytes > max_bytes) || NameTable::is_full(&dir.names()) {
            let _ = maintenance::collect(&dir, max_bytes);
        }
    }
}

fn has_output(action: &Action) -> bool {
    action.outputs.iter().chain(&action.depfile).any(|path| fs::symlink_metadata(file::path(path)).is_ok())
}
