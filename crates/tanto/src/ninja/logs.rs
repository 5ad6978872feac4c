//! Loads and opens the logs of a build directory.

use tanto_exec::event::Level;
use tanto_ninja::build_logs::{BuildLogs, LogOptions, have_supported_headers};
use tanto_ninja::builddir;
use tanto_ninja::graph::Graph;
use tanto_ninja::targets::{LookupOptions, collect_targets, needs_command};

use super::{BuildRun, RunResult};

impl BuildRun<'_> {
    /// Loads the logs, or returns empty ones without files if the build cannot use them. Ninja always loads its logs;
    /// its only visible effect then is a warning about the version, which is checked here.
    pub(super) fn load_wanted_logs(&mut self, graph: &mut Graph<'_>, builddir: &[u8]) -> RunResult<BuildLogs> {
        if self.wants_logs(graph, builddir) {
            return self.load_logs(graph, builddir);
        }
        Ok(BuildLogs::in_memory(self.options.settings.log_version.value))
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

    fn load_logs(&mut self, graph: &mut Graph<'_>, builddir: &[u8]) -> RunResult<BuildLogs> {
        let settings = &self.options.settings;
        let options = LogOptions { version: settings.log_version.value, threads: settings.threads.value };
        let mut warnings = Vec::new();
        let mut warn = |text: &[u8]| warnings.push(text.to_vec());
        let loaded = BuildLogs::load(builddir, options, graph, &mut self.stats, &mut warn);
        warnings.iter().for_each(|text| self.say(Level::Warning, text));
        loaded.map_err(|error| self.failed(&error))
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
    pub(super) fn open_logs(&mut self, logs: &mut BuildLogs, graph: &mut Graph<'_>) -> RunResult<()> {
        let (version, cache) = (self.options.settings.log_version.value, self.options.cache.as_deref());
        let opened = logs.open(graph, version, cache, &mut |error| self.say(Level::Error, &error.text()));
        opened.map_err(|error| self.failed(&error))
    }
}
