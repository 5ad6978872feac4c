//! Restores results from the cache, and passes all other commands to another runner.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tanto_cas::RecentDigests;
use tanto_exec::job::report::{ProcessInfo, TerminationReason};
use tanto_exec::job::{
    CacheOutcome, CacheUse, Capture, Command, Completion, Cost, ExecutedBy, Exit, InputRecording, JobId, Usage,
};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_sys::fs::file_stamp::{coarse_now, fine_now, wait_until_after};
use tanto_sys::ipc::event_fd::EventFd;
use tanto_sys::machine::cpu;

use crate::action::Action;
use crate::cache::{ActionCache, Hit, Miss, SuccessfulRun};
use crate::cache_dir::{CacheAccess, CacheDir, CacheError};
use crate::counters::Counters;
use crate::observer::Map;
use crate::recorded_inputs::NotStored;
use crate::restore::Restored;
use crate::workers::{Done, NewResult, Workers};

/// Results that are written at a time.
const MAX_RESTORING: usize = 64;

pub struct CacheOptions {
    pub dir: PathBuf,
    pub access: CacheAccess,
    /// The size above which old results are removed.
    pub max_bytes: u64,
    /// Variables that commands get beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Receives the digests of files that are read or restored.
    pub recent_digests: RecentDigests,
}

/// Numbers of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSummary {
    pub hits: u64,
    /// Commands that ran.
    pub built: u64,
    /// Damaged files.
    pub damaged: u64,
    /// The first error that kept a result from being stored.
    pub write_error: Option<String>,
}

/// Runs commands with another runner if their results are not in the cache.
pub struct CacheRunner<R> {
    inner: R,
    cache: ActionCache,
    workers: Workers,
    restoring: Map<JobId, Restoring>,
    running: Map<JobId, Running>,
    /// Commands that have ended and whose results are being stored.
    storing: Map<JobId, Completion>,
    /// Commands that could not be restored. They start before all others.
    waiting: VecDeque<(JobId, Restoring)>,
    finished: VecDeque<Completion>,
    /// The clock when the last command ended that may have changed any file, or when the build began.
    last_change: i64,
    /// The clock when the last command ended that has run.
    last_end: i64,
    /// Of this build.
    counters: Counters,
    max_bytes: u64,
    /// The first error. Nothing is stored after it.
    write_error: Option<String>,
}

/// A command whose result is being restored.
struct Restoring {
    command: Command,
    expected: Cost,
    action: Action,
    cost: Cost,
    /// The clock of file systems when the inputs were compared.
    seen_at: i64,
}

/// A command that runs.
struct Running {
    /// `None`: it is not cacheable.
    action: Option<Action>,
    report: CacheUse,
    /// The clock of file systems before it started.
    began: i64,
    started: Instant,
}

impl<R: Runner> CacheRunner<R> {
    /// Opens the cache. `event` has to wake the inner runner. Signals must be blocked.
    /// Returns the inner runner if there is no cache.
    pub fn new(inner: R, options: CacheOptions, event: EventFd) -> Result<CacheRunner<R>, (R, CacheError)> {
        let max_bytes = options.max_bytes;
        let (cache, workers) = match open(options, event) {
            Ok(parts) => parts,
            Err(error) => return Err((inner, error)),
        };
        Ok(CacheRunner {
            inner,
            cache,
            workers,
            restoring: Map::default(),
            running: Map::default(),
            storing: Map::default(),
            waiting: VecDeque::new(),
            finished: VecDeque::new(),
            // Files may have been written just before the build.
            last_change: fine_now(),
            last_end: i64::MIN,
            counters: Counters::default(),
            max_bytes,
            write_error: None,
        })
    }

    /// Waits for results that are being stored, and ends the use of the cache.
    pub fn finish(self) -> CacheSummary {
        let CacheRunner { inner, cache, workers, counters, max_bytes, write_error, .. } = self;
        drop(inner);
        workers.finish();
        let (hits, built) = (counters.hits, counters.misses + counters.not_cacheable);
        let damaged = cache.dir.damaged();
        cache.save(counters, max_bytes);
        CacheSummary { hits, built, damaged, write_error }
    }

    fn start_inner(&mut self, job: JobId, command: &Command, expected: Cost, mut running: Running) -> io::Result<()> {
        let may_store = self.cache.dir.access() == CacheAccess::ReadWrite && self.write_error.is_none();
        let is_traced = running.action.as_ref().is_some_and(Action::is_traced);
        if running.action.is_some() && may_store {
            self.wait_until_after(self.last_change);
            running.began = coarse_now();
            let record_inputs = if is_traced { InputRecording::SystemCalls } else { InputRecording::Library };
            let command = Command { record_inputs, ..command.clone() };
            self.inner.start(job, &command, expected)?;
        } else {
            self.inner.start(job, command, expected)?;
        }
        self.running.insert(job, running);
        Ok(())
    }

    /// A file that was written in the tick in which a command starts would look like a change during the command.
    fn wait_until_after(&self, time: i64) {
        // Not if the clock was set back.
        if time <= fine_now() {
            wait_until_after(time);
        }
    }

    /// Starts commands that could not be restored.
    fn start_waiting(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() && self.inner.capacity() > 0 {
            let Some((job, Restoring { command, expected, action, .. })) = self.waiting.pop_front() else { break };
            let running = Running::new(Some(action), CacheOutcome::New, String::new());
            self.start_inner(job, &command, expected, running)?;
        }
        Ok(())
    }

    /// Takes results of the threads.
    fn collect(&mut self) {
        while let Some(done) = self.workers.try_next() {
            match done {
                Done::Restored(job, result) => self.restored(job, result),
                Done::Stored(job, result) => self.stored(job, result),
            }
        }
    }

    fn restored(&mut self, job: JobId, result: Option<Restored>) {
        let Some(restoring) = self.restoring.remove(&job) else { return };
        self.cache.was_restored(&restoring.action);
        if restoring.action.is_traced() {
            // Its outputs are inputs of other commands.
            self.last_end = fine_now();
            self.last_change = self.last_end;
        }
        match result {
            Some(Restored { text, depfile }) => {
                self.counters.hits += 1;
                self.counters.saved_cpu_ms += u64::from(restoring.cost.cpu_ms);
                let report = report(Some(&restoring.action), CacheOutcome::Hit(restoring.cost), String::new());
                let mut completion = Completion::new(job, Exit::Code(0), text);
                completion.executed_by = ExecutedBy::Cache;
                completion.cache = Some(Box::new(report));
                completion.depfile = depfile;
                completion.inputs_seen_at = Some(restoring.seen_at);
                self.finished.push_back(completion);
            }
            None => self.waiting.push_back((job, restoring)),
        }
    }

    fn stored(&mut self, job: JobId, result: Result<u64, NotStored>) {
        self.counters.bytes += result.as_ref().copied().unwrap_or(0);
        let Some(mut completion) = self.storing.remove(&job) else { return };
        if let (Some(cache), Err(why)) = (&mut completion.cache, result) {
            cache.reason = why.to_string();
            if let NotStored::Io(error) = why {
                self.write_error.get_or_insert(error);
            }
        }
        self.finished.push_back(completion);
    }

    /// A command has run. Reports it at once, or after its result was stored.
    fn ended(&mut self, mut completion: Completion) {
        let job = completion.job;
        let Some(Running { action, mut report, began, started }) = self.running.remove(&job) else {
            return self.finished.push_back(completion);
        };
        self.cache.command_ran();
        self.last_end = fine_now();
        match &action {
            Some(_) => self.counters.misses += 1,
            None => self.counters.not_cacheable += 1,
        }
        if action.as_ref().is_none_or(Action::is_traced) {
            self.last_change = fine_now();
        }
        let cost = cost(started, &completion.usage);
        let new = action.as_ref().and_then(|action| self.prepare(action, began, &completion, cost));
        match &new {
            Some(Ok(new)) => report.depends_on_root |= new.turned_out_to_depend_on_root(),
            Some(Err(why)) => report.reason = why.to_string(),
            None => {}
        }
        completion.cache = Some(Box::new(report));
        if let Some(Ok(new)) = new {
            self.storing.insert(job, completion);
            self.workers.store(job, new);
        } else {
            self.finished.push_back(completion);
        }
    }

    /// `None`: its inputs were not recorded, or it has failed.
    fn prepare(
        &mut self,
        action: &Action,
        began: i64,
        completion: &Completion,
        cost: Cost,
    ) -> Option<Result<NewResult, NotStored>> {
        let inputs = completion.inputs.as_deref().filter(|_| completion.exit.success())?;
        if completion.capture != Capture::Complete {
            return Some(Err(NotStored::TooMuchText));
        }
        let run = SuccessfulRun { began, inputs, text: &completion.output, cost };
        Some(self.cache.prepare(action, &run))
    }
}

impl Running {
    fn new(action: Option<Action>, outcome: CacheOutcome, reason: String) -> Running {
        let report = report(action.as_ref(), outcome, reason);
        Running { action, report, began: 0, started: Instant::now() }
    }
}

fn open(options: CacheOptions, event: EventFd) -> Result<(ActionCache, Workers), CacheError> {
    let CacheOptions { dir: path, access, environment, recent_digests, .. } = options;
    let cache = ActionCache::new(CacheDir::open(&path, access)?, &environment, recent_digests.clone());
    let workers = Workers::start(&cache.dir, event, recent_digests, cpu::count());
    let workers = workers.map_err(|error| CacheError::Io(path, error))?;
    Ok((cache, workers))
}

fn report(action: Option<&Action>, outcome: CacheOutcome, reason: String) -> CacheUse {
    CacheUse { outcome, reason, depends_on_root: action.is_some_and(|action| action.depends_on_root) }
}

fn cost(started: Instant, usage: &Usage) -> Cost {
    let clip = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
    Cost {
        wall_ms: clip(started.elapsed().as_millis()),
        cpu_ms: clip(u128::from(usage.user_us + usage.system_us) / 1000),
        memory_kib: clip(u128::from(usage.max_rss_kib)),
    }
}

impl<R: Runner> Runner for CacheRunner<R> {
    fn capacity(&mut self) -> usize {
        let capacity = self.inner.capacity();
        if self.waiting.is_empty() && self.restoring.len() < MAX_RESTORING { capacity } else { 0 }
    }

    fn set_next_priority(&mut self, priority: i64) {
        self.inner.set_next_priority(priority);
    }

    fn is_load_limited(&self) -> bool {
        self.inner.is_load_limited()
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        let mut action = match Action::of(command, &self.cache.around) {
            Ok(action) => action,
            Err(why) => {
                let running = Running::new(None, CacheOutcome::NotCacheable, why.to_string());
                return self.start_inner(job, command, expected, running);
            }
        };
        let mut found = self.cache.find(&mut action);
        if found.as_ref().is_ok_and(|hit| hit.seen_at <= self.last_end) {
            // The result would look older than the output of the last command.
            self.wait_until_after(self.last_end);
            self.cache.command_ran();
            found = self.cache.find(&mut action);
        }
        match found {
            Ok(Hit { restoration, cost, seen_at }) => {
                let command = command.clone();
                self.restoring.insert(job, Restoring { command, expected, action, cost, seen_at });
                self.workers.restore(job, restoration);
                Ok(())
            }
            Err(miss) => {
                let outcome = if miss == Miss::New { CacheOutcome::New } else { CacheOutcome::Changed };
                self.start_inner(job, command, expected, Running::new(Some(action), outcome, String::new()))
            }
        }
    }

    fn has_completed(&self) -> bool {
        !self.finished.is_empty() || self.inner.has_completed()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        let end = most.map(|most| Instant::now() + most);
        loop {
            self.workers.event().clear();
            self.collect();
            if let Some(completion) = self.finished.pop_front() {
                return Ok(Wakeup::Completed(completion));
            }
            self.start_waiting()?;
            match self.inner.wait(end.map(|end| end.saturating_duration_since(Instant::now())))? {
                Wakeup::Completed(completion) => self.ended(completion),
                Wakeup::ControlRequest => {}
                other => return Ok(other),
            }
        }
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        self.inner.terminate(job, why)
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        self.inner.output_so_far(job)
    }

    fn output_size(&self, job: JobId) -> Option<u64> {
        self.inner.output_size(job)
    }

    fn output_tail(&self, job: JobId, most: usize) -> Option<&[u8]> {
        self.inner.output_tail(job, most)
    }

    fn set_unrelated(&mut self, pid: u32, runs: bool) {
        self.inner.set_unrelated(pid, runs);
    }

    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        self.inner.leftovers()
    }

    fn abort(&mut self) -> Vec<JobId> {
        let mut jobs = self.inner.abort();
        jobs.extend(self.restoring.keys().chain(self.storing.keys()));
        // Nothing may be written after the build has removed partial outputs.
        while !self.restoring.is_empty() || !self.storing.is_empty() {
            match self.workers.wait() {
                Some(Done::Restored(job, _)) => drop(self.restoring.remove(&job)),
                Some(Done::Stored(job, _)) => drop(self.storing.remove(&job)),
                None => break,
            }
        }
        jobs.extend(self.waiting.drain(..).map(|(job, _)| job));
        jobs.extend(self.finished.drain(..).map(|completion| completion.job));
        jobs
    }
}
