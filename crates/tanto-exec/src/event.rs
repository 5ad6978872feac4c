//! The one vocabulary of what happens in a build. Every view is a function of this stream, live or replayed.

use std::time::Duration;

use crate::job::report::{JobSample, ProcessInfo, Termination};
use crate::job::{ExecutedBy, Exit, JobId, JobInfo, Usage};
use crate::schedule::ThrottleReason;

/// How loud a notice is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// For information.
    Info,
    /// Something is odd; the build goes on.
    Warning,
    /// Something went wrong.
    Error,
    /// Why something is done; comes only if it was asked for (`-d explain`).
    Explain,
}

/// One thing that happened. Times are milliseconds since the program started.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A command joined the plan; it took `expected_ms` last time, if known.
    Planned {
        /// Which job.
        job: JobId,
        /// Wall time of its last run in milliseconds.
        expected_ms: Option<i64>,
    },
    /// A command left the plan: its inputs turned out not to have changed, or something that it needs has failed. One that
    /// is planned once more, though it has left or has ended, is back in it.
    Unplanned {
        /// Which job.
        job: JobId,
        /// As it was given when planned.
        expected_ms: Option<i64>,
    },
    /// The first command is about to be started.
    BuildStarted {
        /// When.
        at_ms: i64,
        /// By the job's number: how long the longest chain of commands is expected to take that waits for it, in
        /// milliseconds. A job that is added later has no number here.
        downstream_ms: &'a [u64],
    },
    /// A command was started.
    Started {
        /// Which job.
        job: JobId,
        /// What it is.
        info: &'a JobInfo,
        /// When.
        at_ms: i64,
    },
    /// A group (ninja's phony) is complete: all that it waited for is done. So is a command that need not run after
    /// all, but that comes only if somebody asks for it.
    NothingToRun {
        /// Which job.
        job: JobId,
        /// What it is; without a command, and empty unless asked for.
        info: &'a JobInfo,
        /// When.
        at_ms: i64,
    },
    /// A command ended.
    Finished {
        /// Which job.
        job: JobId,
        /// What it is.
        info: &'a JobInfo,
        /// When it was started.
        start_ms: i64,
        /// When it ended.
        end_ms: i64,
        /// How it ended, after its front has judged it.
        exit: Exit,
        /// What it printed, after its front has filtered it.
        output: &'a [u8],
        /// What it used.
        usage: Usage,
        /// What ran it.
        executed_by: ExecutedBy,
    },
    /// A command of the plan was never started, because one that it waits for failed. Comes at the end, before
    /// `BuildFinished`.
    Skipped {
        /// Which job.
        job: JobId,
        /// The files that it would have made, in the order of its declaration.
        outputs: &'a [Vec<u8>],
        /// The failed job: the first that it waits for, itself or through others.
        because: JobId,
    },
    /// A job of several commands has come to this one.
    Stage {
        /// Which job.
        job: JobId,
        /// What the command is called.
        stage: &'a str,
        /// When.
        at_ms: i64,
    },
    /// How many jobs there are in each state, in the words of the language whose jobs they are; comes when that has
    /// changed, and only from one that has words of its own.
    StateCounts {
        /// States and numbers, in the order in which they are told.
        counts: &'a [(&'static str, usize)],
        /// When.
        at_ms: i64,
    },
    /// A look at the processes of a command that runs.
    Sampled {
        /// Which job.
        job: JobId,
        /// When.
        at_ms: i64,
        /// What they have.
        sample: JobSample,
    },
    /// A command was ended because it hung or took too much; comes after its end was told.
    Terminated {
        /// Which job.
        job: JobId,
        /// What it is.
        info: &'a JobInfo,
        /// Why, and which processes it had.
        termination: &'a Termination,
    },
    /// Processes have outlived their command.
    LeftBehind {
        /// Which job.
        job: JobId,
        /// What it is.
        info: &'a JobInfo,
        /// The processes.
        processes: &'a [ProcessInfo],
        /// They were killed. Else they are still there at the end of the build.
        killed: bool,
    },
    /// A command that runs has printed this; comes only for the command that a view follows (`View::follows`).
    Printed {
        /// Which job.
        job: JobId,
        /// When.
        at_ms: i64,
        /// The end of what it has printed so far, in bytes as they came.
        output: &'a [u8],
    },
    /// Nothing more is started for now, though there are slots and jobs; or that is over.
    Throttled {
        /// Why; none when it is over.
        reason: Option<ThrottleReason>,
        /// When.
        at_ms: i64,
    },
    /// Nothing happened but that time went by; comes only to a view that asks for it (`View::tick`).
    Tick {
        /// What time it is.
        at_ms: i64,
    },
    /// No further command will be started, and none runs.
    BuildFinished {
        /// When.
        at_ms: i64,
    },
    /// A message for the user, without a line end.
    Notice {
        /// How loud.
        level: Level,
        /// The text.
        text: &'a [u8],
    },
}

/// Something that shows or keeps events.
pub trait View {
    /// Takes one event, in the order in which they happened. What it has to write may wait for `flush`.
    fn event(&mut self, event: Event<'_>);

    /// Writes what it has kept back. Comes when all that may start has been started, and before a command gets the
    /// terminal.
    fn flush(&mut self) {}

    /// The running command whose output it wants to hear of before the command ends (`Event::Printed`), if there is one.
    fn followed_job(&self) -> Option<JobId> {
        None
    }

    /// How often it wants to hear that time goes by, if at all.
    fn tick_interval(&self) -> Option<Duration> {
        None
    }
}
