//! Tests of observations and their digests.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::input_names::NameTable;
use crate::places::Places;
use tanto_sys::fs::fingerprint::wait_for_known_files;
use tanto_testing::{Random, Scratch, seeds};

fn observer() -> Observer {
    Observer::new(
        Environment::inherit_with(&[("A".into(), "1".into())]),
        KnownFiles::default(),
        RecentDigests::default(),
    )
}

fn list(dir: &Scratch, names: &[(Aspect, &str)]) -> Vec<(Aspect, Vec<u8>)> {
    names.iter().map(|&(aspect, name)| (aspect, dir.bytes(name))).collect()
}

fn digest(observer: &mut Observer, list: &[(Aspect, Vec<u8>)]) -> Option<Digest> {
    observer.distrust_all();
    let names: Vec<_> = list.iter().map(|(aspect, name)| InputName { aspect: *aspect, name, id: None }).collect();
    observer.evaluate(&names, &Places::NONE).map(|evaluation| evaluation.digest)
}

#[test]
fn each_change_changes_the_digest() {
    let dir = Scratch::new("cache-observer");
    dir.write("f", "one");
    dir.write("d/a", "");
    symlink("f", dir.at("l")).unwrap();
    let all = list(
        &dir,
        &[
            (Aspect::Content, "f"),
            (Aspect::Content, "d"),
            (Aspect::Presence, "absent"),
            (Aspect::Presence, "d"),
            (Aspect::Link, "l"),
            (Aspect::Resolved, "l"),
        ],
    );
    let mut observer = observer();
    let mut before = digest(&mut observer, &all).unwrap();
    assert_eq!(digest(&mut observer, &all), Some(before));
    let changes: [&dyn Fn(); 6] = [
        &|| dir.write("f", "two"),
        &|| dir.write("d/b", ""),
        &|| dir.write("absent", ""),
        &|| fs::remove_file(dir.at("d/b")).unwrap(),
        &|| {
            fs::remove_file(dir.at("l")).unwrap();
            symlink("d", dir.at("l")).unwrap();
        },
        &|| fs::remove_file(dir.at("absent")).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        wait_for_known_files();
        change();
        let after = digest(&mut observer, &all).unwrap();
        assert_ne!(after, before, "change {number}");
        before = after;
    }
}

#[test]
fn a_file_of_equal_size_and_mtime_is_read_again() {
    let dir = Scratch::new("cache-observer-mtime");
    dir.write("f", "one");
    wait_for_known_files();
    let all = list(&dir, &[(Aspect::Content, "f")]);
    let mut observer = observer();
    let before = digest(&mut observer, &all);
    let mtime = fs::metadata(dir.at("f")).unwrap().modified().unwrap();
    dir.write("f", "two");
    fs::File::options().write(true).open(dir.at("f")).unwrap().set_modified(mtime).unwrap();
    assert_ne!(digest(&mut observer, &all), before);
}

#[test]
fn equal_files_are_told_apart() {
    let dir = Scratch::new("cache-observer-equal");
    dir.write("a", "same");
    fs::hard_link(dir.at("a"), dir.at("b")).unwrap();
    let all = list(&dir, &[(Aspect::Content, "a"), (Aspect::Content, "b")]);
    let mut observer = observer();
    let one_file = digest(&mut observer, &all).unwrap();
    fs::remove_file(dir.at("b")).unwrap();
    dir.write("b", "same");
    let set_time = |name: &str, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::options().write(true).open(dir.at(name)).unwrap().set_modified(time).unwrap();
    };
    set_time("a", 1000);
    set_time("b", 1000);
    let equal_times = digest(&mut observer, &all).unwrap();
    set_time("b", 1001);
    let other_times = digest(&mut observer, &all).unwrap();
    assert!(one_file != equal_times && equal_times != other_times && one_file != other_times);
    set_time("a", 1001);
    assert_eq!(digest(&mut observer, &all), Some(equal_times), "only whether the times are equal counts");
}

#[test]
fn two_names_of_a_directory_are_told_from_two_directories() {
    let dir = Scratch::new("cache-observer-dirs");
    fs::create_dir_all(dir.at("a")).unwrap();
    symlink("a", dir.at("b")).unwrap();
    let all = list(&dir, &[(Aspect::Presence, "a"), (Aspect::Presence, "b")]);
    let mut observer = observer();
    let one = digest(&mut observer, &all).unwrap();
    fs::remove_file(dir.at("b")).unwrap();
    fs::create_dir(dir.at("b")).unwrap();
    assert_ne!(digest(&mut observer, &all), Some(one));
}

#[test]
fn what_was_seen_is_remembered_until_something_may_have_changed() {
    let dir = Scratch::new("cache-observer-memory");
    let absent = dir.bytes("absent");
    let mut observer = observer();
    assert_eq!(observer.see(Aspect::Presence, &absent).seen, Seen::Nothing);
    dir.write("absent", "");
    assert_eq!(observer.see(Aspect::Presence, &absent).seen, Seen::Nothing);
    observer.distrust_all();
    assert!(
        matches!(&observer.see(Aspect::Presence, &absent).seen, Seen::Present(stat) if stat.kind == FileKind::File)
    );
    fs::remove_file(dir.at("absent")).unwrap();
    observer.file_was_written(b"other/absent");
    assert_eq!(observer.see(Aspect::Presence, &absent).seen, Seen::Nothing);
}

#[test]
fn a_file_from_the_future_cannot_be_compared() {
    let dir = Scratch::new("cache-observer-future");
    dir.write("f", "one");
    let all = list(&dir, &[(Aspect::Content, "f")]);
    let mut observer = observer();
    assert!(digest(&mut observer, &all).is_some());
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1000);
    fs::File::options().write(true).open(dir.at("f")).unwrap().set_modified(later).unwrap();
    assert_eq!(digest(&mut observer, &all), None);
}

#[test]
fn variables_and_devices_can_be_compared_but_pipes_cannot() {
    let dir = Scratch::new("cache-observer-others");
    let mut observer = observer();
    assert_eq!(observer.see(Aspect::Variable, b"A").seen, Seen::Text(b"1".to_vec()));
    assert_eq!(observer.see(Aspect::Variable, b"NO_SUCH_VARIABLE").seen, Seen::Nothing);
    assert_eq!(observer.see(Aspect::Content, b"/dev/null").seen, Seen::Device);
    let made = std::process::Command::new("mkfifo").arg(dir.at("pipe")).status().unwrap();
    assert!(made.success());
    assert_eq!(observer.see(Aspect::Content, &dir.bytes("pipe")).seen, Seen::Unknown);
}

#[test]
fn digests_are_kept_between_builds() {
    let dir = Scratch::new("cache-observer-known");
    dir.write("f", "content");
    wait_for_known_files();
    let observe = || {
        let known = KnownFiles::open(&dir.at("known"));
        let mut observer = Observer::new(Environment::inherit_with(&[]), known, RecentDigests::default());
        observer.see(Aspect::Content, &dir.bytes("f")).seen.clone()
    };
    let first = observe();
    let slots = fs::read(dir.at("known")).unwrap();
    assert_eq!(observe(), first);
    assert_eq!(fs::read(dir.at("known")).unwrap(), slots, "nothing is new");
    dir.write("f", "another");
    let Seen::File(seen) = observe() else { panic!("it is a file") };
    assert_eq!(seen.digest, ContentDigest::of(b"another"));
}

#[test]
fn paths_are_resolved_as_the_library_does() {
    let dir = Scratch::new("cache-observer-resolved");
    for file in ["one/f", "one/sub/g", "two/f"] {
        dir.write(file, "");
    }
    symlink("one", dir.at("link")).unwrap();
    symlink("../two/f", dir.at("one/away")).unwrap();
    symlink("nowhere", dir.at("one/dangling")).unwrap();
    let names = [
        "one/f",
        "link/f",
        "link/sub/g",
        "link/sub/../f",
        "link/./f",
        "link//f",
        "link/sub",
        "link/sub/",
        "link/away",
        "link/dangling",
        "link/none",
        "none/f",
        "one/f/g",
        "link/..",
        "link",
    ];
    let mut observer = observer();
    for target in ["one", "two"] {
        fs::remove_file(dir.at("link")).unwrap();
        symlink(target, dir.at("link")).unwrap();
        observer.distrust_all();
        for name in names {
            let expected = resolved(&dir.bytes(name));
            assert_eq!(observer.see(Aspect::Resolved, &dir.bytes(name)).seen, expected, "{name} by {target}");
        }
    }
    for root in ["/", "/etc", "//etc", "/.", "/proc/self/exe"] {
        let expected = resolved(root.as_bytes());
        assert_eq!(observer.see(Aspect::Resolved, root.as_bytes()).seen, expected, "{root}");
    }
}

#[test]
fn a_resolved_path_is_as_old_as_its_directory() {
    let dir = Scratch::new("cache-observer-resolved-at");
    dir.write("d/a", "");
    dir.write("d/b", "");
    let mut observer = observer();
    let at = observer.see(Aspect::Resolved, &dir.bytes("d/a")).at;
    wait_for_known_files();
    assert_eq!(observer.see(Aspect::Resolved, &dir.bytes("d/b")).at, at);
    observer.distrust_all();
    assert!(observer.see(Aspect::Resolved, &dir.bytes("d/b")).at > at);
}

#[test]
fn remembered_lines_do_not_change_the_digest() {
    let dir = Scratch::new("cache-observer-lines");
    for file in ["f", "same", "d/a"] {
        dir.write(file, "content");
    }
    symlink("d", dir.at("l")).unwrap();
    let names: Vec<Vec<u8>> = ["f", "same", "d", "l", "absent"].iter().map(|name| dir.bytes(name)).collect();
    let mut all: Vec<InputName<'_>> = Vec::new();
    for aspect in [Aspect::Content, Aspect::Presence, Aspect::Resolved] {
        all.extend(names.iter().map(|name| InputName { aspect, name, id: None }));
    }
    all.push(InputName { aspect: Aspect::Variable, name: b"A", id: None });
    let mut table = NameTable::open(&dir.at("names"));
    table.pack(&mut all).unwrap();
    let whole = dir.bytes("");
    let hidden = Places::new(std::str::from_utf8(&whole[..whole.len() - 1]).unwrap(), "");
    let mut observer = observer();
    wait_for_known_files();
    for change in ["", "f", "absent", "same"] {
        if !change.is_empty() {
            dir.write(change, "other content");
            wait_for_known_files();
            observer.distrust_all();
        }
        for hidden in [&Places::NONE, &hidden, &Places::NONE, &Places::new("/elsewhere", "/elsewhere/out")] {
            let first = observer.evaluate(&all, hidden);
            let again = observer.evaluate(&all, hidden);
            let mut others = all.clone();
            others.iter_mut().for_each(|input| input.id = None);
            let fresh = super::tests::observer().evaluate(&others, hidden);
            let digests = [&first, &again, &fresh].map(|it| it.map(|it| it.digest));
            assert!(digests[0].is_some() && digests == [digests[0]; 3], "{change}");
        }
    }
}

/// Lists with common beginnings, of more names than there are between two points, and of files that change meanwhile.
#[test]
fn the_last_list_does_not_change_the_digest_of_the_next() {
    for seed in seeds(5) {
        let mut random = Random::new(seed);
        let dir = Scratch::new(&format!("cache-observer-progress-{seed}"));
        let files: Vec<String> = (0..120).map(|number| format!("{}/{number}", number % 7)).collect();
        for file in &files {
            dir.write(file, random.below(30).to_string());
        }
        let names: Vec<Vec<u8>> = files.iter().map(|file| dir.bytes(file)).collect();
        let mut all: Vec<InputName<'_>> = Vec::new();
        for name in &names {
            let aspect = *random.pick(&[Aspect::Content, Aspect::Content, Aspect::Presence, Aspect::Resolved]);
            all.push(InputName { aspect, name, id: None });
        }
        NameTable::open(&dir.at("names")).pack(&mut all).unwrap();
        if random.chance(80) {
            wait_for_known_files();
        }
        let mut observer = observer();
        for _ in 0..30 {
            let rare = random.below(30);
            let list: Vec<_> = all.iter().filter(|_| random.below(30) >= rare || random.chance(90)).copied().collect();
            match random.below(10) {
                0 => {
                    dir.write(&files[random.below(files.len())], random.below(30).to_string());
                    observer.distrust_all();
                }
                1 => observer.distrust_all(),
                _ => {}
            }
            let hidden = random.pick(&[Places::NONE, Places::new(dir.text(), "")]).clone();
            let digest = observer.evaluate_as_seen(&list, &hidden).map(|it| it.digest);
            let fresh = super::tests::observer().evaluate_as_seen(&list, &hidden).map(|it| it.digest);
            assert!(digest.is_some() && digest == fresh, "seed {seed}");
        }
    }
}

#[test]
fn a_racy_file_is_read_again_for_each_list() {
    let dir = Scratch::new("cache-observer-racy");
    let name = dir.bytes("f");
    let mut all = vec![InputName { aspect: Aspect::Content, name: &name, id: None }];
    NameTable::open(&dir.at("names")).pack(&mut all).unwrap();
    // On a busy machine, the file may be old when it is read.
    loop {
        let mut observer = observer();
        dir.write("f", "before");
        let before = observer.evaluate_as_seen(&all, &Places::NONE).unwrap();
        let is_racy =
            matches!(&observer.see(Aspect::Content, &name).seen, Seen::File(file) if file.trust == Trust::Racy);
        dir.write("f", "after!");
        let after = observer.evaluate_as_seen(&all, &Places::NONE).unwrap();
        if is_racy {
            assert_ne!(before.digest, after.digest);
            return;
        }
    }
}
