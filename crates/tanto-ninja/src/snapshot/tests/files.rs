//! Location and permissions of snapshot files.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::{fs, io};

use tanto_sys::fs::state_dir::{StateDirs, StateLocation};
use tanto_testing::Scratch;

use crate::snapshot::files::SnapshotFiles;

fn place(scratch: &Scratch, name: &str) -> SnapshotFiles {
    SnapshotFiles::new(StateDirs::in_tree(scratch.path()), name.to_owned())
}

fn put(scratch: &Scratch, name: &str) {
    place(scratch, name).write(|file| io::Write::write_all(&mut &*file, b"text").map(|()| true)).unwrap();
}

#[test]
fn files_are_private_and_ignored_by_git() {
    let scratch = Scratch::new("place");
    assert!(place(&scratch, "a").files().next().is_none());
    put(&scratch, "a");
    let mode = |name: &str| fs::metadata(scratch.at(name)).unwrap().mode() & 0o777;
    let modes = [".tanto", ".tanto/snapshots", ".tanto/snapshots/a"].map(mode);
    assert_eq!(modes, [0o700, 0o700, 0o600]);
    assert_eq!(fs::read(scratch.at(".tanto/.gitignore")).unwrap(), b"*\n");
    assert_eq!(place(&scratch, "a").files().next().unwrap().metadata().unwrap().len(), 4);
    assert!(place(&scratch, "b").files().next().is_none());
    place(&scratch, "a").remove();
    assert!(place(&scratch, "a").files().next().is_none());
}

#[test]
fn files_writable_by_others_are_not_read() {
    let scratch = Scratch::new("place-others");
    put(&scratch, "a");
    for name in [".tanto/snapshots", ".tanto/snapshots/a"] {
        let mode = fs::metadata(scratch.at(name)).unwrap().permissions();
        for more in [0o020, 0o002] {
            fs::set_permissions(scratch.at(name), fs::Permissions::from_mode(mode.mode() | more)).unwrap();
            assert!(place(&scratch, "a").files().next().is_none(), "{name} {more:o}");
        }
        fs::set_permissions(scratch.at(name), mode).unwrap();
        assert!(place(&scratch, "a").files().next().is_some());
    }
    // Only root can change the owner.
    for name in [".tanto", ".tanto/snapshots", ".tanto/snapshots/a"] {
        let own = fs::metadata(scratch.at(name)).unwrap().uid();
        if chown(scratch.at(name), Some(own + 12_345), None).is_ok() {
            assert!(place(&scratch, "a").files().next().is_none(), "{name}");
            chown(scratch.at(name), Some(own), None).unwrap();
        }
    }
}

#[test]
fn directory_writable_by_others_is_not_used() {
    let scratch = Scratch::new("place-unsafe");
    fs::create_dir_all(scratch.at(".tanto/snapshots")).unwrap();
    fs::set_permissions(scratch.at(".tanto/snapshots"), fs::Permissions::from_mode(0o777)).unwrap();
    place(&scratch, "a").write(|_| panic!("it is not asked for")).unwrap();
    assert_eq!(fs::read_dir(scratch.at(".tanto/snapshots")).unwrap().count(), 0);
}

#[test]
fn symlinks_are_not_followed() {
    let scratch = Scratch::new("place-links");
    put(&scratch, "a");
    scratch.write("elsewhere/a", "text");
    fs::remove_file(scratch.at(".tanto/snapshots/a")).unwrap();
    symlink("../../elsewhere/a", scratch.at(".tanto/snapshots/a")).unwrap();
    assert!(place(&scratch, "a").files().next().is_none());
    fs::remove_dir_all(scratch.at(".tanto/snapshots")).unwrap();
    symlink("../elsewhere", scratch.at(".tanto/snapshots")).unwrap();
    assert!(place(&scratch, "a").files().next().is_none());
}

#[test]
fn uncreatable_directory_is_an_error() {
    let scratch = Scratch::new("place-file");
    scratch.write(".tanto", "a file");
    assert!(place(&scratch, "a").files().next().is_none());
    assert!(place(&scratch, "a").write(|_| Ok(true)).is_err());
    assert_eq!(fs::read(scratch.at(".tanto")).unwrap(), b"a file");
}

fn names(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.at(".tanto/snapshots")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn failed_write_keeps_the_old_snapshot() {
    let scratch = Scratch::new("place-fails");
    put(&scratch, "a");
    let full = |_: &fs::File| Err(io::ErrorKind::StorageFull.into());
    assert_eq!(place(&scratch, "a").write(full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    place(&scratch, "a").write(|_| Ok(false)).unwrap();
    assert_eq!(names(&scratch), ["a"]);
    assert_eq!(fs::read(scratch.at(".tanto/snapshots/a")).unwrap(), b"text");
}

#[test]
fn oldest_of_more_than_eight_are_removed() {
    let scratch = Scratch::new("place-many");
    for (number, name) in ["i", "h", "g", "f", "e", "d", "c", "b"].iter().enumerate() {
        put(&scratch, name);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number as u64 + 1);
        fs::File::open(scratch.at(&format!(".tanto/snapshots/{name}"))).unwrap().set_modified(time).unwrap();
    }
    put(&scratch, "i");
    assert_eq!(names(&scratch).len(), 8);
    put(&scratch, "a");
    assert_eq!(names(&scratch), ["a", "b", "c", "d", "e", "f", "g", "i"]);
}

#[test]
fn removes_leftovers_but_not_files_in_progress() {
    let scratch = Scratch::new("place-left");
    put(&scratch, "a");
    scratch.write(".tanto/snapshots/b.1.new", "left");
    let at_work = fs::File::create(scratch.at(".tanto/snapshots/c.2.new")).unwrap();
    at_work.lock().unwrap();
    put(&scratch, "a");
    assert_eq!(names(&scratch), ["a", "c.2.new"]);
    let mut written = false;
    place(&scratch, "c").write(|_| Ok(std::mem::replace(&mut written, true))).unwrap();
    assert!(!written, "another run writes this one already");
    drop(at_work);
    put(&scratch, "c");
    assert_eq!(names(&scratch), ["a", "c"]);
}

#[test]
fn snapshots_in_both_state_directories_are_found() {
    let (scratch, cache) = (Scratch::new("place-both"), Scratch::new("place-cache"));
    let [tree, cached] = [StateLocation::Tree, StateLocation::Cache]
        .map(|written| SnapshotFiles::new(StateDirs::of(scratch.path(), Some(cache.path()), written), "a".to_owned()));
    let put = |place: &SnapshotFiles, text: &[u8]| {
        place.write(|file| io::Write::write_all(&mut &*file, text).map(|()| true)).unwrap();
    };
    let lengths = |place: &SnapshotFiles| place.files().map(|file| file.metadata().unwrap().len()).collect::<Vec<_>>();
    put(&cached, b"12");
    assert!(!scratch.at(".tanto").exists());
    assert_eq!((lengths(&tree), lengths(&cached)), (vec![2], vec![2]));
    put(&tree, b"123");
    assert_eq!((lengths(&tree), lengths(&cached)), (vec![3, 2], vec![2, 3]));
    cached.remove();
    assert!(lengths(&tree).is_empty());
}
