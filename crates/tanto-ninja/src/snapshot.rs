//! Snapshots: a loaded graph in a file that is mapped by the next run, which then need not load it, and what is known of
//! the logs. Does not know which files exist.
//!
//! A snapshot changes nothing but time: one that is stale, torn or made by somebody else is as good as none.

mod encoding;
mod files;
mod logs;
mod read;
mod sort;
mod table;
mod write;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tanto_sys::fs::state_dir::StateDirs;

use self::files::SnapshotFiles;
use self::logs::LogState;
use self::table::{Key, ManifestRecord};
use self::write::SnapshotWriter;
use crate::error::{Error, Result};
use crate::flat::Blocks;
use crate::graph::lazy_text::Manifest;
use crate::graph::manifest_data::ManifestData;
use crate::graph::{Arena, Graph};
use crate::load::LoadOptions;
use crate::logs::{BuildLog, DepsLog};

/// If all manifests together are shorter than this, in bytes, no snapshot of them is worth its time.
const MIN_MANIFEST_BYTES: u64 = 256 << 10;

/// If the logs have so many bytes that a snapshot knows nothing of, it is written again. Smaller, it is written after
/// builds that have not done much; larger, each run reads more.
const MIN_UNSAVED_BYTES: u64 = 8 << 20;

/// When snapshots are used.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum SnapshotPolicy {
    /// Where they save time.
    #[default]
    Auto,
    /// However small the manifests are.
    Always,
    /// They are neither read nor written.
    Off,
}

/// The snapshot of one load: of a manifest, named so, in a directory.
#[derive(Clone)]
pub struct Snapshot {
    place: SnapshotFiles,
    manifest: Vec<u8>,
    options: LoadOptions,
}

impl Snapshot {
    /// The snapshot of a graph that is loaded with these options in the directory to which `state` belongs.
    pub fn new(state: StateDirs, manifest: &[u8], options: LoadOptions) -> Snapshot {
        let place = SnapshotFiles::new(state, table::file_name(manifest, options));
        Snapshot { place, manifest: manifest.into(), options }
    }

    /// Only for who has a file, or writes one: most trees have none, and are not worth one.
    fn key(&self) -> Option<Key> {
        Key::new(self.place.dir().as_os_str().as_bytes(), &self.manifest, self.options).ok()
    }

    /// The graph, if there is a snapshot of what the manifests say today. As `load`, this gives warnings to `warn`, and
    /// refuses manifests for a newer ninja.
    pub fn open<'t>(&self, arena: &'t Arena, warn: &mut dyn FnMut(&[u8])) -> Result<Option<Graph<'t>>> {
        let Some(data) = self.read() else { return Ok(None) };
        data.notices.iter().try_for_each(|notice| notice.say(warn))?;
        Ok(Some(arena.hold(data)))
    }

    fn read(&self) -> Option<ManifestData> {
        let mut files = self.place.files().peekable();
        files.peek()?;
        let key = self.key()?;
        files.find_map(|file| read::read(&file, &key, self.options.threads))
    }

    /// Removes the file, in which something is wrong.
    pub fn remove(&self) {
        self.place.remove();
    }

    /// What it takes to write a snapshot of a graph that was loaded; what joined it since is no part of that. None if
    /// that is not worth its time, unless it is to be written `always`, or if there is already one that knows nearly as
    /// much; `unsaved` says how many bytes of the logs that does not know.
    pub fn of<'t>(&self, graph: &Graph<'t>, unsaved: usize, always: bool) -> Option<PendingSnapshot<'t>> {
        let data = graph.data;
        let lengths = data.manifests.list.iter().map(|manifest| Some(manifest.state?.stamp.size));
        let length = lengths.sum::<Option<u64>>()?;
        let worth = always || length >= MIN_MANIFEST_BYTES;
        let unkept_is_much = unsaved as u64 >= if always { 1 } else { MIN_UNSAVED_BYTES };
        let lacks_much =
            data.hashes.have_grown(data.edge_count()) || unkept_is_much || data.verified_bytes >= MIN_UNSAVED_BYTES;
        let is_new = data.blocks.is_none() || lacks_much;
        let logs = LogState::default();
        let pending = || PendingSnapshot { snapshot: self.clone(), data, logs, cancelled: AtomicBool::new(false) };
        (worth && is_new).then(pending)
    }
}

/// A snapshot that is to be written.
pub struct PendingSnapshot<'t> {
    snapshot: Snapshot,
    data: &'t ManifestData,
    logs: LogState<'t>,
    cancelled: AtomicBool,
}

impl<'t> PendingSnapshot<'t> {
    /// The same with what is known of the logs now.
    pub fn with_logs(self, graph: &Graph<'t>, build: &BuildLog, deps: &DepsLog) -> PendingSnapshot<'t> {
        PendingSnapshot { logs: LogState::new(graph, build, deps), ..self }
    }

    /// Whoever writes it is to leave off soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Writes it, on so many threads. It is there whole or not at all. That the disk is full is an error; that nothing
    /// may be written here is none.
    pub fn run(&self, threads: usize) -> Result<()> {
        let (Some(key), Some(manifests)) = (self.snapshot.key(), self.manifests()) else { return Ok(()) };
        let PendingSnapshot { data, logs, cancelled, .. } = self;
        let checksums = table::all_checksums(&data.manifests);
        let writer = SnapshotWriter { data, key: &key, logs, manifests, checksums, threads, cancelled };
        match self.snapshot.place.write(|file| writer.write(file)) {
            Err(error) if is_full(&error) && !self.snapshot.place.is_best_effort() => {
                Err(Error::new(&[b"writing a snapshot: ", &tanto_sys::error::text(&error)]))
            }
            _ => Ok(()),
        }
    }

    /// Those that were loaded; None if one of them is not there any more.
    fn manifests(&self) -> Option<Vec<ManifestRecord>> {
        let record = |manifest: &Manifest| Some(ManifestRecord { path: manifest.path.clone(), state: manifest.state? });
        self.data.manifests.list.iter().map(record).map(|record| record.filter(ManifestRecord::is_there)).collect()
    }
}

/// Is there no room for more?
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Graph<'_> {
    /// The snapshot in which the graph lies, if it does. What was asked of the graph counts only if nothing is wrong with
    /// it afterwards.
    pub fn blocks(&self) -> Option<&Arc<Blocks>> {
        self.data.blocks.as_ref()
    }
}

#[cfg(test)]
pub(crate) mod tests;
