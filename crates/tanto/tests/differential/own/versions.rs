//! Logs of older versions: read, kept in their own version, and handed back and forth with nothing rebuilt.

use super::{alone, beside_ninja_1_11, files, good, idle, log, other};
use crate::harness::{Program, Run, Side, programs};

/// One of everything that the log's mtime is about.
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

/// Changes of every kind, each built by one program and found to be good by the other.
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
fn a_log_that_is_there_keeps_its_version_whatever_is_asked_for() {
    alone(|side| {
        start(side);
        good(side, "");
        side.touch("in", None);
        assert_eq!(side.run(&Run::new("").env("TANTO_LOG_VERSION", "5")).code, 0);
        assert_eq!(log(side).head, "# ninja log v7\n");
        idle(side, "-d explain");
    });
}
