//! Tests: what is written is what is mapped, and nothing else is ever used.

mod damage;
mod logs;
mod places;
mod random;
mod same;
mod validity;

use std::fs::File;
use std::sync::atomic::AtomicBool;

use tanto_sys::fs::file_stamp::FileStamp;
use tanto_sys::memory::map::Map;
use tanto_testing::Scratch;

use super::key::Key;
use super::logs::SeenLogs;
use super::read;
use super::table::{Record, Table};
use super::write::Picture;
use crate::disk::State;
use crate::graph::manifest_data::ManifestData;
use crate::graph::late::{Manifest, Manifests, Text};
use crate::graph::{Arena, Graph};

/// The state of a manifest that is in no file.
fn any_state() -> State {
    let version = FileStamp { device: 1, inode: 2, size: 0, mtime_ns: 4, ctime_ns: 5, is_regular: true };
    State { version, digest: None }
}

/// A snapshot of a graph whose manifests are in memory.
fn picture(graph: &Graph<'_>, threads: usize) -> Vec<u8> {
    picture_with(graph, &SeenLogs::default(), threads)
}

/// The same with logs.
fn picture_with<'t>(graph: &Graph<'t>, logs: &SeenLogs<'t>, threads: usize) -> Vec<u8> {
    let scratch = Scratch::new("picture");
    let record = |manifest: &Manifest| Record { path: manifest.path.clone(), state: any_state() };
    let manifests = graph.data.manifests.list.iter().map(record).collect();
    let key = Key(b"key".to_vec());
    let given_up = &AtomicBool::new(false);
    let picture = Picture { data: graph.data, key: &key, logs, manifests, texts: Vec::new(), threads, given_up };
    assert!(picture.write(&File::create_new(scratch.at("file")).unwrap()).unwrap());
    std::fs::read(scratch.at("file")).unwrap()
}

/// The graph in a snapshot, whatever it is a picture of; the text of its manifests is that of another graph.
fn map_data(picture: &[u8], text: &Graph<'_>) -> Option<ManifestData> {
    let scratch = Scratch::new("mapped");
    scratch.write("file", picture);
    let map = Map::new(&File::open(scratch.at("file")).unwrap(), picture.len() as u64).unwrap();
    let (table, end) = Table::decode(&map)?;
    let data = read::map_data(map, table, end)?;
    let manifest = |manifest: &Manifest| {
        let Text::Kept(text) = &manifest.text else { panic!("it is in memory") };
        let sums = manifest.sums.all().to_vec().into();
        Manifest { path: manifest.path.clone(), state: manifest.state, sums, text: Text::Kept(text.clone()) }
    };
    Some(ManifestData { manifests: Manifests::new(text.data.manifests.list.iter().map(manifest).collect()), ..data })
}

/// A graph that was loaded from text is the same after it has been a snapshot.
#[track_caller]
pub(crate) fn is_kept(graph: &Graph<'_>) {
    let arena = Arena::new();
    let mapped = arena.hold(map_data(&picture(graph, 1), graph).expect("a sound snapshot"));
    same::assert_same(graph, &mapped);
    assert!(mapped.is_intact());
    // What was a snapshot once stays as it is.
    assert_eq!(picture(&mapped, 1), picture(graph, 3));
}
