//! Why a stage has failed: in words, and whether the machine is to blame. Does not know what is done then.

use tanto_exec::job::report::TerminationReason;
use tanto_exec::job::{Completion, Exit};

use crate::config::Stage;

/// In words.
pub(super) fn why(stage: Stage, completion: &Completion) -> String {
    let stopped = completion.report.as_ref().and_then(|report| report.termination.as_ref());
    match (stopped, completion.exit) {
        (Some(stopped), _) => format!("{} {}", stage.name(), stopped.reason),
        (None, Exit::Code(code)) => format!("{} exited with {code}", stage.name()),
        (None, Exit::Signal(signal) | Exit::Dumped(signal)) => format!("{} died of signal {signal}", stage.name()),
    }
}

/// So much of a failed stage's output is shown.
const SHOWN: usize = 2 << 10;

pub(super) fn told(output: &[u8], why: &str, log: &str) -> Vec<u8> {
    let from = output.len().saturating_sub(SHOWN);
    let line = if from == 0 { 0 } else { memchr::memchr(b'\n', &output[from..]).map_or(from, |end| from + end + 1) };
    let place = if log.is_empty() { String::new() } else { format!("; all that it printed is in {log}") };
    [&output[line..], why.as_bytes(), place.as_bytes(), b"\n"].concat()
}

const SIGKILL: i32 = 9;
/// What programs print when a disk is full.
const FULL: &[u8] = b"No space left on device";
/// What we print when we cannot get on with fetched files.
const FETCHED: &[u8] = b"tanto: error: the distfiles: ";
/// How much of the end of the output is searched for that.
const TAIL: usize = 16 << 10;

/// What programs print that change owners, or who they are: where there is but one user, that fails for all others.
const OWNERS: [&[u8]; 3] = [b"chown", b"chgrp", b"ownership"];
const REFUSED: &[u8] = b": Invalid argument";
const USERS: [&[u8]; 2] = [b"su: cannot set ", b"runuser: cannot set "];

/// Did the stage of a package fail because it wanted to be another user, or that something belongs to one? Nothing but what
/// it has printed tells so. To be asked only where there is but one user.
pub(super) fn wants_root(stage: Stage, completion: &Completion) -> bool {
    let has = |line: &[u8], word: &&[u8]| memchr::memmem::find(line, word).is_some();
    let is_it = |line: &[u8]| {
        let line = line.trim_ascii_end();
        line.ends_with(REFUSED) && OWNERS.iter().any(|word| has(line, word))
            || USERS.iter().any(|begin| line.starts_with(begin))
    };
    let was_stopped = completion.report.as_ref().is_some_and(|report| report.termination.is_some());
    stage != Stage::Checksum && !was_stopped && tail(completion).split(|&byte| byte == b'\n').any(is_it)
}

/// Where the reason stands, if there is one.
fn tail(completion: &Completion) -> &[u8] {
    &completion.output[completion.output.len().saturating_sub(TAIL)..]
}

/// Does it say that there is no room for what it writes?
pub(super) fn says_full(completion: &Completion) -> bool {
    memchr::memmem::find(tail(completion), FULL).is_some()
}

/// Was it killed, and not by us, or one of its processes for memory? The kernel does that where memory is short.
pub(super) fn was_killed(completion: &Completion) -> bool {
    let found = completion.report.as_ref();
    let is_ours = found.is_some_and(|report| report.termination.is_some());
    !is_ours && (completion.exit == Exit::Signal(SIGKILL) || found.is_some_and(|report| report.was_oom_killed))
}

/// Why a failure is not the package's, if it is not.
pub(super) fn machines_fault(stage: Stage, completion: &Completion) -> Option<&'static str> {
    let stopped = completion.report.as_ref().and_then(|report| report.termination.as_ref());
    if stopped.is_some_and(|stopped| {
        !matches!(stopped.reason, TerminationReason::Hung { .. } | TerminationReason::Timeout { .. })
    }) {
        // It took more than it may.
        return None;
    }
    match completion.exit {
        _ if was_killed(completion) => Some("something killed it, perhaps for memory"),
        Exit::Code(126) if completion.output.starts_with(b"cannot start a command: ") => Some("no process to be had"),
        Exit::Code(126) if memchr::memmem::find(tail(completion), FETCHED).is_some() => {
            Some("files could not be brought to 'distdir'")
        }
        _ if says_full(completion) => Some("the disk is full"),
        _ if stage.blames_machine() => Some("the package has no part in that"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_exec::job::{Capture, ExecutedBy, JobId, Usage};

    #[test]
    fn who_wants_to_be_somebody_else_says_so() {
        let fails = |stage, text: &str| {
            let (exit, usage) = (Exit::Code(1), Usage::default());
            let output = text.as_bytes().to_vec();
            let it = Completion {
                job: JobId(0),
                exit,
                output,
                capture: Capture::Complete,
                usage,
                report: None,
                executed_by: ExecutedBy::Process,
            };
            wants_root(stage, &it)
        };
        for text in [
            "chown: changing ownership of '/pkg/x': Invalid argument\n*** Error code 1\n",
            "install: cannot change ownership of 'x': Invalid argument",
            "tar: x: Cannot change ownership to uid 7, gid 7: Invalid argument\r\n",
            "chgrp: changing group of 'x': Invalid argument\nStop.",
            "building\nsu: cannot set groups: Operation not permitted\n",
        ] {
            assert!(fails(Stage::Install, text), "{text}");
            assert!(!fails(Stage::Checksum, text));
        }
        for text in ["", "ownership: Invalid argument?", "cc: x: Invalid argument", "chown: x: Operation not permitted"]
        {
            assert!(!fails(Stage::Install, text), "{text}");
        }
    }
}
