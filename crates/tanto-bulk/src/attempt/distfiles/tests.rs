//! Tests of fetching: packages "fetch" files by copying them from a directory, and log it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tanto_testing::Scratch;

use super::*;
use crate::shell::tests::words;

/// Returns the fetch of a package with these files. Each file is logged in `log`.
fn fetch(place: &Scratch, package: &str, names: &str) -> Fetch {
    for dir in ["distdir", "server"] {
        fs::create_dir_all(place.at(dir)).unwrap();
    }
    let own = place.at(&format!("own-{package}"));
    let each = |act: &str| format!("set -e; cd {}; for file in {names}; do {act}; done", place.text());
    let dir = own.display();
    Fetch {
        distdir: place.at("distdir"),
        lock: place.at("lock"),
        have: each("test -f distdir/$file"),
        names: format!("echo {names}"),
        get: each(&format!(
            "test -f {dir}/$file || {{ echo $file >>log; mkdir -p $(dirname {dir}/$file); cp server/$file {dir}/$file; }}"
        )),
        hook: String::new(),
        own,
    }
}

fn log(place: &Scratch) -> String {
    fs::read_to_string(place.at("log")).unwrap_or_default()
}

#[test]
fn options_round_trip() {
    let place = Scratch::new("distfiles-words");
    let it = Fetch { hook: "echo 'it is' \"$1\"".into(), ..fetch(&place, "a", "x") };
    assert_eq!(Fetch::read(&words(&it.words())), Some(it));
    for wrong in ["--own=/a", "--own=/a --distdir=/b --lock=/c", "--odd=1", "own"] {
        assert_eq!(Fetch::read(&words(wrong)), None, "{wrong}");
    }
}

#[test]
fn files_are_fetched_once() {
    let place = Scratch::new("distfiles-once");
    let it = fetch(&place, "a", "one sub/two");
    place.write("server/one", "1");
    place.write("server/sub/two", "2");
    assert_eq!(it.run().unwrap(), 0);
    assert_eq!(fs::read_to_string(place.at("distdir/sub/two")).unwrap(), "2");
    assert_eq!(log(&place), "one\nsub/two\n");
    let data = fs::metadata(place.at("distdir/one")).unwrap();
    assert_eq!((data.permissions().mode() & 0o777, data.nlink()), (0o644, 1));
    place.write("server/three", "3");
    assert_eq!(fetch(&place, "b", "three one").run().unwrap(), 0);
    assert_eq!(fetch(&place, "b", "three one").run().unwrap(), 0);
    assert_eq!(log(&place), "one\nsub/two\nthree\n", "existing files are not fetched");
    assert!(!it.own.exists() && !place.at("own-b").exists());
}

#[test]
fn failed_fetch_leaves_nothing() {
    let place = Scratch::new("distfiles-failure");
    place.write("server/one", "1");
    assert_eq!(fetch(&place, "a", "one none").run().unwrap(), 1);
    let it = Fetch { hook: "exit 7".into(), ..fetch(&place, "a", "one") };
    assert_eq!(it.run().unwrap(), 7, "the hook refuses the file");
    assert_eq!(fs::read_dir(place.at("distdir")).unwrap().count(), 0);
    assert!(!it.own.exists());
}

#[test]
fn the_hook_gets_the_file_its_url_and_its_path() {
    let place = Scratch::new("distfiles-hook");
    place.write("server/one", "1");
    place.write("server/sub/two", "2");
    let mut it = fetch(&place, "a", "one sub/two");
    let hook = urls::argument(&it.own.to_string_lossy()).replace("POST_FETCH_HOOK=", "");
    it.get = format!("{} && {hook} ./one http://x/one?v=1", it.get);
    it.hook = format!("echo \"$(cat \"$1\") <$2> $3\" >>{}", place.at("seen").display());
    assert_eq!(it.run().unwrap(), 0);
    let seen = fs::read_to_string(place.at("seen")).unwrap();
    assert_eq!(seen, "1 <http://x/one?v=1> one\n2 <> sub/two\n", "an unknown URL is empty");
    let mut names: Vec<_> = fs::read_dir(place.at("distdir")).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "sub"]);
}

#[test]
fn concurrent_packages_fetch_a_file_once() {
    let place = Scratch::new("distfiles-several");
    for name in ["one", "two", "three"] {
        place.write(&format!("server/{name}"), name);
    }
    let wanted = ["one two", "two one", "three two", "one three", "two", "three"];
    let fetches: Vec<Fetch> =
        (0..).zip(wanted).map(|(number, names)| fetch(&place, &number.to_string(), names)).collect();
    let together = Barrier::new(fetches.len());
    thread::scope(|scope| {
        for it in &fetches {
            scope.spawn(|| {
                together.wait();
                assert_eq!(it.run().unwrap(), 0);
            });
        }
    });
    let log = log(&place);
    let mut fetched: Vec<&str> = log.lines().collect();
    fetched.sort_unstable();
    assert_eq!(fetched, ["one", "three", "two"]);
}

#[test]
fn links_and_special_files_are_not_published() {
    let place = Scratch::new("distfiles-links");
    place.write("secret", "secret");
    place.write("work.log", "log");
    let mut it = fetch(&place, "a", "one");
    let own = it.own.display().to_string();
    let text = place.text();
    it.get = format!(
        "cd {own}; ln -s {text}/secret link; mkdir sub; ln -s {text} sub/dir; ln {text}/work.log hard; echo x >.part; \
         echo x >half.pkgsrc.resume; mkfifo pipe; echo new >one"
    );
    assert_eq!(it.run().unwrap(), 0);
    let mut names: Vec<String> =
        fs::read_dir(place.at("distdir")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, [".part", "hard", "one"]);
    // The other hard link no longer shares its content.
    place.write("work.log", "other");
    assert_eq!(fs::read_to_string(place.at("distdir/hard")).unwrap(), "log");
    it.get = format!("rm -r {own}; ln -s {text} {own}");
    it.have = "false".into();
    assert!(it.run().is_err(), "the private directory is a link");
    fs::remove_file(&it.own).unwrap();
}

#[test]
fn names_outside_the_directory_are_skipped() {
    let text = b" a sub/b\n/etc/x ../y a/../b a  ./z";
    let names: Vec<String> = names(text).iter().map(|name| name.display().to_string()).collect();
    assert_eq!(names, ["a", "sub/b"]);
    assert_ne!(lock_offset(Path::new("a")), lock_offset(Path::new("b")));
    assert!(i64::try_from(lock_offset(Path::new("a"))).is_ok());
}

/// Waits for a value. A process that another test forks holds copies of our locks until its exec, also of those that `leftovers`
/// has just released.
fn soon<T>(value: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn temporary_files_of_killed_processes_are_found() {
    let place = Scratch::new("distfiles-left");
    let [dead, other] = [".tanto-7.new", "sub/deep/.tanto-a-1.new"].map(|name| {
        place.write(name, "half");
        place.at(name)
    });
    for name in ["a.7.new", ".b.new", ".tanto-c", "sub/tanto-8.new"] {
        place.write(name, "whole");
    }
    std::os::unix::fs::symlink(place.at("a.7.new"), place.at(".tanto-link.new")).unwrap();
    let found = || leftovers(place.path()).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(found(), [dead.clone(), other.clone()]);
    let claimed = atomic_move::claim(&other).unwrap();
    soon(|| (found() == std::slice::from_ref(&dead)).then_some(()));
    assert!(atomic_move::claim(&other).is_err());
    let taken = soon(|| Some(leftovers(place.path())).filter(|taken| taken.len() == 1));
    assert!(atomic_move::claim(&dead).is_err(), "the finder holds the lock");
    assert_eq!(taken[0].1.metadata().unwrap().len(), 4);
    drop((taken, claimed));
    soon(|| (found() == [dead.clone(), other.clone()]).then_some(()));
    assert_eq!(soon(|| atomic_move::claim(&other).ok()).metadata().unwrap().len(), 0, "it is truncated");
    assert!(leftovers(&place.at("none")).is_empty());
}

#[test]
fn files_being_moved_are_no_leftovers() {
    let place = Scratch::new("distfiles-way");
    place.write("from", "whole");
    let new = place.at(&atomic_move::temp_name("x"));
    let file = atomic_move::move_file(&place.at("from"), &new, true).unwrap();
    assert!(new.exists() && leftovers(place.path()).is_empty());
    drop(file);
    soon(|| (leftovers(place.path()).len() == 1).then_some(()));
    // A file with other hard links is copied.
    fs::hard_link(&new, place.at("other")).unwrap();
    let copy = atomic_move::move_file(&new, &place.at("copy"), true).unwrap();
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_to_string(place.at("copy")).unwrap(), "whole");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "no temporary file remains");
}
