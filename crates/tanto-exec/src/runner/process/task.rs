//! A running command: its output, its end, and its usage.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use tanto_sys::cgroup::CgroupUsage;
use tanto_sys::ipc::poll::Watch;
use tanto_sys::process::{Child, ExitReport, ExitStatus};
use tanto_sys::terminal;

use super::double_run::FirstRun;
use super::output::{Output, Overflow};
use super::recording::CommandRecord;
use super::worker_jobs::WorkerJob;
use crate::job::{Exit, JobId, ResourceLimits, Usage};
use crate::jobserver::Slot;

/// A running command.
pub(super) struct Task {
    pub(super) job: JobId,
    pub(super) child: Child,
    /// Started without a shell.
    pub(super) direct: bool,
    /// Set while it runs in a fork.
    pub(super) worker_job: Option<WorkerJob>,
    /// Result of its first run, to be compared.
    pub(super) first_run: Option<FirstRun>,
    pub(super) record: CommandRecord,
    pub(super) output: Output,
    pub(super) limits: ResourceLimits,
    /// Time at which its first process was seen to have exited while others held its output.
    pub(super) left: Option<Instant>,
    pub(super) slot: Option<Slot>,
    /// Terminal settings before a console command.
    pub(super) terminal: Option<terminal::TerminalSettings>,
}

#[derive(Clone, Copy)]
pub(super) enum Progress {
    None,
    Output,
    Exited(ExitReport),
}

impl Task {
    /// Watches the output, and after that the exit.
    pub(super) fn watch(&mut self, exit_fd: fn(&mut Child) -> io::Result<RawFd>) -> Watch {
        if let Some(output) = self.child.output() {
            return Watch::new(output);
        }
        if self.worker_job.is_some() {
            return Watch::none();
        }
        exit_fd(&mut self.child).map_or(Watch::none(), |fd| Watch::new(&fd))
    }

    /// Returns the output limit if it is exceeded.
    pub(super) fn exceeded_output_limit(&self) -> Option<u64> {
        self.limits.output_bytes.filter(|&most| self.output.total() > most)
    }

    /// Returns whether the first process may have exited unnoticed, while others hold the output.
    pub(super) fn may_outlive_leader(&self) -> bool {
        let could_be = self.limits.linger_ms.is_some() && self.worker_job.is_none();
        could_be && self.left.is_none() && self.child.output().is_some()
    }

    /// Returns the time until the task ends even though others hold its output.
    pub(super) fn linger_time_left(&self) -> Option<Duration> {
        let linger = Duration::from_millis(self.limits.linger_ms?.max(0).unsigned_abs());
        self.child.output()?;
        Some(linger.saturating_sub(self.left?.elapsed()))
    }

    /// Reads what is in the pipe, which may still be the task's own output, and closes it.
    pub(super) fn read_last(
        &mut self,
        is_some: bool,
        buffer: &mut [u8],
        overflow: Option<&Overflow>,
    ) -> io::Result<()> {
        let length = if is_some { self.child.read_output(buffer)? } else { 0 };
        self.output.push(&buffer[..length], overflow);
        self.child.close_output();
        Ok(())
    }

    /// A command that was killed at a password prompt may leave the terminal without echo.
    pub(super) fn restore_terminal(&self) {
        if let Some(settings) = &self.terminal {
            settings.restore();
        }
    }

    /// Reads output. The task ends when its output is closed and its first process has exited, in either order.
    pub(super) fn advance(&mut self, buffer: &mut [u8], overflow: Option<&Overflow>) -> io::Result<Progress> {
        if self.child.output().is_some() {
            let length = self.child.read_output(buffer)?;
            if length > 0 {
                self.output.push(&buffer[..length], overflow);
                return Ok(Progress::Output);
            }
        }
        Ok(self.child.try_wait()?.map_or(Progress::None, Progress::Exited))
    }
}

pub(super) fn usage(ended: &ExitReport) -> Usage {
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
pub(super) fn combined_usage(usage: Usage, used: CgroupUsage) -> Usage {
    Usage {
        user_us: used.user_us.max(usage.user_us),
        system_us: used.system_us.max(usage.system_us),
        max_rss_kib: used.memory_kib.unwrap_or(0).max(usage.max_rss_kib),
        read_bytes: used.read_bytes.unwrap_or(usage.read_bytes),
        written_bytes: used.written_bytes.unwrap_or(usage.written_bytes),
        waits: usage.waits,
    }
}

pub(super) fn exit(status: ExitStatus) -> Exit {
    match status {
        ExitStatus::Code(code) => Exit::Code(code),
        ExitStatus::Killed { signal, dumped: false } => Exit::Signal(signal),
        ExitStatus::Killed { signal, dumped: true } => Exit::Dumped(signal),
    }
}
