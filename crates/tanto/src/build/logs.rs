//! The two logs of a build directory: where they lie, loading them, opening them for a build. Does not know what is
//! in them.

use tanto_ninja::disk::{Disk, RealDisk};
use tanto_ninja::error::Error;
use tanto_ninja::graph::Graph;
use tanto_ninja::log::{BuildLog, DepsLog};

use super::{Session, Step};
use tanto_exec::event::{Event, Level, View};

/// What a build directory remembers.
pub struct Logs {
    /// `.ninja_log`
    pub build: BuildLog,
    /// `.ninja_deps`
    pub deps: DepsLog,
}

/// A file of the build directory.
pub fn path_in(builddir: &[u8], name: &str) -> Vec<u8> {
    match builddir {
        b"" => name.into(),
        dir => [dir, b"/", name.as_bytes()].concat(),
    }
}

impl Session<'_> {
    /// Reads both logs; writes nothing.
    pub(super) fn load_logs(&mut self, graph: &mut Graph<'_>, builddir: &[u8]) -> Step<Logs> {
        let path = path_in(builddir, ".ninja_log");
        let new_version = self.options.log_version;
        let loaded = self.stats.time(".ninja_log load", || BuildLog::load(&path, new_version));
        let build = self.loaded(loaded)?;
        let path = path_in(builddir, ".ninja_deps");
        let loaded = self.stats.time(".ninja_deps load", || DepsLog::load(&path, graph));
        let deps = self.loaded(loaded)?;
        Ok(Logs { build, deps })
    }

    fn loaded<T>(&mut self, loaded: Result<(T, Option<Vec<u8>>), Error>) -> Step<T> {
        match loaded {
            Ok((log, None)) => Ok(log),
            Ok((log, Some(text))) => {
                self.view.event(Event::Notice { level: Level::Warning, text: &text });
                Ok(log)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// From now on the logs are written; either is rewritten first if most of it is void.
    pub(super) fn open_logs(&mut self, logs: &mut Logs, graph: &mut Graph<'_>) -> Step<()> {
        let opened = logs.build.open(&mut |path| is_dead(graph, path));
        opened.map_err(|error| self.failed(&error))?;
        logs.deps.open(graph).map_err(|error| self.failed(&error))
    }
}

/// Nothing makes the file any more, and it is not there. (What is still there may serve a generator.)
pub fn is_dead(graph: &Graph<'_>, path: &[u8]) -> bool {
    let made = graph.lookup(path).is_some_and(|node| graph.node(node).in_edge.is_some());
    // What cannot be looked at is kept.
    !made && RealDisk.mtime(path).is_ok_and(|mtime| mtime == 0)
}
