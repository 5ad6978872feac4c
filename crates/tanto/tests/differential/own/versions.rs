//! Tests of logs of older versions: they keep their version, and can be used by Tanto and ninja in turn without
//! rebuilding anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{alone, beside_ninja_1_11, files, good, idle, log, other};
use crate::harness::{Program, Run, Side, programs};

/// One edge of each kind that affects the logged mtime.
const ALL: &str = "rule cp\n  command = cp $in $out\nrule rs\n  command = cmp -s $in $out || cp $in $out\n  restat = 1\n\
                   rule cc\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                   rule dep\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\n\
                   rule gen\n  command = cp $in $out\n  generator = 1\n\
                   rule rsp\n  command = cat $out.rsp $in > $out\n  rspfile = $out.rsp\n  rspfile_content = x\n\
                   rule two\n  command = cp $in x; cp $in y\n\
                   build a: cp in\nbuild b: rs a\nbuild c: cp b\nbuild d: cc c\nbuild e: dep d\nbuild f: gen e\nbuild g: rsp f\nbuild x y: two g\nbuild z: cp y\n";

fn start(side: &Side) {
    files(side, &[("build.ninja", ALL), ("in", "1"), ("h", "")]);
}

fn idle_in(side: &mut Side, program: &Program) {
    let ended = other(side, program, &Run::new("-d explain"));
    assert!(ended.text().contains("no work to do"), "{} rebuilds: {}", program.name, ended.text());
}

fn builds_in(side: &mut Side, program: &Program) {
    let ended = other(side, program, &Run::new(""));
    assert_eq!(ended.code, 0, "{}: {}", program.name, ended.text());
}

/// Makes changes of every kind; one program builds, and the other must have nothing to do.
fn back_and_forth(side: &mut Side, ninja: &Program, head: &str) {
    for round in 0..10 {
        match round {
            0 | 1 => side.touch("in", None),
            2 | 3 => side.write("in", b"2\n", None),
            4 | 5 => side.touch("h", None),
            6 | 7 => side.delete(if round == 6 { "c" } else { "y" }),
            _ => side.touch("a", None),
        }
        if round % 2 == 0 {
            good(side, "");
            idle(side, "-d explain");
            idle_in(side, ninja);
        } else {
            builds_in(side, ninja);
            idle_in(side, ninja);
            idle(side, "-d explain");
        }
        assert_eq!(log(side).head, head, "in round {round}");
    }
}

#[test]
fn ninja_1_11_began() {
    beside_ninja_1_11(|side, ninja| {
        start(side);
        builds_in(side, ninja);
        idle(side, "-d explain");
        back_and_forth(side, ninja, "# ninja log v5\n");
    });
}

#[test]
fn tanto_began_with_version_5() {
    beside_ninja_1_11(|side, ninja| {
        start(side);
        let ended = side.run(&Run::new("").env("TANTO_LOG_VERSION", "5"));
        assert_eq!(ended.code, 0, "{}", ended.text());
        idle_in(side, ninja);
        idle(side, "-d explain");
        back_and_forth(side, ninja, "# ninja log v5\n");
    });
}

#[test]
fn ninja_1_13_began() {
    let Some((referee, _)) = programs() else { return };
    alone(|side| {
        start(side);
        builds_in(side, &referee);
        idle(side, "-d explain");
        back_and_forth(side, &referee, "# ninja log v7\n");
    });
}

#[test]
fn tanto_began() {
    let Some((referee, _)) = programs() else { return };
    alone(|side| {
        start(side);
        good(side, "");
        back_and_forth(side, &referee, "# ninja log v7\n");
    });
}

#[test]
fn version_6_is_kept() {
    alone(|side| {
        start(side);
        assert_eq!(side.run(&Run::new("").env("TANTO_LOG_VERSION", "6")).code, 0);
        idle(side, "-d explain");
        good(side, "-t restat");
        idle(side, "-d explain");
        good(side, "-t recompact");
        idle(side, "-d explain");
        let itself = Program { name: "the same", path: side.base().join("bin/ninja") };
        back_and_forth(side, &itself, "# ninja log v6\n");
    });
}

#[test]
fn version_5_survives_the_tools() {
    beside_ninja_1_11(|side, ninja| {
        start(side);
        builds_in(side, ninja);
        good(side, "-t recompact");
        idle_in(side, ninja);
        good(side, "-t restat");
        idle_in(side, ninja);
        good(side, "-t cleandead");
        idle_in(side, ninja);
        assert_eq!(log(side).head, "# ninja log v5\n");
    });
}

#[test]
fn existing_log_keeps_its_version() {
    alone(|side| {
        start(side);
        good(side, "");
        side.touch("in", None);
        assert_eq!(side.run(&Run::new("").env("TANTO_LOG_VERSION", "5")).code, 0);
        assert_eq!(log(side).head, "# ninja log v7\n");
        idle(side, "-d explain");
    });
}

/// A program that prints this version of ninja and records that it was run.
fn pretend(side: &Side, version: &str) -> String {
    let dir = side.base().join("other");
    fs::create_dir_all(&dir).expect("a directory");
    let (new, asked) = (dir.join("new"), side.base().join("asked"));
    fs::write(&new, format!("#!/bin/sh\necho >> {}\necho {version}\n", asked.display())).expect("a script");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::rename(&new, dir.join("ninja")).expect("a rename");
    format!("{}:{}:/usr/bin:/bin", side.base().join("bin").display(), dir.display())
}

/// The header of the log after a build without a log.
fn new_log(side: &mut Side, run: Run) -> String {
    let _ = fs::remove_file(side.root.join(".ninja_log"));
    let ended = side.run(&run);
    assert_eq!((ended.code, ended.err.as_slice()), (0, &b""[..]), "{}", ended.text());
    log(side).head
}

#[test]
fn a_new_log_has_the_version_of_the_other_ninja() {
    alone(|side| {
        side.log_version = None;
        files(side, &[("build.ninja", "rule t\n  command = touch $out\nbuild a: t\n")]);
        let asked = |side: &Side| fs::read(side.base().join("asked")).unwrap_or_default().len();
        for (version, count, head) in
            [("1.11.1", 1, "5"), ("1.11.1", 2, "5"), ("1.12.0", 3, "6"), ("1.13.2", 4, "7"), ("", 7, "7")]
        {
            let path = pretend(side, version);
            // Asked again only if the program has changed or gave no answer.
            for _ in 0..2 {
                assert_eq!(new_log(side, Run::new("").env("PATH", &path)), format!("# ninja log v{head}\n"));
            }
            let times = if version.is_empty() { count - 1 } else { count };
            assert_eq!(asked(side), times, "{version}");
        }
        let path = pretend(side, "1.11.1");
        let before = asked(side);
        assert_eq!(new_log(side, Run::new("").env("PATH", &path).env("TANTO_LOG_VERSION", "6")), "# ninja log v6\n");
        for args in ["-n", "-t targets", "-t restat", ""] {
            side.run(&Run::new(args).env("PATH", &path));
        }
        assert_eq!(asked(side), before, "who makes no log does not ask");
    });
}

#[test]
fn appended_version_5_hashes_are_reported() {
    beside_ninja_1_11(|side, ninja| {
        const TOLD: &str = "ninja: warning: .ninja_log: a ninja older than 1.12 has appended to this log of version 7";
        start(side);
        assert!(!good(side, "").text().contains("warning"));
        // It rebuilds everything, which Tanto cannot prevent.
        builds_in(side, ninja);
        assert_eq!(log(side).head, "# ninja log v7\n");
        let ended = good(side, "");
        assert_eq!(ended.text().matches(TOLD).count(), 1, "{}", ended.text());
        idle(side, "");
        assert!(!good(side, "").text().contains("warning"));
        // A changed command does not indicate another ninja.
        side.write("build.ninja", ALL.replace("cp $in $out", "cp  $in $out").as_bytes(), None);
        assert!(!good(side, "").text().contains("warning"));
    });
}
