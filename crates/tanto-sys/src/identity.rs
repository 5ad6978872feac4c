//! Which process is which, beyond the reuse of numbers. Does not know why one asks.

use std::fmt;
use std::fs;

/// A process: its number, and when it was started (clock ticks since the machine's start), which tells it from a
/// later one with the same number. Written as `number.ticks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pid: u32,
    started: u64,
}

impl Process {
    /// This process; none where `/proc` is not to be read.
    pub fn own() -> Option<Process> {
        Some(read(std::process::id())?.process)
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &[u8]) -> Option<Process> {
        let (pid, started) = std::str::from_utf8(text).ok()?.split_once('.')?;
        Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Was this process started by that one, or by one that was? False for itself, and where the chain of parents
    /// cannot be followed.
    pub fn is_ancestor(self) -> bool {
        let mut pid = std::process::id();
        while let Some(parent) = read(pid).and_then(|stat| read(stat.parent)) {
            if parent.process == self {
                return true;
            }
            pid = parent.process.pid;
        }
        false
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pid, self.started)
    }
}

struct Stat {
    process: Process,
    parent: u32,
}

/// What `/proc/PID/stat` says; none for process 0, the parent of the first.
fn read(pid: u32) -> Option<Stat> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &stat)
}

/// Fields 4 and 22. The second is the program's name in parentheses, which may contain anything.
fn parse(pid: u32, stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { process: Process { pid, started }, parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let stat = b"7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 991 8 9";
        let it = parse(7, stat).unwrap();
        assert_eq!((it.parent, it.process.started), (3, 991));
        assert!(parse(7, b"7 (a) S 3").is_none());
        assert!(parse(7, b"").is_none());
    }

    #[test]
    fn a_parent_is_an_ancestor_and_a_namesake_is_not() {
        let parent = read(std::os::unix::process::parent_id()).unwrap().process;
        assert!(parent.is_ancestor());
        let later = Process { started: parent.started + 1, ..parent };
        assert!(!later.is_ancestor());
        assert!(!Process::own().unwrap().is_ancestor());
    }

    #[test]
    fn what_is_written_is_read() {
        let own = Process::own().unwrap();
        assert_eq!(Process::parse(own.to_string().as_bytes()), Some(own));
        for bad in [&b""[..], b"1", b".", b"1.x", b"-1.2", b"1.2.3", b"\xff.1"] {
            assert_eq!(Process::parse(bad), None);
        }
    }
}
