//! Commands in the fork servers: how they end, and when they have to run again as processes.

use std::io;

use tanto_sys::process::ExitReport;

use super::double_run::FirstRun;
use super::output::Output;
use super::task::{self, Task};
use super::{ProcessRunner, Ready};
use crate::job::Cost;
use crate::job::report::TerminationReason;
use crate::job::{Command, Exit, Usage};
use crate::runner::clang::{NotInWorker, Origin, WorkerJobId, WorkerMessage};

/// State of a command in the fork servers.
pub(super) struct WorkerJob {
    id: WorkerJobId,
    /// For another run.
    command: Command,
    expected: Cost,
    /// It has a control group, which has to be empty before it is done.
    is_counted: bool,
    ended: Option<ExitReport>,
    /// Reason why it has to run as a process.
    declined: Option<Vec<u8>>,
    /// Its process is gone.
    gone: bool,
}

enum Verdict {
    Done(ExitReport),
    Again,
    /// Done, but has to run again as a process for comparison.
    Twice(ExitReport),
}

impl WorkerJob {
    pub(super) fn new(id: WorkerJobId, command: Command, expected: Cost, is_counted: bool) -> WorkerJob {
        WorkerJob { id, command, expected, is_counted, ended: None, declined: None, gone: false }
    }

    /// Whether it continues from a checkpoint.
    pub(super) fn continues_from_checkpoint(&self) -> bool {
        self.id.origin == Origin::Checkpoint
    }

    fn record(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Ended(ended) => self.ended = Some(ended),
            WorkerMessage::Declined(why) => self.declined = Some(why),
            WorkerMessage::Gone => self.gone = true,
        }
    }

    /// Returns the decision for a command whose output has ended, if there is one yet.
    fn verdict(&self, worker_is_gone: bool) -> Option<Verdict> {
        let gone = self.gone || worker_is_gone;
        match self.ended {
            Some(ended) if self.id.is_verified => gone.then_some(Verdict::Twice(ended)),
            Some(ended) if gone || !self.is_counted => Some(Verdict::Done(ended)),
            None if gone || self.declined.is_some() => Some(Verdict::Again),
            _ => None,
        }
    }
}

impl ProcessRunner {
    /// Handles messages of the fork servers.
    pub(super) fn read_worker_messages(&mut self) -> io::Result<()> {
        let Some(worker) = self.starter.worker() else { return Ok(()) };
        while let Some((id, message)) = worker.next_message() {
            let mut worker_jobs = self.running.iter_mut().filter_map(|task| task.worker_job.as_mut());
            if let Some(worker_job) = worker_jobs.find(|it| it.id.id == id) {
                worker_job.record(message);
            }
        }
        let mut index = 0;
        while let Some(task) = self.running.get_mut(index) {
            let over = task.worker_job.as_ref().filter(|_| task.child.output().is_none());
            let worker = self.starter.worker();
            match over.and_then(|it| it.verdict(worker.is_none_or(|worker| worker.is_gone(it.id.origin)))) {
                Some(Verdict::Done(ended)) => self.finish(index, ended),
                Some(Verdict::Again) => {
                    let task = self.running.remove(index);
                    self.run_again(task, None)?;
                }
                Some(Verdict::Twice(ended)) => {
                    let task = self.running.remove(index);
                    let first_run = (task.worker_job.as_ref())
                        .map(|it| FirstRun::record(&it.command, task::exit(ended.status), &task.output));
                    self.run_again(task, first_run)?;
                }
                None => index += 1,
            }
        }
        Ok(())
    }

    /// Runs a command again as a process, and drops its output so far.
    fn run_again(&mut self, mut task: Task, first_run: Option<FirstRun>) -> io::Result<()> {
        task.output = Output::new(task.limits.output_bytes);
        let why = self.watcher.as_ref().and_then(|watcher| watcher.reason(task.job));
        let worker_job = match task.worker_job.take() {
            Some(worker_job) if why.is_none() => worker_job,
            // It was terminated by the monitor.
            _ => {
                self.complete(task, Exit::Code(why.map_or(1, TerminationReason::exit_code)), Usage::default());
                return Ok(());
            }
        };
        if let Err(error) = self.check_required(&worker_job) {
            task.output.push(format!("tanto: error: {error}\n").as_bytes(), self.overflow.as_ref());
            self.complete(task, Exit::Code(1), Usage::default());
            return Ok(());
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.ended(task.job);
        }
        if let Some(slots) = &mut self.slots {
            slots.jobserver.remove_command(task.job);
        }
        let WorkerJob { command, expected, .. } = worker_job;
        let ready = Ready { job: task.job, command, expected, slot: task.slot, as_process: true, first_run };
        self.launch(ready).map_err(|(error, slot)| {
            self.release(slot);
            error
        })
    }

    /// Returns an error if the command must not run as a process.
    fn check_required(&mut self, worker_job: &WorkerJob) -> io::Result<()> {
        match (self.starter.worker(), &worker_job.declined) {
            (Some(worker), Some(why)) if !worker_job.continues_from_checkpoint() => {
                worker.check_required(&worker_job.command.line, NotInWorker::Declined(why.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Excludes the fork servers from all jobs.
    pub(super) fn ignore_servers(&mut self) {
        if let (Some(watcher), Some(worker)) = (&mut self.watcher, self.starter.worker()) {
            worker.pids().for_each(|pid| watcher.ignore(pid));
        }
    }

    /// Waits until the processes of these commands are gone.
    pub(super) fn wait_until_gone(&mut self, tasks: &[Task]) {
        let worker_jobs = tasks.iter().filter_map(|task| task.worker_job.as_ref());
        let ids = worker_jobs.filter(|it| !it.gone).map(|it| (it.id.id, it.id.origin)).collect();
        if let Some(worker) = self.starter.worker() {
            worker.wait_until_gone(ids);
        }
    }
}
