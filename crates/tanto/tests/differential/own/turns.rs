//! Tests of the lock of a build directory.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{alone, files, good, idle};
use crate::harness::{Ended, Run, Running, Side, send_signal};

const SLOW: &str = "rule slow\n  command = barrier $out; touch $out\nrule t\n  command = touch $out\n\
                    build a: t\nbuild b: slow a\nbuild c: t b\nbuild d: t\n";

/// Starts a build that waits at its barrier, and a second one that has reported that it waits for the lock; its output
/// goes to a file.
fn second_while_first(side: &mut Side, args: &str) -> Running {
    files(side, &[("build.ninja", SLOW)]);
    side.start(&Run::new("b"));
    side.wait_for("b");
    let run = Run::new(args).shell("exec > ../said 2>&1;");
    let second = Running::start(&mut side.command(&run));
    let until = Instant::now() + Duration::from_secs(20);
    while !said(side).contains("waiting") {
        assert!(Instant::now() < until, "the second build says nothing: {}", said(side));
        std::thread::sleep(Duration::from_millis(20));
    }
    second
}

fn said(side: &Side) -> String {
    std::fs::read_to_string(side.base().join("said")).unwrap_or_default()
}

fn ends_well(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}", ended.text());
}

#[test]
fn a_second_build_waits_and_says_so() {
    alone(|side| {
        let second = second_while_first(side, "d");
        assert!(!side.root.join("d").exists(), "it did not wait");
        side.open("b");
        ends_well(&side.end());
        ends_well(&second.end());
        assert!(side.root.join("d").exists());
        idle(side, "b d");
    });
}

#[test]
fn a_second_build_of_the_same_finds_nothing_left_to_do() {
    alone(|side| {
        let second = second_while_first(side, "b");
        side.open("b");
        ends_well(&side.end());
        ends_well(&second.end());
        assert!(said(side).contains("no work to do"), "{}", said(side));
    });
}

#[test]
fn a_clean_that_waits_follows_the_manifest_of_then() {
    alone(|side| {
        files(side, &[("e", "")]);
        let second = second_while_first(side, "-t clean");
        side.write("build.ninja", format!("{SLOW}build e: t\n").as_bytes(), None);
        side.open("b");
        ends_well(&side.end());
        ends_well(&second.end());
        assert!(said(side).ends_with("Cleaning... 3 files.\n"), "{}", said(side));
        assert!(["a", "b", "e"].iter().all(|path| !side.root.join(path).exists()));
    });
}

#[test]
fn a_second_build_that_waits_can_be_interrupted() {
    alone(|side| {
        let second = second_while_first(side, "d");
        send_signal("INT", second.id(), false);
        // Nothing has started yet, so it may also die of the signal.
        assert!([130, 1002].contains(&second.end().code), "{}", said(side));
        side.open("b");
        ends_well(&side.end());
        assert!(!side.root.join("d").exists());
        good(side, "d");
    });
}

#[test]
fn read_only_tools_do_not_wait() {
    alone(|side| {
        files(side, &[("build.ninja", SLOW)]);
        side.start(&Run::new("b"));
        side.wait_for("b");
        for args in ["-n", "-t targets all", "-t deps", "-t query a", "-t commands"] {
            ends_well(&Running::start(&mut side.command(&Run::new(args))).end());
        }
        side.open("b");
        ends_well(&side.end());
    });
}

#[test]
fn builds_in_other_directories_do_not_wait() {
    alone(|side| {
        let other = "builddir = out\nrule t\n  command = touch $out\nbuild e: t\n";
        files(
            side,
            &[
                ("build.ninja", SLOW),
                ("sub/build.ninja", "rule t\n  command = touch $out\nbuild e: t\n"),
                ("x.ninja", other),
            ],
        );
        side.start(&Run::new("b"));
        side.wait_for("b");
        ends_well(&Running::start(&mut side.command(&Run::new("-C sub"))).end());
        ends_well(&Running::start(&mut side.command(&Run::new("-f x.ninja"))).end());
        side.open("b");
        ends_well(&side.end());
    });
}

#[test]
fn a_job_far_below_does_not_wait() {
    alone(|side| {
        let text = "rule nest\n  command = sh -c 'nohup setsid ninja -j1 x' > log && touch $out\nrule t\n  command = touch $out\nbuild a: nest\nbuild x: t\n";
        files(side, &[("build.ninja", text)]);
        good(side, "a");
        idle(side, "a x");
    });
}

/// Something has removed the environment variable.
#[test]
fn a_job_that_knows_nothing_of_its_ancestors_does_not_wait() {
    alone(|side| {
        let nest = "env -i PATH=$$PATH ninja -j1 x > log";
        let text = format!(
            "rule nest\n  command = {nest} && touch $out\nrule t\n  command = touch $out\nbuild a: nest\nbuild x: t\n"
        );
        files(side, &[("build.ninja", &text)]);
        good(side, "a");
        idle(side, "a x");
    });
}

/// Scripts can hold such locks too.
#[test]
fn build_started_by_the_lock_holder_does_not_wait() {
    alone(|side| {
        files(side, &[("build.ninja", "rule t\n  command = touch $out\nbuild a: t\nbuild b: t\n")]);
        let ended = side.run(&Run::new("a").shell("exec 9<.; flock 9;"));
        assert!(ended.code == 0 && !ended.text().contains("waiting"), "{}", ended.text());
        let ended = side.run(&Run::new("b").shell("flock . ninja -j1 b && "));
        assert!(ended.code == 0 && !ended.text().contains("waiting"), "{}", ended.text());
    });
}

#[test]
fn builds_by_both_names_exclude_each_other() {
    alone(|side| {
        let mut second = second_while_first(side, "d");
        side.open("b");
        ends_well(&side.end());
        ends_well(&second.end());
        side.reset_barriers();
        side.delete("b");
        side.delete("d");
        side.start(&Run::new("b"));
        side.wait_for("b");
        let program = Path::new(env!("CARGO_BIN_EXE_tanto"));
        second = Running::start(&mut side.command_of(program, &Run::new("build d").plain()));
        side.pause();
        assert!(second.runs() && !side.root.join("d").exists(), "it did not wait");
        side.open("b");
        ends_well(&side.end());
        let said = second.end().text();
        assert!(side.root.join("d").exists(), "{said}");
    });
}

#[test]
fn killed_build_continues_after_finished_commands() {
    alone(|side| {
        files(side, &[("build.ninja", SLOW)]);
        side.start(&Run::new("c"));
        side.wait_for("b");
        side.signal("KILL", false);
        assert_eq!(side.end().code, 1009);
        // Its job still runs but does not hold the lock.
        let meanwhile = good(side, "a").text();
        assert!(meanwhile.contains("no work to do") && !meanwhile.contains("waiting"), "{meanwhile}");
        side.open("b");
        side.appears("b");
        let ended = good(side, "-d explain c");
        let text = ended.text();
        assert!(!text.contains("touch a"), "what had ended ran again: {text}");
        assert!(text.contains("[2/2] touch c"), "{text}");
        idle(side, "c");
    });
}

#[test]
fn nested_deps_are_recorded_by_both() {
    alone(|side| {
        let text = "rule nest\n  command = ninja -j1 $t && touch $out\nrule cc\n  command = touch $out; echo '$out: h1 h2' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                    build a: nest\n  t = o1\nbuild b: cc a\nbuild o1: cc\n";
        files(side, &[("build.ninja", text), ("h1", ""), ("h2", "")]);
        good(side, "b");
        idle(side, "b o1");
        side.touch("h2", None);
        assert!(good(side, "-n b o1").text().contains("[2/2]"));
        good(side, "b o1");
        idle(side, "b o1");
    });
}
