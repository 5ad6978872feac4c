//! Tests of session recording.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{alone, files, good, idle, tanto_does};
use crate::harness::{Ended, Run, Running, Side, send_signal};

const TEXT: &str =
    "rule cp\n  command = cp $in $out\n  description = CP $out\nbuild a: cp in\nbuild b: cp a\nbuild c: phony b\n";

fn start(side: &Side) {
    files(side, &[("build.ninja", TEXT), ("in", "")]);
}

fn paths(side: &Side) -> Vec<PathBuf> {
    let entries = fs::read_dir(side.state("sessions")).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The lines of the last session.
fn last(side: &Side) -> Vec<String> {
    let text = fs::read_to_string(paths(side).last().expect("a session")).expect("it can be read");
    text.lines().map(str::to_owned).collect()
}

fn count(lines: &[String], event: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(&format!("{{\"event\":\"{event}\""))).count()
}

#[test]
fn builds_with_commands_leave_a_session() {
    alone(|side| {
        start(side);
        good(side, "c");
        let lines = last(side);
        let counts = ["tanto", "planned", "build_started", "started", "finished", "nothing_to_run", "build_finished"];
        assert_eq!(counts.map(|event| count(&lines, event)), [1, 2, 1, 2, 2, 1, 1], "{lines:#?}");
        assert!(lines[0].contains(r#""targets":["c"]"#), "{}", lines[0]);
        assert!(lines.iter().any(|line| line.contains(r#""why":["output a doesn't exist"]"#)), "{lines:#?}");
        idle(side, "");
        good(side, "-n -t commands");
        side.touch("in", None);
        good(side, "-n");
        assert_eq!(paths(side).len(), 1);
        good(side, "--record=off");
        assert_eq!(paths(side).len(), 1);
        side.touch("in", None);
        good(side, "");
        assert_eq!((paths(side).len(), count(&last(side), "started")), (2, 2));
    });
}

#[test]
fn reasons_are_kept_but_shown_only_if_asked_for() {
    alone(|side| {
        start(side);
        assert!(!good(side, "").text().contains("explain"));
        side.touch("in", None);
        let kept = good(side, "-d explain").text();
        side.touch("in", None);
        let alone = good(side, "-d explain --record=off").text();
        let lines = |text: &str| text.matches("explain: ").count();
        assert_eq!((lines(&kept), lines(&alone)), (2, 2), "{kept}{alone}");
    });
}

#[test]
fn the_manifest_has_its_own() {
    alone(|side| {
        let text = format!("{TEXT}rule again\n  command = touch $out\n  generator = 1\nbuild build.ninja: again gen\n");
        files(side, &[("build.ninja", &text), ("in", ""), ("gen", "")]);
        side.touch("gen", None);
        good(side, "");
        let sessions = paths(side);
        assert_eq!(sessions.len(), 2);
        let first = fs::read_to_string(&sessions[0]).expect("a session");
        assert!(first.contains(r#""targets":["build.ninja"],"manifest":true"#), "{first}");
    });
}

#[test]
fn cleaned_command_is_recorded() {
    alone(|side| {
        let text = "rule same\n  command = test -f $out || touch $out\n  restat = 1\nrule cp\n  command = cp $in $out\n\
                    build a: same in\nbuild b: cp a\nbuild d: cp in || b\n";
        files(side, &[("build.ninja", text), ("in", "")]);
        good(side, "");
        side.touch("in", None);
        good(side, "");
        let lines = last(side);
        assert_eq!((count(&lines, "unplanned"), count(&lines, "nothing_to_run")), (1, 1), "{lines:#?}");
        let after = lines.iter().any(|line| line.contains("\"outputs\":[\"d\"]") && line.contains("\"after\":["));
        assert!(after, "{lines:#?}");
    });
}

#[test]
fn killed_build_leaves_its_events() {
    alone(|side| {
        let text = "rule w\n  command = touch a; while test -f a -a ! -f go; do sleep 0.05; done\nbuild a: w\n";
        files(side, &[("build.ninja", text)]);
        let mut running = Running::start(&mut side.command(&Run::new("")));
        while paths(side).is_empty() || count(&last(side), "started") == 0 {
            assert!(running.runs());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        send_signal("KILL", running.id(), false);
        files(side, &[("go", "")]);
        running.end();
        let lines = last(side);
        assert_eq!([count(&lines, "started"), count(&lines, "build_finished")], [1, 0], "{lines:#?}");
    });
}

/// Builds with an obstacle in the place of the session; returns the number of warnings.
fn warned(way: &str) -> usize {
    let mut count = 0;
    alone(|side| {
        start(side);
        files(side, &[(way, "a file")]);
        let ended = tanto_does(side, "build");
        assert!(ended.code == 0 && ended.text().contains("[2/2]"), "{}", ended.text());
        count = ended.text().matches("tanto: warning: no record of this build in .tanto: ").count();
        idle(side, "");
    });
    count
}

#[test]
fn obstacle_is_reported_once() {
    assert_eq!(warned(".tanto"), 1);
    assert_eq!(warned(".tanto/sessions"), 1);
    assert_eq!(warned(".tanto/history/x"), 1);
}

/// No space for the session, but enough for the logs. A signal would kill a program that exceeds the limit.
#[test]
fn full_disk_is_reported_once_except_as_ninja() {
    alone(|side| {
        start(side);
        let program = env!("CARGO_BIN_EXE_tanto");
        for (command, count) in [(format!("exec {program} build"), 1), ("exec ninja".to_owned(), 0)] {
            let line = format!("ulimit -f 1; {command}");
            let ended = Running::start(side.command_of("sh".as_ref(), &Run::new("-c").plain()).arg(line)).end();
            assert_eq!((ended.code, ended.text().matches("File too large").count()), (0, count), "{}", ended.text());
            assert!(ended.text().contains("[2/2]"), "{}", ended.text());
            idle(side, "c");
            side.touch("in", None);
        }
    });
}

fn tanto(side: &Side, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tanto"));
    command.args(args).current_dir(&side.root).env("TERM", "dumb").env("XDG_CACHE_HOME", side.base());
    Running::start(command.stdin(Stdio::null())).end()
}

#[test]
fn output_is_shown_again() {
    alone(|side| {
        let text = "rule warn\n  command = echo $warning; touch $out\nrule bad\n  command = echo no; false\n\
                    rule long\n  command = seq 1 200000; touch $out\n  description = LONG\n\
                    build a: warn in\n  warning = careful\nbuild sub/b: long in\nbuild c: bad in\n";
        files(side, &[("build.ninja", text), ("in", "")]);
        let report = |args: &[&str]| tanto(side, &[&["report", "output"], args].concat());
        assert_eq!(tanto(side, &["build", "a", "sub/b"]).code, 0);
        assert_eq!(tanto(side, &["build", "-k0"]).code, 1);
        let said = |ended: &Ended| String::from_utf8_lossy(&ended.out).into_owned();
        // Neither is newly up to date: the session is an earlier one.
        let warning = report(&["a"]);
        assert_eq!((said(&warning), warning.code), ("careful\n".into(), 0));
        let about = String::from_utf8_lossy(&warning.err).into_owned();
        assert!(about.contains(": echo careful; touch a: succeeded after "), "{about}");
        let numbers: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
        assert!(said(&report(&["./sub/../sub/b"])) == numbers);
        let last = said(&report(&[]));
        assert!(last.starts_with("echo no; false: exit code 1 after ") && last.ends_with("\nno\n"), "{last}");
        let unknown = report(&["in"]);
        assert_eq!(unknown.code, 1);
        assert!(unknown.text().contains("no session has a command that made 'in'"), "{}", unknown.text());
    });
}
