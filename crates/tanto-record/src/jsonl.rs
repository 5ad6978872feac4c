//! Events as lines of JSON: the one schema of session files and of `--format jsonl`, to and fro. Does not know where
//! lines go, or come from.
//!
//! `docs/formats.md` describes the schema. Who reads skips the fields and events that it does not know, so that a newer
//! Tanto may write more of them.

mod decode;
mod encode;
mod stream;

use tanto_exec::event::Level;
use tanto_exec::job::report::{JobSample, ProcessInfo, Termination};
use tanto_exec::job::{ExecutedBy, Exit, JobId, JobInfo, Usage};
use tanto_exec::schedule::ThrottleReason;

pub use self::decode::{Wrong, line};
pub use self::encode::Encoder;
pub(crate) use self::encode::{hold, stop};
pub use self::stream::Stream;

/// Version of the format. Version 1 had other names for some events, fields and reasons; it is still read.
pub const FORMAT: u32 = 2;

/// A stream's first line: whose record it is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// Tanto's version.
    pub version: Vec<u8>,
    /// The time from which events count, in milliseconds since 1970.
    pub began_unix_ms: i64,
    /// Where it ran.
    pub dir: Vec<u8>,
    /// What was asked for, in words.
    pub targets: Vec<Vec<u8>>,
    /// The plan was to bring the manifest itself up to date.
    pub manifest: bool,
    /// At most so many commands ran at a time; 0 for no limit.
    pub parallelism: u32,
    /// Processors that could be used.
    pub processors: u32,
}

/// A line that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The first one.
    Head(Head),
    /// An event.
    Event(Kept),
    /// One that a newer Tanto wrote.
    Unknown,
}

/// An event as a line keeps it. See `Event` for what the fields mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    Planned { job: JobId, expected_ms: Option<i64> },
    Unplanned { job: JobId, expected_ms: Option<i64> },
    BuildStarted { at_ms: i64, downstream_ms: Vec<u64> },
    Started { job: JobId, info: JobInfo, at_ms: i64 },
    NothingToRun { job: JobId, info: JobInfo, at_ms: i64 },
    Finished(Finished),
    Skipped { job: JobId, outputs: Vec<Vec<u8>>, because: JobId },
    Stage { job: JobId, stage: Vec<u8>, at_ms: i64 },
    StateCounts { counts: Vec<(Vec<u8>, u64)>, at_ms: i64 },
    Sampled { job: JobId, at_ms: i64, sample: JobSample },
    Terminated { job: JobId, termination: Termination },
    LeftBehind { job: JobId, processes: Vec<ProcessInfo>, killed: bool },
    Throttled { reason: Option<ThrottleReason>, at_ms: i64 },
    BuildFinished { at_ms: i64 },
    Notice { level: Level, text: Vec<u8> },
}

/// A part of a session's output file: what a command printed or, if it is shorter than that, both halves of what the
/// limit leaves of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where it begins, in bytes.
    pub at: u64,
    /// How long it is, in bytes.
    pub length: u64,
}

/// A command that ended. What it was is told by the line that said that it was started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Which job.
    pub job: JobId,
    /// When it was started.
    pub start_ms: i64,
    /// When it ended.
    pub end_ms: i64,
    /// How it ended.
    pub exit: Exit,
    /// What it printed, without the middle if that was left out.
    pub output: Vec<u8>,
    /// So many bytes of its output were left out.
    pub left_out: u64,
    /// Where the session's output file has more of it.
    pub place: Option<Place>,
    /// What it used.
    pub usage: Usage,
    /// What ran it.
    pub executed_by: ExecutedBy,
}

#[cfg(test)]
mod tests;
