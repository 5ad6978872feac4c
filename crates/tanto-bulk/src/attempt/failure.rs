//! Classifies failures of stages: the reason in words, and whether the package or the machine is at fault.

use memchr::memmem;
use tanto_exec::job::report::{Termination, TerminationReason};
use tanto_exec::job::{Completion, Exit};
use tanto_protocol::AttemptOutcome;

use crate::config::Stage;

const KILLED_BY_USER: &str = "killed by the user";
/// The reason why a package needs root if that was not known before it was built.
const WANTS_ROOT: &str = "it tries to become another user or to change the owner of a file";

/// Returns the outcome of an attempt in which a stage failed. `fault` is a reason that the machine is known to be at
/// fault. After the last permitted attempt, a package that was killed for memory has failed.
pub fn classify(
    stage: Stage,
    completion: &Completion,
    fault: Option<String>,
    one_user: bool,
    is_last: bool,
) -> AttemptOutcome {
    if termination(completion).is_some_and(|it| it.reason == TerminationReason::Requested) {
        return AttemptOutcome::Failed { why: KILLED_BY_USER.to_owned() };
    }
    let why = reason(stage, completion);
    let fault = fault.or_else(|| machine_fault(stage, completion).map(str::to_owned));
    match fault {
        Some(fault) if was_killed(completion) && !is_last => {
            AttemptOutcome::OutOfMemory { why: format!("{why}: {fault}") }
        }
        Some(fault) if !is_last => AttemptOutcome::MachineFailed { why: format!("{why}: {fault}") },
        _ if one_user && wants_root(stage, completion) => {
            AttemptOutcome::NeedsRoot { why: format!("{why}: {WANTS_ROOT}") }
        }
        // A package that is killed each time may need more memory than the machine has.
        Some(fault) if !was_killed(completion) => AttemptOutcome::MachineFailed { why: format!("{why}: {fault}") },
        _ => AttemptOutcome::Failed { why },
    }
}

/// Turns an exit that would interrupt the build into a failure: a process of the package sent the signal, not the user.
pub fn deny_interrupt(completion: &mut Completion) {
    if completion.exit.interrupted() {
        completion.exit = Exit::Code(1);
    }
}

/// Returns the reason for a failure, in words.
pub fn reason(stage: Stage, completion: &Completion) -> String {
    match (termination(completion), completion.exit) {
        (Some(termination), _) => format!("{} {}", stage.name(), termination.reason),
        (None, Exit::Code(code)) => format!("{} exited with {code}", stage.name()),
        (None, Exit::Signal(signal) | Exit::Dumped(signal)) => format!("{} died of signal {signal}", stage.name()),
    }
}

/// Returns the reason why the monitor or the user ended a stage.
pub fn termination(completion: &Completion) -> Option<&Termination> {
    completion.report.as_ref()?.termination.as_ref()
}

/// Returns a remark about processes that outlived a stage; `None` if there are none. `others` were found in its sandbox.
pub fn leftovers(stage: Stage, completion: &Completion, others: Vec<String>) -> Option<String> {
    let outside = completion.report.iter().flat_map(|report| &report.leftovers);
    let outside = outside.map(|process| String::from_utf8_lossy(&process.command).into_owned());
    let all: Vec<String> = outside.chain(others).collect();
    (!all.is_empty()).then(|| format!("{} left processes running: {}", stage.name(), all.join(", ")))
}

/// The length of the end of a failed stage's output in messages, in bytes.
const SHOWN: usize = 2 << 10;

/// Returns the last lines of an output, for a message.
pub fn last_lines(output: &[u8]) -> &[u8] {
    let from = output.len().saturating_sub(SHOWN);
    let line = if from == 0 { 0 } else { memchr::memchr(b'\n', &output[from..]).map_or(from, |end| from + end + 1) };
    &output[line..]
}

/// Returns the message about a failure: the last lines of the output, the reason, and the path of the log, which may be
/// empty.
pub fn message(output: &[u8], why: &str, log: &str) -> Vec<u8> {
    let place = if log.is_empty() { String::new() } else { format!("; full output: {log}") };
    [last_lines(output), why.as_bytes(), place.as_bytes(), b"\n"].concat()
}

const SIGKILL: i32 = 9;
/// Printed by programs when a disk is full.
const DISK_FULL: &[u8] = b"No space left on device";
/// Printed by `tanto bulk fetch` when the machine is at fault.
const FETCH_ERROR: &[u8] = b"tanto: error: the distfiles: ";
/// The length of the end of the output that is searched, in bytes.
const TAIL: usize = 16 << 10;

/// Printed by programs that change owners or users, which fails where there is only one user.
const OWNERS: [&[u8]; 3] = [b"chown", b"chgrp", b"ownership"];
const REFUSED: &[u8] = b": Invalid argument";
const USERS: [&[u8]; 2] = [b"su: cannot set ", b"runuser: cannot set "];

/// Returns whether a stage failed because it tried to become another user or to change an owner. Only its output says
/// so. Meaningful only where there is one user.
fn wants_root(stage: Stage, completion: &Completion) -> bool {
    let has = |line: &[u8], word: &&[u8]| memmem::find(line, word).is_some();
    let is_it = |line: &[u8]| {
        let line = line.trim_ascii_end();
        line.ends_with(REFUSED) && OWNERS.iter().any(|word| has(line, word))
            || USERS.iter().any(|begin| line.starts_with(begin))
    };
    stage != Stage::Checksum
        && termination(completion).is_none()
        && tail(completion).split(|&byte| byte == b'\n').any(is_it)
}

fn tail(completion: &Completion) -> &[u8] {
    &completion.output[completion.output.len().saturating_sub(TAIL)..]
}

pub fn is_disk_full(completion: &Completion) -> bool {
    memmem::find(tail(completion), DISK_FULL).is_some()
}

/// Returns whether something other than Tanto killed the stage, or the kernel killed one of its processes for memory.
fn was_killed(completion: &Completion) -> bool {
    let was_oom_killed = completion.report.as_ref().is_some_and(|report| report.was_oom_killed);
    termination(completion).is_none() && (completion.exit == Exit::Signal(SIGKILL) || was_oom_killed)
}

/// Returns the reason why a failure is the machine's fault, if it is.
fn machine_fault(stage: Stage, completion: &Completion) -> Option<&'static str> {
    let is_limit =
        |it: &Termination| !matches!(it.reason, TerminationReason::Hung { .. } | TerminationReason::Timeout { .. });
    if termination(completion).is_some_and(is_limit) {
        return None;
    }
    match completion.exit {
        _ if was_killed(completion) => Some("killed by another process, perhaps because memory ran out"),
        Exit::Code(126) if completion.output.starts_with(b"cannot start a command: ") => {
            Some("cannot start a process: out of processes")
        }
        Exit::Code(126) if memmem::find(tail(completion), FETCH_ERROR).is_some() => {
            Some("cannot move files to 'distdir'")
        }
        _ if is_disk_full(completion) => Some("the disk is full"),
        _ if stage.blames_machine() => Some("not an error of the package"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_exec::job::JobId;

    #[test]
    fn output_tells_that_a_package_needs_root() {
        let fails =
            |stage, text: &str| wants_root(stage, &Completion::new(JobId(0), Exit::Code(1), text.as_bytes().to_vec()));
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
