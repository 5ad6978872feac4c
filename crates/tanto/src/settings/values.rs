//! The values of settings: their types, how they are written, and how `tanto doctor` shows them.

use std::num::NonZeroUsize;

use tanto_exec::jobserver::role::JobserverMode;
use tanto_exec::monitor::watcher::Leftovers;
use tanto_exec::runner::clang::installation::ClangWorker;
use tanto_exec::text::number;
use tanto_exec::text::units::ExactDuration;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::machine::cpu;
use tanto_sys::threads::ThreadLimit;

/// The maximum number of commands at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jobs {
    /// 1 or more.
    AtMost(u32),
    Unlimited,
    /// The number of processors.
    Processors,
    /// ninja's default: the number of processors and two more; one more if there are one or two.
    ProcessorsAndMore,
}

impl Jobs {
    /// Returns the number, 1 or more. Counts the processors only if it depends on them.
    pub fn limit(self, processors: impl FnOnce() -> usize) -> usize {
        match self {
            Jobs::AtMost(limit) => limit as usize,
            // ninja's infinity; it fits a `-j` that is passed on.
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

/// The memory that commands share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// No limit.
    Off,
    /// The free memory.
    Free,
    /// In KiB.
    AtMost(u64),
}

/// Use of the action cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    Off,
    /// Results are used and stored.
    On,
    /// Results are used, but not stored.
    Read,
}

impl CacheMode {
    /// The words for it, in the order of the help.
    pub const WORDS: &[&str] = &["off", "on", "read"];
}

/// The text before each command's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatusFormat {
    /// `NINJA_STATUS`, with `%` placeholders.
    Percent(Vec<u8>),
    /// `--status`, with `$` variables.
    Variables(Vec<u8>),
}

/// The output of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// `Live` as tanto, `Plain` as ninja.
    Auto,
    /// A live region, if the output is a terminal.
    Live,
    /// ninja's lines.
    Plain,
    /// Events as lines of JSON.
    Jsonl,
}

/// The number of checkpoints that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckpointLimit {
    Auto,
    AtMost(u32),
}

impl CheckpointLimit {
    pub fn limit(self) -> u32 {
        match self {
            // A checkpoint takes 10 to 100 MiB; people alternate between a handful of files.
            CheckpointLimit::Auto => 8,
            CheckpointLimit::AtMost(limit) => limit,
        }
    }
}

/// Larger numbers of checkpoints are refused.
const MAX_CHECKPOINTS: u32 = 64;

/// Values at or above ninja's infinity, `INT_MAX`, and those that are not positive mean no limit: `None`.
fn below_infinity(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|&count| count > 0 && i64::from(count) < i64::from(i32::MAX))
}

pub fn jobs(value: &[u8]) -> Option<Jobs> {
    let count = number::integer(value).filter(|&count| count >= 0)?;
    Some(below_infinity(count).map_or(Jobs::Unlimited, Jobs::AtMost))
}

pub fn keep_going(value: &[u8]) -> Option<u32> {
    number::integer(value).map(|count| below_infinity(count).unwrap_or(u32::MAX))
}

/// Parses a load average; infinity, NaN and numbers up to 0 mean no limit.
pub fn max_load(value: &[u8]) -> Option<Option<f64>> {
    Some(Some(number::real_prefix(value)?).filter(|load| *load > 0.0 && load.is_finite()))
}

/// Parses `yes` or `no`.
pub fn switch(value: &[u8], on: Verbosity) -> Option<Verbosity> {
    match value {
        b"yes" => Some(on),
        b"no" => Some(Verbosity::Normal),
        _ => None,
    }
}

pub fn on_or_off(value: &[u8]) -> Option<bool> {
    match value {
        b"on" => Some(true),
        b"off" => Some(false),
        _ => None,
    }
}

pub fn log_version(value: &[u8]) -> Option<Option<u32>> {
    match value {
        [digit @ b'5'..=b'7'] => Some(Some(u32::from(digit - b'0'))),
        _ => None,
    }
}

/// Parses a limit in milliseconds; 0 means no limit.
pub fn time(value: &[u8]) -> Option<Option<i64>> {
    Some(Some(number::milliseconds(value)?).filter(|&ms| ms > 0))
}

pub fn memory(value: &[u8]) -> Option<Memory> {
    match value {
        b"auto" => Some(Memory::Free),
        b"off" => Some(Memory::Off),
        size => number::size_kib(size).filter(|&kib| kib > 0).map(Memory::AtMost),
    }
}

pub fn cache(value: &[u8]) -> Option<CacheMode> {
    match value {
        b"off" => Some(CacheMode::Off),
        b"on" => Some(CacheMode::On),
        b"read" => Some(CacheMode::Read),
        _ => None,
    }
}

/// Parses the size of the cache, in KiB.
pub fn cache_size(value: &[u8]) -> Option<u64> {
    number::size_kib(value).filter(|&kib| kib > 0)
}

/// Parses names of rules, separated by commas. A `*` at the end of a name stands for any characters.
pub fn rules(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_name =
        |name: &[u8]| !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte));
    let names: Vec<&[u8]> = value.split(|&byte| byte == b',').filter(|name| !name.is_empty()).collect();
    let is_valid =
        |name: &&[u8]| name.strip_suffix(b"*").map_or(is_name(name), |start| start.is_empty() || is_name(start));
    names.iter().all(is_valid).then(|| names.iter().map(|name| name.to_vec()).collect())
}

pub fn checkpoints(value: &[u8]) -> Option<CheckpointLimit> {
    match value {
        b"auto" => Some(CheckpointLimit::Auto),
        b"off" => Some(CheckpointLimit::AtMost(0)),
        number => count(number).filter(|&count| count <= MAX_CHECKPOINTS).map(CheckpointLimit::AtMost),
    }
}

pub fn count(value: &[u8]) -> Option<u32> {
    number::integer(value).filter(|_| !value.is_empty()).and_then(|count| u32::try_from(count).ok())
}

pub fn threads(value: &[u8]) -> Option<ThreadLimit> {
    let count = usize::try_from(number::integer(value)?).ok()?;
    NonZeroUsize::new(count).map(ThreadLimit::AtMost)
}

/// Declares settings whose values are words: the words, their parser, and their text for `tanto doctor`.
macro_rules! words {
    ($($name:ident: $type:ty { $($word:literal => $value:path, $text:literal;)* })*) => {$(
        pub mod $name {
            use super::*;

            pub const WORDS: &[&str] = &[$($word),*];

            pub fn parse(value: &[u8]) -> Option<$type> {
                let at = WORDS.iter().position(|word| word.as_bytes() == value)?;
                Some([$($value),*][at])
            }

            pub fn text(value: &$type) -> String {
                match value { $($value => $text,)* }.into()
            }
        }
    )*};
}

words! {
    output_format: OutputFormat {
        "auto" => OutputFormat::Auto, "live on a terminal (under the name ninja: plain)";
        "live" => OutputFormat::Live, "live";
        "plain" => OutputFormat::Plain, "plain";
        "jsonl" => OutputFormat::Jsonl, "jsonl";
    }
    leftovers: Leftovers {
        "ignore" => Leftovers::Ignore, "ignore";
        "report" => Leftovers::Report, "report";
        "kill" => Leftovers::Kill, "kill";
    }
    jobserver: JobserverMode {
        "auto" => JobserverMode::Auto, "a pipe, unless there is a jobserver (under the name ninja: off)";
        "on" => JobserverMode::On, "a pipe";
        "off" => JobserverMode::Off, "off";
        "fifo" => JobserverMode::Fifo, "a named pipe";
    }
    clang_worker: ClangWorker {
        "auto" => ClangWorker::Auto, "where it is cheaper";
        "off" => ClangWorker::Off, "off";
        "require" => ClangWorker::Require, "required";
    }
    snapshots: SnapshotPolicy {
        "auto" => SnapshotPolicy::Auto, "where they save time";
        "always" => SnapshotPolicy::Always, "always";
        "off" => SnapshotPolicy::Off, "off";
    }
}

/// The other values as `tanto doctor` shows them.
pub mod text {
    use super::*;

    pub fn jobs(jobs: &Jobs) -> String {
        let ninja = Jobs::ProcessorsAndMore.limit(cpu::count);
        match jobs {
            Jobs::Unlimited => "no limit".into(),
            Jobs::Processors => format!("{} (under the name ninja: {ninja})", jobs.limit(cpu::count)),
            jobs => jobs.limit(cpu::count).to_string(),
        }
    }

    pub fn memory(memory: &Memory) -> String {
        match memory {
            Memory::Off => "no limit".into(),
            Memory::Free => "free memory".into(),
            Memory::AtMost(kib) if kib.is_multiple_of(1 << 10) => format!("{} MiB", kib >> 10),
            Memory::AtMost(kib) => format!("{kib} KiB"),
        }
    }

    pub fn checkpoints(kept: &CheckpointLimit) -> String {
        match kept {
            CheckpointLimit::AtMost(0) => "none".into(),
            CheckpointLimit::Auto => format!("of {} files (under the name ninja: none)", kept.limit()),
            CheckpointLimit::AtMost(count) => format!("of {count} files"),
        }
    }

    pub fn one_in(count: &u32) -> String {
        if *count == 0 { "none".into() } else { format!("one in {count}") }
    }

    pub fn threads(threads: &ThreadLimit) -> String {
        match threads {
            ThreadLimit::Auto => "auto".into(),
            ThreadLimit::AtMost(most) => most.to_string(),
        }
    }

    pub fn time(limit_ms: &Option<i64>) -> String {
        limit_ms.map_or("no limit".into(), |ms| ExactDuration(ms).to_string())
    }

    pub fn keep_going(count: &u32) -> String {
        if *count == u32::MAX { "no limit".into() } else { count.to_string() }
    }

    pub fn max_load(load: &Option<f64>) -> String {
        load.map_or("no limit".into(), |load| load.to_string())
    }

    pub fn verbosity(verbosity: &Verbosity) -> String {
        match verbosity {
            Verbosity::Quiet => "quiet",
            Verbosity::Normal => "normal",
            Verbosity::Verbose => "verbose",
        }
        .into()
    }

    pub fn status(status: &StatusFormat) -> String {
        let (StatusFormat::Percent(format) | StatusFormat::Variables(format)) = status;
        format!("\"{}\"", String::from_utf8_lossy(format))
    }

    pub fn log_version(version: &Option<u32>) -> String {
        version.map_or_else(|| "as the other ninja in PATH, else 7".into(), |version| version.to_string())
    }

    pub fn cache(mode: &CacheMode) -> String {
        match mode {
            CacheMode::Off => "off",
            CacheMode::On => "on",
            CacheMode::Read => "results are used, but not stored",
        }
        .into()
    }

    pub fn size(kib: &u64) -> String {
        tanto_exec::text::units::ByteSize(kib.saturating_mul(1024)).to_string()
    }

    pub fn rules(names: &[Vec<u8>]) -> String {
        if names.is_empty() { "none".into() } else { String::from_utf8_lossy(&names.join(&b", "[..])).into_owned() }
    }

    pub fn content(is_on: &bool) -> String {
        if *is_on { "content decides (under the name ninja: timestamps)" } else { "timestamps decide" }.into()
    }

    pub fn on_or_off(is_on: &bool) -> String {
        if *is_on { "on" } else { "off" }.into()
    }
}
