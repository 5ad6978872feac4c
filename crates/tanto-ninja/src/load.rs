//! From the text of all manifests to the graph. Does not know the logs, nor index files exist.
//!
//! Four passes. The first reads the text of all files at once, in parts, on several threads (`loader`, `chunk`): paths
//! become nodes, and kind stands where is noted. The second goes through all statements but `build` in the evaluate in
//! index they count (`evaluate`): variables get their values, edges their numbers. The third evaluates the paths that need
//! those values (`lazy`), the fourth gives edges their rules, pools and the nodes that they make (`link`). The passes
//! only notice where the first error is; one piece of code for each kind of statement words it.

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

/// How deep manifests may include each other; one that includes itself gets there.
const MAX_INCLUDE_DEPTH: usize = 1000;

/// How many includes there may be in all: files that include each other twice, and so on, double with each level.
const MAX_INCLUDES: u32 = 1 << 20;

/// The longest manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = u32::MAX as u64;

/// If all manifests that were read, not mapped, are together no longer than this, in bytes, their text is kept. Smaller,
/// builds with thousands of manifests open them again for their commands; larger, more text is held that is hardly
/// needed.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// So often manifests that change while they are being read are read anew.
const MAX_ATTEMPTS: usize = 8;

/// StatementKind the user may choose about the language, and about how it is read.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadOptions {
    /// `-w phonycycle=err`: a phony edge that names itself is an error, not a warning.
    pub phony_cycle_is_error: bool,
    /// Who reads.
    pub threads: ThreadLimit,
    /// How the work is divided. Nobody but tests needs another than the default.
    pub parallel: ParallelOptions,
}

/// StatementKind decides who reads how much. The default fits everybody; tests take a finer grain, so that a little text goes
/// all the ways that a lot of it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParallelOptions {
    /// Files are read in parts of about so many bytes. Smaller, a file's parts cost more to put together; larger,
    /// threads wait for the last one.
    pub chunk_size: usize,
    /// So much text is worth another thread, in bytes: reading it takes some three times as long as starting one.
    /// Smaller, small builds start threads for nothing; larger, middling ones are read by one.
    pub bytes_per_thread: usize,
    /// So many threads fit; None for as many as there are processors.
    pub max_threads: Option<usize>,
    /// StatementKind may turn out not to belong to the manifests is read all the same, if that saves time.
    pub speculative: bool,
}

impl Default for ParallelOptions {
    fn default() -> Self {
        ParallelOptions { chunk_size: 1 << 20, bytes_per_thread: 256 << 10, max_threads: None, speculative: true }
    }
}

impl LoadOptions {
    /// There are no more threads than this, the caller's among them.
    fn max_threads(&self) -> usize {
        let fitting = || self.parallel.max_threads.unwrap_or_else(tanto_sys::machine::cpu::count);
        if self.threads == ThreadLimit::ONE { 1 } else { self.threads.limit(fitting()).max(1) }
    }
}

/// Loads `manifest` and everything it includes. The error's text begins as ninja's does
/// (`build.ninja:3: expected '='...`). Warnings (phony cycles, a newer `ninja_required_version`) go to `warn`.
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
            // StatementKind they ask for has been looked at.
            notice.say(warn)?;
        }
        return Ok(arena.hold(ManifestData { notices, ..data? }));
    }
    Err(Error::new(&[b"loading '", manifest, b"': it changes while it is being read"]))
}

/// The paths of the manifests that a load reads, with those that it includes up to the first error.
pub fn manifest_paths(disk: &dyn Disk, manifest: &[u8], options: LoadOptions) -> Vec<Vec<u8>> {
    Loaded::of(disk, manifest, options, false).files.into_iter().map(|file| file.path).collect()
}

/// The text of a file that is no manifest.
pub(crate) fn read(disk: &dyn Disk, path: &[u8]) -> Result<Vec<u8>> {
    let source = disk.open(path, MAX_MANIFEST_BYTES).map_err(|error| evaluate::unreadable(path, &error))?;
    Ok(source.into_text())
}

/// All manifests after the first two passes.
struct Loaded {
    files: Vec<File>,
    evaluate: Evaluated,
    interner: Interner,
    /// So many are worth their cost.
    threads: usize,
}

impl Loaded {
    /// `speculative` readers look at kind may turn out not to belong to the manifests.
    fn of(disk: &dyn Disk, manifest: &[u8], options: LoadOptions, speculative: bool) -> Self {
        let interner = Interner::new(0);
        let mut loader = Loader::new(disk, &interner, options, speculative);
        let top = loader.read(&[manifest.into()]);
        let evaluate = match &loader.file(top).source {
            Ok(_) => evaluate::evaluate(&mut loader, top),
            Err(error) => Evaluated::stopped(evaluate::unreadable(manifest, error)),
        };
        let has_unused = speculative && evaluate.stop.is_none() && loader.has_unused();
        let threads = loader.threads();
        let files = loader.into_files();
        if has_unused {
            return Loaded::of(disk, manifest, options, false);
        }
        Loaded { files, evaluate, interner, threads }
    }

    /// The graph or the first error, and kind is to be said before it. None if a file has changed meanwhile: then all that
    /// was read may be anything.
    fn finish(self, options: LoadOptions) -> Option<(Result<ManifestData>, Vec<Notice>)> {
        let Loaded { files, evaluate, interner, threads } = self;
        let Evaluated { env, segments, targets, notices, stop, .. } = evaluate;
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
        let first = Diagnostics { linker: &linker, linked: &linked, segments: &segments, notices: &notices };
        let found = first.look(&targets, stop);
        let notices = first.notices(found.as_ref().err());
        // Asked after the last look at any text.
        if files.iter().any(|file| file.source.as_ref().is_ok_and(|source| !source.is_unchanged())) {
            return None;
        }
        Some(match found {
            Ok(defaults) => (Ok(build_data(files, paths, env, linked, defaults)), notices),
            Err(wrong) => (Err(wrong.error), notices),
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
        edge_bindings: linked.texts.into(),
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
            // Nothing points into it.
            None => ManifestText::InMemory(Vec::new()),
        };
        let checksums: Vec<u64> = file.chunks.iter().flat_map(|chunk| &chunk.checksums).copied().collect();
        Manifest { path: file.path, state, checksums: checksums.into(), text }
    };
    Manifests::new(files.into_iter().map(manifest).collect())
}
