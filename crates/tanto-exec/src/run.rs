//! The loop of a build: hands out what the schedule has ready, waits, judges, releases. It owns all mutable state
//! of the build; it does not know what a job means.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Clock;
use crate::event::{Event, View};
use crate::frontend::{Fatal, Frontend, JobOutcome, Start};
use crate::job::report::MonitorReport;
use crate::job::{Capture, Completion, ExecutedBy, Exit, JobId, JobInfo, Usage};
use crate::runner::{Runner, Wakeup};
use crate::schedule::{Blocked, Next, ResourceSample, Schedule, ThrottleReason};

/// How a build ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildOutcome {
    /// All that was wanted is done.
    Done,
    /// A signal, or a command that died of one, ended it.
    Interrupted,
    /// Commands failed, or it could not go on.
    Failed {
        /// The program's exit code: that of the last command that failed, or 1.
        code: i32,
        /// Why, for `build stopped: ...`.
        why: Vec<u8>,
    },
    /// The input is wrong in a way that was found only now; the text is for the user.
    Wrong(Vec<u8>),
}

impl From<Fatal> for BuildOutcome {
    fn from(Fatal { why, no_build }: Fatal) -> BuildOutcome {
        if no_build { BuildOutcome::Wrong(why) } else { BuildOutcome::Failed { code: 1, why } }
    }
}

/// The parts of one build, lent for its duration.
pub struct Run<'a> {
    /// What the jobs mean.
    pub front: &'a mut dyn Frontend,
    /// In which order they go.
    pub schedule: &'a mut Schedule,
    /// What executes them.
    pub runner: &'a mut dyn Runner,
    /// Who looks on.
    pub view: &'a mut dyn View,
    /// What time it is.
    pub clock: &'a dyn Clock,
    /// After this many failures nothing more is started; at least 1.
    pub failures_allowed: usize,
    /// Reads what the machine says; asked now and then, and only if the schedule is rationed.
    pub gauge: &'a mut dyn FnMut() -> ResourceSample,
}

/// A command under way.
struct Running {
    about: JobInfo,
    start_ms: i64,
}

enum Step {
    GoOn,
    Stop(BuildOutcome),
}

struct Loop<'a> {
    run: Run<'a>,
    /// A dry run has as many as there are ready jobs.
    running: BTreeMap<JobId, Running>,
    failures: usize,
    /// Exit code of the last failure.
    code: i32,
    /// Jobs that have ended and had left processes then.
    leavers: BTreeMap<JobId, JobInfo>,
    /// When the machine was last asked how it is.
    asked_ms: Option<i64>,
    /// Why nothing was started, as the view last heard it.
    hold: Option<ThrottleReason>,
    /// When the view last heard what a command has printed.
    followed_ms: Option<i64>,
}

/// The machine is asked no more often than this. It says nothing new in less.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Minimum interval between updates of what a running command has printed, in milliseconds.
const FOLLOW_EVERY_MS: i64 = 100;
/// Maximum number of output bytes passed to the view: a few lines.
const MOST_FOLLOWED: usize = 4 << 10;

impl Run<'_> {
    /// Runs the build to its end. Whatever ends it, no command is left running.
    pub fn to_end(self) -> BuildOutcome {
        let behind_ms = self.schedule.behind();
        self.view.event(Event::BuildStarted { at_ms: self.clock.now_ms(), behind_ms: &behind_ms });
        let mut it = Loop {
            run: self,
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
        let flushed = it.run.front.flush(it.run.view);
        if it.failures > 0 {
            it.tell_skipped();
        }
        if !it.leavers.is_empty() {
            it.tell_left();
        }
        it.run.view.event(Event::BuildFinished { at_ms: it.run.clock.now_ms() });
        it.run.view.flush();
        match (verdict, flushed) {
            (BuildOutcome::Done, Err(fatal)) => fatal.into(),
            (verdict, _) => verdict,
        }
    }
}

impl Loop<'_> {
    fn turn_until_stop(&mut self) -> BuildOutcome {
        loop {
            match self.attend().and_then(|()| self.turn()) {
                Ok(Step::GoOn) => {}
                Ok(Step::Stop(verdict)) => return verdict,
                Err(fatal) => return fatal.into(),
            }
        }
    }

    /// The front may find that there is more to do than was thought.
    fn attend(&mut self) -> Result<(), Fatal> {
        let Run { front, schedule, runner, view, .. } = &mut self.run;
        front.attend(schedule, *runner, *view)
    }

    /// Starts all that may start, then waits for one thing to happen; stops when there is nothing more to do.
    fn turn(&mut self) -> Result<Step, Fatal> {
        if !self.run.schedule.more_to_do() {
            return Ok(Step::Stop(BuildOutcome::Done));
        }
        self.start_ready()?;
        if self.running.is_empty() {
            let done = !self.run.schedule.more_to_do();
            return Ok(Step::Stop(if done { BuildOutcome::Done } else { self.no_progress() }));
        }
        if !self.run.runner.has_ended() {
            self.run.front.flush(self.run.view)?;
            self.tell_printed();
            self.run.view.flush();
        }
        match self.run.runner.wait(self.patience()) {
            Ok(Wakeup::Completed(completion)) => self.complete(completion),
            Ok(Wakeup::Interrupted(_)) => Ok(Step::Stop(BuildOutcome::Interrupted)),
            Ok(Wakeup::SlotAvailable | Wakeup::ControlRequest) => Ok(Step::GoOn),
            Ok(Wakeup::Sampled(job, load)) => {
                self.run.schedule.holds(job, load.memory_kib);
                self.run.view.event(Event::Sampled { job, at_ms: self.run.clock.now_ms(), load });
                Ok(Step::GoOn)
            }
            Ok(Wakeup::TimedOut) => {
                self.tell_printed();
                if self.run.view.tick().is_some() {
                    self.run.view.event(Event::Tick { at_ms: self.run.clock.now_ms() });
                }
                Ok(Step::GoOn)
            }
            Err(error) => Err(stopped(b"waiting for commands", &error)),
        }
    }

    fn start_ready(&mut self) -> Result<(), Fatal> {
        while self.run.schedule.has_passing() || self.may_start() {
            self.ask_machine();
            match self.run.schedule.hand_out() {
                Some(Next::Pass(job)) => {
                    if let Some(about) = self.run.front.passes(job) {
                        self.group(job, &about, self.run.clock.now_ms());
                    }
                    self.pass(job)?;
                }
                Some(Next::Start(job)) => self.start(job)?,
                None => break,
            }
        }
        self.tell_hold();
        Ok(())
    }

    fn may_start(&mut self) -> bool {
        let Run { schedule, runner, failures_allowed, .. } = &mut self.run;
        if let Some(urgency) = schedule.next_priority() {
            runner.next_is(urgency);
        }
        self.failures < *failures_allowed && schedule.has_next() && runner.capacity() > 0
    }

    /// Asks how the machine is, if that matters and it was not just asked.
    fn ask_machine(&mut self) {
        if !self.run.schedule.is_rationed() {
            return;
        }
        let now_ms = self.run.clock.now_ms();
        if self.asked_ms.is_none_or(|asked_ms| now_ms - asked_ms >= ASK_EVERY.as_millis() as i64) {
            self.asked_ms = Some(now_ms);
            self.run.schedule.told((self.run.gauge)());
        }
    }

    /// Tells the view if there is a new reason why nothing is started, or none any more.
    fn tell_hold(&mut self) {
        let why = self.reason();
        let same = match (why, self.hold) {
            (Some(new), Some(old)) => new.is_like(old),
            (new, old) => new.is_none() == old.is_none(),
        };
        if !same {
            self.hold = why;
            self.run.view.event(Event::Throttled { why, at_ms: self.run.clock.now_ms() });
        }
    }

    /// Why nothing more is started, though something could be.
    fn reason(&self) -> Option<ThrottleReason> {
        let Run { schedule, runner, failures_allowed, .. } = &self.run;
        let loaded = runner.is_loaded() && schedule.has_next() && self.failures < *failures_allowed;
        schedule.hold().or(loaded.then_some(ThrottleReason::LoadAverage))
    }

    /// Tells the view what the command that it follows has printed.
    fn tell_printed(&mut self) {
        let Run { runner, view, clock, .. } = &mut self.run;
        let Some(job) = view.follows() else { return };
        let at_ms = clock.now_ms();
        if self.followed_ms.is_some_and(|told_ms| at_ms - told_ms < FOLLOW_EVERY_MS) {
            return;
        }
        self.followed_ms = Some(at_ms);
        if let Some(output) = runner.printed_last(job, MOST_FOLLOWED) {
            view.event(Event::Printed { job, at_ms, output });
        }
    }

    /// How long to wait for something to happen. What holds jobs back may be over without any of them ending.
    fn patience(&self) -> Option<Duration> {
        let hold = self.run.schedule.hold().map(|_| ASK_EVERY);
        hold.into_iter().chain(self.run.view.tick()).min()
    }

    fn start(&mut self, job: JobId) -> Result<(), Fatal> {
        let start_ms = self.run.clock.now_ms();
        match self.run.front.start(job)? {
            Start::Nothing(about) => {
                self.group(job, &about, start_ms);
                self.pass(job)
            }
            Start::Run(command, about) => {
                self.run.view.event(Event::Started { job, about: &about, at_ms: start_ms });
                if about.console {
                    self.run.view.flush();
                }
                let expected = self.run.schedule.cost(job);
                self.run.runner.start(job, &command, expected).map_err(|error| cannot_start(&error))?;
                self.running.insert(job, Running { about, start_ms });
                Ok(())
            }
            Start::Fail(about, why) => {
                self.run.view.event(Event::Started { job, about: &about, at_ms: start_ms });
                let completion = Completion {
                    job,
                    exit: Exit::Code(1),
                    output: why,
                    kept: Capture::Whole,
                    usage: Usage::default(),
                    ran: ExecutedBy::Program,
                    findings: None,
                };
                self.end(Running { about, start_ms }, &completion)
            }
        }
    }

    fn group(&mut self, job: JobId, about: &JobInfo, at_ms: i64) {
        self.run.view.event(Event::NothingToRun { job, about, at_ms });
    }

    fn pass(&mut self, job: JobId) -> Result<(), Fatal> {
        self.run.front.finish(job, JobOutcome::Passed, self.run.schedule, self.run.view)?;
        self.run.schedule.succeeded(job);
        Ok(())
    }

    fn complete(&mut self, mut completion: Completion) -> Result<Step, Fatal> {
        if completion.exit.interrupted() {
            // Its outputs stay, as with ninja: only those of commands that Tanto itself ended are removed.
            self.take_running(completion.job);
            return Ok(Step::Stop(BuildOutcome::Interrupted));
        }
        let job = completion.job;
        self.run.front.judge(&mut completion)?;
        let running = self.take_running(job);
        self.end(running, &completion)?;
        Ok(Step::GoOn)
    }

    /// What was started has ended, as its front has judged it.
    fn end(&mut self, Running { about, start_ms }: Running, completion: &Completion) -> Result<(), Fatal> {
        let end_ms = self.run.clock.now_ms();
        let (job, exit, output) = (completion.job, completion.exit, completion.printed());
        let (usage, ran) = (completion.usage, completion.ran);
        let about_it = &about;
        self.run.view.event(Event::Finished { job, about: about_it, start_ms, end_ms, exit, output, usage, ran });
        let ending = match exit.success() {
            true => JobOutcome::Succeeded { start_ms, end_ms, completion },
            false => JobOutcome::Failed,
        };
        self.run.front.finish(job, ending, self.run.schedule, self.run.view)?;
        self.leave(job, exit);
        if let Some(findings) = &completion.findings {
            self.tell_findings(job, about, findings);
        }
        Ok(())
    }

    fn tell_findings(&mut self, job: JobId, about: JobInfo, findings: &MonitorReport) {
        if let Some(stopped) = &findings.stopped {
            self.run.view.event(Event::Terminated { job, about: &about, stopped });
        }
        match findings.left.as_slice() {
            [] => {}
            processes if findings.left_killed => {
                self.run.view.event(Event::LeftBehind { job, about: &about, processes, killed: true });
            }
            // Many are about to end: only those are told of that are still there at the end.
            _ => drop(self.leavers.insert(job, about)),
        }
    }

    fn tell_left(&mut self) {
        for (job, processes) in self.run.runner.left() {
            if let Some(about) = self.leavers.get(&job) {
                self.run.view.event(Event::LeftBehind { job, about, processes: &processes, killed: false });
            }
        }
    }

    fn leave(&mut self, job: JobId, exit: Exit) {
        if exit.success() {
            self.run.schedule.succeeded(job);
        } else {
            self.run.schedule.failed(job);
            self.failures += 1;
            self.code = exit.code();
        }
    }

    fn take_running(&mut self, job: JobId) -> Running {
        self.running.remove(&job).expect("a completed job was running")
    }

    fn abandon_running(&mut self) {
        for job in self.run.runner.abort() {
            self.run.front.abandon(job, self.run.view);
        }
    }

    fn tell_skipped(&mut self) {
        for Blocked { job, because } in self.run.schedule.blocked() {
            let outputs = self.run.front.outputs(job);
            self.run.view.event(Event::Skipped { job, outputs: &outputs, because });
        }
    }

    fn no_progress(&self) -> BuildOutcome {
        let why: &[u8] = match (self.failures, self.run.failures_allowed) {
            (0, _) => b"stuck [this is a bug]",
            (failed, 1) if failed >= 1 => b"subcommand failed",
            (failed, allowed) if failed >= allowed => b"subcommands failed",
            _ => b"cannot make progress due to previous errors",
        };
        BuildOutcome::Failed { code: if self.code == 0 { 1 } else { self.code }, why: why.to_vec() }
    }
}

/// The machine refused a process; the error names the call, as ninja does.
fn cannot_start(error: &std::io::Error) -> Fatal {
    Fatal { why: tanto_sys::error::text(error), no_build: true }
}

/// The machine refused something that every build needs.
fn stopped(what: &[u8], error: &std::io::Error) -> Fatal {
    Fatal { why: [what, b": ", &tanto_sys::error::text(error)].concat(), no_build: false }
}
