//! Commands that run in the compile worker: how they end, and when they have to run again. Does not know which may.

use std::io;

use tanto_sys::process::ExitReport;

use super::double_run::Twin;
use super::launch::Mark;
use super::{Output, ProcessRunner, Ready, Task};
use crate::job::Cost;
use crate::job::report::TerminationReason;
use crate::job::{Command, Exit, Usage};
use crate::runner::clang::News;

/// What there is to know of a command that runs there.
pub(super) struct Forked {
    /// What it is there.
    mark: Mark,
    /// To run it again.
    command: Command,
    expected: Cost,
    /// A control group counts it, which has to be empty before it is done.
    is_counted: bool,
    /// How it ended, if it said so.
    ended: Option<ExitReport>,
    /// It wants to be run as a process of its own, for this reason.
    declined: Option<Vec<u8>>,
    /// Its process is no more.
    gone: bool,
}

/// What becomes of one.
enum Verdict {
    Done(ExitReport),
    Again,
    /// It is done, and has to be done again to see whether that comes to the same.
    Twice(ExitReport),
}

impl Forked {
    pub(super) fn new(mark: Mark, command: Command, expected: Cost, is_counted: bool) -> Forked {
        Forked { mark, command, expected, is_counted, ended: None, declined: None, gone: false }
    }

    /// It goes on from a checkpoint.
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

    /// What is to become of it, if that is known; for one whose output has ended.
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
    /// Takes what the worker has told, and goes on with the commands that it has told of.
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

    /// Runs a command as a process of its own. What it has printed in the worker does not count.
    fn run_again(&mut self, mut task: Task, twin: Option<Twin>) -> io::Result<()> {
        task.output = Output::new(task.limits.output_bytes);
        let why = self.watcher.as_ref().and_then(|watcher| watcher.reason(task.job));
        let fork = match task.fork.take() {
            Some(fork) if why.is_none() => fork,
            // The monitor has ended it.
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

    /// An error, if the command may not become a process.
    fn insist(&mut self, fork: &Forked) -> io::Result<()> {
        match (self.starter.worker(), &fork.declined) {
            (Some(worker), Some(why)) if !fork.is_kept() => worker.insist(&fork.command.line, why),
            _ => Ok(()),
        }
    }

    /// The worker is no leftover of any job.
    pub(super) fn spare_worker(&mut self) {
        let pid = self.starter.worker().and_then(|worker| worker.pid());
        if let (Some(watcher), Some(pid)) = (&mut self.watcher, pid) {
            watcher.ignore(pid);
        }
    }

    /// Waits until the worker's processes for these commands are gone.
    pub(super) fn bury(&mut self, tasks: &[Task]) {
        let forks = tasks.iter().filter_map(|task| task.fork.as_ref());
        let ids = forks.filter(|fork| !fork.gone).map(|fork| (fork.mark.id, fork.mark.is_kept)).collect();
        if let Some(worker) = self.starter.worker() {
            worker.bury(ids);
        }
    }
}
