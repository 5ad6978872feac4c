//! Tests of snapshots: the mapped graph equals the written one, and an invalid snapshot is never used.

mod damage;
mod equality;
mod files;
mod logs;
mod random;
mod validity;

use std::fs::File;
use std::sync::atomic::AtomicBool;

use tanto_sys::fs::file_stamp::FileStamp;
use tanto_sys::memory::map::Map;
use tanto_testing::Scratch;

use super::logs::LogState;
use super::read;
use super::table::{Key, ManifestRecord, Table};
use super::write::SnapshotWriter;
use crate::disk::SourceState;
use crate::graph::lazy_text::{Manifest, ManifestText, Manifests};
use crate::graph::manifest_data::ManifestData;
use crate::graph::{Arena, Graph};

/// The state of a manifest without a file.
fn any_state() -> SourceState {
    let stamp = FileStamp { device: 1, inode: 2, size: 0, mtime_ns: 4, ctime_ns: 5, is_regular: true };
    SourceState { stamp, text_hash: None }
}

/// Returns a snapshot of a graph with manifests in memory.
fn snapshot_bytes(graph: &Graph<'_>, threads: usize) -> Vec<u8> {
    snapshot_bytes_with(graph, &LogState::default(), threads)
}

/// Like `snapshot_bytes`, with logs.
fn snapshot_bytes_with<'t>(graph: &Graph<'t>, logs: &LogState<'t>, threads: usize) -> Vec<u8> {
    let scratch = Scratch::new("snapshot");
    let record = |manifest: &Manifest| ManifestRecord { path: manifest.path.clone(), state: any_state() };
    let manifests = graph.data.manifests.list.iter().map(record).collect();
    let key = Key(b"key".to_vec());
    let cancelled = &AtomicBool::new(false);
    let writer =
        SnapshotWriter { data: graph.data, key: &key, logs, manifests, checksums: Vec::new(), threads, cancelled };
    assert!(writer.write(&File::create_new(scratch.at("file")).unwrap()).unwrap());
    std::fs::read(scratch.at("file")).unwrap()
}

/// Maps a snapshot without checking its manifests; their text comes from `text`.
fn map_data(bytes: &[u8], text: &Graph<'_>) -> Option<ManifestData> {
    let scratch = Scratch::new("mapped");
    scratch.write("file", bytes);
    let map = Map::new(&File::open(scratch.at("file")).unwrap(), bytes.len() as u64).unwrap();
    let (table, end) = Table::decode(&map)?;
    let data = read::map_data(map, table, end)?;
    let manifest = |manifest: &Manifest| {
        let ManifestText::InMemory(text) = &manifest.text else { panic!("it is in memory") };
        let checksums = manifest.checksums.all().to_vec().into();
        Manifest {
            path: manifest.path.clone(),
            state: manifest.state,
            checksums,
            text: ManifestText::InMemory(text.clone()),
        }
    };
    Some(ManifestData { manifests: Manifests::new(text.data.manifests.list.iter().map(manifest).collect()), ..data })
}

/// Checks that a graph loaded from text equals its snapshot.
#[track_caller]
pub(crate) fn assert_survives_snapshot(graph: &Graph<'_>) {
    let arena = Arena::new();
    let mapped = arena.hold(map_data(&snapshot_bytes(graph, 1), graph).expect("a sound snapshot"));
    equality::assert_same(graph, &mapped);
    assert!(mapped.is_intact());
    // A snapshot of a snapshot is identical.
    assert_eq!(snapshot_bytes(&mapped, 1), snapshot_bytes(graph, 3));
}
