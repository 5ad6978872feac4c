//! What one source (the command line, a variable, a file) says of each setting, and how sources lie on each other.

use std::num::NonZeroUsize;

use tanto_exec::monitor::watcher::Leftovers;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::threads::ThreadLimit;

use crate::flags::number;
use crate::flags::table::Id;

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The command line.
    Flag,
    /// An environment variable of this name.
    Variable(&'static str),
    /// A line, counted from 1, of a config file.
    File(ConfigFile, u32),
}

/// Which config file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigFile {
    /// `.tanto/config` of the build directory.
    Build,
    /// The user's.
    User,
}

/// A value, and who said it.
#[derive(Clone, PartialEq, Debug)]
pub struct Said<T> {
    /// What.
    pub value: T,
    /// Who.
    pub origin: Origin,
}

/// How many commands run at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jobs {
    /// So many; more than 0.
    AtMost(u32),
    /// As many as are ready.
    Unlimited,
    /// One for each processor.
    Processors,
    /// As ninja: two more than there are processors; with one or two processors, one more.
    ProcessorsAndMore,
}

impl Jobs {
    /// The number, 1 or more, on a machine with so many processors. They are counted only where they matter.
    pub fn limit(self, processors: impl FnOnce() -> usize) -> usize {
        match self {
            Jobs::AtMost(limit) => limit as usize,
            // ninja's infinity; it fits a `-j` that is handed on.
            Jobs::Unlimited => i32::MAX as usize,
            Jobs::Processors => processors().max(1),
            Jobs::ProcessorsAndMore => match processors() {
                0 | 1 => 2,
                2 => 3,
                many => many + 2,
            },
        }
    }
}

/// How commands share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Nobody counts it.
    Off,
    /// They share what is free.
    Free,
    /// They share so much, in KiB.
    AtMost(u64),
}

/// What stands before each command's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatusFormat {
    /// `NINJA_STATUS`: `%` placeholders.
    Percent(Vec<u8>),
    /// `--status`: `$` variables.
    Variables(Vec<u8>),
}

/// What a build shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// What suits the door.
    Auto,
    /// A live region, where there is a terminal.
    Live,
    /// ninja's lines.
    Plain,
    /// Events, as lines of JSON.
    Jsonl,
}

/// Whether the right to run commands is shared, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobserverMode {
    /// What suits the door and what `MAKEFLAGS` says.
    Auto,
    /// With what commands start, through a pipe that they inherit.
    On,
    /// With nobody.
    Off,
    /// With what commands start, through a named pipe.
    Fifo,
}

/// Whether compilers run in the compile worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClangWorker {
    /// Where there is one.
    Auto,
    /// Never.
    Off,
    /// Where there is none, the build fails.
    Require,
}

/// How many compiles are kept at the end of their includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// As many as seem right.
    Auto,
    /// So many at most.
    AtMost(u32),
}

/// What one source says; `None` where it says nothing.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Layer {
    /// `-j`
    pub jobs: Option<Said<Jobs>>,
    /// `-k`: failures until the build stops; 1 or more, `u32::MAX` for no limit.
    pub keep_going: Option<Said<u32>>,
    /// `-l`: not above 0 for no limit.
    pub max_load: Option<Said<f64>>,
    /// `-v`, `--quiet`
    pub verbosity: Option<Said<Verbosity>>,
    /// `--status`
    pub status: Option<Said<StatusFormat>>,
    /// `--log-version`
    pub log_version: Option<Said<u32>>,
    /// `--format`
    pub format: Option<Said<Shown>>,
    /// `--hang-timeout` in milliseconds; none for no limit.
    pub hang_timeout: Option<Said<Option<i64>>>,
    /// `--timeout` in milliseconds; none for no limit.
    pub timeout: Option<Said<Option<i64>>>,
    /// `--leftovers`
    pub leftovers: Option<Said<Leftovers>>,
    /// `--memory`
    pub memory: Option<Said<Memory>>,
    /// `--jobserver`
    pub jobserver: Option<Said<JobserverMode>>,
    /// `--clang-worker`
    pub clang_worker: Option<Said<ClangWorker>>,
    /// `--checkpoints`
    pub checkpoints: Option<Said<Kept>>,
    /// `--verify-checkpoints`
    pub verify_checkpoints: Option<Said<u32>>,
    /// `TANTO_THREADS`
    pub threads: Option<Said<ThreadLimit>>,
    /// `TANTO_SNAPSHOT`
    pub snapshots: Option<Said<SnapshotPolicy>>,
    /// `--record`
    pub record: Option<Said<bool>>,
}

impl Layer {
    /// Takes a setting's value as it is written. False if it is not one (or the flag is no setting).
    pub fn say(&mut self, id: Id, value: &[u8], origin: Origin) -> bool {
        match id {
            Id::Jobs => put(&mut self.jobs, jobs(value), origin),
            Id::KeepGoing => put(&mut self.keep_going, keep_going(value), origin),
            Id::MaxLoad => put(&mut self.max_load, number::real_prefix(value), origin),
            Id::Quiet => put(&mut self.verbosity, switch(value, Verbosity::Quiet), origin),
            Id::Verbose => put(&mut self.verbosity, switch(value, Verbosity::Verbose), origin),
            Id::Status => put(&mut self.status, Some(StatusFormat::Variables(value.to_vec())), origin),
            Id::LogVersion => put(&mut self.log_version, log_version(value), origin),
            Id::Format => put(&mut self.format, shown(value), origin),
            Id::HangTimeout => put(&mut self.hang_timeout, time(value), origin),
            Id::Timeout => put(&mut self.timeout, time(value), origin),
            Id::Leftovers => put(&mut self.leftovers, leftovers(value), origin),
            Id::Memory => put(&mut self.memory, memory(value), origin),
            Id::Record => put(&mut self.record, on_or_off(value), origin),
            Id::Jobserver => put(&mut self.jobserver, jobserver(value), origin),
            Id::ClangWorker => put(&mut self.clang_worker, clang_worker(value), origin),
            Id::Checkpoints => put(&mut self.checkpoints, checkpoints(value), origin),
            Id::VerifyCheckpoints => put(&mut self.verify_checkpoints, count(value), origin),
            _ => false,
        }
    }

    /// Takes the number of threads, which no flag sets. False if it is none.
    pub fn say_threads(&mut self, value: &[u8], origin: Origin) -> bool {
        put(&mut self.threads, threads(value), origin)
    }

    /// Takes the use of snapshots, which no flag sets. False if it is none.
    pub fn say_snapshots(&mut self, value: &[u8], origin: Origin) -> bool {
        put(&mut self.snapshots, snapshots(value), origin)
    }

    /// This source over another: what it does not say, the other does.
    pub fn over(self, below: Layer) -> Layer {
        Layer {
            jobs: self.jobs.or(below.jobs),
            keep_going: self.keep_going.or(below.keep_going),
            max_load: self.max_load.or(below.max_load),
            verbosity: self.verbosity.or(below.verbosity),
            status: self.status.or(below.status),
            log_version: self.log_version.or(below.log_version),
            format: self.format.or(below.format),
            hang_timeout: self.hang_timeout.or(below.hang_timeout),
            timeout: self.timeout.or(below.timeout),
            leftovers: self.leftovers.or(below.leftovers),
            memory: self.memory.or(below.memory),
            jobserver: self.jobserver.or(below.jobserver),
            clang_worker: self.clang_worker.or(below.clang_worker),
            checkpoints: self.checkpoints.or(below.checkpoints),
            verify_checkpoints: self.verify_checkpoints.or(below.verify_checkpoints),
            threads: self.threads.or(below.threads),
            snapshots: self.snapshots.or(below.snapshots),
            record: self.record.or(below.record),
        }
    }
}

fn put<T>(slot: &mut Option<Said<T>>, value: Option<T>, origin: Origin) -> bool {
    let known = value.is_some();
    *slot = value.map(|value| Said { value, origin });
    known
}

/// ninja's infinity is `INT_MAX`; so is anything above it.
fn below_infinity(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|&count| count > 0 && i64::from(count) < i64::from(i32::MAX))
}

fn jobs(value: &[u8]) -> Option<Jobs> {
    let count = number::integer(value).filter(|&count| count >= 0)?;
    Some(below_infinity(count).map_or(Jobs::Unlimited, Jobs::AtMost))
}

fn keep_going(value: &[u8]) -> Option<u32> {
    number::integer(value).map(|count| below_infinity(count).unwrap_or(u32::MAX))
}

fn switch(value: &[u8], on: Verbosity) -> Option<Verbosity> {
    match value {
        b"yes" => Some(on),
        b"no" => Some(Verbosity::Normal),
        _ => None,
    }
}

fn on_or_off(value: &[u8]) -> Option<bool> {
    match value {
        b"on" => Some(true),
        b"off" => Some(false),
        _ => None,
    }
}

fn log_version(value: &[u8]) -> Option<u32> {
    match value {
        b"5" => Some(5),
        b"6" => Some(6),
        b"7" => Some(7),
        _ => None,
    }
}

fn shown(value: &[u8]) -> Option<Shown> {
    match value {
        b"auto" => Some(Shown::Auto),
        b"live" => Some(Shown::Live),
        b"plain" => Some(Shown::Plain),
        b"jsonl" => Some(Shown::Jsonl),
        _ => None,
    }
}

/// No time at all is no limit.
pub fn time(value: &[u8]) -> Option<Option<i64>> {
    Some(Some(number::milliseconds(value)?).filter(|&ms| ms > 0))
}

pub fn leftovers(value: &[u8]) -> Option<Leftovers> {
    match value {
        b"ignore" => Some(Leftovers::Ignore),
        b"report" => Some(Leftovers::Report),
        b"kill" => Some(Leftovers::Kill),
        _ => None,
    }
}

/// The value of `--memory`.
pub fn memory(value: &[u8]) -> Option<Memory> {
    match value {
        b"auto" => Some(Memory::Free),
        b"off" => Some(Memory::Off),
        size => number::size_kib(size).filter(|&kib| kib > 0).map(Memory::AtMost),
    }
}

fn jobserver(value: &[u8]) -> Option<JobserverMode> {
    match value {
        b"auto" => Some(JobserverMode::Auto),
        b"on" => Some(JobserverMode::On),
        b"off" => Some(JobserverMode::Off),
        b"fifo" => Some(JobserverMode::Fifo),
        _ => None,
    }
}

/// The value of `--clang-worker`.
pub fn clang_worker(value: &[u8]) -> Option<ClangWorker> {
    match value {
        b"auto" => Some(ClangWorker::Auto),
        b"off" => Some(ClangWorker::Off),
        b"require" => Some(ClangWorker::Require),
        _ => None,
    }
}

/// More than these would be a mistake.
const MOST_CHECKPOINTS: u32 = 64;

fn checkpoints(value: &[u8]) -> Option<Kept> {
    match value {
        b"auto" => Some(Kept::Auto),
        b"off" => Some(Kept::AtMost(0)),
        number => count(number).filter(|&count| count <= MOST_CHECKPOINTS).map(Kept::AtMost),
    }
}

fn count(value: &[u8]) -> Option<u32> {
    number::integer(value).filter(|_| !value.is_empty()).and_then(|count| u32::try_from(count).ok())
}

fn snapshots(value: &[u8]) -> Option<SnapshotPolicy> {
    match value {
        b"auto" => Some(SnapshotPolicy::Auto),
        b"always" => Some(SnapshotPolicy::Always),
        b"off" => Some(SnapshotPolicy::Off),
        _ => None,
    }
}

fn threads(value: &[u8]) -> Option<ThreadLimit> {
    let count = usize::try_from(number::integer(value)?).ok()?;
    NonZeroUsize::new(count).map(ThreadLimit::AtMost)
}
