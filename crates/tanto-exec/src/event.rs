//! Events of a build. Every view is a function of this stream, live or replayed.

use std::time::Duration;

use crate::job::report::{JobSample, ProcessInfo, Termination};
use crate::job::{CacheUse, ExecutedBy, Exit, JobId, JobInfo, Usage};
use crate::schedule::ThrottleReason;

/// Severity of a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Info,
    Warning,
    Error,
    /// Reasons for an action; only if requested (`-d explain`).
    Explain,
}

/// Times are milliseconds since the start of the program.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A command joined the plan.
    Planned {
        job: JobId,
        /// Duration of its last run, if known.
        expected_ms: Option<i64>,
    },
    /// A command left the plan because its inputs did not change or a dependency failed. It may be planned again later.
    Unplanned {
        job: JobId,
        /// The value of `Planned`.
        expected_ms: Option<i64>,
    },
    /// The first command is about to start.
    BuildStarted {
        at_ms: i64,
        /// By job number: expected duration of the longest chain of commands that depends on the job. Jobs added later
        /// have no entry.
        downstream_ms: &'a [u64],
    },
    Started {
        job: JobId,
        info: &'a JobInfo,
        at_ms: i64,
    },
    /// All inputs of a group (ninja's phony) are done, or a command turned out to be up to date; the latter only if
    /// requested.
    NothingToRun {
        job: JobId,
        /// Without a command; empty unless requested.
        info: &'a JobInfo,
        at_ms: i64,
    },
    Finished {
        job: JobId,
        info: &'a JobInfo,
        start_ms: i64,
        end_ms: i64,
        /// After `Frontend::finish_command`.
        exit: Exit,
        /// After `Frontend::finish_command`.
        output: &'a [u8],
        usage: Usage,
        executed_by: ExecutedBy,
        /// `None`: there is no action cache.
        cache: Option<&'a CacheUse>,
    },
    /// A planned command never started because a dependency failed. Precedes `BuildFinished`.
    Skipped {
        job: JobId,
        /// Output files, in the order of the declaration.
        outputs: &'a [Vec<u8>],
        /// The failed job: the first one among its direct and indirect dependencies.
        because: JobId,
    },
    /// A job of several commands started this one.
    Stage {
        job: JobId,
        stage: &'a str,
        at_ms: i64,
    },
    /// Number of jobs per state, on each change; only for frontends with states of their own.
    StateCounts {
        /// In display order.
        counts: &'a [(&'static str, usize)],
        at_ms: i64,
    },
    Sampled {
        job: JobId,
        at_ms: i64,
        sample: JobSample,
    },
    /// A command was terminated; follows its `Finished`.
    Terminated {
        job: JobId,
        info: &'a JobInfo,
        termination: &'a Termination,
    },
    /// Processes outlived their command.
    LeftBehind {
        job: JobId,
        info: &'a JobInfo,
        processes: &'a [ProcessInfo],
        /// Otherwise they still exist at the end of the build.
        killed: bool,
    },
    /// Output of a running command; only for `View::followed_job`.
    Printed {
        job: JobId,
        at_ms: i64,
        /// The end of its output so far.
        output: &'a [u8],
    },
    /// Starts are held back although there are slots and ready jobs, or are resumed.
    Throttled {
        /// `None`: starts are resumed.
        reason: Option<ThrottleReason>,
        at_ms: i64,
    },
    /// Time has passed; see `View::tick_interval`.
    Tick {
        at_ms: i64,
    },
    /// No command runs, and no further one will start.
    BuildFinished {
        at_ms: i64,
    },
    /// A message for the user, without a line end.
    Notice {
        level: Level,
        text: &'a [u8],
    },
}

/// Displays or records events.
pub trait View {
    /// Takes events in order. Output may be buffered until `flush`.
    fn event(&mut self, event: Event<'_>);

    /// Writes buffered output. Called when nothing more can start, and before a command gets the terminal.
    fn flush(&mut self) {}

    /// Returns the running command whose output the view wants as `Event::Printed`.
    fn followed_job(&self) -> Option<JobId> {
        None
    }

    /// Returns how often the view wants `Event::Tick`.
    fn tick_interval(&self) -> Option<Duration> {
        None
    }
}
