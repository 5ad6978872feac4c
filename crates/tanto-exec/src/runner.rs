//! Runners execute commands.

pub mod clang;
pub mod dry;
pub mod fake;
pub mod process;

use std::convert::Infallible;
use std::time::Duration;

use crate::job::Cost;
use crate::job::report::{JobSample, ProcessInfo, TerminationReason};
use crate::job::{Command, Completion, Exit, JobId};

/// Result of `Runner::wait`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wakeup<P = Infallible> {
    Completed(Completion),
    /// A running job reports progress. Completion follows in a wakeup of its own.
    Progress(JobId, P),
    /// The user or a supervisor sent this signal.
    Interrupted(i32),
    Sampled(JobId, JobSample),
    /// A job token became available.
    SlotAvailable,
    /// `RunnerOptions::wake_fd` is readable.
    ControlRequest,
    TimedOut,
}

/// Executes tasks of type `T`, which report progress of type `P`. The loop calls `capacity` before it starts a job.
pub trait Runner<T = Command, P = Infallible> {
    /// Returns how many more commands may start now, given the load limit and job tokens. At least 1 if none runs.
    fn capacity(&mut self) -> usize;

    /// Sets the priority of the command that would start next, for runners that allocate slots by priority. Precedes
    /// `capacity`.
    fn set_next_priority(&mut self, _priority: i64) {}

    /// Returns whether the load average is the reason for a capacity of 0.
    fn is_load_limited(&self) -> bool {
        false
    }

    /// Starts a task. Errors concern the system (out of memory, processes or descriptors), never the command.
    fn start(&mut self, job: JobId, task: &T, expected: Cost) -> std::io::Result<()>;

    /// Returns whether `wait` would return a completion at once.
    fn has_completed(&self) -> bool;

    /// Waits for a wakeup, at most this long. Called while no command runs only if other machines may run some.
    fn wait(&mut self, most: Option<Duration>) -> std::io::Result<Wakeup<P>>;

    /// Terminates all processes of a running job, which then completes. Returns false if it has none, or the runner
    /// cannot.
    fn terminate(&mut self, _job: JobId, _why: TerminationReason) -> bool {
        false
    }

    /// Returns the output of a running command, as far as it is in memory.
    fn output_so_far(&self, _job: JobId) -> Option<Vec<u8>> {
        None
    }

    /// Returns how many bytes a running command has printed.
    fn output_size(&self, _job: JobId) -> Option<u64> {
        None
    }

    /// Returns at most `most` bytes from the end of a running command's output.
    fn output_tail(&self, _job: JobId, _most: usize) -> Option<&[u8]> {
        None
    }

    /// Records the start or end of a child process that belongs to no job.
    fn set_unrelated(&mut self, _pid: u32, _runs: bool) {}

    /// Returns the processes that finished jobs left behind and that still exist. Called when no command runs.
    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        Vec::new()
    }

    /// Forwards the signal that interrupted the build to all running commands, waits until they have ended, and returns
    /// them. Nothing may be started afterwards.
    fn abort(&mut self) -> Vec<JobId>;
}

/// Returns the completion of a job whose next command could not be started.
pub fn refused(job: JobId, error: &std::io::Error) -> Completion {
    let output = [b"cannot start a command: ", &tanto_sys::error::text(error)[..], b"\n"].concat();
    Completion::new(job, Exit::Code(126), output)
}
