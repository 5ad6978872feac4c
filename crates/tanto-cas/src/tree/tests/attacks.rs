//! Tests with files that deceive a scan, and with directories that lead out of a tree.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use super::*;
use crate::manifest::TreeEntry;

fn options() -> ScanOptions {
    ScanOptions::default()
}

/// Waits until new files are not racy.
fn settle() {
    sleep(Duration::from_millis(50));
}

/// Overwrites a file and restores its mtime.
fn replace_silently(place: &Scratch, name: &str, content: &str) {
    let mut file = File::options().write(true).open(place.at(name)).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn the_cache_answers_for_unchanged_files() {
    let place = Scratch::new("cas-cached");
    place.write("t/f", "one");
    settle();
    let mut cache = DigestCache::default();
    let manifest = scan(&place.at("t"), &options(), &mut cache).unwrap();
    assert_eq!(cache.len(), 1);
    cache.save(&place.at("cache")).unwrap();
    let mut loaded = DigestCache::load(&place.at("cache"));
    assert_eq!(scan(&place.at("t"), &options(), &mut loaded).unwrap(), manifest);
    // A wrong digest in the cache shows that the file is not read.
    let mut wrong = cache.clone();
    wrong.falsify(b"f");
    assert_ne!(scan(&place.at("t"), &options(), &mut wrong).unwrap(), manifest);
    std::fs::remove_file(place.at("t/f")).unwrap();
    scan(&place.at("t"), &options(), &mut cache).unwrap();
    assert!(cache.is_empty());
}

#[test]
fn a_file_with_the_same_size_and_mtime_is_noticed() {
    let place = Scratch::new("cas-silent");
    place.write("t/f", "one");
    settle();
    let mut cache = DigestCache::default();
    scan(&place.at("t"), &options(), &mut cache).unwrap();
    replace_silently(&place, "t/f", "two");
    let manifest = scan(&place.at("t"), &options(), &mut cache).unwrap();
    assert_eq!(manifest.entries()[0].digest, Digest::of(b"two"));
}

#[test]
fn a_file_that_was_just_written_is_read_again() {
    let place = Scratch::new("cas-racy");
    // Many changes within the granularity of timestamps.
    let mut cache = DigestCache::default();
    for round in 0..200 {
        let content = format!("{round:03}");
        place.write("t/f", "xyz");
        scan(&place.at("t"), &options(), &mut cache).unwrap();
        replace_silently(&place, "t/f", &content);
        let manifest = scan(&place.at("t"), &options(), &mut cache).unwrap();
        assert_eq!(manifest.entries()[0].digest, Digest::of(content.as_bytes()));
    }
    // A file from the future never gets into the cache: the clock was set back.
    let file = File::open(place.at("t/f")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    settle();
    scan(&place.at("t"), &options(), &mut cache).unwrap();
    assert!(cache.is_empty());
}

#[test]
fn pipes_and_sockets_are_reported_or_removed() {
    let place = Scratch::new("cas-special");
    place.write("t/d/f", "content");
    let _socket = UnixListener::bind(place.at("t/d/socket")).unwrap();
    let found = scan(&place.at("t"), &options(), &mut DigestCache::default());
    assert!(matches!(found, Err(TreeError::Special(path)) if path == b"d/socket"));
    let store = store(&place);
    sync(&store, &Manifest::default(), &place.at("t"), &options(), &mut DigestCache::default()).unwrap();
    assert_eq!(fs::read_dir(place.at("t")).unwrap().count(), 0);
}

#[test]
fn symbolic_links_lead_nowhere() {
    let place = Scratch::new("cas-escape");
    let store = store(&place);
    for name in ["wanted/d/e/f", "wanted/d/g", "wanted/h"] {
        place.write(name, "new");
    }
    let wanted = import(&place, "wanted", &store);
    place.write("outside/e/f", "precious");
    place.write("outside/g", "precious");
    let is_intact = || {
        let files = ["outside/e/f", "outside/g"].map(|name| fs::read_to_string(place.at(name)).unwrap());
        files == ["precious", "precious"] && fs::read_dir(place.at("outside")).unwrap().count() == 2
    };
    // Someone replaced a directory and a file by links. `apply` trusts the manifest `before`.
    for before in [Manifest::default(), wanted.clone()] {
        let _ = fs::remove_dir_all(place.at("t"));
        fs::create_dir(place.at("t")).unwrap();
        symlink(place.at("outside"), place.at("t/d")).unwrap();
        symlink(place.at("outside/g"), place.at("t/h")).unwrap();
        symlink(place.at("outside"), place.at("t/.tanto-temp")).unwrap();
        apply(&store, &before, &Manifest::default(), &place.at("t"), &options()).unwrap();
        assert!(is_intact());
        apply(&store, &Manifest::default(), &wanted, &place.at("t"), &options()).unwrap();
        assert!(is_intact());
        assert_eq!(scan_of(&place, "t"), wanted);
    }
    // A scan does not look behind links, nor does the reader of blobs.
    fs::remove_dir_all(place.at("t/d")).unwrap();
    symlink(place.at("outside"), place.at("t/d")).unwrap();
    assert_eq!(scan_of(&place, "t").entries()[0].mode, TreeMode::Symlink);
    let blobs = TreeBlobs::new(&place.at("t"), &wanted).unwrap();
    assert!(blobs.open(&Digest::of(b"new")).is_err());
    sync(&store, &wanted, &place.at("t"), &options(), &mut DigestCache::default()).unwrap();
    assert!(is_intact());
    assert_eq!(scan_of(&place, "t"), wanted);
}

#[test]
fn blobs_that_do_not_fit_are_refused() {
    let place = Scratch::new("cas-misfit");
    let store = store(&place);
    fs::create_dir(place.at("t")).unwrap();
    let add = |content: &[u8]| store.add(&mut &content[..], 99, Durability::Process).unwrap().digest;
    let (nul, file) = (add(b"a\0b"), add(b"content"));
    let wanted = |mode, digest, size, path: &str| {
        let entry = TreeEntry { mode, digest, size, path: path.into() };
        let wanted = Manifest::new(vec![entry], &ManifestLimits::default()).unwrap();
        apply(&store, &Manifest::default(), &wanted, &place.at("t"), &options())
    };
    assert!(matches!(wanted(TreeMode::Symlink, nul, 3, "l"), Err(TreeError::Target(_))));
    assert!(matches!(wanted(TreeMode::Symlink, file, 6, "l"), Err(TreeError::Size(_))));
    assert!(matches!(wanted(TreeMode::File, file, 6, "f"), Err(TreeError::Size(_))));
    assert!(matches!(wanted(TreeMode::File, Digest::of(b"absent"), 6, "f"), Err(TreeError::Store(_))));
    assert!(matches!(wanted(TreeMode::File, file, 7, ".tanto-temp/f"), Err(TreeError::Reserved(_))));
    assert_eq!(scan_of(&place, "t"), Manifest::default());
}
