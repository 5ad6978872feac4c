//! Tests of trees.

mod attacks;
mod changes;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tanto_sys::threads::ThreadLimit;
use tanto_testing::Scratch;

use super::*;
use crate::manifest::{ManifestLimits, TreeMode};
use crate::store::{Durability, StoreLimits};
use crate::{Digest, Manifest, Store};

fn scan_of(place: &Scratch, name: &str) -> Manifest {
    scan(&place.at(name), &ScanOptions::default(), &mut DigestCache::default()).unwrap()
}

fn store(place: &Scratch) -> Store {
    Store::open(&place.at("store"), StoreLimits::default()).unwrap()
}

/// Adds the contents of a tree to the store.
fn import(place: &Scratch, name: &str, store: &Store) -> Manifest {
    let manifest = scan_of(place, name);
    let blobs = TreeBlobs::new(&place.at(name), &manifest).unwrap();
    for blob in manifest.blobs() {
        assert_eq!(blobs.get(&blob.digest), Some(blob));
        let mut content = blobs.open(&blob.digest).unwrap().unwrap();
        store.put(&mut content, &blob.digest, blob.size, Durability::Process).unwrap();
    }
    assert!(blobs.get(&Digest::of(b"absent")).is_none());
    manifest
}

fn sample(place: &Scratch, top: &str) {
    for name in ["a/b/c", "a/x", "a-", "e f"] {
        place.write(&format!("{top}/{name}"), name);
    }
    fs::set_permissions(place.at(&format!("{top}/a/x")), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir_all(place.at(&format!("{top}/empty/dir"))).unwrap();
    symlink("../nowhere", place.at(&format!("{top}/a/link"))).unwrap();
}

#[test]
fn a_scan_lists_files_links_and_empty_directories() {
    let place = Scratch::new("cas-scan");
    sample(&place, "t");
    let manifest = scan_of(&place, "t");
    let found: Vec<_> = manifest.entries().iter().map(|it| (it.mode, str::from_utf8(&it.path).unwrap())).collect();
    let expected = [
        (TreeMode::File, "a/b/c"),
        (TreeMode::Symlink, "a/link"),
        (TreeMode::Executable, "a/x"),
        (TreeMode::File, "a-"),
        (TreeMode::File, "e f"),
        (TreeMode::EmptyDir, "empty/dir"),
    ];
    assert_eq!(found, expected);
    assert_eq!(manifest.entries()[1].digest, Digest::of(b"../nowhere"));
    fs::create_dir(place.at("none")).unwrap();
    assert_eq!(scan_of(&place, "none"), Manifest::default());
}

#[test]
fn a_tree_survives_the_store() {
    let place = Scratch::new("cas-roundtrip");
    let store = store(&place);
    sample(&place, "t");
    let manifest = import(&place, "t", &store);
    let manifest = Manifest::parse(&manifest.text(), &ManifestLimits::default()).unwrap();
    let (options, mut cache) = (ScanOptions::default(), DigestCache::default());
    let applied = sync(&store, &manifest, &place.at("copy"), &options, &mut cache).unwrap();
    assert_eq!((applied.written, applied.removed), (6, 0));
    assert_eq!(scan_of(&place, "copy").digest(), manifest.digest());
    let again = sync(&store, &manifest, &place.at("copy"), &options, &mut cache).unwrap();
    assert_eq!(again, Applied::default());
}

#[test]
fn ignored_directories_are_no_part_of_a_tree() {
    let place = Scratch::new("cas-ignored");
    let store = store(&place);
    for name in ["t/f", "t/CVS/Root", "t/d/CVS/Root", "t/d/.git"] {
        place.write(name, name);
    }
    let options = ScanOptions { ignored_dirs: vec![b"CVS".into(), b".git".into()], ..ScanOptions::default() };
    let manifest = scan(&place.at("t"), &options, &mut DigestCache::default()).unwrap();
    let paths: Vec<_> = manifest.entries().iter().map(|it| str::from_utf8(&it.path).unwrap()).collect();
    assert_eq!(paths, ["d/.git", "f"], "only directories are ignored");
    let empty = Manifest::default();
    sync(&store, &empty, &place.at("t"), &options, &mut DigestCache::default()).unwrap();
    assert!(place.at("t/d/CVS/Root").exists() && !place.at("t/f").exists());
}

#[test]
fn limits_apply_to_scans() {
    let place = Scratch::new("cas-scan-limits");
    sample(&place, "t");
    let scan = |limits| {
        let options = ScanOptions { limits, ..ScanOptions::default() };
        scan(&place.at("t"), &options, &mut DigestCache::default())
    };
    let limits = ManifestLimits { entries: 6, ..ManifestLimits::default() };
    scan(limits).unwrap();
    let refused = [ManifestLimits { entries: 5, ..limits }, ManifestLimits { total_bytes: 9, ..limits }];
    assert!(refused.into_iter().all(|limits| matches!(scan(limits), Err(TreeError::Manifest(_)))));
}

#[test]
fn manifests_do_not_depend_on_the_number_of_threads() {
    let place = Scratch::new("cas-threads");
    for number in 0..300 {
        place.write(&format!("t/{}/{number}", number % 7), number.to_string());
    }
    let scan = |threads| {
        let options = ScanOptions { threads, ..ScanOptions::default() };
        scan(&place.at("t"), &options, &mut DigestCache::default()).unwrap()
    };
    let many = ThreadLimit::AtMost(std::num::NonZeroUsize::new(8).unwrap());
    assert_eq!(scan(ThreadLimit::ONE), scan(many));
}
