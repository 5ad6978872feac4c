//! Tests that change trees into each other.

use tanto_testing::{Random, seeds};

use super::*;
use crate::manifest::TreeEntry;

/// More would take minutes.
const MAX_SEEDS: usize = 150;

fn options() -> ScanOptions {
    ScanOptions::default()
}

/// Writes a random tree in which names are files, links or directories.
fn write_random(place: &Scratch, top: &str, random: &mut Random) {
    fs::create_dir(place.at(top)).unwrap();
    for _ in 0..random.below(25) {
        let parts: Vec<&str> = (0..=random.below(3)).map(|_| *random.pick(&["a", "b", "a-", "c\n"])).collect();
        let path = place.at(top).join(parts.join("/"));
        // A file is in the place of a directory, or the other way around.
        if fs::create_dir_all(path.parent().unwrap()).is_err() || fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match random.below(5) {
            0 => fs::create_dir(&path).unwrap(),
            1 => symlink(random.pick::<&str>(&["a", "/", "..", "b/a"]), &path).unwrap(),
            _ => {
                fs::write(&path, random.below(5).to_string()).unwrap();
                let mode = *random.pick(&[0o644, 0o755, 0o600, 0o711]);
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// Lists everything in a tree: a link could hide a wrong directory.
fn names(place: &Scratch, top: &str) -> Vec<String> {
    let (mut names, mut open) = (Vec::new(), vec![place.at(top)]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            names.push(format!(
                "{:?} {:?}",
                entry.path().strip_prefix(place.at(top)).unwrap(),
                entry.file_type().unwrap()
            ));
            open.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
        }
    }
    names.sort();
    names
}

#[test]
fn random_trees_become_each_other() {
    for seed in seeds(15).take(MAX_SEEDS) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let place = Scratch::new("cas-change");
        let store = store(&place);
        for top in ["old", "new"] {
            write_random(&place, top, &mut random);
        }
        let [old, new] = ["old", "new"].map(|top| import(&place, top, &store));
        let mut cache = DigestCache::default();
        fs::create_dir(place.at("t")).unwrap();
        let apply = |before: &Manifest, wanted: &Manifest| {
            apply(&store, before, wanted, &place.at("t"), &options()).unwrap();
            assert_eq!(scan_of(&place, "t"), *wanted, "seed {seed}");
        };
        apply(&Manifest::default(), &old);
        assert_eq!(names(&place, "t"), names(&place, "old"), "seed {seed}");
        apply(&old, &new);
        assert_eq!(names(&place, "t"), names(&place, "new"), "seed {seed}");
        // The same again changes nothing.
        let unchanged = sync(&store, &new, &place.at("t"), &options(), &mut cache).unwrap();
        assert_eq!(unchanged, Applied::default(), "seed {seed}");
        sync(&store, &old, &place.at("t"), &options(), &mut cache).unwrap();
        assert_eq!(names(&place, "t"), names(&place, "old"), "seed {seed}");
    }
}

#[test]
fn a_tree_shares_files_with_another_one() {
    for seed in seeds(15).take(MAX_SEEDS) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let place = Scratch::new("cas-linked");
        for top in ["old", "new"] {
            write_random(&place, top, &mut random);
        }
        let [full, changes] =
            ["full", "changes"].map(|name| Store::open(&place.at(name), StoreLimits::default()).unwrap());
        let old = import(&place, "old", &full);
        let new = import(&place, "new", &full);
        let linked = link(&place.at("old"), &old, &place.at("t"), &new, &options()).unwrap();
        assert_eq!(scan_of(&place, "t"), linked, "seed {seed}");
        let is_shared = |entry: &TreeEntry| old.entries().contains(entry) && entry.mode != TreeMode::EmptyDir;
        assert!(new.entries().iter().all(|entry| is_shared(entry) == linked.entries().contains(entry)), "seed {seed}");
        // Only the other contents are needed.
        for blob in new.entries().iter().filter(|it| !is_shared(it) && it.mode != TreeMode::EmptyDir) {
            let mut content = full.read_verified(&blob.digest).unwrap();
            changes.put(&mut content, &blob.digest, blob.size, Durability::Process).unwrap();
        }
        apply(&changes, &linked, &new, &place.at("t"), &options()).unwrap();
        assert_eq!(scan_of(&place, "t"), new, "seed {seed}");
        assert_eq!(scan_of(&place, "old"), old, "seed {seed}");
    }
}

#[test]
fn an_interrupted_change_continues() {
    for seed in seeds(12).take(MAX_SEEDS) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let place = Scratch::new("cas-interrupted");
        let (full, partial) = (store(&place), Store::open(&place.at("partial"), StoreLimits::default()).unwrap());
        for top in ["old", "t"] {
            write_random(&place, top, &mut Random::new(seed));
            assert!(place.at(top).exists());
        }
        write_random(&place, "new", &mut random);
        let [old, new] = ["old", "new"].map(|top| import(&place, top, &full));
        // Some blobs are missing, so that the change ends somewhere.
        for blob in new.blobs().filter(|blob| blob.digest.0[0] % 2 == seed as u8 % 2) {
            let mut content = full.read_verified(&blob.digest).unwrap();
            partial.put(&mut content, &blob.digest, blob.size, Durability::Process).unwrap();
        }
        let _ = apply(&partial, &old, &new, &place.at("t"), &options());
        sync(&full, &new, &place.at("t"), &options(), &mut DigestCache::default()).unwrap();
        assert_eq!(scan_of(&place, "t"), new, "seed {seed}");
        assert_eq!(names(&place, "t"), names(&place, "new"), "seed {seed}");
    }
}

#[test]
fn only_different_files_are_touched() {
    let place = Scratch::new("cas-untouched");
    let store = store(&place);
    for name in ["same", "changed", "gone"] {
        place.write(&format!("t/{name}"), "1");
    }
    let before = scan_of(&place, "t");
    for (name, content) in [("same", "1"), ("changed", "2"), ("added", "1")] {
        place.write(&format!("new/{name}"), content);
    }
    let wanted = import(&place, "new", &store);
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.at(name)).unwrap());
    let same = inode("t/same");
    let applied = apply(&store, &before, &wanted, &place.at("t"), &options()).unwrap();
    assert_eq!(applied, Applied { written: 2, removed: 1, written_bytes: 2 });
    assert_eq!(inode("t/same"), same);
}
