//! Results of monitoring a job: processes, samples and the reason for its termination.

use std::fmt;

use crate::text::units::{ByteSize, ExactDuration};

/// Why a job was terminated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminationReason {
    /// No new process, CPU use or output for this time.
    Hung {
        after_ms: i64,
    },
    Timeout {
        after_ms: i64,
    },
    CpuTime {
        after_ms: i64,
    },
    Memory {
        limit_kib: u64,
    },
    Output {
        limit_bytes: u64,
    },
    Disk {
        limit_kib: u64,
    },
    /// By the user.
    Requested,
}

impl TerminationReason {
    /// Returns the exit code that is reported for the job: 124 as `timeout` does, 143 for a requested end as a shell
    /// does, and the codes of `ulimit` violations: 137 for memory, 152 for CPU time, 153 for file size.
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

    /// Returns whether waiting for a voluntary exit would harm others: the job holds memory or disk space that they
    /// need.
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
                write!(f, "hung: no new process, no processor time and no output for {}", ExactDuration(after_ms))
            }
            TerminationReason::Timeout { after_ms } => write!(f, "not finished after {}", ExactDuration(after_ms)),
            TerminationReason::CpuTime { after_ms } => {
                write!(f, "used more than {} of processor time", ExactDuration(after_ms))
            }
            TerminationReason::Memory { limit_kib } => {
                write!(f, "used more than {} of memory", ByteSize(limit_kib.saturating_mul(1024)))
            }
            TerminationReason::Output { limit_bytes } => write!(f, "printed more than {}", ByteSize(limit_bytes)),
            TerminationReason::Disk { limit_kib } => {
                write!(f, "used more than {} of the disk", ByteSize(limit_kib.saturating_mul(1024)))
            }
            TerminationReason::Requested => f.write_str("killed by the user"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    /// Depth below the root of its process tree.
    pub depth: u32,
    /// The kernel's letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: u8,
    /// CPU time of the process and its reaped children.
    pub cpu_ms: u64,
    pub memory_kib: u64,
    /// Command line, or the program's name.
    pub command: Vec<u8>,
    /// Working directory, if known.
    pub directory: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Termination {
    pub reason: TerminationReason,
    /// Processes at the time of the decision, parents before children.
    pub processes: Vec<ProcessInfo>,
    /// They did not exit on SIGTERM.
    pub killed: bool,
}

/// Everything the monitor reports about a finished job.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonitorReport {
    pub termination: Option<Termination>,
    /// Processes that outlived the job.
    pub leftovers: Vec<ProcessInfo>,
    pub leftovers_killed: bool,
    /// The kernel's OOM killer ended a process though the job was within its own limit.
    pub was_oom_killed: bool,
}

/// Resource use of a running job at one moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct JobSample {
    pub processes: u32,
    /// CPU time of the processes and their reaped children.
    pub cpu_ms: u64,
    /// Memory in KiB. Without a control group, shared pages count once for each process.
    pub memory_kib: u64,
    /// Page cache and tmpfs part of `memory_kib`; `None` without a control group.
    pub files_kib: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn termination_reasons_are_described() {
        assert_eq!(TerminationReason::Timeout { after_ms: 7_200_000 }.to_string(), "not finished after 2h");
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
}
