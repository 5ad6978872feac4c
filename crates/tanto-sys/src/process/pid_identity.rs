//! Which process is which, beyond the reuse of numbers. Does not know why one asks.

use std::fmt;
use std::fs::File;
use std::io;

use crate::error::call_error;
use crate::process::procs::stat;

/// A process: its number, and when it was started (clock ticks since the machine's start), which tells it from a
/// later one with the same number. Written as `number.ticks`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    pid: u32,
    started: u64,
}

impl ProcessId {
    /// The process with this number that was started then.
    pub(crate) fn known(pid: u32, started: u64) -> ProcessId {
        ProcessId { pid, started }
    }

    /// Its number.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// When it was started, in clock ticks since the machine's start.
    pub fn started(self) -> u64 {
        self.started
    }

    /// The process that has this number now; `None` if there is none, or `/proc` cannot be read.
    pub fn of(pid: u32) -> Option<ProcessId> {
        stat(pid).map(|look| look.process)
    }

    /// This process; an error where `/proc` is not to be read.
    pub fn own() -> io::Result<ProcessId> {
        const STAT: &str = "/proc/self/stat";
        stat(std::process::id()).map(|look| look.process).ok_or_else(|| match File::open(STAT) {
            Err(error) => call_error("open", Some(STAT.as_bytes()), error),
            Ok(_) => io::ErrorKind::Unsupported.into(),
        })
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &[u8]) -> Option<ProcessId> {
        let (pid, started) = std::str::from_utf8(text).ok()?.split_once('.')?;
        Some(ProcessId { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Was this process started by that one, or by one that was? False for itself, and where the chain of parents
    /// cannot be followed.
    pub fn is_ancestor(self) -> bool {
        let mut pid = std::process::id();
        while let Some(parent) = stat(pid).and_then(|it| stat(it.parent)) {
            if parent.process == self {
                return true;
            }
            pid = parent.process.pid;
        }
        false
    }
}

/// What tells the machine's runs apart: no process outlives one. Empty where nobody says it.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim_end().to_owned()
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pid, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_an_ancestor_and_a_namesake_is_not() {
        let parent = stat(std::os::unix::process::parent_id()).unwrap().process;
        assert!(parent.is_ancestor());
        let later = ProcessId { started: parent.started + 1, ..parent };
        assert!(!later.is_ancestor());
        assert!(!ProcessId::own().unwrap().is_ancestor());
    }

    #[test]
    fn what_is_written_is_read() {
        let own = ProcessId::own().unwrap();
        assert_eq!(ProcessId::parse(own.to_string().as_bytes()), Some(own));
        for bad in [&b""[..], b"1", b".", b"1.x", b"-1.2", b"1.2.3", b"\xff.1"] {
            assert_eq!(ProcessId::parse(bad), None);
        }
    }
}
