//! Loads manifests into a graph, in four passes:
//!
//! 1. `loader` and `chunk` parse the text of all files in parallel, in chunks. Paths become nodes; other statements
//!    are recorded.
//! 2. `evaluate` processes all statements except `build` in manifest order: variables get values, edges get ids.
//! 3. `lazy_paths` evaluates the paths that need those values.
//! 4. `link` sets rules and pools of edges, and the edges that build nodes.
//!
//! The passes only record the place of the first error; `diagnostics` words it.

mod chunk;
mod diagnostics;
mod evaluate;
mod lazy_paths;
mod link;
mod loader;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod version;

use std::sync::Arc;

use tanto_sys::threads::ThreadLimit;

use self::diagnostics::Diagnostics;
use self::evaluate::Evaluated;
use self::link::{LinkedEdges, Linker};
use self::loader::{File, Loader};
use crate::disk::{Disk, Source};
use crate::error::{Error, Result};
use crate::graph::bindings::RuleBlockCache;
use crate::graph::command_hashes::CommandHashes;
use crate::graph::env::Env;
use crate::graph::lazy_text::{Manifest, ManifestText, Manifests};
use crate::graph::manifest_data::{LogSections, ManifestData, Notice};
use crate::graph::{Arena, Graph};
use crate::hash::Set;
use crate::ids::NodeId;
use crate::paths::{Interner, PathTable};

pub use self::version::NINJA_VERSION;

/// Maximum depth of includes; a manifest that includes itself reaches it.
const MAX_INCLUDE_DEPTH: usize = 1000;

/// Maximum number of includes. Files that include each other twice, and so on, double with each level.
const MAX_INCLUDES: u32 = 1 << 20;

const MAX_MANIFEST_BYTES: u64 = u32::MAX as u64;

/// The text of manifests that were read, not mapped, is kept if it is no longer than this in total. Smaller: builds
/// with thousands of manifests open them again for commands. Larger: memory is used for text that is hardly needed.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Attempts to load manifests that change while they are read.
const MAX_ATTEMPTS: usize = 8;

#[derive(Clone, Copy, Default, Debug)]
pub struct LoadOptions {
    /// `-w phonycycle=err`: a phony edge that names itself is an error instead of a warning.
    pub phony_cycle_is_error: bool,
    pub threads: ThreadLimit,
    /// Only tests change it.
    pub parallel: ParallelOptions,
}

/// Parameters of parallel loading. Tests use small values, so that short texts take all paths through the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParallelOptions {
    /// Approximate size of a chunk in bytes. Smaller: merging costs more. Larger: threads wait for the last chunk.
    pub chunk_size: usize,
    /// Bytes of text per thread. Reading them takes about three times as long as starting a thread. Smaller: small
    /// builds start threads in vain. Larger: medium builds use one thread.
    pub bytes_per_thread: usize,
    /// `None` for the number of CPUs.
    pub max_threads: Option<usize>,
    /// Parse text early that may turn out not to belong to the manifests.
    pub speculative: bool,
}

impl Default for ParallelOptions {
    fn default() -> Self {
        ParallelOptions { chunk_size: 1 << 20, bytes_per_thread: 256 << 10, max_threads: None, speculative: true }
    }
}

impl LoadOptions {
    /// Maximum number of threads, including the caller's.
    fn max_threads(&self) -> usize {
        let fitting = || self.parallel.max_threads.unwrap_or_else(tanto_sys::machine::cpu::count);
        if self.threads == ThreadLimit::ONE { 1 } else { self.threads.limit(fitting()).max(1) }
    }
}

/// Loads `manifest` and everything it includes. Errors have ninja's texts (`build.ninja:3: expected '='...`).
/// Warnings (phony cycles, a newer `ninja_required_version`) go to `warn`.
pub fn load<'t>(
    arena: &'t Arena,
    disk: &dyn Disk,
    manifest: &[u8],
    options: LoadOptions,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Graph<'t>> {
    for _ in 0..MAX_ATTEMPTS {
        let loaded = Loaded::of(disk, manifest, options, options.parallel.speculative);
        let Some((data, notices)) = loaded.finish(options) else { continue };
        for notice in &notices {
            notice.report(warn)?;
        }
        return Ok(arena.hold(ManifestData { notices, ..data? }));
    }
    Err(Error::new(&[b"loading '", manifest, b"': it changed while it was being read"]))
}

/// Returns the paths of the manifest and of all files it includes up to the first error.
pub fn manifest_paths(disk: &dyn Disk, manifest: &[u8], options: LoadOptions) -> Vec<Vec<u8>> {
    Loaded::of(disk, manifest, options, false).files.into_iter().map(|file| file.path).collect()
}

/// Reads a file that is not a manifest.
pub(crate) fn read(disk: &dyn Disk, path: &[u8]) -> Result<Vec<u8>> {
    let source = disk.open(path, MAX_MANIFEST_BYTES).map_err(|error| evaluate::unreadable(path, &error))?;
    Ok(source.into_text())
}

/// Manifests after the first two passes.
struct Loaded {
    files: Vec<File>,
    evaluated: Evaluated,
    interner: Interner,
    /// Number of threads that were worth their cost.
    threads: usize,
}

impl Loaded {
    fn of(disk: &dyn Disk, manifest: &[u8], options: LoadOptions, speculative: bool) -> Self {
        let interner = Interner::new(0);
        let mut loader = Loader::new(disk, &interner, options, speculative);
        let top = loader.read(&[manifest.into()]);
        let evaluated = match &loader.file(top).source {
            Ok(_) => evaluate::evaluate(&mut loader, top),
            Err(error) => Evaluated { error: Some(evaluate::unreadable(manifest, error)), ..Evaluated::default() },
        };
        let has_unused = speculative && evaluated.error.is_none() && loader.has_unused();
        let threads = loader.threads();
        let files = loader.into_files();
        if has_unused {
            return Loaded::of(disk, manifest, options, false);
        }
        Loaded { files, evaluated, interner, threads }
    }

    /// Returns the graph or the first error, and the notices before it; `None` if a file has changed meanwhile.
    fn finish(self, options: LoadOptions) -> Option<(Result<ManifestData>, Vec<Notice>)> {
        let Loaded { files, evaluated, interner, threads } = self;
        let Evaluated { env, segments, targets, notices, error, .. } = evaluated;
        let env = env.finish();
        let lazy_nodes = lazy_paths::nodes(&segments, &files, &env, &interner, threads);
        let paths = interner.freeze();
        let linker = Linker {
            files: &files,
            env: &env,
            paths: &paths,
            phony_cycle_is_error: options.phony_cycle_is_error,
            no_scopes: Set::default(),
        };
        let linked = linker.link(&segments, lazy_nodes, threads);
        let diagnostics = Diagnostics { linker: &linker, linked: &linked, segments: &segments, notices: &notices };
        let found = diagnostics.check(&targets, error);
        let notices = diagnostics.notices(found.as_ref().err());
        // Checked after the last access to any text.
        if files.iter().any(|file| file.source.as_ref().is_ok_and(|source| !source.is_unchanged())) {
            return None;
        }
        Some(match found {
            Ok(defaults) => (Ok(build_data(files, paths, env, linked, defaults)), notices),
            Err(error) => (Err(error.error), notices),
        })
    }
}

fn build_data(
    files: Vec<File>,
    paths: PathTable,
    env: Env,
    linked: LinkedEdges,
    defaults: Vec<NodeId>,
) -> ManifestData {
    let (dyndep_edges, dyndep_files): (Vec<_>, Vec<_>) = linked.dyndeps.into_iter().unzip();
    ManifestData {
        paths,
        in_edges: linked.in_edges.into(),
        edges: linked.edges.into(),
        edge_bindings: linked.edge_bindings.into(),
        ids: linked.ids.into(),
        dyndep_edges: dyndep_edges.into(),
        dyndep_files: dyndep_files.into(),
        defaults: defaults.into(),
        env,
        manifests: manifests(files),
        rule_blocks: RuleBlockCache::default(),
        hashes: CommandHashes::default(),
        notices: Vec::new(),
        blocks: None,
        verified_bytes: 0,
        logs: LogSections::default(),
    }
}

fn manifests(files: Vec<File>) -> Manifests {
    let length = |file: &File| file.source.as_ref().map_or(0, |source| source.owned_bytes());
    let keep = files.iter().map(length).sum::<usize>() <= MAX_KEPT_BYTES;
    let manifest = |file: File| {
        let source = file.source.ok().and_then(Arc::into_inner);
        let state = source.as_ref().and_then(Source::state);
        let text = match source {
            Some(source) if state.is_some() && (!keep || source.owned_bytes() == 0) => ManifestText::OnDisk,
            Some(source) => ManifestText::InMemory(source.into_text()),
            // No span refers to it.
            None => ManifestText::InMemory(Vec::new()),
        };
        let checksums: Vec<u64> = file.chunks.iter().flat_map(|chunk| &chunk.checksums).copied().collect();
        Manifest { path: file.path, state, checksums: checksums.into(), text }
    };
    Manifests::new(files.into_iter().map(manifest).collect())
}
