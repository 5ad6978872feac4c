//! Jobs: commands, their limits and their results.

pub mod report;

use std::path::PathBuf;

use tanto_sys::cgroup::StallTimes;

use self::report::MonitorReport;
use crate::input_recorder::input_list::InputList;
use crate::spilled::Spilled;

/// Dense number of a job within one build, in the order of `Schedule::add`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u32);

/// A command line and how to run it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Command {
    /// Argument of `/bin/sh -c`. Bytes, because paths need not be UTF-8.
    pub line: Vec<u8>,
    /// Runs on Tanto's own terminal, in its foreground process group (ninja's `console` pool).
    pub console: bool,
    /// Limits of this command; `None`: those of the runner.
    pub limits: Option<Box<JobLimits>>,
    /// Whether and how its inputs are recorded in `Completion::inputs`. Needs `RunnerOptions::record_inputs`.
    pub record_inputs: InputRecording,
    /// The files that it is declared to use; `None`: unknown.
    pub files: Option<Box<CommandFiles>>,
}

/// How the inputs of a command are recorded.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum InputRecording {
    #[default]
    Off,
    /// By a library in its programs.
    Library,
    /// By its system calls. Needs the declared outputs, and a program with the subcommand of the call tracer.
    SystemCalls,
}

/// Files that a command is declared to write and read, relative to the working directory.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CommandFiles {
    pub outputs: Vec<Vec<u8>>,
    /// Empty: none.
    pub depfile: Vec<u8>,
    /// Empty: none.
    pub rspfile: Vec<u8>,
    /// The depfile is read when the command has ended, and removed. A cache may put it into `Completion::depfile` instead.
    pub reads_depfile: bool,
    /// Its system calls may be traced to find its inputs.
    pub may_trace: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobLimits {
    pub resources: ResourceLimits,
    /// Directory whose size counts as disk usage of the command.
    pub scratch: Option<PathBuf>,
}

/// Default time between SIGTERM and SIGKILL, in milliseconds.
pub const GRACE_MS: i64 = 10_000;

/// Resource limits of a job, checked by the monitor. `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimits {
    /// Terminates the job after this time without a new process, CPU use or output.
    pub hang_ms: Option<i64>,
    /// Terminates the job after this time.
    pub total_ms: Option<i64>,
    /// CPU time of all processes together.
    pub cpu_ms: Option<i64>,
    /// Memory of all processes together.
    pub memory_kib: Option<u64>,
    /// Bytes on standard output and standard error.
    pub output_bytes: Option<u64>,
    /// Size of `JobLimits::scratch`.
    pub disk_kib: Option<u64>,
    /// Time after the exit of the first process until the job counts as ended, even if other processes hold its output
    /// open. `None`: waits until the output is closed.
    pub linger_ms: Option<i64>,
    /// Time between SIGTERM and SIGKILL, and between SIGKILL and giving up.
    pub grace_ms: i64,
    /// Samples the job even if no limit requires it.
    pub sample: bool,
}

impl ResourceLimits {
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

/// Description of a job for views.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct JobInfo {
    pub command: Vec<u8>,
    /// Short text for the progress line; may be empty.
    pub description: Vec<u8>,
    /// Output files, in the order of the declaration.
    pub outputs: Vec<Vec<u8>>,
    pub console: bool,
    /// Why the job runs, one sentence each (ninja's `-d explain`); empty unless requested.
    pub why: Vec<Vec<u8>>,
    /// Direct dependencies within this build, without duplicates, unordered; empty unless requested.
    pub after: Vec<JobId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Exit code, 0 to 255.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Killed by this signal, with a core file.
    Dumped(i32),
}

impl Exit {
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }

    /// Returns one number as ninja 1.13.2 reports it: the exit code; 130 for SIGINT, SIGTERM and SIGHUP; 128 + N for
    /// any other signal N, plus 128 with a core file. The program's own exit code is this number cut to eight bits.
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

    /// Returns whether the build has to stop as if the user had interrupted it. ninja treats exit code 130 like a
    /// signal.
    pub fn interrupted(self) -> bool {
        self.code() == Self::INTERRUPTED
    }

    const INTERRUPTED: i32 = 130;
}

/// Resources used by a job, as counted by `wait4` or its control group.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    /// Largest resident set of a single process, in KiB; of the whole control group, if the job had one.
    pub max_rss_kib: u64,
    /// Bytes read from disks, without page cache hits.
    pub read_bytes: u64,
    /// Bytes written to files, whether or not they reached a disk.
    pub written_bytes: u64,
    /// Stall times of the control group, if it has pressure stall information.
    pub waits: Option<StallTimes>,
}

/// What executed a command. It never affects the result.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ExecutedBy {
    /// A process of its own.
    #[default]
    Process,
    /// A fork of its compiler.
    Fork,
    /// A fork of a checkpoint.
    Checkpoint,
    /// Nothing: its result came from the action cache.
    Cache,
}

/// Use of the action cache for a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheUse {
    pub outcome: CacheOutcome,
    /// Why the command is not cached, or its result was not stored; empty otherwise.
    pub reason: String,
    /// Other checkouts cannot use its result, because it may depend on the path of this one.
    pub depends_on_root: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheOutcome {
    /// Its result was taken. The command has once cost this.
    Hit(Cost),
    /// The cache has no result of it.
    New,
    /// The cache has results of it, with other inputs.
    Changed,
    /// It cannot be cached.
    NotCacheable,
}

/// Result of a job, as its runner reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    pub job: JobId,
    pub exit: Exit,
    /// Standard output and standard error, interleaved as written; the middle may be missing, see `capture`.
    pub output: Vec<u8>,
    pub capture: Capture,
    pub usage: Usage,
    pub executed_by: ExecutedBy,
    pub report: Option<Box<MonitorReport>>,
    /// The observed inputs; only with `Command::record_inputs`.
    pub inputs: Option<Box<InputList>>,
    /// `None`: there is no cache.
    pub cache: Option<Box<CacheUse>>,
    /// For a result from the cache: the clock of file systems when its inputs were compared, in nanoseconds since 1970.
    pub inputs_seen_at: Option<i64>,
    /// The depfile of a result from the cache. There is none at its path.
    pub depfile: Option<Vec<u8>>,
}

/// Which part of the output is in `Completion::output`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Capture {
    Complete,
    /// The beginning and the end; the rest is lost.
    Truncated,
    /// The beginning and the end; the file has all of it.
    Spilled(Spilled),
}

impl Completion {
    /// Nothing is known but the exit and the output.
    pub fn new(job: JobId, exit: Exit, output: Vec<u8>) -> Completion {
        Completion {
            job,
            exit,
            output,
            capture: Capture::Complete,
            usage: Usage::default(),
            executed_by: ExecutedBy::Process,
            report: None,
            inputs: None,
            cache: None,
            inputs_seen_at: None,
            depfile: None,
        }
    }

    /// Returns the whole output or, if the middle is lost, both ends.
    pub fn full_output(&self) -> &[u8] {
        match &self.capture {
            Capture::Spilled(spilled) => spilled.bytes(),
            Capture::Complete | Capture::Truncated => &self.output,
        }
    }

    /// Appends a line to the output.
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

/// Cost of one run of a job.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    pub wall_ms: u32,
    /// User and system time.
    pub cpu_ms: u32,
    /// Peak memory of all processes together; 0 if not measured.
    pub memory_kib: u32,
}

/// Looks up the cost of the last run of the job that made an output, by the output's path.
pub type CostLookup<'p> = &'p dyn Fn(&[u8]) -> Option<Cost>;
