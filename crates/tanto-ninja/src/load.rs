//! From the text of all manifests to the graph. Does not know the logs, nor which files exist.
//!
//! Four passes. The first reads the text of all files at once, in parts, on several threads (`crew`, `chunk`): paths
//! become nodes, and what stands where is noted. The second goes through all statements but `build` in the order in
//! which they count (`order`): variables get their values, edges their numbers. The third evaluates the paths that need
//! those values (`late`), the fourth gives edges their rules, pools and the nodes that they make (`link`). The passes
//! only notice where the first error is; one piece of code for each kind of statement words it.

mod chunk;
mod crew;
mod fault;
mod first;
mod grain;
mod late;
mod link;
mod order;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod version;

use std::sync::Arc;

use tanto_sys::threads::ThreadLimit;

use self::crew::{Crew, File};
use self::first::First;
use self::link::{Linked, Linker};
use self::order::Order;
use crate::disk::{Disk, Source};
use crate::error::{Error, Result};
use crate::graph::manifest_data::{ManifestData, LogSections, Notice};
use crate::graph::bindings::Cache;
use crate::graph::env::Env;
use crate::graph::hashes::Hashes;
use crate::graph::late::{Manifest, Manifests, Text};
use crate::graph::{Arena, Graph};
use crate::hash::Set;
use crate::ids::NodeId;
use crate::paths::{Interner, PathTable};

pub use self::grain::ParallelOptions;
pub use self::version::NINJA_VERSION;

/// How deep manifests may include each other; one that includes itself gets there.
const DEEPEST_INCLUDE: usize = 1000;

/// How many includes there may be in all: files that include each other twice, and so on, double with each level.
const MOST_INCLUDES: u32 = 1 << 20;

/// The longest manifest, in bytes.
const LONGEST_MANIFEST: u64 = u32::MAX as u64;

/// If all manifests that were read, not mapped, are together no longer than this, in bytes, their text is kept. Smaller,
/// builds with thousands of manifests open them again for their commands; larger, more text is held that is hardly
/// needed.
const KEPT: usize = 64 << 20;

/// So often manifests that change while they are being read are read anew.
const TRIES: usize = 8;

/// What the user may choose about the language, and about how it is read.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadOptions {
    /// `-w phonycycle=err`: a phony edge that names itself is an error, not a warning.
    pub phony_cycle_is_error: bool,
    /// Who reads.
    pub threads: ThreadLimit,
    /// How the work is divided. Nobody but tests needs another than the default.
    pub parallel: ParallelOptions,
}

impl LoadOptions {
    /// There are no more threads than this, the caller's among them.
    fn most_threads(&self) -> usize {
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
    for _ in 0..TRIES {
        let loaded = Loaded::of(disk, manifest, options, options.parallel.speculative);
        let Some((data, notices)) = loaded.finish(options) else { continue };
        for notice in &notices {
            // What they ask for has been looked at.
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
    let source = disk.open(path, LONGEST_MANIFEST).map_err(|error| order::unreadable(path, &error))?;
    Ok(source.into_text())
}

/// All manifests after the first two passes.
struct Loaded {
    files: Vec<File>,
    order: Order,
    interner: Interner,
    /// So many are worth their cost.
    threads: usize,
}

impl Loaded {
    /// `speculative` readers look at what may turn out not to belong to the manifests.
    fn of(disk: &dyn Disk, manifest: &[u8], options: LoadOptions, speculative: bool) -> Self {
        let interner = Interner::new(0);
        let mut crew = Crew::new(disk, &interner, options, speculative);
        let top = crew.read(&[manifest.into()]);
        let order = match &crew.file(top).source {
            Ok(_) => order::order(&mut crew, top),
            Err(error) => Order::stopped(order::unreadable(manifest, error)),
        };
        let strangers = speculative && order.stop.is_none() && crew.has_strangers();
        let threads = crew.threads();
        let files = crew.into_files();
        if strangers {
            return Loaded::of(disk, manifest, options, false);
        }
        Loaded { files, order, interner, threads }
    }

    /// The graph or the first error, and what is to be said before it. None if a file has changed meanwhile: then all that
    /// was read may be anything.
    fn finish(self, options: LoadOptions) -> Option<(Result<ManifestData>, Vec<Notice>)> {
        let Loaded { files, order, interner, threads } = self;
        let Order { env, segments, targets, notices, stop, .. } = order;
        let env = env.finish();
        let lates = late::nodes(&segments, &files, &env, &interner, threads);
        let paths = interner.freeze();
        let linker = Linker {
            files: &files,
            env: &env,
            paths: &paths,
            phony_cycle_is_error: options.phony_cycle_is_error,
            no_scopes: Set::default(),
        };
        let linked = linker.link(&segments, lates, threads);
        let first = First { linker: &linker, linked: &linked, segments: &segments, notices: &notices };
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

fn build_data(files: Vec<File>, paths: PathTable, env: Env, linked: Linked, defaults: Vec<NodeId>) -> ManifestData {
    let (dyndep_edges, dyndep_files): (Vec<_>, Vec<_>) = linked.dyndeps.into_iter().unzip();
    ManifestData {
        paths,
        in_edges: linked.in_edges.into(),
        edges: linked.edges.into(),
        texts: linked.texts.into(),
        ids: linked.ids.into(),
        dyndep_edges: dyndep_edges.into(),
        dyndep_files: dyndep_files.into(),
        defaults: defaults.into(),
        env,
        manifests: manifests(files),
        rule_blocks: Cache::default(),
        hashes: Hashes::default(),
        notices: Vec::new(),
        blocks: None,
        settled: 0,
        logs: LogSections::default(),
    }
}

fn manifests(files: Vec<File>) -> Manifests {
    let length = |file: &File| file.source.as_ref().map_or(0, |source| source.held());
    let keep = files.iter().map(length).sum::<usize>() <= KEPT;
    let manifest = |file: File| {
        let source = file.source.ok().and_then(Arc::into_inner);
        let state = source.as_ref().and_then(Source::state);
        let text = match source {
            Some(source) if state.is_some() && (!keep || source.held() == 0) => Text::OnDisk,
            Some(source) => Text::Kept(source.into_text()),
            // Nothing points into it.
            None => Text::Kept(Vec::new()),
        };
        let sums: Vec<u64> = file.chunks.iter().flat_map(|chunk| &chunk.sums).copied().collect();
        Manifest { path: file.path, state, sums: sums.into(), text }
    };
    Manifests::new(files.into_iter().map(manifest).collect())
}
