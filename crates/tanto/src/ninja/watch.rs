//! `--watch`: builds again whenever a file changes that the targets depend on.
//!
//! Each build is a complete run with its own dirty check, so a spurious event is harmless. Between two builds only the
//! inotify watches are kept: no lock, no open file of the tree, and no current directory in it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_exec::file_watcher::{Changed, FileWatcher, WaitResult, describe_changes};
use tanto_ninja::disk::RealDisk;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::ids::NodeId;
use tanto_ninja::targets::{LookupOptions, collect_targets};
use tanto_ninja::{builddir, load, sources};
use tanto_record::views::ninja::Verbosity;

use super::{BuildRun, ExitCode, RunResult};
use crate::settings::Options;

/// The exit code of an interrupted build.
const INTERRUPTED: i32 = 130;

/// Returns the exit code.
pub(super) fn run(options: &Options, first: BuildRun<'_>) -> i32 {
    match WatchLoop::begin(options, first) {
        Ok(watch_loop) => watch_loop.run(),
        Err(ExitCode(code)) => code,
    }
}

struct WatchLoop<'o> {
    options: &'o Options,
    next: BuildRun<'o>,
    watcher: FileWatcher,
    /// The files that the last build depended on.
    sources: Vec<Vec<u8>>,
    build_dir: PathBuf,
}

impl<'o> WatchLoop<'o> {
    fn begin(options: &'o Options, mut first: BuildRun<'o>) -> RunResult<WatchLoop<'o>> {
        let watcher = FileWatcher::new().map_err(|error| first.fatal(&error.message()))?;
        let build_dir = std::env::current_dir().map_err(|error| first.fatal(&tanto_sys::error::text(&error)))?;
        Ok(WatchLoop { options, next: first, watcher, sources: Vec::new(), build_dir })
    }

    fn run(mut self) -> i32 {
        loop {
            if let Err(ExitCode(code)) = self.run_once() {
                return code;
            }
        }
    }

    /// Runs one build and waits for changes.
    fn run_once(&mut self) -> RunResult<()> {
        let since = SystemTime::now();
        // It reports its own result.
        let _ = self.next.run_rounds();
        if self.next.was_interrupted {
            return Err(ExitCode(INTERRUPTED));
        }
        // A build that failed before it had a graph uses the files of the last one, or else the manifests.
        if self.next.sources.is_empty() && self.sources.is_empty() {
            self.next.note_manifests();
        }
        if !self.next.sources.is_empty() {
            self.sources = std::mem::take(&mut self.next.sources);
        }
        // Releases all resources of the build.
        self.next = BuildRun::new(self.options).map_err(ExitCode)?;
        let mut changed =
            self.watcher.watch(&self.sources, since).map_err(|error| self.next.fatal(&error.message()))?;
        let meanwhile = self.watcher.changed().map_err(|error| self.next.fatal(&tanto_sys::error::text(&error)))?;
        let is_changed = !changed.is_empty() || meanwhile.is_some();
        changed.extend(meanwhile.unwrap_or_default());
        let changed = self.wait(is_changed.then_some(changed))?;
        self.say(&describe_changes(&changed));
        Ok(())
    }

    /// Waits for changes, and for the end of a burst that has begun.
    fn wait(&mut self, begun: Option<Changed>) -> RunResult<Changed> {
        let is_idle = begun.is_none();
        if is_idle {
            self.say_watching();
            self.enter(Path::new("/"))?;
        }
        let result = self.watcher.wait(begun).map_err(|error| self.next.fatal(&tanto_sys::error::text(&error)))?;
        if is_idle {
            self.enter(&self.build_dir.clone())?;
        }
        match result {
            WaitResult::Changed(changed) => Ok(changed),
            WaitResult::Interrupted => Err(ExitCode(INTERRUPTED)),
        }
    }

    fn enter(&mut self, dir: &Path) -> RunResult<()> {
        std::env::set_current_dir(dir).map_err(|error| {
            let why = tanto_sys::error::text(&error);
            self.next.fatal(&[b"chdir to '", dir.as_os_str().as_bytes(), b"' - ", &why].concat())
        })
    }

    fn say_watching(&mut self) {
        let count = self.watcher.count();
        let directories = if count == 1 { "directory" } else { "directories" };
        self.say(format!("watching {count} {directories} for changes; Ctrl-C ends it").as_bytes());
    }

    fn say(&mut self, text: &[u8]) {
        if self.options.settings.verbosity.value != Verbosity::Quiet {
            self.next.info(text);
        }
    }
}

impl BuildRun<'_> {
    /// Stores the files that the build depends on.
    pub(super) fn note_sources(&mut self, frontend: &mut NinjaFrontend<'_, '_>) {
        if !self.options.watch {
            return;
        }
        let scan = &mut frontend.scan;
        let hints = LookupOptions {
            builddir: builddir::path(scan.graph),
            deps_log: Some(scan.deps_log),
            names: self.target_names(),
        };
        // The build reports invalid targets.
        let mut nodes: Vec<NodeId> = collect_targets(scan.graph, hints, &self.options.targets).unwrap_or_default();
        nodes.extend(self.manifest_node(scan.graph));
        let manifests: Vec<Vec<u8>> = scan.graph.manifests().map(<[u8]>::to_vec).collect();
        self.sources = sources::source_files(scan.graph, scan.deps_log, &RealDisk, nodes);
        self.sources.extend(manifests);
    }

    /// Stores only the manifests, since there is no graph.
    pub(super) fn note_manifests(&mut self) {
        if self.options.watch {
            self.sources = load::manifest_paths(&RealDisk, &self.options.manifest, self.load_options());
        }
    }
}
