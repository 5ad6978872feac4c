//! Reports about sessions, for people and programs.

pub mod cache;
pub mod lanes;
pub mod output;
pub mod problems;
mod reasons;
pub mod rebuilds;
pub mod recorded;
pub mod timings;

use tanto_exec::job::Exit;
use tanto_exec::job::report::TerminationReason;

use tanto_exec::text::table::Table;
use tanto_exec::text::units::duration;

use crate::session::{Session, SessionJob, date};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildResult {
    /// All commands succeeded, and none is left.
    Done,
    /// Number of failed commands.
    Failed(usize),
    /// Interrupted while commands ran; number of failed commands.
    Interrupted(usize),
    /// Ended before all commands had run, without a failure.
    Incomplete,
    /// Without end: killed, or still running.
    Unfinished,
}

pub fn build_result(session: &Session) -> BuildResult {
    let failed = session.commands().filter(|job| job.has_failed()).count();
    // After a failure, the running commands are waited for.
    let is_interrupted = session.commands().any(|job| job.end.is_none());
    match (failed, session.finished_ms) {
        (_, None) => BuildResult::Unfinished,
        (failed, Some(_)) if is_interrupted => BuildResult::Interrupted(failed),
        (0, Some(_)) if !session.plan.is_empty() => BuildResult::Incomplete,
        (0, Some(_)) => BuildResult::Done,
        (failed, Some(_)) => BuildResult::Failed(failed),
    }
}

impl BuildResult {
    pub fn describe(self) -> String {
        match self {
            BuildResult::Done => "done".into(),
            BuildResult::Failed(1) => "1 failed".into(),
            BuildResult::Failed(count) => format!("{count} failed"),
            BuildResult::Interrupted(0) => "interrupted".into(),
            BuildResult::Interrupted(failed) => format!("interrupted, {failed} failed"),
            BuildResult::Incomplete => "stopped".into(),
            BuildResult::Unfinished => "no end".into(),
        }
    }
}

pub fn exit_text(job: &SessionJob) -> String {
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

/// Returns the kind of a command: the first words of its description that are not file names, or its program.
pub fn command_kind(job: &SessionJob) -> Vec<u8> {
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

/// Lists sessions, the newest last, with the numbers that `Sessions::find` accepts.
pub fn session_list<'s>(sessions: impl ExactSizeIterator<Item = (&'s str, Option<&'s Session>)>) -> Vec<u8> {
    let mut table = Table::new(&[0, 3, 4]);
    table.row([b"", b"SESSION", b"BEGAN (UTC)", b"TIME", b"COMMANDS", b"RESULT", b"OF"]);
    let count = sessions.len();
    for (at, (name, session)) in sessions.enumerate() {
        let number = (count - at).to_string();
        let Some(session) = session else {
            table.row([number.as_bytes(), name.as_bytes(), b"cannot be read"]);
            continue;
        };
        table.row([
            number.as_bytes(),
            name.as_bytes(),
            began(session).as_bytes(),
            duration(session.end_ms() - session.started_ms).as_bytes(),
            session.commands().count().to_string().as_bytes(),
            build_result(session).describe().as_bytes(),
            &targets_text(session),
        ]);
    }
    table.text()
}

pub(crate) fn targets_text(session: &Session) -> Vec<u8> {
    match session.head.targets.as_slice() {
        [] => b"the default targets".to_vec(),
        targets => targets.join(&b' '),
    }
}

/// Returns the start time: `2026-11-20 16:22:19`, in UTC.
pub(crate) fn began(session: &Session) -> String {
    let seconds = (session.head.began_unix_ms.saturating_add(session.started_ms)).max(0) as u64 / 1000;
    let (year, month, day) = date(seconds / 86_400);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
