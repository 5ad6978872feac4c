//! Runs commands as processes of this machine. Does not know why, nor what they make.

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

/// How much may run at a time, and where.
#[derive(Default)]
pub struct RunnerOptions {
    /// Commands at a time; 0: any number. Not looked at where somebody else's jobserver says it.
    pub parallelism: usize,
    /// No further command is started while the load average is that high; only a value above 0 counts.
    pub max_load: Option<f64>,
    /// Job slots that others use too, if there are any.
    pub jobserver: Option<Jobserver>,
    /// What the commands find in their environment besides what we found in ours.
    pub environment: Vec<(OsString, OsString)>,
    /// How their processes are watched, if they are.
    pub watch: Option<WatchOptions>,
    /// A directory on whose file system files without a name hold output that is too large for memory. Without one, the
    /// middle of such output is lost.
    pub overflow: Option<PathBuf>,
    /// Who writes there.
    pub writer: Rc<Writer>,
    /// Readable when somebody wants something of us.
    pub wake_fd: Option<OwnedFd>,
    /// The compile worker, if commands may run in it.
    pub clang_worker: Option<clang::WorkerOptions>,
}

/// What the machine answers; tests put other words into its mouth.
struct Machine {
    start: fn(&mut Starter, &Command) -> io::Result<Started>,
    load: fn() -> f64,
    exit_fd: fn(&mut Child) -> io::Result<RawFd>,
}

/// A command under way.
struct Task {
    job: JobId,
    child: Child,
    /// Without a shell.
    direct: bool,
    /// It runs in the compile worker.
    fork: Option<Forked>,
    /// What it has made before, which is to be compared.
    twin: Option<Twin>,
    output: Output,
    /// What it may take.
    limits: ResourceLimits,
    /// When its first process was seen to have ended, though others hold its output.
    left: Option<Instant>,
    slot: Option<Slot>,
    /// For a command on the console: how it found the terminal.
    terminal: Option<terminal::TerminalSettings>,
}

/// A command with all that its start takes.
struct Ready {
    job: JobId,
    command: Command,
    expected: Cost,
    slot: Option<Slot>,
    /// As a process of its own.
    alone: bool,
    /// What it has made before, which is to be compared.
    twin: Option<Twin>,
}

/// Runs commands as processes. While it lives, SIGINT, SIGTERM and SIGHUP come to it and don't end the program.
pub struct ProcessRunner {
    parallelism: usize,
    max_load: Option<f64>,
    /// The load was too high when somebody last asked what may be started, and nothing else was in the way.
    is_loaded: bool,
    purse: Option<SlotGuard>,
    starter: Starter,
    machine: Machine,
    endings: TerminationSignals,
    interrupted_by: Option<i32>,
    /// In the order of their start.
    running: Vec<Task>,
    /// Descriptors are getting scarce: nothing more is started before something has ended.
    crowded: bool,
    most_descriptors: RawFd,
    /// The machine has no room for them now: too few processes, descriptors or memory. They count as some that run; until
    /// they do, no other is started. Most often there is one: more, if forks of the compile worker have to run again.
    held: VecDeque<Ready>,
    /// Ended, but not yet told. Each keeps its slot until it is: who has not heard of it has not written down what it
    /// made, and if we are killed, no more is lost than could run at once.
    finished: VecDeque<(Completion, Option<Slot>)>,
    watcher: Option<Watcher>,
    /// Each command has one, if there are to be any.
    rooms: Option<SandboxPool>,
    overflow: Option<Overflow>,
    wake_fd: Option<OwnedFd>,
    buffer: Box<[u8]>,
    watches: Vec<Watch>,
    /// Those that run whose first process is waited for beside their output; what they wait for stands behind all else.
    leaders: Vec<usize>,
}

/// What one look at all descriptors brought.
#[derive(PartialEq, Eq)]
enum Seen {
    JobOutcome,
    FreeSlot,
    Bell,
    Tasks,
}

/// What became of one command since the last look.
#[derive(Clone, Copy)]
enum Step {
    Nothing,
    Wrote,
    Ended(ExitReport),
}

/// Where in the list of what is waited for the bell and the jobserver stand, behind the endings; the compile worker is
/// between them, and who keeps its checkpoints.
const BELL: usize = 1;
const SLOTS: usize = 4;
/// As much as a pipe holds.
const BUFFER: usize = 64 << 10;
const SIGCONT: i32 = 18;
/// How often a process is looked after whose end cannot be polled for (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ProcessRunner {
    /// A runner with nothing to run yet.
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

    /// Each command from now on has one of these rooms for itself.
    pub fn use_sandboxes(&mut self, rooms: SandboxPool) {
        self.rooms = Some(rooms);
    }

    /// What our own limits leave room for.
    fn room(&mut self) -> usize {
        self.is_loaded = false;
        if !self.held.is_empty() {
            return 0;
        }
        let busy = self.running.len() + self.finished.len();
        // Of our own slots there are as many; who has them all need not ask for another.
        let unlimited = self.parallelism == 0 || self.purse.as_ref().is_some_and(|purse| !purse.share.is_ours());
        let mut room = if unlimited { usize::MAX } else { self.parallelism.saturating_sub(busy) };
        if self.crowded && !self.running.is_empty() {
            room = 0;
        }
        if let Some(max_load) = self.max_load.filter(|_| room > 0) {
            // A float that does not fit is the nearest that does; below 0 that is 0.
            room = room.min((max_load - (self.machine.load)()) as usize);
            self.is_loaded = room == 0 && !self.running.is_empty();
        }
        if self.running.is_empty() { room.max(1) } else { room }
    }

    /// Waits until a descriptor is ready or the time is over, and does what there is to do for each command.
    fn look(&mut self, most: Option<Duration>) -> io::Result<Seen> {
        let first_task = self.watch_all();
        let blind = self.is_blind(first_task).then_some(LOOK_EVERY);
        let until_look = self.watcher.as_ref().and_then(Watcher::until_due);
        let until_deal = self.purse.as_ref().and_then(SlotGuard::patience);
        let until_over = self.running.iter().filter_map(Task::over_in).min();
        let patience = most.into_iter().chain(blind).chain(until_look).chain(until_deal).chain(until_over).min();
        poll::wait(&mut self.watches, patience)?;
        // Before anything else: of what the user's Ctrl-C has ended, it is not said that it failed.
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

    /// Is there a slot for a command that there was none for? Tokens are dealt out now, where that is our task.
    fn may_start(&mut self, first_task: usize) -> bool {
        let is_readable = self.watches[SLOTS..first_task].iter().any(Watch::ready);
        match &mut self.purse {
            Some(purse) if purse.share.is_dealt() => purse.deal(),
            Some(_) => is_readable,
            None => false,
        }
    }

    /// Lists what to wait for: the endings, the bell, the compile worker, the jobserver if it could help, each command.
    /// Says where those begin.
    /// That costs no more than to keep a list: at `-j500` commands took no more processor time each than at `-j100`.
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
            // Where its end cannot be polled for, whoever holds its output holds it up.
            if let Ok(fd) = (self.machine.exit_fd)(&mut task.child) {
                self.watches.push(Watch::new(&fd));
                self.leaders.push(index);
            }
        }
        first_task
    }

    /// Is there a command whose end nothing will show?
    fn is_blind(&self, first_task: usize) -> bool {
        let watches = self.watches[first_task..].iter();
        self.running.iter().zip(watches).any(|(task, watch)| task.fork.is_none() && watch.is_none())
    }

    /// Takes note of first processes that have ended.
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

    /// Does what watching asks for, and goes on without a command that nothing can end.
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

    /// Has what is started next begin in a room of its own, where there are rooms.
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

    /// Starts a command in a slot; holds it back if there is no room and something runs whose end may make some.
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
        // Their numbers may soon be others'.
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

    /// Something may have ended since.
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

    /// Slots that are missing when no command has one are lost.
    fn settle(&mut self) {
        let none_in_use = self.running.is_empty() && self.finished.is_empty() && self.held.is_empty();
        if let Some(purse) = self.purse.as_mut().filter(|purse| none_in_use && purse.in_hand.is_none()) {
            purse.share.settle();
        }
    }

    /// Slots in hand that were not used are for others, while we wait.
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
                // One that comes free is of no use now, and would wake us again and again.
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
            // Not before the watcher's turn: whoever rings all the time keeps nobody from being ended.
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
            // Not to one on the console: it is in our own process group, and the terminal has told it.
            self.running.iter().for_each(|task| task.child.signal_group(signal));
            // One that is stopped hears it only then.
            self.running.iter().for_each(|task| task.child.signal_group(SIGCONT));
        }
        let mut running = std::mem::take(&mut self.running);
        running.iter_mut().for_each(|task| task.child.close_output());
        self.bury(&running);
        for mut task in running {
            jobs.push(task.job);
            if task.fork.is_none() {
                // An error means that there is no such child any more.
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
    /// What tells that there is something to do: its output, and after that its end.
    fn watch(&mut self, exit_fd: fn(&mut Child) -> io::Result<RawFd>) -> Watch {
        if let Some(output) = self.child.output() {
            return Watch::new(output);
        }
        if self.fork.is_some() {
            return Watch::none();
        }
        exit_fd(&mut self.child).map_or(Watch::none(), |fd| Watch::new(&fd))
    }

    /// How much it may print, if it has printed more.
    fn floods(&self) -> Option<u64> {
        self.limits.output_bytes.filter(|&most| self.output.total() > most)
    }

    /// Could its first process have ended, and nobody know, because others hold its output?
    fn may_be_left(&self) -> bool {
        let could_be = self.limits.linger_ms.is_some() && self.fork.is_none();
        could_be && self.left.is_none() && self.child.output().is_some()
    }

    /// In how much time it is over whoever holds its output.
    fn over_in(&self) -> Option<Duration> {
        let linger = Duration::from_millis(self.limits.linger_ms?.max(0).unsigned_abs());
        self.child.output()?;
        Some(linger.saturating_sub(self.left?.elapsed()))
    }

    /// It is over: what a pipe holds may still be its own, and what comes then is not.
    fn take_last(&mut self, is_some: bool, buffer: &mut [u8], overflow: Option<&Overflow>) -> io::Result<()> {
        let length = if is_some { self.child.read_output(buffer)? } else { 0 };
        self.output.push(&buffer[..length], overflow);
        self.child.close_output();
        Ok(())
    }

    /// Whoever was ended in the middle of a question may have left the terminal without echo.
    fn restore_terminal(&self) {
        if let Some(settings) = &self.terminal {
            settings.restore();
        }
    }

    /// Takes what it wrote. A command is over when nobody can write to its output any more and it has exited, in
    /// whichever order.
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

/// What a control group has counted goes before what was waited for: it has whole trees.
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
