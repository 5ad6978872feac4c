//! Snapshots: a loaded graph, with indexes of the logs, in a file that the next run maps instead of loading
//! manifests.
//!
//! A snapshot only saves time. One that is stale, torn or written by another version is ignored.

pub mod checks;
pub mod deferred_output;
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

/// Manifests shorter than this in total, in bytes, get no snapshot: loading them is fast enough.
const MIN_MANIFEST_BYTES: u64 = 256 << 10;

/// Bytes of logs that the snapshot does not cover before it is rewritten. Smaller: it is rewritten after short
/// builds. Larger: each run reads more of the logs.
const MIN_UNSAVED_BYTES: u64 = 8 << 20;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum SnapshotPolicy {
    /// If they save time.
    #[default]
    Auto,
    /// Even for small manifests.
    Always,
    /// Neither read nor write them.
    Off,
}

/// The snapshot of a manifest with certain options in a directory.
#[derive(Clone)]
pub struct Snapshot {
    files: SnapshotFiles,
    manifest: Vec<u8>,
    options: LoadOptions,
}

impl Snapshot {
    /// `state` belongs to the directory in which the graph is loaded.
    pub fn new(state: StateDirs, manifest: &[u8], options: LoadOptions) -> Snapshot {
        let files = SnapshotFiles::new(state, table::file_name(manifest, options));
        Snapshot { files, manifest: manifest.into(), options }
    }

    /// Computed only if there is a file to read or write, since most trees have none.
    fn key(&self) -> Option<Key> {
        Key::new(self.files.dir().as_os_str().as_bytes(), &self.manifest, self.options).ok()
    }

    /// Returns the graph if there is a snapshot of the present manifests. Like `load`, emits warnings to `warn`, and
    /// fails if a newer ninja is required.
    pub fn open<'t>(&self, arena: &'t Arena, warn: &mut dyn FnMut(&[u8])) -> Result<Option<Graph<'t>>> {
        let Some(data) = self.read() else { return Ok(None) };
        data.notices.iter().try_for_each(|notice| notice.report(warn))?;
        Ok(Some(arena.hold(data)))
    }

    fn read(&self) -> Option<ManifestData> {
        let mut files = self.files.files().peekable();
        files.peek()?;
        let key = self.key()?;
        files.find_map(|file| read::read(&file, &key, self.options.threads))
    }

    /// Removes a damaged snapshot.
    pub fn remove(&self) {
        self.files.remove();
    }

    /// Prepares writing a snapshot of a loaded graph, without later additions. Returns `None` if it is not worth it:
    /// the manifests are small (unless `always`), or the present snapshot has nearly everything. `unsaved` is the
    /// number of bytes of the logs that it lacks.
    pub fn prepare<'t>(&self, graph: &Graph<'t>, unsaved: usize, always: bool) -> Option<PendingSnapshot<'t>> {
        let data = graph.data;
        let lengths = data.manifests.list.iter().map(|manifest| Some(manifest.state?.stamp.size));
        let length = lengths.sum::<Option<u64>>()?;
        let worth = always || length >= MIN_MANIFEST_BYTES;
        let logs_have_grown = unsaved as u64 >= if always { 1 } else { MIN_UNSAVED_BYTES };
        let is_outdated =
            data.hashes.have_grown(data.edge_count()) || logs_have_grown || data.verified_bytes >= MIN_UNSAVED_BYTES;
        let is_new = data.blocks.is_none() || is_outdated;
        let logs = LogState::default();
        let pending = || PendingSnapshot { snapshot: self.clone(), data, logs, cancelled: AtomicBool::new(false) };
        (worth && is_new).then(pending)
    }
}

/// A snapshot to be written.
pub struct PendingSnapshot<'t> {
    snapshot: Snapshot,
    data: &'t ManifestData,
    logs: LogState<'t>,
    cancelled: AtomicBool,
}

impl<'t> PendingSnapshot<'t> {
    /// Adds the present state of the logs.
    pub fn with_logs(self, graph: &Graph<'t>, build: &BuildLog, deps: &DepsLog) -> PendingSnapshot<'t> {
        PendingSnapshot { logs: LogState::new(graph, build, deps), ..self }
    }

    /// Makes a concurrent `run` stop soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Writes the snapshot atomically. A full disk is an error; missing permission is not.
    pub fn run(&self, threads: usize) -> Result<()> {
        let (Some(key), Some(manifests)) = (self.snapshot.key(), self.manifests()) else { return Ok(()) };
        let PendingSnapshot { data, logs, cancelled, .. } = self;
        let checksums = table::all_checksums(&data.manifests);
        let writer = SnapshotWriter { data, key: &key, logs, manifests, checksums, threads, cancelled };
        match self.snapshot.files.write(|file| writer.write(file)) {
            Err(error) if is_full(&error) && !self.snapshot.files.is_best_effort() => {
                Err(Error::new(&[b"writing a snapshot: ", &tanto_sys::error::text(&error)]))
            }
            _ => Ok(()),
        }
    }

    /// Returns the loaded manifests; `None` if one has changed or is missing.
    fn manifests(&self) -> Option<Vec<ManifestRecord>> {
        let record = |manifest: &Manifest| Some(ManifestRecord { path: manifest.path.clone(), state: manifest.state? });
        self.data.manifests.list.iter().map(record).map(|record| record.filter(ManifestRecord::is_unchanged)).collect()
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Graph<'_> {
    /// The snapshot that contains the graph. Results from the graph are valid only if it is not damaged afterwards.
    pub fn blocks(&self) -> Option<&Arc<Blocks>> {
        self.data.blocks.as_ref()
    }
}

#[cfg(test)]
pub(crate) mod tests;
