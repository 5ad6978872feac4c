//! Where commands run: a trait with one implementation for processes and one for tests.

pub mod clang;
pub mod dry;
pub mod fake;
pub mod process;
pub mod steps;

use std::time::Duration;

use crate::job::Cost;
use crate::job::report::{JobSample, ProcessInfo, TerminationReason};
use crate::job::{Command, Completion, JobId};

/// What a runner's wait brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wakeup {
    /// A job ended.
    Completed(Completion),
    /// The user (or a supervisor) asked for an end by this signal.
    Interrupted(i32),
    /// A look at the processes of a job that runs.
    Sampled(JobId, JobSample),
    /// Nothing ended, but more may be started now (a job token came free).
    SlotAvailable,
    /// Somebody who is no job of this build wants something of it.
    ControlRequest,
    /// Nothing happened in the time that was given.
    TimedOut,
}

/// Runs commands. The loop asks for capacity before each start.
pub trait Runner {
    /// How many more commands may be started now, load limit and job tokens considered. With none running, at
    /// least 1: a build never waits for itself.
    fn capacity(&mut self) -> usize;

    /// What would be started next is so urgent. Said before it is asked for capacity; where slots are dealt out, it counts.
    fn set_next_priority(&mut self, _priority: i64) {}

    /// Was there no capacity because the load average is too high?
    fn is_load_limited(&self) -> bool {
        false
    }

    /// Starts a command that is expected to cost so much. An error is the machine's (no memory, no descriptors), never the
    /// command's.
    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> std::io::Result<()>;

    /// Has a job ended that `wait` has not told of? Then `wait` will not wait.
    fn has_completed(&self) -> bool;

    /// Waits until something happens, or this time is over (none: without end). Not called while no command runs.
    fn wait(&mut self, most: Option<Duration>) -> std::io::Result<Wakeup>;

    /// Ends all processes of a running job, for `why`; it completes when they have ended. False if the runner cannot, or the
    /// job has no processes.
    fn terminate(&mut self, _job: JobId, _why: TerminationReason) -> bool {
        false
    }

    /// What a running command has printed so far, as far as it can be shown.
    fn output_so_far(&self, _job: JobId) -> Option<Vec<u8>> {
        None
    }

    /// The end of what a running command has printed so far, at most `most` bytes.
    fn output_tail(&self, _job: JobId, _most: usize) -> Option<&[u8]> {
        None
    }

    /// The processes that jobs have left and that are still there, by job. Asked for when no command runs any more.
    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        Vec::new()
    }

    /// Hands the signal that interrupted the build, if one did, on to every running command, and waits until all
    /// have ended; says which they were. Nothing more is started after it.
    fn abort(&mut self) -> Vec<JobId>;
}
