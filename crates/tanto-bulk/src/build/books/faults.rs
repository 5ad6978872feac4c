//! Why a stage has failed: in words, and whether the machine is to blame. Does not know what is done then.

use tanto_exec::job::{Completion, Exit};

use crate::build::stages::Stage;

/// In words.
pub(super) fn why(stage: Stage, completion: &Completion) -> String {
    let stopped = completion.findings.as_ref().and_then(|findings| findings.stopped.as_ref());
    match (stopped, completion.exit) {
        (Some(_), _) => format!("{} was ended by the monitor", stage.name()),
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

/// Why a failure is not the package's, if it is not.
pub(super) fn machines_fault(stage: Stage, completion: &Completion) -> Option<&'static str> {
    let tail = &completion.output[completion.output.len().saturating_sub(TAIL)..];
    let was_stopped = completion.findings.as_ref().is_some_and(|findings| findings.stopped.is_some());
    match completion.exit {
        Exit::Signal(SIGKILL) if !was_stopped => Some("something killed it, perhaps for memory"),
        Exit::Code(126) if completion.output.starts_with(b"cannot start a command: ") => Some("no process to be had"),
        Exit::Code(126) if memchr::memmem::find(tail, FETCHED).is_some() => {
            Some("files could not be brought to 'distdir'")
        }
        _ if memchr::memmem::find(tail, FULL).is_some() => Some("the disk is full"),
        _ if stage.is_the_machines() => Some("the package has no part in that"),
        _ => None,
    }
}
