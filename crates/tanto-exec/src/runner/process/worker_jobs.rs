//! Commands in the clang worker: how they end, and when they have to run again as processes.

use std::io;

use tanto_sys::process::ExitReport;

use super::double_run::Twin;
use super::launch::Mark;
use super::{Output, ProcessRunner, Ready, Task};
use crate::job::Cost;
use crate::job::report::TerminationReason;
use crate::job::{Command, Exit, Usage};
use crate::runner::clang::News;

/// State of a command in the clang worker.
pub(super) struct Forked {
    mark: Mark,
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

impl Forked {
    pub(super) fn new(mark: Mark, command: Command, expected: Cost, is_counted: bool) -> Forked {
        Forked { mark, command, expected, is_counted, ended: None, declined: None, gone: false }
    }

    /// Whether it continues from a checkpoint.
    pub(super) fn is_kept(&self) -> bool {
        self.mark.is_kept
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Ended(ended) => self.ended = Some(ended),
            News::Declined(why) => self.declined = Some(why),
            News::Gone => self.gone = true,
        }
    }

    /// Returns the decision for a command whose output has ended, if there is one yet.
    fn verdict(&self, worker_is_gone: bool) -> Option<Verdict> {
        let gone = self.gone || worker_is_gone;
        match self.ended {
            Some(ended) if self.mark.is_doubted => gone.then_some(Verdict::Twice(ended)),
            Some(ended) if gone || !self.is_counted => Some(Verdict::Done(ended)),
            None if gone || self.declined.is_some() => Some(Verdict::Again),
            _ => None,
        }
    }
}

impl ProcessRunner {
    /// Handles messages of the clang worker.
    pub(super) fn hear(&mut self) -> io::Result<()> {
        let Some(worker) = self.starter.worker() else { return Ok(()) };
        while let Some((id, news)) = worker.news() {
            let mut forks = self.running.iter_mut().filter_map(|task| task.fork.as_mut());
            if let Some(fork) = forks.find(|fork| fork.mark.id == id) {
                fork.hear(news);
            }
        }
        let is_gone = [worker.is_gone(false), worker.is_gone(true)];
        let mut index = 0;
        while let Some(task) = self.running.get_mut(index) {
            let over = task.fork.as_ref().filter(|_| task.child.output().is_none());
            match over.and_then(|fork| fork.verdict(is_gone[usize::from(fork.is_kept())])) {
                Some(Verdict::Done(ended)) => self.finish(index, ended),
                Some(Verdict::Again) => {
                    let task = self.running.remove(index);
                    self.run_again(task, None)?;
                }
                Some(Verdict::Twice(ended)) => {
                    let task = self.running.remove(index);
                    let fork = task.fork.as_ref();
                    let twin = fork.map(|fork| Twin::of(&fork.command, super::exit(ended.status), &task.output));
                    self.run_again(task, twin)?;
                }
                None => index += 1,
            }
        }
        Ok(())
    }

    /// Runs a command again as a process, and drops its output so far.
    fn run_again(&mut self, mut task: Task, twin: Option<Twin>) -> io::Result<()> {
        task.output = Output::new(task.limits.output_bytes);
        let why = self.watcher.as_ref().and_then(|watcher| watcher.reason(task.job));
        let fork = match task.fork.take() {
            Some(fork) if why.is_none() => fork,
            // It was terminated by the monitor.
            _ => {
                self.tell(task, Exit::Code(why.map_or(1, TerminationReason::exit_code)), Usage::default());
                return Ok(());
            }
        };
        if let Err(error) = self.insist(&fork) {
            task.output.push(format!("tanto: error: {error}\n").as_bytes(), self.overflow.as_ref());
            self.tell(task, Exit::Code(1), Usage::default());
            return Ok(());
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.ended(task.job);
        }
        if let Some(purse) = &mut self.purse {
            purse.share.leave(task.job);
        }
        let Forked { command, expected, .. } = fork;
        let ready = Ready { job: task.job, command, expected, slot: task.slot, alone: true, twin };
        self.launch(ready).map_err(|(error, slot)| {
            self.release(slot);
            error
        })
    }

    /// Returns an error if the command must not run as a process.
    fn insist(&mut self, fork: &Forked) -> io::Result<()> {
        match (self.starter.worker(), &fork.declined) {
            (Some(worker), Some(why)) if !fork.is_kept() => worker.insist(&fork.command.line, why),
            _ => Ok(()),
        }
    }

    /// Excludes the clang worker from all jobs.
    pub(super) fn spare_worker(&mut self) {
        let pid = self.starter.worker().and_then(|worker| worker.pid());
        if let (Some(watcher), Some(pid)) = (&mut self.watcher, pid) {
            watcher.ignore(pid);
        }
    }

    /// Waits until the processes of these commands are gone.
    pub(super) fn bury(&mut self, tasks: &[Task]) {
        let forks = tasks.iter().filter_map(|task| task.fork.as_ref());
        let ids = forks.filter(|fork| !fork.gone).map(|fork| (fork.mark.id, fork.mark.is_kept)).collect();
        if let Some(worker) = self.starter.worker() {
            worker.bury(ids);
        }
    }
}
