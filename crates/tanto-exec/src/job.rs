//! What is run, and what became of it. Does not know why it is run.

pub mod report;

use std::path::PathBuf;

use tanto_sys::cgroup::StallTimes;

use self::report::MonitorReport;
use crate::spilled::Spilled;

/// A job of one build: a dense number, in the order in which jobs were added to the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u32);

/// A command line and how it wants to be run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Command {
    /// The line, for `/bin/sh -c`. Bytes, not text: paths need not be UTF-8.
    pub line: Vec<u8>,
    /// Runs with Tanto's own terminal, in its foreground process group (ninja's `console` pool).
    pub console: bool,
    /// What it may take, if that is not what all may take.
    pub limits: Option<Box<JobLimits>>,
}

/// What a command may take, and where it takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobLimits {
    /// So much.
    pub resources: ResourceLimits,
    /// What lies in this directory counts as what it has written.
    pub scratch: Option<PathBuf>,
}

/// How long processes usually have to end themselves when they are asked to, in milliseconds.
pub const GRACE_MS: i64 = 10_000;

/// What a job may take, and how it is watched. Times are in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimits {
    /// It hangs after so long without a new process, processor time and output.
    pub hang_ms: Option<i64>,
    /// It is ended after so long, whatever it does.
    pub total_ms: Option<i64>,
    /// It is ended when its processes together have used so much processor time.
    pub cpu_ms: Option<i64>,
    /// It is ended when they hold more memory than this, in KiB.
    pub memory_kib: Option<u64>,
    /// It is ended when it has printed more than this, in bytes.
    pub output_bytes: Option<u64>,
    /// It is ended when more than this lies where it writes, in KiB, as far as that place is known.
    pub disk_kib: Option<u64>,
    /// It is over so long after its first process has ended, though others still hold its output; none: when they do not.
    pub linger_ms: Option<i64>,
    /// How long its processes have to end themselves when they are told to, and again when they are killed.
    pub grace_ms: i64,
    /// It is looked at even where there is nothing to find.
    pub sample: bool,
}

impl ResourceLimits {
    /// It may take what it wants.
    pub const NONE: ResourceLimits = ResourceLimits {
        hang_ms: None,
        total_ms: None,
        cpu_ms: None,
        memory_kib: None,
        output_bytes: None,
        disk_kib: None,
        linger_ms: None,
        grace_ms: GRACE_MS,
        sample: false,
    };
}

/// What the views may show of a job.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct JobInfo {
    /// The command line as the user would type it.
    pub command: Vec<u8>,
    /// A short text for the progress line; empty where the job has none.
    pub description: Vec<u8>,
    /// The files it makes, in the order of the job's declaration.
    pub outputs: Vec<Vec<u8>>,
    /// It owns the terminal while it runs.
    pub console: bool,
    /// Why it is run, a sentence each (ninja's `-d explain`); empty unless asked for.
    pub why: Vec<Vec<u8>>,
    /// The jobs of this build that it waited for, each once, in no order; empty unless asked for.
    pub after: Vec<JobId>,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It exited with this code (0..=255).
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// This signal killed it, and it left a core file.
    Dumped(i32),
}

impl Exit {
    /// It ended with code 0.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }

    /// As one number, as ninja 1.13.2 reports it: the exit code, 130 for a death by SIGINT, SIGTERM or SIGHUP, and
    /// 128 + N for a death by any other signal N, 128 more if that left a core file. What the program exits with is
    /// cut to eight bits.
    pub fn code(self) -> i32 {
        const SIGHUP: i32 = 1;
        const SIGINT: i32 = 2;
        const SIGTERM: i32 = 15;
        match self {
            Exit::Code(code) => code,
            Exit::Signal(SIGHUP | SIGINT | SIGTERM) => Self::INTERRUPTED,
            Exit::Signal(signal) => 128 + signal,
            Exit::Dumped(signal) => 256 + signal,
        }
    }

    /// The build is to stop as if the user had interrupted it; ninja takes exit code 130 for that too.
    pub fn interrupted(self) -> bool {
        self.code() == Self::INTERRUPTED
    }

    const INTERRUPTED: i32 = 130;
}

/// What a job used, as `wait4` counts it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one of its processes in KiB.
    pub max_rss_kib: u64,
    /// Read from disks, in bytes: what the page cache had does not count.
    pub read_bytes: u64,
    /// Written to files, in bytes, whether it has reached a disk or not.
    pub written_bytes: u64,
    /// How long its processes waited, if it had a control group with pressure stall information.
    pub waits: Option<StallTimes>,
}

/// What ran a command. It does not decide a result.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ExecutedBy {
    /// A program of its own.
    #[default]
    Process,
    /// A fork of the compile worker.
    ClangWorker,
    /// A fork of a compile that had paused at the end of its includes.
    Checkpoint,
}

/// A job that ended, as its runner saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which.
    pub job: JobId,
    /// How it ended.
    pub exit: Exit,
    /// Its standard output and standard error, in the order of writing: all of it, or both ends.
    pub output: Vec<u8>,
    /// How much of it `output` has.
    pub capture: Capture,
    /// What it used.
    pub usage: Usage,
    /// What ran it.
    pub executed_by: ExecutedBy,
    /// What watching its processes has brought, if there is anything to tell.
    pub report: Option<Box<MonitorReport>>,
}

/// How much of what a command printed is in `Completion::output`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Capture {
    /// All of it.
    Complete,
    /// Its beginning and its end. The rest is lost.
    Truncated,
    /// Its beginning and its end. All of it is in this file.
    Spilled(Spilled),
}

impl Completion {
    /// Returns all that the command printed or, where the middle is lost, both ends.
    pub fn full_output(&self) -> &[u8] {
        match &self.capture {
            Capture::Spilled(spilled) => spilled.bytes(),
            Capture::Complete | Capture::Truncated => &self.output,
        }
    }

    /// Adds a line of our own behind what the command printed.
    pub fn append_line(&mut self, text: &[u8]) {
        let line = if self.output.is_empty() { text.to_vec() } else { [b"\n", text].concat() };
        self.output.extend_from_slice(&line);
        if let Capture::Spilled(spilled) = &mut self.capture
            && spilled.append(&line).is_err()
        {
            self.capture = Capture::Truncated;
        }
    }
}

/// What one run of a job took of the machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    /// From its start to its end, in milliseconds.
    pub wall_ms: u32,
    /// Of processors, user and system, in milliseconds.
    pub cpu_ms: u32,
    /// The most that its processes held at once, in KiB; 0 if it was not measured.
    pub memory_kib: u32,
}

/// Who remembers: asked for the path of an output, says what the job that made it cost when it last ran.
pub type CostLookup<'p> = &'p dyn Fn(&[u8]) -> Option<Cost>;
