//! Tests of monitored commands: hangs, time limits, left-over processes.

use std::process::Command;
use std::time::Duration;

use super::{alone, files, good, log};
use crate::harness::{Ended, Run, Running, Side};

/// A rule that runs `$run`, and these edges.
fn manifest(edges: &[(&str, &str)]) -> String {
    let edge = |(name, line): &(&str, &str)| format!("build {name}: sh\n  run = {line}\n");
    let edges: String = edges.iter().map(edge).collect();
    format!("rule sh\n  command = {{ $run; }} && echo done > $out\n{edges}")
}

fn tanto_build(side: &Side, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tanto"));
    Running::start(command.arg("build").args(args).current_dir(&side.root).env("XDG_CACHE_HOME", side.base())).end()
}

fn says(ended: &Ended, parts: &[&str]) {
    for part in parts {
        assert!(ended.text().contains(part), "{part:?} is not in {}", ended.text());
    }
}

/// Kills the process with the id in this file; returns whether it existed.
fn killed(side: &Side, path: &str) -> bool {
    let text = std::fs::read_to_string(side.root.join(path)).unwrap_or_default();
    let look = text.trim().parse().ok().and_then(tanto_sys::process::procs::stat).filter(|look| !look.is_gone());
    look.is_some_and(|look| tanto_sys::process::procs::signal(look.process, 9).unwrap_or(false))
}

/// Waits until the process with the id in this file has ended.
fn ends(side: &Side, path: &str) {
    let text = std::fs::read_to_string(side.root.join(path)).expect("a number");
    let pid = text.trim().parse().expect("a number");
    for _ in 0..30_000 {
        if tanto_sys::process::procs::stat(pid).is_none_or(|look| look.is_gone()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{pid} lives on");
}

#[test]
fn a_hung_command_fails_and_the_others_go_on() {
    alone(|side| {
        files(side, &[("build.ninja", &manifest(&[("a", "echo last words; sleep 1000"), ("b", "true")]))]);
        let ended = side.run(&Run::new("-j1 -k0 --hang-timeout=3s a b"));
        assert_eq!(ended.code, 123, "{}", ended.text());
        let why = "ninja: 'a' hung: no new process, no processor time and no output for 3s";
        says(&ended, &["FAILED: [code=123] a", "last words\n", why, " sleep 1000\n"]);
        assert!(side.root.join("b").exists() && !side.root.join("a").exists());
        let again = side.run(&Run::new("-j1 --timeout=500ms a"));
        assert_eq!(again.code, 124, "{}", again.text());
        says(&again, &["ninja: 'a' not finished after 0.5s\n"]);
    });
}

#[test]
fn a_command_on_the_console_can_hang_too() {
    alone(|side| {
        let text = manifest(&[("a", "sleep 1000")]) + "  pool = console\n";
        files(side, &[("build.ninja", &text)]);
        let ended = side.run(&Run::new("--hang-timeout=3s"));
        assert_eq!(ended.code, 123, "{}", ended.text());
        says(&ended, &["ninja: 'a' hung: "]);
    });
}

#[test]
fn command_that_closes_its_output_is_monitored() {
    alone(|side| {
        files(side, &[("build.ninja", &manifest(&[("a", "exec >/dev/null 2>&1; sleep 1000")]))]);
        let ended = side.run(&Run::new("--hang-timeout=3s"));
        assert_eq!(ended.code, 123, "{}", ended.text());
    });
}

#[test]
fn detached_process_that_holds_the_output_is_killed() {
    alone(|side| {
        let line = "sh -c 'setsid sleep 1000 & echo $$! > pid'";
        files(side, &[("build.ninja", &manifest(&[("a", line)]))]);
        let ended = side.run(&Run::new("--hang-timeout=3s"));
        assert_eq!(ended.code, 123, "{}", ended.text());
        says(&ended, &[" sleep 1000\n"]);
        ends(side, "pid");
    });
}

const DAEMON: &str = "sh -c 'setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $$! > pid'";

#[test]
fn tanto_reports_a_daemon_and_keeps_it() {
    alone(|side| {
        files(side, &[("build.ninja", &manifest(&[("a", DAEMON), ("b", "true")]))]);
        let ended = tanto_build(side, &[]);
        assert_eq!(ended.code, 0, "{}", ended.text());
        says(&ended, &["tanto: warning: 'a' left processes behind:\n", " sleep 1000\n"]);
        assert!(killed(side, "pid"));
    });
}

#[test]
fn ninja_does_not_look_for_daemons() {
    alone(|side| {
        let marked = "echo mark=$$TANTO_JOB";
        files(side, &[("build.ninja", &manifest(&[("a", DAEMON), ("b", marked)]))]);
        let ended = side.run(&Run::new(""));
        assert!(ended.code == 0 && !ended.text().contains("left"), "{}", ended.text());
        says(&ended, &["mark=\n"]);
        assert!(killed(side, "pid"));
    });
}

#[test]
fn daemons_are_killed_if_that_is_asked_for() {
    alone(|side| {
        files(side, &[("build.ninja", &manifest(&[("a", DAEMON), ("b", "true")]))]);
        let ended = side.run(&Run::new("--leftovers=kill"));
        assert_eq!(ended.code, 0, "{}", ended.text());
        says(&ended, &["ninja: warning: 'a' left processes behind, which were killed:\n"]);
        ends(side, "pid");
    });
}

/// Changes the log as if the command had taken this many milliseconds.
fn took(side: &Side, ms: i64) {
    let log = log(side);
    let lines = log.records.iter().map(|it| (it.start, it.start + ms, it.mtime, &it.output, &it.hash));
    let lines = lines.map(|(start, end, mtime, output, hash)| format!("{start}\t{end}\t{mtime}\t{output}\t{hash}\n"));
    let text = log.head.clone() + &lines.collect::<String>();
    side.write(".ninja_log", text.as_bytes(), None);
}

#[test]
fn a_command_that_took_long_gets_a_control_group_under_tanto_alone() {
    let home = tanto_sys::cgroup::OwnCgroups::find();
    if home.obstacle().is_some() {
        eprintln!("skipped: no control group can be made here");
        return;
    }
    alone(|side| {
        files(side, &[("build.ninja", &manifest(&[("a", "cat /proc/self/cgroup")]))]);
        good(side, "");
        let mut group = |ms, ended: &dyn Fn(&mut Side) -> Ended| {
            took(side, ms);
            side.delete("a");
            let text = ended(side).text();
            text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned).unwrap_or(text)
        };
        let tanto = |side: &mut Side| tanto_build(side, &[]);
        assert!(group(1000, &tanto).contains("/tanto-"));
        assert!(!group(900, &tanto).contains("/tanto-"));
        assert!(!group(1000, &|side| good(side, "")).contains("/tanto-"));
    });
}
