//! Runs commands as local processes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tanto_sys::cgroup::CgroupUsage;
use tanto_sys::error::is_resource_exhausted;
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::machine::cpu;
use tanto_sys::process::{self, Child, Environment, ExitReport, ExitStatus};
use tanto_sys::signals::TerminationSignals;
use tanto_sys::terminal;

use self::double_run::Twin;
use self::launch::{Started, Starter};
use self::output::{Output, Overflow};
use self::slot_guard::SlotGuard;
use self::worker_jobs::Forked;
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
mod shell_split;
mod slot_guard;
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
}

/// System calls, which tests replace.
struct Machine {
    start: fn(&mut Starter, &Command) -> io::Result<Started>,
    load: fn() -> f64,
    exit_fd: fn(&mut Child) -> io::Result<RawFd>,
}

/// A running command.
struct Task {
    job: JobId,
    child: Child,
    /// Started without a shell.
    direct: bool,
    /// Set while it runs in the clang worker.
    fork: Option<Forked>,
    /// Result of its first run, to be compared.
    twin: Option<Twin>,
    output: Output,
    limits: ResourceLimits,
    /// Time at which its first process was seen to have exited while others held its output.
    left: Option<Instant>,
    slot: Option<Slot>,
    /// Terminal settings before a console command.
    terminal: Option<terminal::TerminalSettings>,
}

/// A command that is ready to start.
struct Ready {
    job: JobId,
    command: Command,
    expected: Cost,
    slot: Option<Slot>,
    /// Runs as a process, not in the clang worker.
    alone: bool,
    /// Result of its first run, to be compared.
    twin: Option<Twin>,
}

/// While it exists, SIGINT, SIGTERM and SIGHUP wake the runner and do not end the program.
pub struct ProcessRunner {
    parallelism: usize,
    max_load: Option<f64>,
    /// The load average was the reason for the last capacity of 0.
    is_loaded: bool,
    purse: Option<SlotGuard>,
    starter: Starter,
    machine: Machine,
    endings: TerminationSignals,
    interrupted_by: Option<i32>,
    /// In the order of their start.
    running: Vec<Task>,
    /// Descriptors are scarce: nothing starts before something has ended.
    crowded: bool,
    most_descriptors: RawFd,
    /// Commands that failed to start for lack of processes, descriptors or memory. They count as running, and no other
    /// starts before them. More than one only if jobs of the clang worker have to run again.
    held: VecDeque<Ready>,
    /// Finished, but not yet reported. Each keeps its slot until then: its result is not yet recorded, and if Tanto is
    /// killed, no more results may be lost than could run at once.
    finished: VecDeque<(Completion, Option<Slot>)>,
    watcher: Option<Watcher>,
    rooms: Option<SandboxPool>,
    overflow: Option<Overflow>,
    wake_fd: Option<OwnedFd>,
    buffer: Box<[u8]>,
    watches: Vec<Watch>,
    /// Indices in `running` of tasks whose first process is watched beside their output; their watches are the last
    /// ones.
    leaders: Vec<usize>,
}

/// Result of waiting for all descriptors.
#[derive(PartialEq, Eq)]
enum Seen {
    JobOutcome,
    FreeSlot,
    Bell,
    Tasks,
}

#[derive(Clone, Copy)]
enum Step {
    Nothing,
    Wrote,
    Ended(ExitReport),
}

/// Indices in the list of watches. The first one is for signals; those of the clang worker and the checkpoint daemon
/// are between these two.
const BELL: usize = 1;
const SLOTS: usize = 4;
/// Capacity of a pipe.
const BUFFER: usize = 64 << 10;
const SIGCONT: i32 = 18;
/// Poll interval for processes without a pidfd (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ProcessRunner {
    pub fn new(options: RunnerOptions) -> io::Result<ProcessRunner> {
        let mut starter = Starter::new(Environment::inherit_with(&options.environment), options.clang_worker);
        options.jobserver.iter().filter_map(Jobserver::descriptors).for_each(|both| starter.hand_on(both));
        let purse = options.jobserver.map(SlotGuard::new);
        Ok(ProcessRunner {
            parallelism: options.parallelism,
            max_load: options.max_load.filter(|&load| load > 0.0),
            is_loaded: false,
            purse,
            starter,
            machine: Machine { start: Starter::start, load: cpu::load_average, exit_fd: Child::exit_fd },
            endings: TerminationSignals::listen()?,
            interrupted_by: None,
            running: Vec::new(),
            crowded: false,
            most_descriptors: process::max_child_descriptors(),
            held: VecDeque::new(),
            finished: VecDeque::new(),
            watcher: options.watch.map(|watch| Watcher::new(watch, clang::is_checkpoint_daemon)).transpose()?,
            rooms: None,
            overflow: options.overflow.map(|dir| Overflow { dir, writer: options.writer }),
            wake_fd: options.wake_fd,
            buffer: vec![0; BUFFER].into(),
            watches: Vec::new(),
            leaders: Vec::new(),
        })
    }

    /// Runs each further command in a sandbox of this pool.
    pub fn use_sandboxes(&mut self, rooms: SandboxPool) {
        self.rooms = Some(rooms);
    }

    /// Returns the capacity given the parallelism, descriptors and load.
    fn room(&mut self) -> usize {
        self.is_loaded = false;
        if !self.held.is_empty() {
            return 0;
        }
        let busy = self.running.len() + self.finished.len();
        // With Tanto's own slots, the jobserver never has more than `parallelism`.
        let unlimited = self.parallelism == 0 || self.purse.as_ref().is_some_and(|purse| !purse.share.is_ours());
        let mut room = if unlimited { usize::MAX } else { self.parallelism.saturating_sub(busy) };
        if self.crowded && !self.running.is_empty() {
            room = 0;
        }
        if let Some(max_load) = self.max_load.filter(|_| room > 0) {
            // The cast saturates; negative values become 0.
            room = room.min((max_load - (self.machine.load)()) as usize);
            self.is_loaded = room == 0 && !self.running.is_empty();
        }
        if self.running.is_empty() { room.max(1) } else { room }
    }

    /// Waits for a descriptor or the timeout, then advances all tasks.
    fn look(&mut self, most: Option<Duration>) -> io::Result<Seen> {
        let first_task = self.watch_all();
        let blind = self.is_blind(first_task).then_some(LOOK_EVERY);
        let until_look = self.watcher.as_ref().and_then(Watcher::until_due);
        let until_deal = self.purse.as_ref().and_then(SlotGuard::patience);
        let until_over = self.running.iter().filter_map(Task::over_in).min();
        let patience = most.into_iter().chain(blind).chain(until_look).chain(until_deal).chain(until_over).min();
        poll::wait(&mut self.watches, patience)?;
        // First of all: a command that Ctrl-C has ended must not be reported as failed.
        if self.watches[0].ready() || self.endings.is_pending() {
            return Ok(Seen::JobOutcome);
        }
        self.heed_leaders(first_task + self.running.len());
        self.advance_all(first_task)?;
        self.hear()?;
        Ok(match () {
            () if self.may_start(first_task) => Seen::FreeSlot,
            () if self.watches[BELL].ready() => Seen::Bell,
            () => Seen::Tasks,
        })
    }

    /// Returns whether a slot became available; reallocates tokens.
    fn may_start(&mut self, first_task: usize) -> bool {
        let is_readable = self.watches[SLOTS..first_task].iter().any(Watch::ready);
        match &mut self.purse {
            Some(purse) if purse.share.is_dealt() => purse.deal(),
            Some(_) => is_readable,
            None => false,
        }
    }

    /// Lists all descriptors: signals, wake_fd, clang worker, jobserver if it could help, tasks. Returns the index of
    /// the first task. Rebuilding the list is as cheap as updating it: `-j500` takes no more CPU time per command than
    /// `-j100`.
    fn watch_all(&mut self) -> usize {
        self.watches.clear();
        self.watches.push(Watch::new(&self.endings));
        self.watches.push(self.wake_fd.as_ref().map_or(Watch::none(), Watch::new));
        let nothing = || [Watch::none(), Watch::none()];
        self.watches.extend(self.starter.worker().map_or_else(nothing, |worker| worker.watches()));
        if let Some(purse) = &self.purse {
            purse.watch(&mut self.watches);
        }
        let first_task = self.watches.len();
        for task in &mut self.running {
            self.watches.push(task.watch(self.machine.exit_fd));
        }
        self.leaders.clear();
        for (index, task) in self.running.iter_mut().enumerate().filter(|(_, task)| task.may_be_left()) {
            // Without a pidfd, the task lasts until its output is closed.
            if let Ok(fd) = (self.machine.exit_fd)(&mut task.child) {
                self.watches.push(Watch::new(&fd));
                self.leaders.push(index);
            }
        }
        first_task
    }

    /// Returns whether the end of some task cannot be watched.
    fn is_blind(&self, first_task: usize) -> bool {
        let watches = self.watches[first_task..].iter();
        self.running.iter().zip(watches).any(|(task, watch)| task.fork.is_none() && watch.is_none())
    }

    /// Records the exits of first processes.
    fn heed_leaders(&mut self, first_leader: usize) {
        for (&index, watch) in self.leaders.iter().zip(&self.watches[first_leader..]) {
            if watch.ready() {
                self.running[index].left = Some(Instant::now());
            }
        }
    }

    fn advance_all(&mut self, first_task: usize) -> io::Result<()> {
        let mut index = 0;
        for at in first_task..first_task + self.running.len() {
            let watch = self.watches[at];
            let is_over = self.running[index].over_in().is_some_and(|time| time.is_zero());
            if is_over {
                self.running[index].take_last(watch.ready(), &mut self.buffer, self.overflow.as_ref())?;
            }
            let moved = watch.ready() || watch.is_none() || is_over;
            let job = self.running[index].job;
            let step = match moved {
                true => self.running[index].advance(&mut self.buffer, self.overflow.as_ref())?,
                false => Step::Nothing,
            };
            match step {
                Step::Ended(ended) => self.finish(index, ended),
                Step::Wrote | Step::Nothing => index += 1,
            }
            if let (Step::Wrote, Some(watcher)) = (step, &mut self.watcher) {
                watcher.record_output(job);
                if let Some(most) = self.running[index - 1].floods() {
                    watcher.terminate(job, TerminationReason::Output { limit_bytes: most });
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, index: usize, ended: ExitReport) {
        let mut task = self.running.remove(index);
        let usage = usage(&ended);
        let why = self.watcher.as_mut().and_then(|watcher| watcher.first_exited(task.job));
        let exit = match (why, ended.status) {
            (Some(why), _) => Exit::Code(why.exit_code()),
            (None, ExitStatus::Killed { signal, dumped }) if task.direct => {
                let mut said = Vec::new();
                let exit = self.starter.death(signal, dumped, &mut said);
                task.output.push(&said, self.overflow.as_ref());
                exit
            }
            (None, status) => exit(status),
        };
        if why.is_some() || !matches!(exit, Exit::Code(_)) {
            task.restore_terminal();
        }
        let exit = match &task.twin {
            Some(twin) => twin.compare(exit, &mut task.output, self.overflow.as_ref()),
            None => exit,
        };
        self.tell(task, exit, usage);
    }

    fn tell(&mut self, task: Task, exit: Exit, usage: Usage) {
        let Task { job, output, slot, fork, twin, .. } = task;
        self.crowded = false;
        if let Some(purse) = &mut self.purse {
            purse.share.leave(job);
        }
        let used = self.watcher.as_ref().and_then(|watcher| watcher.used(job));
        let waits = self.watcher.as_ref().and_then(|watcher| watcher.waits(job));
        let usage = Usage { waits, ..used.map_or(usage, |used| whole(usage, used)) };
        let report = self.watcher.as_mut().and_then(|watcher| watcher.ended(job));
        self.vacate(job);
        let executed_by = match (fork, twin) {
            (None, None) => ExecutedBy::Process,
            (Some(fork), _) if !fork.is_kept() => ExecutedBy::ClangWorker,
            _ => ExecutedBy::Checkpoint,
        };
        let (output, capture) = output.into_kept();
        let completion = Completion { job, exit, output, capture, usage, executed_by, report };
        self.finished.push_back((completion, slot));
    }

    /// Polls the watcher. Gives up a command that cannot be killed.
    fn attend(&mut self) -> Option<Wakeup> {
        match self.watcher.as_mut()?.poll()? {
            WatchEvent::Sampled(job, load) => Some(Wakeup::Sampled(job, load)),
            WatchEvent::Abandoned(job) => {
                let index = self.running.iter().position(|task| task.job == job)?;
                let task = self.running.remove(index);
                let why = self.watcher.as_ref().and_then(|watcher| watcher.reason(job));
                self.tell(task, Exit::Code(why.map_or(1, TerminationReason::exit_code)), Usage::default());
                None
            }
        }
    }

    /// Makes the next command start in a sandbox of its own, if there is a pool.
    fn house(&mut self, job: JobId) -> io::Result<()> {
        let Some(rooms) = &mut self.rooms else { return Ok(()) };
        let SandboxGuard { namespaces: entrance, first, keeper } = rooms.acquire(job)?;
        self.starter.shut_in(Some(entrance));
        self.watcher.iter_mut().for_each(|watcher| watcher.enter_sandbox(job, first, keeper));
        Ok(())
    }

    fn vacate(&mut self, job: JobId) {
        self.rooms.iter_mut().for_each(|rooms| rooms.release(job));
    }

    /// Starts a command in a slot. On a shortage, holds it back if a running command's end may help.
    fn launch(&mut self, ready: Ready) -> Result<(), (io::Error, Option<Slot>)> {
        let Ready { job, command, expected, slot, alone, twin } = ready;
        let bounds = command.limits.as_deref();
        let limits = self.watcher.as_ref().map_or(ResourceLimits::NONE, |watcher| watcher.limits(bounds));
        let terminal = command.console.then(terminal::TerminalSettings::of_stdin).flatten();
        if let Err(error) = self.house(job) {
            return Err((error, slot));
        }
        let mut entrances = Vec::new();
        if let Some(watcher) = &mut self.watcher {
            let (name, mark) = watcher.marker(job);
            self.starter.set(name, &mark);
            entrances = watcher.create_cgroup(job, expected, bounds);
        }
        if let Some(purse) = self.purse.as_mut().filter(|purse| purse.share.is_dealt()) {
            self.starter.share(purse.join(job));
        }
        let is_counted = !entrances.is_empty();
        self.starter.enter(entrances);
        let started = match alone {
            true => self.starter.start_alone(&command),
            false => (self.machine.start)(&mut self.starter, &command),
        };
        // The descriptors may be reused.
        self.starter.enter(Vec::new());
        self.starter.shut_in(None);
        if let Some(purse) = self.purse.as_mut().filter(|_| started.is_err()) {
            purse.share.leave(job);
        }
        if started.is_err() {
            self.vacate(job);
        }
        match started {
            Ok(Started { child, direct, fork }) => {
                self.spare_worker();
                if let Some(watcher) = &mut self.watcher {
                    watcher.started(job, child.pid(), bounds);
                }
                self.crowded |= child.output().is_some_and(|output| output.as_raw_fd() >= self.most_descriptors);
                let fork = fork.map(|fork| Forked::new(fork, command, expected, is_counted));
                let output = Output::new(limits.output_bytes);
                self.running.push(Task { job, child, direct, fork, twin, output, limits, left: None, slot, terminal });
            }
            Err(error) if is_resource_exhausted(&error) && !(self.running.is_empty() && self.finished.is_empty()) => {
                self.held.push_back(Ready { job, command, expected, slot, alone, twin });
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
        if let (Some(purse), Some(slot)) = (&mut self.purse, slot) {
            purse.share.release(slot);
        }
    }

    /// Restores lost tokens when no command has a slot.
    fn settle(&mut self) {
        let none_in_use = self.running.is_empty() && self.finished.is_empty() && self.held.is_empty();
        if let Some(purse) = self.purse.as_mut().filter(|purse| none_in_use && purse.in_hand.is_none()) {
            purse.share.settle();
        }
    }

    /// Gives unused slots back while waiting.
    fn release_unused(&mut self) {
        self.purse.iter_mut().for_each(SlotGuard::let_go);
        let unused = self.purse.as_mut().and_then(|purse| purse.in_hand.take());
        self.release(unused);
    }
}

impl Runner for ProcessRunner {
    fn set_next_priority(&mut self, urgency: i64) {
        if let Some(purse) = &mut self.purse {
            purse.next = urgency;
        }
    }

    fn capacity(&mut self) -> usize {
        let room = self.room();
        match &mut self.purse {
            Some(purse) if room > 0 => usize::from(purse.hold()),
            Some(purse) => {
                // A free slot is of no use now, and would cause wakeup after wakeup.
                purse.hungry = false;
                0
            }
            None => room,
        }
    }

    fn is_load_limited(&self) -> bool {
        self.is_loaded
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        let slot = self.purse.as_mut().and_then(|purse| purse.take(job));
        let ready = Ready { job, command: command.clone(), expected, slot, alone: false, twin: None };
        self.launch(ready).map_err(|(error, slot)| {
            if let Some(purse) = &mut self.purse {
                purse.in_hand = slot;
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
        self.hear()?;
        let end = most.map(|most| Instant::now() + most);
        loop {
            if let Some((completion, slot)) = self.finished.pop_front() {
                if let (Some(purse), Some(slot)) = (&mut self.purse, slot) {
                    purse.ended(completion.job, slot);
                }
                self.settle();
                return Ok(Wakeup::Completed(completion));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let seen = self.look(left)?;
            match seen {
                Seen::JobOutcome => {
                    if let Some(signal) = self.endings.take() {
                        self.interrupted_by = Some(signal);
                        return Ok(Wakeup::Interrupted(signal));
                    }
                }
                Seen::FreeSlot if self.finished.is_empty() => return Ok(Wakeup::SlotAvailable),
                Seen::FreeSlot | Seen::Bell | Seen::Tasks => {}
            }
            if let Some(woken) = self.attend() {
                return Ok(woken);
            }
            // After the watcher, so that frequent requests cannot delay the termination of a job.
            if seen == Seen::Bell && self.finished.is_empty() {
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

    fn output_tail(&self, job: JobId, most: usize) -> Option<&[u8]> {
        Some(self.running.iter().find(|task| task.job == job)?.output.last(most))
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
        self.bury(&running);
        for mut task in running {
            jobs.push(task.job);
            if task.fork.is_none() {
                // An error means that the process is gone.
                let _ = task.child.wait();
            }
            task.restore_terminal();
            self.vacate(task.job);
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

impl Task {
    /// Watches the output, and after that the exit.
    fn watch(&mut self, exit_fd: fn(&mut Child) -> io::Result<RawFd>) -> Watch {
        if let Some(output) = self.child.output() {
            return Watch::new(output);
        }
        if self.fork.is_some() {
            return Watch::none();
        }
        exit_fd(&mut self.child).map_or(Watch::none(), |fd| Watch::new(&fd))
    }

    /// Returns the output limit if it is exceeded.
    fn floods(&self) -> Option<u64> {
        self.limits.output_bytes.filter(|&most| self.output.total() > most)
    }

    /// Returns whether the first process may have exited unnoticed, while others hold the output.
    fn may_be_left(&self) -> bool {
        let could_be = self.limits.linger_ms.is_some() && self.fork.is_none();
        could_be && self.left.is_none() && self.child.output().is_some()
    }

    /// Returns the time until the task ends even though others hold its output.
    fn over_in(&self) -> Option<Duration> {
        let linger = Duration::from_millis(self.limits.linger_ms?.max(0).unsigned_abs());
        self.child.output()?;
        Some(linger.saturating_sub(self.left?.elapsed()))
    }

    /// Reads what is in the pipe, which may still be the task's own output, and closes it.
    fn take_last(&mut self, is_some: bool, buffer: &mut [u8], overflow: Option<&Overflow>) -> io::Result<()> {
        let length = if is_some { self.child.read_output(buffer)? } else { 0 };
        self.output.push(&buffer[..length], overflow);
        self.child.close_output();
        Ok(())
    }

    /// A command that was killed at a password prompt may leave the terminal without echo.
    fn restore_terminal(&self) {
        if let Some(settings) = &self.terminal {
            settings.restore();
        }
    }

    /// Reads output. The task ends when its output is closed and its first process has exited, in either order.
    fn advance(&mut self, buffer: &mut [u8], overflow: Option<&Overflow>) -> io::Result<Step> {
        if self.child.output().is_some() {
            let length = self.child.read_output(buffer)?;
            if length > 0 {
                self.output.push(&buffer[..length], overflow);
                return Ok(Step::Wrote);
            }
        }
        Ok(self.child.try_wait()?.map_or(Step::Nothing, Step::Ended))
    }
}

fn usage(ended: &ExitReport) -> Usage {
    Usage {
        user_us: ended.user_us,
        system_us: ended.system_us,
        max_rss_kib: ended.max_rss_kib,
        read_bytes: ended.read_bytes,
        written_bytes: ended.written_bytes,
        waits: None,
    }
}

/// Prefers the counts of a control group, which cover the whole process tree.
fn whole(usage: Usage, used: CgroupUsage) -> Usage {
    Usage {
        user_us: used.user_us.max(usage.user_us),
        system_us: used.system_us.max(usage.system_us),
        max_rss_kib: used.memory_kib.unwrap_or(0).max(usage.max_rss_kib),
        read_bytes: used.read_bytes.unwrap_or(usage.read_bytes),
        written_bytes: used.written_bytes.unwrap_or(usage.written_bytes),
        waits: usage.waits,
    }
}

fn exit(status: ExitStatus) -> Exit {
    match status {
        ExitStatus::Code(code) => Exit::Code(code),
        ExitStatus::Killed { signal, dumped: false } => Exit::Signal(signal),
        ExitStatus::Killed { signal, dumped: true } => Exit::Dumped(signal),
    }
}

#[cfg(test)]
mod tests;
