//! Both logs of a build directory.

use std::path::Path;

use tanto_sys::threads::ThreadLimit;

use crate::builddir;
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::logs::{BuildLog, DepsLog};
use crate::other_ninja;
use crate::stats::Stats;

/// The default version of a new log.
const NEWEST: u32 = 7;

pub struct BuildLogs {
    /// `.ninja_log`
    pub build: BuildLog,
    /// `.ninja_deps`
    pub deps: DepsLog,
}

/// How logs are loaded.
#[derive(Clone, Copy)]
pub struct LogOptions {
    /// The version of a new log that the user wants.
    pub version: Option<u32>,
    pub threads: ThreadLimit,
}

impl BuildLogs {
    /// Empty logs without files.
    pub fn in_memory(version: Option<u32>) -> BuildLogs {
        BuildLogs { build: BuildLog::in_memory(version.unwrap_or(NEWEST)), deps: DepsLog::in_memory() }
    }

    /// Loads both logs without writing.
    pub fn load(
        builddir: &[u8],
        options: LogOptions,
        graph: &mut Graph<'_>,
        stats: &mut Stats,
        warn: &mut dyn FnMut(&[u8]),
    ) -> Result<BuildLogs> {
        let LogOptions { version, threads } = options;
        let path = builddir::join(builddir, ".ninja_log");
        let resume = |graph: &mut Graph<'_>| BuildLog::resume(&path, graph.build_log_index()?, graph, threads);
        let (build, warning) = stats.time(".ninja_log load", || match resume(graph) {
            Some(log) => Ok((log, None)),
            None => BuildLog::load(&path, version.unwrap_or(NEWEST), graph, threads),
        })?;
        warning.iter().for_each(|text| warn(text));
        let path = builddir::join(builddir, ".ninja_deps");
        let resume = |graph: &mut Graph<'_>| DepsLog::resume(&path, graph.deps_log_index()?, graph, threads);
        let (deps, warning) = stats.time(".ninja_deps load", || match resume(graph) {
            Some(resumed) => Ok(resumed),
            None => DepsLog::load(&path, graph, threads),
        })?;
        warning.iter().for_each(|text| warn(text));
        Ok(BuildLogs { build, deps })
    }

    /// Allows writing, and rewrites logs that are mostly superseded. `cache`: the user's cache directory. `report` gets
    /// errors that do not prevent it.
    pub fn open(
        &mut self,
        graph: &mut Graph<'_>,
        version: Option<u32>,
        cache: Option<&Path>,
        report: &mut dyn FnMut(&Error),
    ) -> Result<()> {
        if !self.build.was_found() && version.is_none() {
            self.build.set_new_version(other_ninja::log_version(cache).unwrap_or(NEWEST), graph);
        }
        let mut errors = Vec::new();
        let mut is_obsolete = |output: &[u8]| builddir::is_obsolete(graph, &mut RealDisk, output, &mut errors);
        let opened = self.build.open(graph, &mut is_obsolete);
        errors.iter().for_each(report);
        opened?;
        self.deps.open(graph, &mut |path| RealDisk.mtime(path).ok() != Some(0))
    }

    /// Creates new logs, at least with a header.
    pub fn close(&mut self, graph: &mut Graph<'_>) -> Result<()> {
        self.build.close(graph).and_then(|()| self.deps.close(graph))
    }

    /// The bytes that the snapshot does not cover.
    pub fn unsaved_bytes(&self) -> usize {
        self.build.unsaved_bytes() + self.deps.unsaved_bytes()
    }
}

/// Returns whether ninja would not warn about either log.
pub fn have_supported_headers(builddir: &[u8]) -> bool {
    BuildLog::has_supported_header(&builddir::join(builddir, ".ninja_log"))
        && DepsLog::has_supported_header(&builddir::join(builddir, ".ninja_deps"))
}
