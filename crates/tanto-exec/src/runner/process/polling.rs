//! Waits for signals, requests, job slots and running commands.

use std::io;
use std::time::{Duration, Instant};

use tanto_sys::ipc::poll::{self, Watch};

use super::ProcessRunner;
use super::slot_guard::SlotGuard;
use super::task::{Progress, Task};
use crate::job::report::TerminationReason;
use crate::monitor::watcher::Watcher;
use crate::runner::clang;

/// Indices in the list of watches. The first one is for signals; those of the fork servers and the checkpoint daemon
/// are between these two.
const WAKE_FD: usize = 1;
const FIRST_SLOT_WATCH: usize = 2 + clang::WATCHES;
/// Poll interval for processes without a pidfd (before Linux 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Result of waiting for all descriptors.
#[derive(PartialEq, Eq)]
pub(super) enum PollResult {
    Signal,
    SlotAvailable,
    ControlRequest,
    Tasks,
}

impl ProcessRunner {
    /// Waits for a descriptor or the timeout, then advances all tasks.
    pub(super) fn poll(&mut self, most: Option<Duration>) -> io::Result<PollResult> {
        let first_task = self.watch_all();
        let blind = self.is_blind(first_task).then_some(POLL_INTERVAL);
        let until_sample = self.watcher.as_ref().and_then(Watcher::until_due);
        let until_reallocation = self.slots.as_ref().and_then(SlotGuard::reallocation_interval);
        let until_linger_end = self.running.iter().filter_map(Task::linger_time_left).min();
        let timeout =
            most.into_iter().chain(blind).chain(until_sample).chain(until_reallocation).chain(until_linger_end).min();
        poll::wait(&mut self.watches, timeout)?;
        // First of all: a command that Ctrl-C has ended must not be reported as failed.
        if self.watches[0].ready() || self.signals.is_pending() {
            return Ok(PollResult::Signal);
        }
        self.record_leader_exits(first_task + self.running.len());
        self.advance_all(first_task)?;
        self.read_worker_messages()?;
        Ok(match () {
            () if self.may_start(first_task) => PollResult::SlotAvailable,
            () if self.watches[WAKE_FD].ready() => PollResult::ControlRequest,
            () => PollResult::Tasks,
        })
    }

    /// Returns whether a slot became available; reallocates tokens.
    fn may_start(&mut self, first_task: usize) -> bool {
        let is_readable = self.watches[FIRST_SLOT_WATCH..first_task].iter().any(Watch::ready);
        match &mut self.slots {
            Some(slots) if slots.jobserver.is_prioritized() => slots.reallocate(),
            Some(_) => is_readable,
            None => false,
        }
    }

    /// Lists all descriptors: signals, wake_fd, fork servers, jobserver if it could help, tasks. Returns the index of
    /// the first task. Rebuilding the list is as cheap as updating it: `-j500` takes no more CPU time per command than
    /// `-j100`.
    fn watch_all(&mut self) -> usize {
        self.watches.clear();
        self.watches.push(Watch::new(&self.signals));
        self.watches.push(self.wake_fd.as_ref().map_or(Watch::none(), Watch::new));
        let nothing = || [Watch::none(); clang::WATCHES];
        self.watches.extend(self.starter.worker().map_or_else(nothing, |worker| worker.watches()));
        if let Some(slots) = &self.slots {
            slots.watch(&mut self.watches);
        }
        let first_task = self.watches.len();
        for task in &mut self.running {
            self.watches.push(task.watch(self.system_calls.exit_fd));
        }
        self.leaders.clear();
        for (index, task) in self.running.iter_mut().enumerate().filter(|(_, task)| task.may_outlive_leader()) {
            // Without a pidfd, the task lasts until its output is closed.
            if let Ok(fd) = (self.system_calls.exit_fd)(&mut task.child) {
                self.watches.push(Watch::new(&fd));
                self.leaders.push(index);
            }
        }
        first_task
    }

    /// Returns whether the end of some task cannot be watched.
    fn is_blind(&self, first_task: usize) -> bool {
        let watches = self.watches[first_task..].iter();
        self.running.iter().zip(watches).any(|(task, watch)| task.worker_job.is_none() && watch.is_none())
    }

    /// Records the exits of first processes.
    fn record_leader_exits(&mut self, first_leader: usize) {
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
            let is_over = self.running[index].linger_time_left().is_some_and(|time| time.is_zero());
            if is_over {
                self.running[index].read_last(watch.ready(), &mut self.buffer, self.overflow.as_ref())?;
            }
            let is_due = watch.ready() || watch.is_none() || is_over;
            let job = self.running[index].job;
            let step = match is_due {
                true => self.running[index].advance(&mut self.buffer, self.overflow.as_ref())?,
                false => Progress::None,
            };
            match step {
                Progress::Exited(ended) => self.finish(index, ended),
                Progress::Output | Progress::None => index += 1,
            }
            if let (Progress::Output, Some(watcher)) = (step, &mut self.watcher) {
                watcher.record_output(job);
                if let Some(most) = self.running[index - 1].exceeded_output_limit() {
                    watcher.terminate(job, TerminationReason::Output { limit_bytes: most });
                }
            }
        }
        Ok(())
    }
}
