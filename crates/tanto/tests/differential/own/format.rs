//! Tests of `--format`: nothing else may be printed among the events.

use std::process::Command;

use super::{alone, files, tanto_does};
use crate::harness::{Run, Running, Side};

const TEXT: &str = "rule cp\n  command = echo said; cp $in $out\nrule bad\n  command = false\nbuild a: cp in\nbuild b: bad a\n\
                    build c: cp b\n";

#[test]
fn events_are_lines_for_programs() {
    alone(|side| {
        files(side, &[("build.ninja", TEXT), ("in", "")]);
        let ended = side.run(&Run::new("--format=jsonl --record=off -d stats c").env("NINJA_STATUS", "%z"));
        let out = String::from_utf8(ended.out).expect("text");
        let kinds: Vec<&str> = out.lines().map(|line| line.split('"').nth(3).unwrap_or_default()).collect();
        let plan = "tanto planned planned planned build_started";
        let build = "started finished started finished skipped build_finished notice";
        assert_eq!(kinds.join(" "), format!("{plan} {build}"), "{out}");
        assert!(out.contains(r#""output":"said\n""#) && out.contains(r#""why":["output a doesn't exist"]"#), "{out}");
        assert!(out.lines().all(|line| line.starts_with(r#"{"event":""#) && line.ends_with('}')), "{out}");
        assert_eq!(ended.code, 1);
        assert!(!side.state("sessions").exists());

        let idle = side.run(&Run::new("--format=jsonl a"));
        assert_eq!(idle.out, b"{\"event\":\"notice\",\"level\":\"info\",\"text\":\"no work to do.\"}\n");
    });
}

#[test]
fn a_bad_status_matters_only_where_it_is_shown() {
    alone(|side| {
        files(side, &[("build.ninja", TEXT), ("in", "")]);
        let mut code = |args| side.run(&Run::new(args).env("NINJA_STATUS", "%z")).code;
        assert_eq!(code("a"), 1);
        assert_eq!(code("--quiet a"), 0);
    });
}

/// With a limit below 1, commands never run in parallel.
#[test]
fn throttled_commands_are_reported() {
    alone(|side| {
        let text = "rule touch\n  command = touch $out\nbuild a: touch\nbuild b: touch\nbuild c: touch\n";
        files(side, &[("build.ninja", text)]);
        let tanto = |side: &Side, words| tanto_does(side, words).text();
        let again = |side: &Side| ["a", "b", "c"].into_iter().for_each(|path| side.delete(path));
        const LINE: &str = "waiting: the load average is too high\n";
        let limited = tanto(side, "build -j3 -l0.5");
        assert_eq!(limited.matches(&format!("tanto: {LINE}")).count(), 1, "{limited}");
        again(side);
        let events = tanto(side, "build -j3 -l0.5 --format=jsonl");
        assert!(events.contains(r#""reason":"load_average"}"#) && !events.contains(LINE), "{events}");
        assert!(tanto(side, "report rebuilds").contains("the load average is too high\n"));
        again(side);
        let ninja = side.run(&Run::new("-j3 -l0.5")).text();
        assert!(!ninja.contains("waiting"), "{ninja}");
        again(side);
        assert!(!tanto(side, "build -j1 --memory=off").contains("waiting"));
    });
}

#[test]
fn failures_go_to_standard_error_where_plain_lines_are_asked_for() {
    alone(|side| {
        files(side, &[("build.ninja", "rule bad\n  command = echo why; false\nbuild a: bad\n")]);
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tanto"));
            command.args(args).current_dir(&side.root).env("XDG_CACHE_HOME", side.base());
            let ended = Running::start(&mut command).end();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(&ended.out), text(&ended.err))
        };
        let failure = "FAILED: [code=1] a \necho why; false\nwhy\n";
        let (out, err) = run(&["build", "--format=plain"]);
        assert_eq!(err, failure);
        assert!(out.starts_with("[1/1] echo why; false\n") && !out.contains("FAILED"), "{out}");
        let (out, err) = run(&["build"]);
        assert!(out.contains(failure) && err.is_empty(), "{out}{err}");
    });
}
