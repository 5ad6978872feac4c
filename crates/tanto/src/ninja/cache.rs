//! The action cache of a build.

use std::ffi::OsString;

use tanto_cache::{CacheAccess, CacheOptions, CacheRunner};
use tanto_exec::event::Level;
use tanto_exec::runner::Runner;
use tanto_exec::runner::dry::DryRunner;
use tanto_exec::runner::process::ProcessRunner;
use tanto_exec::text::units::grouped;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::ipc::event_fd::EventFd;

use super::BuildRun;
use crate::settings::values::CacheMode;

/// The directory in the user's cache directory.
pub const CACHE_DIR: &str = "tanto/cache";

/// The runner of a build.
pub(super) enum BuildRunner {
    Dry(DryRunner),
    Processes(Box<ProcessRunner>),
    Cached(Box<CacheRunner<ProcessRunner>>),
}

impl BuildRunner {
    pub(super) fn runner(&mut self) -> &mut dyn Runner {
        match self {
            BuildRunner::Dry(runner) => runner,
            BuildRunner::Processes(runner) => &mut **runner,
            BuildRunner::Cached(runner) => &mut **runner,
        }
    }
}

impl BuildRun<'_> {
    /// Returns the options of the cache; `None` if there is none. `environment`: variables that commands get.
    pub(super) fn cache_options(&mut self, environment: &[(OsString, OsString)]) -> Option<CacheOptions> {
        // A restored result has no inputs to trace.
        if self.options.trace.is_some() {
            return None;
        }
        let access = match self.options.settings.cache.value {
            CacheMode::Off => return None,
            CacheMode::On => CacheAccess::ReadWrite,
            CacheMode::Read => CacheAccess::ReadOnly,
        };
        let Some(dir) = &self.options.cache else {
            self.say(Level::Warning, b"no action cache: HOME is not set");
            return None;
        };
        let max_bytes = self.options.settings.cache_size.value.saturating_mul(1024);
        Some(CacheOptions {
            dir: dir.join(CACHE_DIR),
            access,
            max_bytes,
            environment: environment.to_vec(),
            recent_digests: self.recent_digests.clone(),
        })
    }

    /// Adds the cache to a runner. Without one, commands run as usual.
    pub(super) fn with_cache(
        &mut self,
        runner: ProcessRunner,
        options: Option<CacheOptions>,
        wake: Option<EventFd>,
    ) -> BuildRunner {
        let (Some(options), Some(wake)) = (options, wake) else { return BuildRunner::Processes(Box::new(runner)) };
        match CacheRunner::new(runner, options, wake) {
            Ok(runner) => BuildRunner::Cached(Box::new(runner)),
            Err((runner, error)) => {
                self.say(Level::Warning, format!("no action cache: {error}").as_bytes());
                BuildRunner::Processes(Box::new(runner))
            }
        }
    }

    /// Ends the runner, and with it all that still runs.
    pub(super) fn finish_runner(&mut self, runner: BuildRunner) {
        let BuildRunner::Cached(runner) = runner else { return };
        let summary = runner.finish();
        if summary.hits > 0 && self.options.settings.verbosity.value != Verbosity::Quiet {
            let (hits, built) = (grouped(summary.hits), grouped(summary.built));
            self.say(Level::Info, format!("{hits} from cache, {built} built").as_bytes());
        }
        if summary.damaged > 0 {
            let text = format!("{} damaged files were removed from the cache", summary.damaged);
            self.say(Level::Warning, text.as_bytes());
        }
        if let Some(error) = summary.write_error {
            self.say(Level::Warning, format!("not all results were stored: {error}").as_bytes());
        }
    }
}
