//! What sessions tell, for people and for other programs: each report is a function of the events. Does not know where
//! sessions lie, nor where a report goes.

pub mod critical;
pub mod lanes;
pub mod output;
pub mod page;
pub mod rebuilds;
pub mod sessions;
pub mod table;
pub mod timings;
pub mod trace;
pub mod trouble;
mod why;

use tanto_exec::job::Exit;
use tanto_exec::job::report::TerminationReason;

use crate::session::{Job, Session};

/// How a build went, as far as its session tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Result {
    /// All that was started succeeded, and nothing is left.
    Done,
    /// So many commands failed.
    Failed(usize),
    /// It was interrupted while commands ran, after so many had failed.
    Interrupted(usize),
    /// It ended before all commands had run, though none failed.
    Stopped,
    /// It has no end: it was killed, or is still under way.
    Open,
}

/// How a build went.
pub fn result(session: &Session) -> Result {
    let failed = session.commands().filter(|job| job.has_failed()).count();
    // After a failure the commands that run are waited for.
    let is_interrupted = session.commands().any(|job| job.end.is_none());
    match (failed, session.finished_ms) {
        (_, None) => Result::Open,
        (failed, Some(_)) if is_interrupted => Result::Interrupted(failed),
        (0, Some(_)) if !session.plan.is_empty() => Result::Stopped,
        (0, Some(_)) => Result::Done,
        (failed, Some(_)) => Result::Failed(failed),
    }
}

impl Result {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Result::Done => "done".into(),
            Result::Failed(1) => "1 failed".into(),
            Result::Failed(count) => format!("{count} failed"),
            Result::Interrupted(0) => "interrupted".into(),
            Result::Interrupted(failed) => format!("interrupted, {failed} failed"),
            Result::Stopped => "stopped".into(),
            Result::Open => "no end".into(),
        }
    }
}

/// How a command ended, in words.
pub fn ended(job: &Job) -> String {
    if let Some(stopped) = &job.stopped {
        return match stopped.reason {
            TerminationReason::Hung { .. } => "hung".into(),
            TerminationReason::Timeout { .. } => "took too long".into(),
            TerminationReason::CpuTime { .. } => "used too much processor time".into(),
            TerminationReason::Memory { .. } => "used too much memory".into(),
            TerminationReason::Output { .. } => "printed too much".into(),
            TerminationReason::Disk { .. } => "used too much of the disk".into(),
            TerminationReason::Requested => "killed by the user".into(),
        };
    }
    match job.end.as_ref().map(|end| end.exit) {
        None => "did not end".into(),
        Some(Exit::Code(0)) => "succeeded".into(),
        Some(Exit::Code(code)) => format!("exit code {code}"),
        Some(Exit::Signal(signal) | Exit::Dumped(signal)) => format!("signal {signal}"),
    }
}

/// What sort of command it is: the words of its description before the first that names a file, or its program.
pub fn kind(job: &Job) -> Vec<u8> {
    let is_name = |word: &&[u8]| !word.iter().any(|byte| b"/.\\=$".contains(byte)) && !word.is_empty();
    let words = job.info.description.split(|&byte| byte == b' ');
    let head: Vec<&[u8]> = words.take_while(is_name).take(3).collect();
    if !head.is_empty() {
        return head.join(&b' ');
    }
    let program = job.info.command.split(|&byte| byte == b' ').find(|word| !word.is_empty() && !word.contains(&b'='));
    let name = program.and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    name.unwrap_or(b"?").to_vec()
}

/// A time for people, from milliseconds: `850 ms`, `12.3 s`, `4:05 min`, `1:02:03 h`.
pub fn time(ms: i64) -> String {
    let seconds = ms / 1000;
    match ms {
        ..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60_000..3_600_000 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02} h", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// An amount of memory for people, from KiB.
pub fn memory(kib: u64) -> String {
    match kib {
        0 => "".into(),
        1..1024 => format!("{kib} KiB"),
        1024..1_048_576 => format!("{} MiB", kib / 1024),
        _ => format!("{}.{} GiB", kib >> 20, (kib >> 10) % 1024 * 10 / 1024),
    }
}

#[cfg(test)]
mod tests;
