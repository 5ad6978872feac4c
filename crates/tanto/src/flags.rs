//! The command line of both doors: from words to flags as typed (`low`), and on to what is meant (`Options`). Does
//! not know how anything is built.

pub mod door;
pub mod low;
pub mod modes;
pub mod number;
pub mod stop;
pub mod table;

use std::path::PathBuf;

use tanto_exec::monitor::watcher::Leftovers;
use tanto_ninja::getopt;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::threads::ThreadLimit;

use crate::flags::door::Door;
use crate::flags::low::{Followed, LowArgs, Reader, ToolCall};
use crate::flags::modes::Debug;
use crate::flags::stop::{Halt, Stop};
use crate::settings::layer::{ClangWorker, Jobs, JobserverMode, Kept, Memory, Origin, Shown, StatusFormat};
use crate::settings::{self, Settings, Surroundings};

/// What the user means, all sources considered.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// By which door they came.
    pub door: Door,
    /// Change to this directory first.
    pub dir: Option<Vec<u8>>,
    /// The build file.
    pub manifest: Vec<u8>,
    /// How many commands run at a time.
    pub jobs: Jobs,
    /// `-j` was typed, which makes us independent of a `make` that runs us.
    pub typed_jobs: bool,
    /// The user has set the number of commands, wherever.
    pub own_jobs: bool,
    /// Whether the right to run commands is shared.
    pub jobserver: JobserverMode,
    /// Failures until the build stops, 1 or more; `u32::MAX` for no limit.
    pub keep_going: u32,
    /// Above this load average (more than 0) no command is started.
    pub max_load: Option<f64>,
    /// Run nothing, write nothing.
    pub dry_run: bool,
    /// How much to tell.
    pub verbosity: Verbosity,
    /// What stands before each description.
    pub status: StatusFormat,
    /// It is the user's own.
    pub own_status: bool,
    /// What the build shows.
    pub format: Shown,
    /// What `-d` switched on.
    pub debug: Debug,
    /// `-w phonycycle=err`
    pub phony_cycle_is_error: bool,
    /// The version of a new `.ninja_log`: 5, 6 or 7; `None` for that of the other ninja in `PATH`.
    pub log_version: Option<u32>,
    /// After how many milliseconds without a sign of life a command is ended.
    pub hang_timeout: Option<i64>,
    /// After how many milliseconds a command is ended.
    pub timeout: Option<i64>,
    /// What becomes of processes that outlive their command.
    pub leftovers: Leftovers,
    /// How commands share memory.
    pub memory: Memory,
    /// Whether compilers run in the compile worker.
    pub clang_worker: ClangWorker,
    /// How many compiles are kept for the next build.
    pub checkpoints: Kept,
    /// Of so many that go on from there one is run twice; 0: none.
    pub verify_checkpoints: u32,
    /// How many threads of our own there may be.
    pub threads: ThreadLimit,
    /// When snapshots are used.
    pub snapshots: SnapshotPolicy,
    /// A record of the build is kept.
    pub record: bool,
    /// The user's cache directory, if there is a home.
    pub cache: Option<PathBuf>,
    /// The tool to run instead of a build.
    pub tool: Option<ToolCall>,
    /// Build again whenever a source file changes.
    pub watch: bool,
    /// Whose output is shown while it runs, if any.
    pub follow: Option<Followed>,
    /// What to build; empty for the default.
    pub targets: Vec<Vec<u8>>,
}

/// Reads a command line and all other sources. `program` is `argv[0]`, `args` is what follows it. `warn` takes
/// warnings that come before everything else.
pub fn options(
    door: Door,
    program: &[u8],
    args: &[Vec<u8>],
    around: &Surroundings,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Options, Stop> {
    let low = all(door, args, around, warn).map_err(|halt| Stop::of(halt, door, program))?;
    let settings = Settings::of(low.layer.clone(), door);
    Ok(Options { cache: around.cache(), ..Options::of(door, low, settings) })
}

/// What was typed, with what the other sources say under it.
pub fn all(door: Door, args: &[Vec<u8>], around: &Surroundings, warn: &mut dyn FnMut(&[u8])) -> Result<LowArgs, Halt> {
    let posix = !args.is_empty() && getopt::is_posix();
    let typed = Reader { door, origin: Origin::Flag, posix, warn }.read(args)?;
    settings::under(typed, around, warn)
}

impl Options {
    fn of(door: Door, low: LowArgs, settings: Settings) -> Self {
        Options {
            door,
            dir: low.dir,
            manifest: low.manifest.unwrap_or_else(|| b"build.ninja".to_vec()),
            jobs: settings.jobs.value,
            typed_jobs: settings.jobs.origin == Origin::Flag,
            own_jobs: settings.jobs.origin != Origin::Default,
            jobserver: settings.jobserver.value,
            keep_going: settings.keep_going.value,
            // Infinity and what is no number limit nothing.
            max_load: Some(settings.max_load.value).filter(|load| *load > 0.0 && load.is_finite()),
            dry_run: low.dry_run,
            verbosity: settings.verbosity.value,
            own_status: settings.status.origin != Origin::Default,
            status: settings.status.value,
            format: settings.format.value,
            debug: low.debug,
            phony_cycle_is_error: low.phony_cycle_is_error.unwrap_or(false),
            log_version: settings.log_version.value,
            hang_timeout: settings.hang_timeout.value,
            timeout: settings.timeout.value,
            leftovers: settings.leftovers.value,
            memory: settings.memory.value,
            clang_worker: settings.clang_worker.value,
            checkpoints: settings.checkpoints.value,
            verify_checkpoints: settings.verify_checkpoints.value,
            threads: settings.threads.value,
            snapshots: settings.snapshots.value,
            record: settings.record.value,
            cache: None,
            tool: low.tool,
            watch: low.watch,
            follow: low.follow,
            targets: low.targets,
        }
    }
}

#[cfg(test)]
mod tests;
