//! Validity of snapshots: they are used as long as they match the manifests.

use std::fs::{self, File};
use std::io;
use std::time::{Duration, SystemTime};

use tanto_sys::fs::file_stamp::FileStamp;
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::threads::ThreadLimit;
use tanto_testing::Scratch;

use super::equality::assert_same;
use crate::disk::RealDisk;
use crate::graph::lazy_text::{Manifest, ManifestText, Manifests};
use crate::graph::manifest_data::ManifestData;
use crate::graph::{Arena, Escape, Graph};
use crate::hash;
use crate::load::{LoadOptions, load};
use crate::snapshot::{PendingSnapshot, Snapshot, is_full};

const TEXT: &str = "ninja_required_version = 1.1\nrule c\n  command = c $in\nbuild a: c b\nbuild p: phony p\ninclude ";

/// A tree with two manifests that are old enough not to be racy, and a snapshot of it.
struct Tree(Scratch);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(Scratch::new("validity"));
        tree.0.write("inner", "build d: c e\n");
        tree.0.write("input", format!("{TEXT}{}\n", tree.0.at("inner").display()));
        tree
    }

    fn snapshot_with(&self, options: LoadOptions) -> Snapshot {
        Snapshot::new(StateDirs::in_tree(self.0.path()), &self.0.bytes("input"), options)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot_with(LoadOptions::default())
    }

    fn load<'t>(&self, arena: &'t Arena) -> Graph<'t> {
        load(arena, &RealDisk, &self.0.bytes("input"), LoadOptions::default(), &mut |_| {}).unwrap()
    }

    fn save(&self) {
        let arena = Arena::new();
        self.snapshot().prepare(&self.load(&arena), 0, true).unwrap().run(1).unwrap();
        assert!(self.opens());
    }

    fn opens(&self) -> bool {
        self.snapshot().open(&Arena::new(), &mut |_| {}).unwrap().is_some()
    }

    /// The only snapshot.
    fn file(&self) -> std::path::PathBuf {
        let mut entries = fs::read_dir(self.0.at(".tanto/snapshots")).unwrap();
        entries.next().unwrap().unwrap().path()
    }
}

#[test]
fn opened_graph_equals_loaded_graph() {
    let tree = Tree::new();
    let (arena, mut warnings) = (Arena::new(), Vec::new());
    assert!(!tree.opens());
    tree.save();
    let opened = tree.snapshot().open(&arena, &mut |text| warnings.push(text.to_vec())).unwrap().unwrap();
    assert_same(&tree.load(&arena), &opened);
    assert_eq!(warnings, [b"phony target 'p' names itself as an input; ignoring [-w phonycycle=warn]"]);
    assert!(opened.is_intact());
    assert!(tree.snapshot().prepare(&opened, 0, true).is_none(), "there is one already");
    tree.snapshot().remove();
    assert!(!tree.opens());
}

#[test]
fn changed_manifest_invalidates_the_snapshot() {
    let changes: [fn(&Tree); 5] = [
        |tree| tree.0.write("inner", "build d: c f\n"),
        |tree| fs::File::open(tree.0.at("inner")).unwrap().set_modified(SystemTime::now()).unwrap(),
        |tree| {
            // The same text in another file.
            fs::copy(tree.0.at("inner"), tree.0.at("other")).unwrap();
            fs::rename(tree.0.at("other"), tree.0.at("inner")).unwrap();
        },
        |tree| fs::remove_file(tree.0.at("inner")).unwrap(),
        |tree| {
            fs::rename(tree.0.at("inner"), tree.0.at("other")).unwrap();
            fs::create_dir(tree.0.at("inner")).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let tree = Tree::new();
        tree.save();
        change(&tree);
        assert!(!tree.opens(), "change {number}");
    }
}

/// The snapshot of a tree with other hashes of manifests.
fn with_digests<'t>(tree: &Tree, arena: &'t Arena, change: impl Fn(u64) -> u64) -> PendingSnapshot<'t> {
    for manifest in &tree.load(&Arena::new()).data.manifests.list {
        // They stay young however long the test is delayed.
        let later = SystemTime::now() + Duration::from_secs(3600);
        File::open(tanto_sys::fs::file::path(&manifest.path)).and_then(|file| file.set_modified(later)).unwrap();
    }
    let graph = tree.load(arena);
    let manifests = graph.data.manifests.list.iter().map(|manifest| {
        let mut state = manifest.state.unwrap();
        assert!(state.text_hash.is_some(), "it was written just now");
        state.text_hash = state.text_hash.map(&change);
        let text = fs::read(tanto_sys::fs::file::path(&manifest.path)).unwrap();
        let checksums = manifest.checksums.all().to_vec();
        assert!(checksums.iter().copied().eq(hash::block_checksums(&text)));
        Manifest {
            path: manifest.path.clone(),
            state: Some(state),
            checksums: checksums.into(),
            text: ManifestText::OnDisk,
        }
    });
    let data = ManifestData { manifests: Manifests::new(manifests.collect()), ..ManifestData::default() };
    tree.snapshot().prepare(&arena.hold(data), 0, true).unwrap()
}

#[test]
fn racy_manifest_is_hashed() {
    let tree = Tree::new();
    with_digests(&tree, &Arena::new(), |text_hash| text_hash).run(1).unwrap();
    assert!(tree.opens());
    with_digests(&tree, &Arena::new(), |text_hash| text_hash ^ 1).run(1).unwrap();
    assert!(!tree.opens());
}

#[test]
fn manifest_that_is_no_longer_racy_is_hashed_once() {
    let tree = Tree::new();
    tree.save();
    let opened = |arena: &'static Arena| tree.snapshot().open(arena, &mut |_| {}).unwrap().unwrap();
    let digests = |graph: &Graph<'_>| {
        graph.data.manifests.list.iter().filter(|manifest| manifest.state.unwrap().text_hash.is_some()).count()
    };
    assert_eq!(digests(&tree.load(&Arena::new())), 2);
    // Files become old only by waiting.
    std::thread::sleep(Duration::from_millis(50));
    let graph = opened(Box::leak(Box::default()));
    let whole = graph.data.manifests.list.iter().any(|manifest| {
        let version = manifest.state.unwrap().stamp;
        version.mtime_ns % 1_000_000_000 == 0 || version.ctime_ns % 1_000_000_000 == 0
    });
    assert!(whole || digests(&graph) == 0);
    let arena = Arena::new();
    let verified_bytes = |verified_bytes| {
        tree.snapshot().prepare(
            &arena.hold(ManifestData { verified_bytes, ..tree.snapshot().read().unwrap() }),
            0,
            true,
        )
    };
    assert!(verified_bytes(100).is_none());
    verified_bytes(64 << 20).expect("it is written again").run(1).unwrap();
    let graph = opened(Box::leak(Box::default()));
    assert!(whole || tree.snapshot().prepare(&graph, 0, true).is_none(), "and then no more");
}

#[test]
fn lazy_text_equals_loaded_text() {
    let tree = Tree::new();
    let long = "x".repeat(3 * hash::TEXT_BLOCK);
    tree.0.write("inner", format!("build d: c e\n  y = {long}\nbuild f: c g\n  y = 2\n"));
    tree.save();
    let arena = Arena::new();
    let graph = tree.snapshot().open(&arena, &mut |_| {}).unwrap().unwrap();
    let binding = |name: &[u8]| {
        let edge = graph.in_edge(graph.lookup(name).unwrap()).unwrap();
        graph.binding(edge, b"y", Escape::Shell)
    };
    assert_eq!((binding(b"d").unwrap(), binding(b"f").unwrap()), (long.into_bytes(), b"2".to_vec()));
    tree.0.write("inner", "build d: c e\n");
    assert!(binding(b"f").unwrap_err().to_string().ends_with("inner: manifest changed during the build"));
}

#[test]
fn changed_lazy_text_with_equal_stamp_is_noticed() {
    let tree = Tree::new();
    let text =
        |value| format!("build d: c e\n  y = {value}\nbuild f: c g\n  z = {}\n", "x".repeat(2 * hash::TEXT_BLOCK));
    tree.0.write("inner", text("right"));
    tree.save();
    let arena = Arena::new();
    let mut data = tree.snapshot().read().unwrap();
    tree.0.write("inner", text("wrong"));
    // As if the file system had given both the same times.
    for manifest in &mut data.manifests.list {
        manifest.state.as_mut().unwrap().stamp = FileStamp::at(&manifest.path).unwrap();
    }
    let graph = arena.hold(data);
    let binding = |output: &[u8], name| {
        let edge = graph.in_edge(graph.lookup(output).unwrap()).unwrap();
        graph.binding(edge, name, Escape::Shell)
    };
    assert!(binding(b"d", b"y").unwrap_err().to_string().ends_with("inner: manifest changed during the build"));
    // It begins in the same block.
    assert!(binding(b"f", b"z").is_err());
}

#[test]
fn old_manifest_is_not_hashed() {
    let tree = Tree::new();
    let state =
        || crate::disk::Source::state(&crate::disk::Disk::open(&RealDisk, &tree.0.bytes("inner"), 100).unwrap());
    assert!(state().unwrap().text_hash.is_some());
    // The change of the time is itself new; it becomes old only by waiting.
    std::thread::sleep(Duration::from_millis(50));
    let whole = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos() == 0;
    assert!(whole || state().unwrap().text_hash.is_none());
}

#[test]
fn other_options_need_another_snapshot() {
    let tree = Tree::new();
    tree.save();
    let options = LoadOptions { phony_cycle_is_error: true, ..LoadOptions::default() };
    let opens = |snapshot: Snapshot| snapshot.open(&Arena::new(), &mut |_| {}).unwrap().is_some();
    assert!(!opens(tree.snapshot_with(options)));
    assert!(opens(tree.snapshot_with(LoadOptions { threads: ThreadLimit::ONE, ..LoadOptions::default() })));
    // The file name differs, so the key is checked only if the file is copied.
    let other = tree.snapshot_with(options);
    let arena = Arena::new();
    other.prepare(&tree.load(&arena), 0, true).unwrap().run(1).unwrap();
    let names = fs::read_dir(tree.0.at(".tanto/snapshots")).unwrap().map(|entry| entry.unwrap().path());
    let names: Vec<_> = names.collect();
    fs::copy(&names[0], tree.0.at("kept")).unwrap();
    fs::rename(&names[1], &names[0]).unwrap();
    fs::rename(tree.0.at("kept"), &names[1]).unwrap();
    assert!(!opens(tree.snapshot()) && !opens(other));
}

#[test]
fn snapshot_of_another_directory_is_ignored() {
    let (tree, other) = (Tree::new(), Scratch::new("validity-other"));
    tree.save();
    let elsewhere = || Snapshot::new(StateDirs::in_tree(other.path()), &tree.0.bytes("input"), LoadOptions::default());
    assert!(elsewhere().open(&Arena::new(), &mut |_| {}).unwrap().is_none());
    fs::rename(tree.0.at(".tanto"), other.at(".tanto")).unwrap();
    assert!(elsewhere().open(&Arena::new(), &mut |_| {}).unwrap().is_none());
}

#[test]
fn small_manifests_get_no_snapshot() {
    let tree = Tree::new();
    let arena = Arena::new();
    let graph = tree.load(&arena);
    assert!(tree.snapshot().prepare(&graph, 0, false).is_none());
    let comment = "# what nobody needs\n".repeat(crate::snapshot::MIN_MANIFEST_BYTES as usize / 20);
    tree.0.write("inner", comment);
    assert!(tree.snapshot().prepare(&tree.load(&arena), 0, false).is_some());
}

#[test]
fn manifest_without_a_file_gets_no_snapshot() {
    let tree = Tree::new();
    let arena = Arena::new();
    let files = crate::load::tests::Files::of(&[("input", "")]);
    let graph = load(&arena, &files, b"input", LoadOptions::default(), &mut |_| {}).unwrap();
    assert!(tree.snapshot().prepare(&graph, 0, true).is_none());
}

#[test]
fn no_snapshot_of_a_manifest_that_changed_since_loading() {
    let tree = Tree::new();
    let arena = Arena::new();
    let pending = tree.snapshot().prepare(&tree.load(&arena), 0, true).unwrap();
    tree.0.write("inner", "build d: c f g\n");
    pending.run(1).unwrap();
    assert!(!tree.0.at(".tanto").exists());
}

#[test]
fn cancelled_write_leaves_nothing() {
    let tree = Tree::new();
    let arena = Arena::new();
    let pending = tree.snapshot().prepare(&tree.load(&arena), 0, true).unwrap();
    pending.cancel();
    pending.run(1).unwrap();
    assert_eq!(fs::read_dir(tree.0.at(".tanto/snapshots")).unwrap().count(), 0);
}

#[test]
fn full_disk_is_an_error() {
    let tree = Tree::new();
    let arena = Arena::new();
    let graph = tree.load(&arena);
    let pending = tree.snapshot().prepare(&graph, 0, true).unwrap();
    let key = pending.snapshot.key().unwrap();
    let cancelled = std::sync::atomic::AtomicBool::new(false);
    let manifests = pending.manifests().unwrap();
    let logs = &pending.logs;
    let snapshot = super::SnapshotWriter {
        data: graph.data,
        key: &key,
        logs,
        manifests,
        checksums: Vec::new(),
        threads: 1,
        cancelled: &cancelled,
    };
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let error = snapshot.write(&full).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(!is_full(&io::ErrorKind::PermissionDenied.into()));
}

#[test]
fn file_that_is_not_a_snapshot_is_ignored() {
    let tree = Tree::new();
    tree.save();
    for content in [&b""[..], b"x", &[0; 4096], &[0xff; 70_000]] {
        fs::write(tree.file(), content).unwrap();
        assert!(!tree.opens());
    }
}
