//! A missing daemon, and commands without checkpoints.

use super::super::server_process::words;
use super::*;
use tanto_sys::process::Argv;
use tanto_testing::Scratch;

fn checkpoints(dir: &Scratch, most: u32) -> Checkpoints {
    let place = dir.path().join("checkpoints");
    let (program, identities) = ("/nowhere/clang-worker".into(), dir.path().join("identities"));
    let wanted = CheckpointOptions { program, identities, place, most, may_start: false, verify_every: 2 };
    Checkpoints::new(wanted, &Environment::inherit_with(&[])).expect("nothing in the environment forbids it")
}

fn run(words: &Argv) -> Run<'_> {
    Run { id: 1, umask: 0, clang: b"/usr/bin/clang", lld: b"", words, environment: &[] }
}

#[test]
fn only_recent_compiles_are_remembered() {
    let dir = Scratch::new("kept-compiles");
    let mut checkpoints = checkpoints(&dir, 2);
    for line in [&[&b"clang"[..], b"-c", b"a.c"][..], &[b"clang", b"a.o", b"-o", b"a"], &[b"clang", b"-E", b"a.c"]] {
        checkpoints.note(&run(&words(line)));
        assert!(checkpoints.recent.is_empty());
    }
    for file in [&b"a.c"[..], b"b.c", b"c.c"] {
        checkpoints.note(&run(&words(&[b"clang", b"-c", file, b"-o", b"x.o"])));
    }
    let has = |frame: &Vec<u8>, file: &[u8]| frame.windows(file.len()).any(|part| part == file);
    assert!(has(&checkpoints.recent[0], b"c.c") && has(&checkpoints.recent[1], b"b.c"));
    assert_eq!(checkpoints.recent.len(), 2);
}

#[test]
fn no_daemon_is_started_unless_allowed() {
    let dir = Scratch::new("no-keeper");
    let mut checkpoints = checkpoints(&dir, 2);
    let words = words(&[b"clang", b"-c", b"a.c", b"-o", b"a.o"]);
    checkpoints.note(&run(&words));
    assert_eq!(checkpoints.run(Path::new("/bin/true"), &run(&words), &[]), None);
    assert!(checkpoints.are_gone() && checkpoints.try_next().is_none() && checkpoints.wait().is_err());
    checkpoints.rest(&[]);
    assert!(!dir.path().join("checkpoints").exists());
}

#[test]
fn every_nth_use_is_verified() {
    let dir = Scratch::new("doubted");
    let mut checkpoints = checkpoints(&dir, 2);
    let verify_every: Vec<bool> = (1..=4)
        .map(|used| {
            checkpoints.used = used;
            checkpoints.is_verified_next()
        })
        .collect();
    assert_eq!(verify_every, [false, true, false, true]);
}
