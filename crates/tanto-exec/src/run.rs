//! The loop of a build: starts ready jobs, waits for a wakeup, and updates the schedule. It owns all mutable build
//! state.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use crate::clock::Clock;
use crate::event::{Event, View};
use crate::frontend::{Fatal, Frontend, JobOutcome, Start};
use crate::job::report::MonitorReport;
use crate::job::{Command, Completion, Exit, JobId, JobInfo};
use crate::runner::{Runner, Wakeup, refused};
use crate::schedule::{Blocked, Next, ResourceSample, Schedule, ThrottleReason};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildOutcome {
    Succeeded,
    /// By a signal, or a command that died of one.
    Interrupted,
    Failed {
        /// Exit code of the last failed command, or 1.
        code: i32,
        /// Text for `build stopped: ...`.
        reason: Vec<u8>,
    },
    /// The input turned out to be invalid during the build.
    InvalidInput(Vec<u8>),
}

impl From<Fatal> for BuildOutcome {
    fn from(Fatal { message, invalid_input }: Fatal) -> BuildOutcome {
        if invalid_input {
            BuildOutcome::InvalidInput(message)
        } else {
            BuildOutcome::Failed { code: 1, reason: message }
        }
    }
}

/// Parts of a build, borrowed for its duration.
pub struct Build<'a, T = Command, P = Infallible> {
    pub frontend: &'a mut dyn Frontend<T, P>,
    pub schedule: &'a mut Schedule,
    pub runner: &'a mut dyn Runner<T, P>,
    pub view: &'a mut dyn View,
    pub clock: &'a dyn Clock,
    /// Starts nothing more after this many failures; at least 1.
    pub failures_allowed: usize,
    /// Samples the system; called only if the schedule has admission limits.
    pub sampler: &'a mut dyn FnMut() -> ResourceSample,
}

struct Running {
    info: JobInfo,
    start_ms: i64,
}

enum Step {
    GoOn,
    Stop(BuildOutcome),
}

struct Loop<'a, T, P> {
    build: Build<'a, T, P>,
    /// A map, because a dry run has as many entries as there are ready jobs.
    running: BTreeMap<JobId, Running>,
    failures: usize,
    code: i32,
    /// Finished jobs that left processes behind.
    leavers: BTreeMap<JobId, JobInfo>,
    asked_ms: Option<i64>,
    /// As last sent to the view.
    hold: Option<ThrottleReason>,
    followed_ms: Option<i64>,
}

/// Pressure averages do not change faster.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Minimum interval of `Event::Printed`.
const FOLLOW_EVERY_MS: i64 = 100;
/// Maximum size of `Event::Printed`: a few lines.
const MOST_FOLLOWED: usize = 4 << 10;

impl<T, P> Build<'_, T, P> {
    /// Runs the build to its end. No command is left running.
    pub fn run(self) -> BuildOutcome {
        let downstream_ms = self.schedule.downstream_ms();
        self.view.event(Event::BuildStarted { at_ms: self.clock.now_ms(), downstream_ms: &downstream_ms });
        let mut it = Loop {
            build: self,
            running: BTreeMap::new(),
            failures: 0,
            code: 0,
            leavers: BTreeMap::new(),
            asked_ms: None,
            hold: None,
            followed_ms: None,
        };
        let verdict = it.turn_until_stop();
        if !it.running.is_empty() {
            it.abandon_running();
        }
        let flushed = it.build.frontend.flush(it.build.view);
        if it.failures > 0 {
            it.tell_skipped();
        }
        if !it.leavers.is_empty() {
            it.tell_left();
        }
        it.build.view.event(Event::BuildFinished { at_ms: it.build.clock.now_ms() });
        it.build.view.flush();
        match (verdict, flushed) {
            (BuildOutcome::Succeeded, Err(fatal)) => fatal.into(),
            (verdict, _) => verdict,
        }
    }
}

impl<T, P> Loop<'_, T, P> {
    fn turn_until_stop(&mut self) -> BuildOutcome {
        loop {
            match self.attend().and_then(|()| self.turn()) {
                Ok(Step::GoOn) => {}
                Ok(Step::Stop(verdict)) => return verdict,
                Err(fatal) => return fatal.into(),
            }
        }
    }

    fn attend(&mut self) -> Result<(), Fatal> {
        let Build { frontend: front, schedule, runner, view, .. } = &mut self.build;
        front.poll_control(schedule, *runner, *view)
    }

    /// Starts everything that may start, then handles one wakeup.
    fn turn(&mut self) -> Result<Step, Fatal> {
        if !self.build.schedule.has_work() && !self.build.frontend.expects_jobs() {
            return Ok(Step::Stop(BuildOutcome::Succeeded));
        }
        self.start_ready()?;
        if self.running.is_empty() && !self.waits() {
            let done = !self.build.schedule.has_work();
            return Ok(Step::Stop(if done { BuildOutcome::Succeeded } else { self.no_progress() }));
        }
        if !self.build.runner.has_completed() {
            self.build.frontend.flush(self.build.view)?;
            self.tell_printed();
            self.build.view.flush();
        }
        let wakeup = match self.build.frontend.take_wakeup() {
            Some(wakeup) => Ok(wakeup),
            None => self.build.runner.wait(self.patience()),
        };
        match wakeup {
            Ok(Wakeup::Completed(completion)) => self.complete(completion),
            Ok(Wakeup::Progress(job, progress)) => {
                self.build.frontend.on_progress(job, progress, self.build.view);
                Ok(Step::GoOn)
            }
            Ok(Wakeup::Interrupted(_)) => Ok(Step::Stop(BuildOutcome::Interrupted)),
            Ok(Wakeup::SlotAvailable | Wakeup::ControlRequest) => Ok(Step::GoOn),
            Ok(Wakeup::Sampled(job, sample)) => {
                self.build.schedule.update_memory(job, sample.memory_kib);
                self.build.frontend.on_sample(job, &sample);
                self.build.view.event(Event::Sampled { job, at_ms: self.build.clock.now_ms(), sample });
                Ok(Step::GoOn)
            }
            Ok(Wakeup::TimedOut) => {
                self.tell_printed();
                if self.build.view.tick_interval().is_some() {
                    self.build.view.event(Event::Tick { at_ms: self.build.clock.now_ms() });
                }
                Ok(Step::GoOn)
            }
            Err(error) => Err(stopped(b"waiting for commands", &error)),
        }
    }

    /// Returns whether something may happen although no job runs.
    fn waits(&self) -> bool {
        let Build { frontend, schedule, .. } = &self.build;
        frontend.expects_jobs() || schedule.has_next() && frontend.waits_for_machines()
    }

    fn start_ready(&mut self) -> Result<(), Fatal> {
        self.start_elsewhere(true)?;
        while self.build.schedule.has_noop() || self.may_start() {
            self.ask_machine();
            match self.build.schedule.take_next() {
                Some(Next::NoOp(job)) => {
                    if let Some(info) = self.build.frontend.describe_noop(job) {
                        self.group(job, &info, self.build.clock.now_ms());
                    }
                    self.pass(job)?;
                }
                Some(Next::Start(job)) => self.start(job)?,
                None => break,
            }
        }
        self.start_elsewhere(false)?;
        self.tell_hold();
        Ok(())
    }

    fn start_elsewhere(&mut self, may_start_here: bool) -> Result<(), Fatal> {
        let Build { frontend, schedule, view, clock, .. } = &mut self.build;
        let started = frontend.start_elsewhere(may_start_here, schedule, *view)?;
        if started.is_empty() {
            return Ok(());
        }
        let start_ms = clock.now_ms();
        for (job, info) in started {
            view.event(Event::Started { job, info: &info, at_ms: start_ms });
            self.running.insert(job, Running { info, start_ms });
        }
        Ok(())
    }

    fn may_start(&mut self) -> bool {
        let Build { frontend, schedule, runner, failures_allowed, .. } = &mut self.build;
        let must_start = self.running.is_empty() && !frontend.waits_for_machines();
        if !must_start && !frontend.may_start() {
            return false;
        }
        if let Some(urgency) = schedule.next_priority() {
            runner.set_next_priority(urgency);
        }
        self.failures < *failures_allowed && schedule.has_next() && runner.capacity() > 0
    }

    /// Samples the system, unless it was just sampled.
    fn ask_machine(&mut self) {
        if !self.build.schedule.has_admission_limits() {
            return;
        }
        let now_ms = self.build.clock.now_ms();
        if self.asked_ms.is_none_or(|asked_ms| now_ms - asked_ms >= ASK_EVERY.as_millis() as i64) {
            self.asked_ms = Some(now_ms);
            self.build.schedule.update_resources((self.build.sampler)());
        }
    }

    /// Sends a change of the throttle reason to the view.
    fn tell_hold(&mut self) {
        let reason = self.reason();
        let same = match (reason, self.hold) {
            (Some(new), Some(old)) => new.same_kind(old),
            (new, old) => new.is_none() == old.is_none(),
        };
        if !same {
            self.hold = reason;
            self.build.view.event(Event::Throttled { reason, at_ms: self.build.clock.now_ms() });
        }
    }

    fn reason(&self) -> Option<ThrottleReason> {
        let Build { schedule, runner, failures_allowed, .. } = &self.build;
        let loaded = runner.is_load_limited() && schedule.has_next() && self.failures < *failures_allowed;
        schedule.throttle_reason().or(loaded.then_some(ThrottleReason::LoadAverage))
    }

    /// Sends the output of the followed command to the view.
    fn tell_printed(&mut self) {
        let Build { runner, view, clock, .. } = &mut self.build;
        let Some(job) = view.followed_job() else { return };
        let at_ms = clock.now_ms();
        if self.followed_ms.is_some_and(|told_ms| at_ms - told_ms < FOLLOW_EVERY_MS) {
            return;
        }
        self.followed_ms = Some(at_ms);
        if let Some(output) = runner.output_tail(job, MOST_FOLLOWED) {
            view.event(Event::Printed { job, at_ms, output });
        }
    }

    /// Returns the maximum wait: throttling may end without the end of a job.
    fn patience(&self) -> Option<Duration> {
        let hold = self.build.schedule.throttle_reason().map(|_| ASK_EVERY);
        hold.into_iter().chain(self.build.view.tick_interval()).chain(self.build.frontend.control_interval()).min()
    }

    fn start(&mut self, job: JobId) -> Result<(), Fatal> {
        let start_ms = self.build.clock.now_ms();
        match self.build.frontend.start(job)? {
            Start::NoOp(info) => {
                self.group(job, &info, start_ms);
                self.pass(job)
            }
            Start::Run(command, info) => {
                self.build.view.event(Event::Started { job, info: &info, at_ms: start_ms });
                if info.console {
                    self.build.view.flush();
                }
                let expected = self.build.schedule.cost(job);
                self.build.runner.start(job, &command, expected).map_err(|error| cannot_start(&error))?;
                self.running.insert(job, Running { info, start_ms });
                Ok(())
            }
            Start::Fail(info, reason) => {
                self.build.view.event(Event::Started { job, info: &info, at_ms: start_ms });
                let completion = Completion::new(job, Exit::Code(1), reason);
                self.end(Running { info, start_ms }, &completion)
            }
        }
    }

    fn group(&mut self, job: JobId, info: &JobInfo, at_ms: i64) {
        self.build.view.event(Event::NothingToRun { job, info, at_ms });
    }

    fn pass(&mut self, job: JobId) -> Result<(), Fatal> {
        self.build.frontend.finish_job(job, JobOutcome::NoOp, self.build.schedule, self.build.view)?;
        self.build.schedule.succeeded(job);
        Ok(())
    }

    fn complete(&mut self, mut completion: Completion) -> Result<Step, Fatal> {
        if completion.exit.interrupted() {
            // Its outputs stay, as with ninja, which removes only those of commands that it interrupted itself.
            self.take_running(completion.job);
            return Ok(Step::Stop(BuildOutcome::Interrupted));
        }
        let job = completion.job;
        let Build { frontend, schedule, runner, view, .. } = &mut self.build;
        while let Some(task) = frontend.next_task(&mut completion, schedule, *view) {
            match runner.start(job, &task, schedule.cost(job)) {
                Ok(()) => return Ok(Step::GoOn),
                Err(error) => completion = refused(job, &error),
            }
        }
        frontend.finish_command(&mut completion)?;
        let running = self.take_running(job);
        self.end(running, &completion)?;
        Ok(Step::GoOn)
    }

    fn end(&mut self, Running { info, start_ms }: Running, completion: &Completion) -> Result<(), Fatal> {
        let end_ms = self.build.clock.now_ms();
        let (job, exit, output) = (completion.job, completion.exit, completion.full_output());
        let (usage, executed_by) = (completion.usage, completion.executed_by);
        let about_it = &info;
        self.build.view.event(Event::Finished {
            job,
            info: about_it,
            start_ms,
            end_ms,
            exit,
            output,
            usage,
            executed_by,
            cache: completion.cache.as_deref(),
        });
        let ending = match exit.success() {
            true => JobOutcome::Succeeded { start_ms, end_ms, completion },
            false => JobOutcome::Failed,
        };
        self.build.frontend.finish_job(job, ending, self.build.schedule, self.build.view)?;
        self.leave(job, exit);
        if let Some(report) = &completion.report {
            self.tell_findings(job, info, report);
        }
        Ok(())
    }

    fn tell_findings(&mut self, job: JobId, info: JobInfo, report: &MonitorReport) {
        if let Some(termination) = &report.termination {
            self.build.view.event(Event::Terminated { job, info: &info, termination });
        }
        match report.leftovers.as_slice() {
            [] => {}
            processes if report.leftovers_killed => {
                self.build.view.event(Event::LeftBehind { job, info: &info, processes, killed: true });
            }
            // Most exit soon: only those alive at the end of the build are reported.
            _ => drop(self.leavers.insert(job, info)),
        }
    }

    fn tell_left(&mut self) {
        for (job, processes) in self.build.runner.leftovers() {
            if let Some(info) = self.leavers.get(&job) {
                self.build.view.event(Event::LeftBehind { job, info, processes: &processes, killed: false });
            }
        }
    }

    fn leave(&mut self, job: JobId, exit: Exit) {
        if exit.success() {
            self.build.schedule.succeeded(job);
        } else {
            self.build.schedule.failed(job);
            self.failures += 1;
            self.code = exit.code();
        }
    }

    fn take_running(&mut self, job: JobId) -> Running {
        self.running.remove(&job).expect("a completed job was running")
    }

    fn abandon_running(&mut self) {
        for job in self.build.runner.abort() {
            self.build.frontend.on_abort(job, self.build.view);
        }
    }

    fn tell_skipped(&mut self) {
        for Blocked { job, because } in self.build.schedule.blocked() {
            let outputs = self.build.frontend.outputs(job);
            self.build.view.event(Event::Skipped { job, outputs: &outputs, because });
        }
    }

    fn no_progress(&self) -> BuildOutcome {
        let reason: &[u8] = match (self.failures, self.build.failures_allowed) {
            (0, _) => b"stuck [this is a bug]",
            (failed, 1) if failed >= 1 => b"subcommand failed",
            (failed, allowed) if failed >= allowed => b"subcommands failed",
            _ => b"cannot make progress due to previous errors",
        };
        BuildOutcome::Failed { code: if self.code == 0 { 1 } else { self.code }, reason: reason.to_vec() }
    }
}

/// ninja prints the name of the failed system call alone.
fn cannot_start(error: &std::io::Error) -> Fatal {
    Fatal { message: tanto_sys::error::text(error), invalid_input: true }
}

fn stopped(what: &[u8], error: &std::io::Error) -> Fatal {
    Fatal { message: [what, b": ", &tanto_sys::error::text(error)].concat(), invalid_input: false }
}
