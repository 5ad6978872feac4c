//! Process ids that are safe against reuse.

use std::fmt;
use std::fs::File;
use std::io;

use crate::error::call_error;
use crate::process::procs::stat;

/// A process id with the start time of the process (clock ticks since boot), which tells it from a later process with
/// the same id. Written as `pid.ticks`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    pid: u32,
    started: u64,
}

impl ProcessId {
    pub(crate) fn new(pid: u32, started: u64) -> ProcessId {
        ProcessId { pid, started }
    }

    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Returns the start time in clock ticks since boot.
    pub fn start_ticks(self) -> u64 {
        self.started
    }

    /// Returns the current process with this id; `None` if there is none, or without `/proc`.
    pub fn of(pid: u32) -> Option<ProcessId> {
        stat(pid).map(|it| it.process)
    }

    /// Returns this process. Fails without `/proc`.
    pub fn current() -> io::Result<ProcessId> {
        const STAT: &str = "/proc/self/stat";
        stat(std::process::id()).map(|it| it.process).ok_or_else(|| match File::open(STAT) {
            Err(error) => call_error("open", Some(STAT.as_bytes()), error),
            Ok(_) => io::ErrorKind::Unsupported.into(),
        })
    }

    /// Parses the format of `Display`.
    pub fn parse(text: &[u8]) -> Option<ProcessId> {
        let (pid, started) = std::str::from_utf8(text).ok()?.split_once('.')?;
        Some(ProcessId { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Returns whether it is an ancestor of this process. False for this process itself, and if the chain of parents is
    /// broken.
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

/// Returns the id of the current boot; empty if unknown.
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
    fn a_parent_is_an_ancestor_but_not_a_process_with_a_reused_id() {
        let parent = stat(std::os::unix::process::parent_id()).unwrap().process;
        assert!(parent.is_ancestor());
        let later = ProcessId { started: parent.started + 1, ..parent };
        assert!(!later.is_ancestor());
        assert!(!ProcessId::current().unwrap().is_ancestor());
    }

    #[test]
    fn display_and_parse_round_trip() {
        let own = ProcessId::current().unwrap();
        assert_eq!(ProcessId::parse(own.to_string().as_bytes()), Some(own));
        for bad in [&b""[..], b"1", b".", b"1.x", b"-1.2", b"1.2.3", b"\xff.1"] {
            assert_eq!(ProcessId::parse(bad), None);
        }
    }
}
