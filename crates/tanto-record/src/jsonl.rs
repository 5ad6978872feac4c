//! Events as lines of JSON: the format of session files and of `--format jsonl`.
//!
//! `docs/formats.md` describes it. Readers skip unknown fields and events, so a newer version may add some.

mod decode;
mod encode;
mod stream;

use tanto_exec::event::Level;
use tanto_exec::job::report::{JobSample, ProcessInfo, Termination};
use tanto_exec::job::{CacheUse, ExecutedBy, Exit, JobId, JobInfo, Usage};
use tanto_exec::schedule::ThrottleReason;

pub use self::decode::{Wrong, line};
pub use self::encode::Encoder;
pub(crate) use self::encode::{termination_fields, throttle_fields};
pub use self::stream::Stream;

/// Version of the format. Version 1 had other names for some events, fields and reasons; it is still read.
pub const FORMAT: u32 = 2;

/// The first line of a stream.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    pub version: Vec<u8>,
    /// Offset of the times of events, in milliseconds since 1970.
    pub began_unix_ms: i64,
    pub dir: Vec<u8>,
    pub targets: Vec<Vec<u8>>,
    /// The plan is to update the manifest itself.
    pub manifest: bool,
    /// Limit of parallel commands; 0 for none.
    pub parallelism: u32,
    pub processors: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Head(Head),
    Event(Kept),
    /// Written by a newer version.
    Unknown,
}

/// An event as it is recorded; see `Event` for the fields.
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

/// A part of a session's output file: the output of a command, or both of its ends.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset in bytes.
    pub at: u64,
    pub length: u64,
}

/// The end of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    pub job: JobId,
    pub start_ms: i64,
    pub end_ms: i64,
    pub exit: Exit,
    /// The output, truncated in the middle.
    pub output: Vec<u8>,
    /// Bytes of the output that were left out.
    pub left_out: u64,
    /// The place of longer output in the session's output file.
    pub place: Option<Place>,
    pub usage: Usage,
    pub executed_by: ExecutedBy,
    pub cache: Option<CacheUse>,
}

#[cfg(test)]
mod tests;
