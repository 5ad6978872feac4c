//! Tests of the state directories.

use std::os::unix::fs::{PermissionsExt, chown};

use super::*;
use tanto_testing::Scratch;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A user's cache and a build directory.
struct Home(Scratch);

impl Home {
    fn new(name: &str) -> Home {
        let home = Home(Scratch::new(name));
        fs::create_dir_all(home.0.at("build")).unwrap();
        home
    }

    fn state_of(&self, dir: &str, written: StateLocation) -> StateDirs {
        StateDirs::of(&self.0.at(dir), Some(&self.0.at("cache")), written)
    }

    fn state(&self) -> StateDirs {
        self.state_of("build", StateLocation::Cache)
    }

    fn cache(&self, dir: &str) -> Cache {
        self.state_of(dir, StateLocation::Cache).cache.unwrap()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Sets the times of a directory and everything in it.
fn make_old(top: &Path, time: SystemTime) {
    for entry in fs::read_dir(top).unwrap().flatten() {
        if entry.path().is_dir() {
            make_old(&entry.path(), time);
        }
        set_times(&entry.path(), time);
    }
    set_times(top, time);
}

fn set_times(path: &Path, time: SystemTime) {
    let times = fs::FileTimes::new().set_modified(time).set_accessed(time);
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn the_cache_directory_is_private_and_names_its_build_directory() {
    let home = Home::new("state");
    let state = home.state();
    let top = state.write_dir().unwrap();
    assert!(!home.0.at("cache").exists());
    assert_eq!(state.make().unwrap(), top);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let tanto = home.0.at("cache/tanto");
    let modes = [&home.0.at("cache"), &tanto, &tanto.join("builds"), top, &top.join(NAME)].map(mode);
    assert_eq!(modes, [0o700, 0o700, 0o700, 0o700, 0o600]);
    assert_eq!(fs::read_to_string(top.join(NAME)).unwrap(), format!("{}\n", home.0.at("build").display()));
    assert_eq!(state.make().unwrap(), top);
    assert!(!home.0.at("build/.tanto").exists());
    assert_eq!(digest(Path::new("a")), "d228cb696f1a8caf78912b704e4a8964", "known for FNV-1a with 128 bits");
}

#[test]
fn both_places_are_read_the_written_one_first() {
    let home = Home::new("state-both");
    let (tree, cache) = (home.0.at("build/.tanto"), home.cache("build").top);
    let places = |state: &StateDirs| state.read_dirs().map(Path::to_path_buf).collect::<Vec<_>>();
    assert_eq!(places(&home.state()), [cache.clone(), tree.clone()]);
    assert_eq!(places(&home.state_of("build", StateLocation::Tree)), [tree.clone(), cache]);
    let alone = StateDirs::of(&home.0.at("build"), None, StateLocation::Cache);
    assert_eq!((places(&alone), alone.write_dir()), (vec![tree], None));
    assert!(alone.make().is_err() && alone.is_best_effort() && !StateDirs::in_tree(Path::new("x")).is_best_effort());
    let (link, relative) = (home.0.at("link"), Path::new("cache"));
    std::os::unix::fs::symlink("build", &link).unwrap();
    assert_eq!(
        home.state_of("link", StateLocation::Cache).write_dir(),
        home.state().write_dir(),
        "the path is the canonical one"
    );
    assert!(StateDirs::of(&link, Some(relative), StateLocation::Cache).write_dir().is_none());
    assert!(home.state_of("none", StateLocation::Cache).write_dir().is_none());
}

#[test]
fn a_cache_of_another_user_is_not_used() {
    let home = Home::new("state-own");
    let (state, base) = (home.state(), home.0.at("cache"));
    state.make().unwrap();
    let inner = [home.0.at("cache/tanto"), home.0.at("cache/tanto/builds"), state.write_dir().unwrap().into()];
    for path in &inner {
        for mode in [0o720, 0o702] {
            set_mode(path, mode);
            assert!(state.make().is_err(), "{} {mode:o}", path.display());
        }
        set_mode(path, 0o700);
    }
    set_mode(&base, 0o775);
    assert!(state.make().is_ok(), "a group of one is common");
    set_mode(&base, 0o777);
    assert!(state.make().is_err());
    set_mode(&base, 0o700);
    // Only root may change owners.
    for path in inner.iter().chain([&base]) {
        if chown(path, Some(user::effective() + 12_345), None).is_ok() {
            assert!(state.make().is_err(), "{}", path.display());
            chown(path, Some(user::effective()), None).unwrap();
        }
    }
    fs::remove_dir_all(&base).unwrap();
    set_mode(home.0.path(), 0o777);
    assert!(state.make().is_err() && !base.exists());
    set_mode(home.0.path(), 0o755);
    assert!(StateDirs::of(&home.0.at("build"), Some(&home.0.at("a/b/c")), StateLocation::Cache).make().is_err());
    assert!(!home.0.at("a").exists(), "a home that is missing is not made");
}

#[test]
fn the_state_of_another_directory_is_replaced() {
    let home = Home::new("state-other");
    let state = home.state();
    let top = state.make().unwrap();
    fs::write(top.join("kept"), "").unwrap();
    assert!(state.make().is_ok() && top.join("kept").exists());
    assert_eq!(state.verified_dirs().count(), 2);
    fs::write(top.join(NAME), "/elsewhere\n").unwrap();
    assert_eq!((state.read_dirs().count(), state.verified_dirs().count()), (2, 1));
    state.make().unwrap();
    assert!(!top.join("kept").exists());
    assert_eq!(state.verified_dirs().count(), 2);
}

#[test]
fn unused_state_is_removed_once_a_day() {
    let home = Home::new("state-sweep");
    for dir in ["gone", "old", "read"] {
        fs::create_dir(home.0.at(dir)).unwrap();
    }
    let now = SystemTime::now();
    let [gone, old, read, kept] = ["gone", "old", "read", "build"].map(|dir| home.cache(dir));
    for cache in [&gone, &old, &read, &kept] {
        cache.make(now).unwrap();
        fs::create_dir(cache.top.join("snapshots")).unwrap();
        fs::write(cache.top.join("snapshots/x"), "").unwrap();
    }
    let builds = home.0.at("cache/tanto/builds");
    let [unnamed, foreign] = ["unnamed", "foreign"].map(|name| builds.join(name));
    for top in [&unnamed, &foreign] {
        fs::create_dir(top).unwrap();
        make_old(top, now - 2 * DAY);
    }
    let all = [&gone.top, &old.top, &read.top, &unnamed, &foreign];
    let left = || all.map(|top| top.exists());
    fs::remove_dir(home.0.at("gone")).unwrap();
    make_old(&old.top, now - 91 * DAY);
    make_old(&read.top, now - 91 * DAY);
    let opened = fs::FileTimes::new().set_accessed(now - DAY).set_modified(now - 91 * DAY);
    fs::File::open(read.top.join("snapshots/x")).unwrap().set_times(opened).unwrap();
    kept.make(now).unwrap();
    assert_eq!(left(), [true; 5], "not so soon again");
    kept.make(now + 2 * DAY).unwrap();
    assert_eq!(left(), [false, false, true, false, false]);
    assert!(kept.is_named() && kept.top.join("snapshots/x").exists());
}
