//! The options of a build, from all sources.

use std::path::PathBuf;

use tanto_exec::monitor::watcher::Leftovers;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::threads::ThreadLimit;

use super::Origin;
use super::declaration::Settings;
use super::modes::Debug;
use super::parser::{Followed, LowArgs, ToolCall};
use super::values::{ClangWorker, Jobs, JobserverMode, Kept, Memory, Shown, StatusFormat};
use crate::invocation::Invocation;

/// The options of a build, from all sources.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub invocation: Invocation,
    /// Change to this directory first.
    pub dir: Option<Vec<u8>>,
    pub manifest: Vec<u8>,
    pub jobs: Jobs,
    /// `-j` is on the command line: do not use the jobserver of a `make` that runs Tanto.
    pub typed_jobs: bool,
    /// The number of jobs is not the default.
    pub own_jobs: bool,
    pub jobserver: JobserverMode,
    /// Number of failures that stop the build, 1 or more; `u32::MAX` for no limit.
    pub keep_going: u32,
    /// No command starts above this load average (more than 0).
    pub max_load: Option<f64>,
    pub dry_run: bool,
    pub verbosity: Verbosity,
    pub status: StatusFormat,
    /// The status format is not the default.
    pub own_status: bool,
    pub format: Shown,
    pub debug: Debug,
    /// `-w phonycycle=err`
    pub phony_cycle_is_error: bool,
    /// The version of a new `.ninja_log`: 5, 6 or 7; `None` for that of the other ninja in `PATH`.
    pub log_version: Option<u32>,
    /// In milliseconds.
    pub hang_timeout: Option<i64>,
    /// In milliseconds.
    pub timeout: Option<i64>,
    pub leftovers: Leftovers,
    pub memory: Memory,
    pub clang_worker: ClangWorker,
    pub checkpoints: Kept,
    /// One in so many compiles from checkpoints is run twice; 0: none.
    pub verify_checkpoints: u32,
    pub threads: ThreadLimit,
    pub snapshots: SnapshotPolicy,
    pub record: bool,
    /// The user's cache directory; `None` without a home.
    pub cache: Option<PathBuf>,
    /// The tool to run instead of a build.
    pub tool: Option<ToolCall>,
    /// Build again whenever a source file changes.
    pub watch: bool,
    /// The command whose output is shown while it runs.
    pub follow: Option<Followed>,
    /// Empty for the default targets.
    pub targets: Vec<Vec<u8>>,
}

impl Options {
    pub(super) fn of(invocation: Invocation, low: LowArgs, settings: Settings, cache: Option<PathBuf>) -> Self {
        Options {
            invocation,
            dir: low.dir,
            manifest: low.manifest.unwrap_or_else(|| b"build.ninja".to_vec()),
            jobs: settings.jobs.value,
            typed_jobs: settings.jobs.origin == Origin::CommandLine,
            own_jobs: settings.jobs.origin != Origin::Default,
            jobserver: settings.jobserver.value,
            keep_going: settings.keep_going.value,
            // Infinity and NaN mean no limit.
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
            cache,
            tool: low.tool,
            watch: low.watch,
            follow: low.follow,
            targets: low.targets,
        }
    }
}

#[cfg(test)]
mod tests;
