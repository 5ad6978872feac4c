//! Loads and opens the logs of a build directory.

use tanto_ninja::builddir;
use tanto_ninja::disk::{Disk, RealDisk};
use tanto_ninja::error::Error;
use tanto_ninja::graph::Graph;
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::other_ninja;
use tanto_ninja::targets::{LookupOptions, collect_targets, needs_command};

use super::{BuildRun, RunResult};
use tanto_exec::event::Level;

pub struct Logs {
    /// `.ninja_log`
    pub build: BuildLog,
    /// `.ninja_deps`
    pub deps: DepsLog,
}

impl BuildRun<'_> {
    /// Loads the logs, or returns empty ones without files if the build cannot use them. Ninja always loads its logs;
    /// its only visible effect then is a warning about the version, which is checked here.
    pub(super) fn load_wanted_logs(&mut self, graph: &mut Graph<'_>, builddir: &[u8]) -> RunResult<Logs> {
        if self.wants_logs(graph, builddir) {
            return self.load_logs(graph, builddir);
        }
        Ok(Logs {
            build: BuildLog::in_memory(self.options.settings.log_version.value.unwrap_or(NEWEST)),
            deps: DepsLog::in_memory(),
        })
    }

    fn wants_logs(&self, graph: &Graph<'_>, builddir: &[u8]) -> bool {
        // `source^` may name a header that is only in the deps log.
        let asks_log = self.options.targets.iter().any(|target| target.ends_with(b"^"));
        if self.options.tool.is_some() || self.options.debug.explain || asks_log {
            return true;
        }
        let hints = LookupOptions { builddir, deps_log: None, names: self.target_names() };
        let Ok(mut nodes) = collect_targets(graph, hints, &self.options.targets) else { return true };
        nodes.extend(self.manifest_node(graph));
        needs_command(graph, &nodes) || !have_supported_headers(builddir)
    }

    /// Loads both logs without writing.
    pub(super) fn load_logs(&mut self, graph: &mut Graph<'_>, builddir: &[u8]) -> RunResult<Logs> {
        let path = builddir::join(builddir, ".ninja_log");
        let (new_version, threads) =
            (self.options.settings.log_version.value.unwrap_or(NEWEST), self.options.settings.threads.value);
        let resume = |graph: &mut Graph<'_>| BuildLog::resume(&path, graph.build_log_index()?, graph, threads);
        let loaded = self.stats.time(".ninja_log load", || match resume(graph) {
            Some(log) => Ok((log, None)),
            None => BuildLog::load(&path, new_version, graph, threads),
        });
        let build = self.loaded(loaded)?;
        let path = builddir::join(builddir, ".ninja_deps");
        let resume = |graph: &mut Graph<'_>| DepsLog::resume(&path, graph.deps_log_index()?, graph, threads);
        let loaded = self.stats.time(".ninja_deps load", || match resume(graph) {
            Some(resumed) => Ok(resumed),
            None => DepsLog::load(&path, graph, threads),
        });
        let deps = self.loaded(loaded)?;
        Ok(Logs { build, deps })
    }

    fn loaded<T>(&mut self, loaded: Result<(T, Option<Vec<u8>>), Error>) -> RunResult<T> {
        match loaded {
            Ok((log, None)) => Ok(log),
            Ok((log, Some(text))) => {
                self.say(Level::Warning, &text);
                Ok(log)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Warns once if an older ninja has appended to the log, which makes commands run again.
    pub(super) fn warn_of_older_ninja(&mut self, found: bool, builddir: &[u8]) {
        if found && !std::mem::replace(&mut self.reported_older_ninja, true) {
            let path = builddir::join(builddir, ".ninja_log");
            let why =
                b": a ninja older than 1.12 has appended to this log of version 7: its outputs are built again. To use \
                        both, remove the log and build with TANTO_LOG_VERSION=5";
            self.say(Level::Warning, &[&path[..], why].concat());
        }
    }

    /// Allows writing, and rewrites logs that are mostly superseded.
    pub(super) fn open_logs(&mut self, logs: &mut Logs, graph: &mut Graph<'_>) -> RunResult<()> {
        if !logs.build.was_found() && self.options.settings.log_version.value.is_none() {
            logs.build
                .set_new_version(other_ninja::log_version(self.options.cache.as_deref()).unwrap_or(NEWEST), graph);
        }
        let mut errors = Vec::new();
        let opened =
            logs.build.open(graph, &mut |output| builddir::is_obsolete(graph, &mut RealDisk, output, &mut errors));
        for error in &errors {
            self.say(Level::Error, &error.text());
        }
        opened.map_err(|error| self.failed(&error))?;
        let opened = logs.deps.open(graph, &mut |path| RealDisk.mtime(path).ok() != Some(0));
        opened.map_err(|error| self.failed(&error))
    }
}

/// The default version of a new log.
const NEWEST: u32 = 7;

/// Returns whether ninja would not warn about either log.
fn have_supported_headers(builddir: &[u8]) -> bool {
    BuildLog::has_supported_header(&builddir::join(builddir, ".ninja_log"))
        && DepsLog::has_supported_header(&builddir::join(builddir, ".ninja_deps"))
}
