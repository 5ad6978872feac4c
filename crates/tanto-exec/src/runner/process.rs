//! Runs commands as local processes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tanto_sys::error::is_resource_exhausted;
use tanto_sys::ipc::poll::Watch;
use tanto_sys::machine::cpu;
use tanto_sys::process::{self, Child, Environment, ExitReport, ExitStatus};
use tanto_sys::signals::TerminationSignals;
use tanto_sys::terminal;

use self::double_run::FirstRun;
use self::launch::{Started, Starter};
use self::output::{Output, Overflow};
use self::polling::PollResult;
use self::recording::Recording;
use self::slot_guard::SlotGuard;
use self::task::Task;
use self::worker_jobs::WorkerJob;
use super::clang;
use super::{Runner, Wakeup};
use crate::job::Cost;
use crate::job::ResourceLimits;
use crate::job::report::{ProcessInfo, TerminationReason};
use crate::job::{Command, Completion, ExecutedBy, Exit, JobId, Usage};
use crate::jobserver::{Jobserver, Slot};
use crate::monitor::watcher::{WatchEvent, WatchOptions, Watcher};
use crate::sandbox::{SandboxGuard, SandboxPool};
use crate::writer::Writer;

mod double_run;
mod launch;
mod output;
mod polling;
mod recording;
mod shell_split;
mod slot_guard;
mod task;
mod worker_jobs;

pub use self::shell_split::{split as split_words, wants_the_shell};

#[derive(Default)]
pub struct RunnerOptions {
    /// Commands at a time; 0: unlimited. Ignored with the jobserver of a parent `make`.
    pub parallelism: usize,
    /// Starts no further command at this load average or above. Only values above 0 count.
    pub max_load: Option<f64>,
    pub jobserver: Option<Jobserver>,
    /// Variables added to Tanto's own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// How processes are monitored, if they are.
    pub watch: Option<WatchOptions>,
    /// Directory for unnamed files with output that is too large for memory. Without one, the middle of such output is
    /// lost.
    pub overflow: Option<PathBuf>,
    pub writer: Rc<Writer>,
    /// Readable when `Wakeup::ControlRequest` is wanted.
    pub wake_fd: Option<OwnedFd>,
    pub clang_worker: Option<clang::WorkerOptions>,
    /// Commands may ask for a record of their inputs.
    pub record_inputs: bool,
}

/// System calls, which tests replace.
struct SystemCalls {
    start: fn(&mut Starter, &Command) -> io::Result<Started>,
    load: fn() -> f64,
    exit_fd: fn(&mut Child) -> io::Result<RawFd>,
}

/// A command that is ready to start.
struct Ready {
    job: JobId,
    command: Command,
    expected: Cost,
    slot: Option<Slot>,
    /// Runs as a process, not in a fork.
    as_process: bool,
    /// Result of its first run, to be compared.
    first_run: Option<FirstRun>,
}

/// While it exists, SIGINT, SIGTERM and SIGHUP wake the runner and do not end the program.
pub struct ProcessRunner {
    parallelism: usize,
    max_load: Option<f64>,
    /// The load average was the reason for the last capacity of 0.
    is_loaded: bool,
    slots: Option<SlotGuard>,
    starter: Starter,
    system_calls: SystemCalls,
    signals: TerminationSignals,
    interrupted_by: Option<i32>,
    /// In the order of their start.
    running: Vec<Task>,
    /// Descriptors are scarce: nothing starts before something has ended.
    lacks_resources: bool,
    max_descriptors: RawFd,
    /// Commands that failed to start for lack of processes, descriptors or memory. They count as running, and no other
    /// starts before them. More than one only if jobs in forks have to run again.
    held: VecDeque<Ready>,
    /// Finished, but not yet reported. Each keeps its slot until then: its result is not yet recorded, and if Tanto is
    /// killed, no more results may be lost than could run at once.
    finished: VecDeque<(Completion, Option<Slot>)>,
    watcher: Option<Watcher>,
    sandboxes: Option<SandboxPool>,
    recording: Recording,
    overflow: Option<Overflow>,
    wake_fd: Option<OwnedFd>,
    buffer: Box<[u8]>,
    watches: Vec<Watch>,
    /// Indices in `running` of tasks whose first process is watched beside their output; their watches are the last
    /// ones.
    leaders: Vec<usize>,
}

/// Capacity of a pipe.
const BUFFER: usize = 64 << 10;
const SIGCONT: i32 = 18;
impl ProcessRunner {
    pub fn new(options: RunnerOptions) -> io::Result<ProcessRunner> {
        let mut starter = Starter::new(Environment::inherit_with(&options.environment), options.clang_worker);
        options.jobserver.iter().filter_map(Jobserver::descriptors).for_each(|both| starter.inherit(both));
        let slots = options.jobserver.map(SlotGuard::new);
        Ok(ProcessRunner {
            parallelism: options.parallelism,
            max_load: options.max_load.filter(|&load| load > 0.0),
            is_loaded: false,
            slots,
            starter,
            system_calls: SystemCalls { start: Starter::start, load: cpu::load_average, exit_fd: Child::exit_fd },
            signals: TerminationSignals::listen()?,
            interrupted_by: None,
            running: Vec::new(),
            lacks_resources: false,
            max_descriptors: process::max_child_descriptors(),
            held: VecDeque::new(),
            finished: VecDeque::new(),
            watcher: options.watch.map(|watch| Watcher::new(watch, clang::is_checkpoint_daemon)).transpose()?,
            sandboxes: None,
            recording: Recording::new(options.record_inputs),
            overflow: options.overflow.map(|dir| Overflow { dir, writer: options.writer }),
            wake_fd: options.wake_fd,
            buffer: vec![0; BUFFER].into(),
            watches: Vec::new(),
            leaders: Vec::new(),
        })
    }

    /// Runs each further command in a sandbox of this pool.
    pub fn use_sandboxes(&mut self, sandboxes: SandboxPool) {
        self.sandboxes = Some(sandboxes);
    }

    /// Returns the capacity given the parallelism, descriptors and load.
    fn free_capacity(&mut self) -> usize {
        self.is_loaded = false;
        if !self.held.is_empty() {
            return 0;
        }
        let busy = self.running.len() + self.finished.len();
        // With Tanto's own slots, the jobserver never has more than `parallelism`.
        let is_unlimited =
            self.parallelism == 0 || self.slots.as_ref().is_some_and(|slots| !slots.jobserver.owns_all_slots());
        let mut room = if is_unlimited { usize::MAX } else { self.parallelism.saturating_sub(busy) };
        if self.lacks_resources && !self.running.is_empty() {
            room = 0;
        }
        if let Some(max_load) = self.max_load.filter(|_| room > 0) {
            // The cast saturates; negative values become 0.
            room = room.min((max_load - (self.system_calls.load)()) as usize);
            self.is_loaded = room == 0 && !self.running.is_empty();
        }
        if self.running.is_empty() { room.max(1) } else { room }
    }

    fn finish(&mut self, index: usize, ended: ExitReport) {
        let mut task = self.running.remove(index);
        let usage = task::usage(&ended);
        let why = self.watcher.as_mut().and_then(|watcher| watcher.first_exited(task.job));
        let exit = match (why, ended.status) {
            (Some(why), _) => Exit::Code(why.exit_code()),
            (None, ExitStatus::Killed { signal, dumped }) if task.direct => {
                let mut message = Vec::new();
                let exit = self.starter.exit_of_killed(signal, dumped, &mut message);
                task.output.push(&message, self.overflow.as_ref());
                exit
            }
            (None, status) => task::exit(status),
        };
        if why.is_some() || !matches!(exit, Exit::Code(_)) {
            task.restore_terminal();
        }
        let exit = match &task.first_run {
            Some(first_run) => first_run.compare(exit, &mut task.output, self.overflow.as_ref()),
            None => exit,
        };
        self.complete(task, exit, usage);
    }

    fn complete(&mut self, task: Task, exit: Exit, usage: Usage) {
        let Task { job, output, slot, worker_job, first_run, record, .. } = task;
        self.lacks_resources = false;
        if let Some(slots) = &mut self.slots {
            slots.jobserver.remove_command(job);
        }
        let used = self.watcher.as_ref().and_then(|watcher| watcher.cgroup_usage(job));
        let waits = self.watcher.as_ref().and_then(|watcher| watcher.waits(job));
        let usage = Usage { waits, ..used.map_or(usage, |used| task::combined_usage(usage, used)) };
        let report = self.watcher.as_mut().and_then(|watcher| watcher.ended(job));
        self.release_sandbox(job);
        let executed_by = match (worker_job, first_run) {
            (None, None) => ExecutedBy::Process,
            (Some(worker_job), _) if !worker_job.continues_from_checkpoint() => ExecutedBy::Fork,
            _ => ExecutedBy::Checkpoint,
        };
        let (output, capture) = output.into_kept();
        let inputs = self.recording.end(job, record);
        let completion = Completion::new(job, exit, output);
        let completion = Completion { capture, usage, executed_by, report, inputs, ..completion };
        self.finished.push_back((completion, slot));
    }

    /// Polls the watcher. Gives up a command that cannot be killed.
    fn poll_watcher(&mut self) -> Option<Wakeup> {
        match self.watcher.as_mut()?.poll()? {
            WatchEvent::Sampled(job, load) => Some(Wakeup::Sampled(job, load)),
            WatchEvent::Abandoned(job) => {
                let index = self.running.iter().position(|task| task.job == job)?;
                let task = self.running.remove(index);
                let why = self.watcher.as_ref().and_then(|watcher| watcher.reason(job));
                self.complete(task, Exit::Code(why.map_or(1, TerminationReason::exit_code)), Usage::default());
                None
            }
        }
    }

    /// Makes the next command start in a sandbox of its own, if there is a pool.
    fn acquire_sandbox(&mut self, job: JobId) -> io::Result<()> {
        let Some(sandboxes) = &mut self.sandboxes else { return Ok(()) };
        let SandboxGuard { namespaces, first, keeper } = sandboxes.acquire(job)?;
        self.starter.set_namespaces(Some(namespaces));
        self.watcher.iter_mut().for_each(|watcher| watcher.enter_sandbox(job, first, keeper));
        Ok(())
    }

    fn release_sandbox(&mut self, job: JobId) {
        self.sandboxes.iter_mut().for_each(|sandboxes| sandboxes.release(job));
    }

    /// Starts a command in a slot. On a shortage, holds it back if a running command's end may help.
    fn launch(&mut self, ready: Ready) -> Result<(), (io::Error, Option<Slot>)> {
        let Ready { job, command, expected, slot, as_process, first_run } = ready;
        let bounds = command.limits.as_deref();
        let limits = self.watcher.as_ref().map_or(ResourceLimits::NONE, |watcher| watcher.limits(bounds));
        let terminal = command.console.then(terminal::TerminalSettings::of_stdin).flatten();
        if let Err(error) = self.acquire_sandbox(job) {
            return Err((error, slot));
        }
        let mut cgroup_files = Vec::new();
        if let Some(watcher) = &mut self.watcher {
            let (name, mark) = watcher.marker(job);
            self.starter.set(name, &mark);
            cgroup_files = watcher.create_cgroup(job, expected, bounds);
        }
        if let Some(slots) = self.slots.as_mut().filter(|slots| slots.jobserver.is_prioritized()) {
            self.starter.set_tokens(slots.add_command(job));
        }
        let record = self.recording.begin(job, &command, &mut self.starter);
        let is_counted = !cgroup_files.is_empty();
        self.starter.set_cgroups(cgroup_files);
        let started = match as_process {
            true => self.starter.start_process(&command),
            false => (self.system_calls.start)(&mut self.starter, &command),
        };
        // The descriptors may be reused.
        self.starter.set_cgroups(Vec::new());
        self.starter.set_namespaces(None);
        self.starter.end_record();
        if let Some(slots) = self.slots.as_mut().filter(|_| started.is_err()) {
            slots.jobserver.remove_command(job);
        }
        if started.is_err() {
            self.release_sandbox(job);
        }
        match started {
            Ok(Started { child, direct, worker_job }) => {
                self.ignore_servers();
                if let Some(watcher) = &mut self.watcher {
                    watcher.started(job, child.pid(), bounds);
                }
                self.lacks_resources |= child.output().is_some_and(|output| output.as_raw_fd() >= self.max_descriptors);
                let worker_job = worker_job.map(|id| WorkerJob::new(id, command, expected, is_counted));
                let output = Output::new(limits.output_bytes);
                self.running.push(Task {
                    job,
                    child,
                    direct,
                    worker_job,
                    first_run,
                    record,
                    output,
                    limits,
                    left: None,
                    slot,
                    terminal,
                });
            }
            Err(error) if is_resource_exhausted(&error) && !(self.running.is_empty() && self.finished.is_empty()) => {
                self.held.push_back(Ready { job, command, expected, slot, as_process, first_run });
            }
            Err(error) => return Err((error, slot)),
        }
        Ok(())
    }

    /// Retries held commands: something may have ended.
    fn start_held(&mut self) -> io::Result<()> {
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { break };
            self.launch(held).map_err(|(error, slot)| {
                self.release(slot);
                error
            })?;
        }
        Ok(())
    }

    fn release(&mut self, slot: Option<Slot>) {
        if let (Some(slots), Some(slot)) = (&mut self.slots, slot) {
            slots.jobserver.release(slot);
        }
    }

    /// Restores lost tokens when no command has a slot.
    fn restore_tokens(&mut self) {
        let none_in_use = self.running.is_empty() && self.finished.is_empty() && self.held.is_empty();
        if let Some(slots) = self.slots.as_mut().filter(|slots| none_in_use && slots.next_slot.is_none()) {
            slots.jobserver.restore_tokens();
        }
    }

    /// Gives unused slots back while waiting.
    fn release_unused(&mut self) {
        self.slots.iter_mut().for_each(SlotGuard::release_kept);
        let unused = self.slots.as_mut().and_then(|slots| slots.next_slot.take());
        self.release(unused);
    }
}

impl Runner for ProcessRunner {
    fn set_next_priority(&mut self, priority: i64) {
        if let Some(slots) = &mut self.slots {
            slots.next_priority = priority;
        }
    }

    fn capacity(&mut self) -> usize {
        let room = self.free_capacity();
        match &mut self.slots {
            Some(slots) if room > 0 => usize::from(slots.acquire_next()),
            Some(slots) => {
                // A free slot is of no use now, and would cause wakeup after wakeup.
                slots.is_waiting = false;
                0
            }
            None => room,
        }
    }

    fn is_load_limited(&self) -> bool {
        self.is_loaded
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        let slot = self.slots.as_mut().and_then(|slots| slots.take(job));
        let ready = Ready { job, command: command.clone(), expected, slot, as_process: false, first_run: None };
        self.launch(ready).map_err(|(error, slot)| {
            if let Some(slots) = &mut self.slots {
                slots.next_slot = slot;
            }
            error
        })
    }

    fn has_completed(&self) -> bool {
        !self.finished.is_empty()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        self.release_unused();
        self.start_held()?;
        self.read_worker_messages()?;
        let end = most.map(|most| Instant::now() + most);
        loop {
            if let Some((completion, slot)) = self.finished.pop_front() {
                if let (Some(slots), Some(slot)) = (&mut self.slots, slot) {
                    slots.ended(completion.job, slot);
                }
                self.restore_tokens();
                return Ok(Wakeup::Completed(completion));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let result = self.poll(left)?;
            match result {
                PollResult::Signal => {
                    if let Some(signal) = self.signals.take() {
                        self.interrupted_by = Some(signal);
                        return Ok(Wakeup::Interrupted(signal));
                    }
                }
                PollResult::SlotAvailable if self.finished.is_empty() => return Ok(Wakeup::SlotAvailable),
                PollResult::SlotAvailable | PollResult::ControlRequest | PollResult::Tasks => {}
            }
            if let Some(woken) = self.poll_watcher() {
                return Ok(woken);
            }
            // After the watcher, so that frequent requests cannot delay the termination of a job.
            if result == PollResult::ControlRequest && self.finished.is_empty() {
                return Ok(Wakeup::ControlRequest);
            }
            if self.finished.is_empty() && left.is_some_and(|left| left.is_zero()) {
                return Ok(Wakeup::TimedOut);
            }
        }
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        self.watcher.as_mut().is_some_and(|watcher| watcher.terminate(job, why))
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        Some(self.running.iter().find(|task| task.job == job)?.output.so_far())
    }

    fn output_size(&self, job: JobId) -> Option<u64> {
        Some(self.running.iter().find(|task| task.job == job)?.output.total())
    }

    fn output_tail(&self, job: JobId, most: usize) -> Option<&[u8]> {
        Some(self.running.iter().find(|task| task.job == job)?.output.last(most))
    }

    fn set_unrelated(&mut self, pid: u32, runs: bool) {
        self.watcher.iter_mut().for_each(|watcher| watcher.set_unrelated(pid, runs));
    }

    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        self.watcher.as_mut().map(Watcher::leftovers).unwrap_or_default()
    }

    fn abort(&mut self) -> Vec<JobId> {
        let mut jobs = Vec::new();
        for (completion, slot) in std::mem::take(&mut self.finished) {
            jobs.push(completion.job);
            self.release(slot);
        }
        for held in std::mem::take(&mut self.held) {
            jobs.push(held.job);
            self.release(held.slot);
        }
        if let Some(signal) = self.interrupted_by {
            // A console command is in Tanto's process group: the terminal has already signaled it.
            self.running.iter().for_each(|task| task.child.signal_group(signal));
            // A stopped process would not receive it.
            self.running.iter().for_each(|task| task.child.signal_group(SIGCONT));
        }
        let mut running = std::mem::take(&mut self.running);
        running.iter_mut().for_each(|task| task.child.close_output());
        self.wait_until_gone(&running);
        for mut task in running {
            jobs.push(task.job);
            if task.worker_job.is_none() {
                // An error means that the process is gone.
                let _ = task.child.wait();
            }
            task.restore_terminal();
            self.release_sandbox(task.job);
            self.release(task.slot);
        }
        self.release_unused();
        jobs
    }
}

impl Drop for ProcessRunner {
    fn drop(&mut self) {
        if self.interrupted_by.is_none()
            && let Some(worker) = self.starter.worker()
        {
            worker.rest();
        }
        self.abort();
    }
}

#[cfg(test)]
mod tests;
