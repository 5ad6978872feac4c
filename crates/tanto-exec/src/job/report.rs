//! What watching a job's processes has brought, for whoever tells the user. Does not know how it was found.

use std::fmt;

/// Why a job was ended. Times are in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminationReason {
    /// For so long it had started no process, used no processor time and printed nothing.
    Hung {
        /// How long.
        after_ms: i64,
    },
    /// It ran for so long.
    Timeout {
        /// How long.
        after_ms: i64,
    },
    /// It used so much processor time.
    CpuTime {
        /// How much.
        after_ms: i64,
    },
    /// Its processes held more memory than this.
    Memory {
        /// In KiB.
        limit_kib: u64,
    },
    /// It printed more than this.
    Output {
        /// In bytes.
        limit_bytes: u64,
    },
    /// More than this lay where it writes.
    Disk {
        /// In KiB.
        limit_kib: u64,
    },
    /// The user wanted it to end.
    Requested,
}

impl TerminationReason {
    /// What a job that was ended for this is said to have exited with: 124 is that of `timeout`, 143 that of a shell whose
    /// command was told to end. What `ulimit` ends has these codes too: 137 for memory, 152 for processor time, 153 for
    /// the size of a file.
    pub fn exit_code(self) -> i32 {
        match self {
            TerminationReason::Hung { .. } => 123,
            TerminationReason::Timeout { .. } => 124,
            TerminationReason::CpuTime { .. } => 152,
            TerminationReason::Memory { .. } => 137,
            TerminationReason::Output { .. } | TerminationReason::Disk { .. } => 153,
            TerminationReason::Requested => 143,
        }
    }

    /// Would it do harm as long as it is only asked to end? It takes what others need too.
    pub fn is_urgent(self) -> bool {
        matches!(
            self,
            TerminationReason::Memory { .. } | TerminationReason::Output { .. } | TerminationReason::Disk { .. }
        )
    }
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TerminationReason::Hung { after_ms } => {
                write!(f, "hung: no new process, no processor time and no output for {}", Length(after_ms))
            }
            TerminationReason::Timeout { after_ms } => write!(f, "not done after {}", Length(after_ms)),
            TerminationReason::CpuTime { after_ms } => {
                write!(f, "used more than {} of processor time", Length(after_ms))
            }
            TerminationReason::Memory { limit_kib } => {
                write!(f, "used more than {} of memory", Size(limit_kib.saturating_mul(1024)))
            }
            TerminationReason::Output { limit_bytes } => write!(f, "printed more than {}", Size(limit_bytes)),
            TerminationReason::Disk { limit_kib } => {
                write!(f, "used more than {} of the disk", Size(limit_kib.saturating_mul(1024)))
            }
            TerminationReason::Requested => f.write_str("killed by the user"),
        }
    }
}

/// A process of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: u32,
    /// How far it is below the first of its tree.
    pub depth: u32,
    /// What it did, as the kernel's letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: u8,
    /// Processor time in milliseconds, of it and of those that it has waited for.
    pub cpu_ms: u64,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Its command line, or the program's name.
    pub command: Vec<u8>,
    /// The directory that it is in, if that is known.
    pub directory: Option<Vec<u8>>,
}

/// A job that was ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Termination {
    /// Why.
    pub reason: TerminationReason,
    /// Its processes when that was found, each before those below it.
    pub processes: Vec<ProcessInfo>,
    /// They did not end when they were asked to.
    pub killed: bool,
}

/// All that is to be told of a job that has ended.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonitorReport {
    /// It was ended.
    pub termination: Option<Termination>,
    /// Processes of it that live on.
    pub leftovers: Vec<ProcessInfo>,
    /// Those were killed.
    pub leftovers_killed: bool,
    /// The kernel killed one of its processes for memory, though they did not hold more than they may.
    pub was_oom_killed: bool,
}

/// How much a job has at a moment while it runs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct JobSample {
    /// Processes.
    pub processes: u32,
    /// Processor time of them and of those that they have waited for, in milliseconds.
    pub cpu_ms: u64,
    /// Memory in KiB; pages that they share count for each, where no control group counts them.
    pub memory_kib: u64,
    /// What of that they share, or have written to files in memory; none where nobody counts that.
    pub files_kib: Option<u64>,
}

/// Milliseconds as people write lengths of time: 90,000 is `1m30s`, 1,500 is `1.5s`.
pub struct Length(pub i64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1000, self.0 % 1000);
        let (hours, minutes, within) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        match (within, rest) {
            (0, 0) if seconds > 0 => Ok(()),
            (_, 0) => write!(f, "{within}s"),
            _ => write!(f, "{}s", format!("{within}.{rest:03}").trim_end_matches('0')),
        }
    }
}

/// Bytes as people write them: 1,610,612,736 is `1.5 GiB`.
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 0;
        while unit + 1 < UNITS.len() && self.0 >> (10 * (unit + 1)) > 0 {
            unit += 1;
        }
        let tenths = (u128::from(self.0) * 10) >> (10 * unit);
        match tenths % 10 {
            0 => write!(f, "{} {}", tenths / 10, UNITS[unit]),
            tenth => write!(f, "{}.{tenth} {}", tenths / 10, UNITS[unit]),
        }
    }
}

/// Each is 1024 times the one before.
const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        let cases = [(0, "0s"), (1, "0.001s"), (1500, "1.5s"), (90_000, "1m30s"), (600_000, "10m"), (7_200_000, "2h")];
        for (ms, text) in cases {
            assert_eq!(Length(ms).to_string(), text);
        }
        assert_eq!(Length(3_600_000 + 1_250).to_string(), "1h1.25s");
    }

    #[test]
    fn whys_are_words() {
        assert_eq!(TerminationReason::Timeout { after_ms: 7_200_000 }.to_string(), "not done after 2h");
        assert!(TerminationReason::Hung { after_ms: 600_000 }.to_string().ends_with("no output for 10m"));
        assert_ne!(
            TerminationReason::Hung { after_ms: 1 }.exit_code(),
            TerminationReason::Timeout { after_ms: 1 }.exit_code()
        );
        assert_eq!(
            TerminationReason::CpuTime { after_ms: 3_600_000 }.to_string(),
            "used more than 1h of processor time"
        );
        assert_eq!(TerminationReason::Memory { limit_kib: 2 << 20 }.to_string(), "used more than 2 GiB of memory");
        assert_eq!(TerminationReason::Output { limit_bytes: 1 << 20 }.to_string(), "printed more than 1 MiB");
        assert_eq!(TerminationReason::Disk { limit_kib: 100 }.to_string(), "used more than 100 KiB of the disk");
    }

    #[test]
    fn sizes_are_short() {
        let cases =
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (3 << 29, "1.5 GiB"), (5000 << 40, "5000 TiB")];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
