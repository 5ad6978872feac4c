//! Runs attempts, and single commands of the coordinator, on a runner of commands. Owns the running attempts.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tanto_exec::clock::Clock;
use tanto_exec::job::report::{MonitorReport, ProcessInfo, Termination, TerminationReason};
use tanto_exec::job::{Command, Completion, Cost, Exit, JobId};
use tanto_exec::runner::{self, Runner, Wakeup};
use tanto_protocol::{AttemptResult, AttemptSpec, StageResult};

use super::build_settings::BuildSettings;
use super::execution::{Attempt, Next};
use super::failure;
use crate::config::Stage;

/// A step of a package's job.
#[derive(Clone, Debug)]
pub enum Task {
    Attempt(Rc<AttemptSpec>, AttemptPlace),
    /// A command of the coordinator.
    Command(Command),
}

/// Where an attempt runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptPlace {
    /// The number of the client.
    pub client: usize,
    /// The package tree that it sees in its sandbox; `None`: that of the settings.
    pub tree: Option<Rc<Path>>,
}

/// Progress of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttemptEvent {
    /// A stage has begun.
    Stage {
        stage: Stage,
        at_ms: i64,
        /// The one before it.
        ended: Option<StageResult>,
    },
    /// The attempt has ended. The completion of its task follows: the exit and the last lines of the stage that failed.
    Result(Box<AttemptResult>),
}

/// See the module.
pub struct AttemptRunner<'a> {
    runner: &'a mut dyn Runner,
    settings: &'a BuildSettings,
    clock: &'a dyn Clock,
    running: BTreeMap<JobId, RunningTask<'a>>,
    /// Wakeups that `wait` returns first.
    ready: VecDeque<Wakeup<AttemptEvent>>,
}

struct RunningTask<'a> {
    /// `None`: a command of the coordinator.
    attempt: Option<Box<Attempt<'a>>>,
    expected: Cost,
    /// The user wants its command to end.
    is_killed: bool,
}

impl<'a> AttemptRunner<'a> {
    pub fn new(runner: &'a mut dyn Runner, settings: &'a BuildSettings, clock: &'a dyn Clock) -> Self {
        AttemptRunner { runner, settings, clock, running: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// Handles the end of a command: starts the next one of the attempt, or completes the task.
    fn command_ended(&mut self, mut completion: Completion) {
        let job = completion.job;
        let task = self.running.get_mut(&job).expect("a completed command was running");
        if std::mem::take(&mut task.is_killed) {
            mark_killed(&mut completion);
        }
        let Some(attempt) = &mut task.attempt else {
            failure::deny_interrupt(&mut completion);
            self.running.remove(&job);
            self.ready.push_back(Wakeup::Completed(completion));
            return;
        };
        loop {
            match attempt.stage_ended(&mut completion, self.clock.now_ms()) {
                Next::Stage(ended, command) => {
                    let (stage, at_ms) = attempt.stage();
                    let event = AttemptEvent::Stage { stage, at_ms, ended: Some(ended) };
                    self.ready.push_back(Wakeup::Progress(job, event));
                    match self.runner.start(job, &command, task.expected) {
                        Ok(()) => return,
                        Err(error) => completion = runner::refused(job, &error),
                    }
                }
                Next::End(result) => {
                    self.running.remove(&job);
                    self.ready.push_back(Wakeup::Progress(job, AttemptEvent::Result(result)));
                    self.ready.push_back(Wakeup::Completed(completion));
                    return;
                }
            }
        }
    }
}

/// Makes a command that ended after the user asked for it end by that request, even if the runner could not terminate it.
fn mark_killed(completion: &mut Completion) {
    let reason = TerminationReason::Requested;
    let report: &mut MonitorReport = completion.report.get_or_insert_default();
    report.termination.get_or_insert(Termination { reason, processes: Vec::new(), killed: false }).reason = reason;
    if completion.exit.success() {
        completion.exit = Exit::Code(reason.exit_code());
    }
}

impl Runner<Task, AttemptEvent> for AttemptRunner<'_> {
    fn set_next_priority(&mut self, priority: i64) {
        self.runner.set_next_priority(priority);
    }

    fn capacity(&mut self) -> usize {
        // A completed task keeps its slot for the job's next one.
        let completed = self.ready.iter().filter(|wakeup| matches!(wakeup, Wakeup::Completed(_))).count();
        self.runner.capacity().saturating_sub(completed)
    }

    fn start(&mut self, job: JobId, task: &Task, expected: Cost) -> io::Result<()> {
        let attempt = match task {
            Task::Command(command) => {
                self.runner.start(job, command, expected)?;
                None
            }
            Task::Attempt(spec, place) => {
                let (attempt, command) = Attempt::begin(self.settings, Rc::clone(spec), place, self.clock.now_ms());
                self.runner.start(job, &command, expected)?;
                let (stage, at_ms) = attempt.stage();
                self.ready.push_back(Wakeup::Progress(job, AttemptEvent::Stage { stage, at_ms, ended: None }));
                Some(Box::new(attempt))
            }
        };
        self.running.insert(job, RunningTask { attempt, expected, is_killed: false });
        Ok(())
    }

    fn has_completed(&self) -> bool {
        !self.ready.is_empty() || self.runner.has_completed()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup<AttemptEvent>> {
        if let Some(wakeup) = self.ready.pop_front() {
            return Ok(wakeup);
        }
        Ok(match self.runner.wait(most)? {
            Wakeup::Completed(completion) => {
                self.command_ended(completion);
                self.ready.pop_front().unwrap_or(Wakeup::TimedOut)
            }
            Wakeup::Sampled(job, sample) => {
                let attempt = self.running.get_mut(&job).and_then(|task| task.attempt.as_mut());
                Wakeup::Sampled(job, attempt.map_or(sample, |attempt| attempt.on_sample(sample)))
            }
            Wakeup::Interrupted(signal) => Wakeup::Interrupted(signal),
            Wakeup::SlotAvailable => Wakeup::SlotAvailable,
            Wakeup::ControlRequest => Wakeup::ControlRequest,
            Wakeup::TimedOut => Wakeup::TimedOut,
        })
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        if let Some(task) = self.running.get_mut(&job) {
            task.is_killed |= why == TerminationReason::Requested;
        }
        self.runner.terminate(job, why)
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        self.runner.output_so_far(job)
    }

    fn output_size(&self, job: JobId) -> Option<u64> {
        self.runner.output_size(job)
    }

    fn output_tail(&self, job: JobId, most: usize) -> Option<&[u8]> {
        self.runner.output_tail(job, most)
    }

    fn set_unrelated(&mut self, pid: u32, runs: bool) {
        self.runner.set_unrelated(pid, runs);
    }

    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        self.runner.leftovers()
    }

    fn abort(&mut self) -> Vec<JobId> {
        let completed = self.ready.drain(..).filter_map(|wakeup| match wakeup {
            Wakeup::Completed(completion) => Some(completion.job),
            _ => None,
        });
        self.runner.abort().into_iter().chain(completed).collect()
    }
}
