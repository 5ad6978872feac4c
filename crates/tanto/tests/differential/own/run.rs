//! Tests of `tanto run`.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Ended, Running, send_signal};

/// Runs `tanto run` with these flags and a shell command.
fn tanto_run(flags: &[&str], line: &str) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tanto"));
    Running::start(command.arg("run").args(flags).args(["--", "sh", "-c", line]).stdin(Stdio::piped()))
}

fn ended(flags: &[&str], line: &str) -> Ended {
    tanto_run(flags, line).end()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn output_and_exit_code_pass_through() {
    let it = ended(&["--hang-timeout", "1h"], "echo out; echo err >&2; exit 7");
    assert_eq!((it.code, text(&it.out), text(&it.err)), (7, "out\n".into(), "err\n".into()));
    let it = ended(&[], "kill -9 $$");
    assert_eq!((it.code, text(&it.err)), (137, String::new()));
    let big = ended(&[], "i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done");
    assert_eq!((big.code, big.out.len()), (0, 200_000));
}

#[test]
fn a_hang_is_ended_and_explained() {
    let it = ended(&["--hang-timeout", "3s"], "cd /; echo first; echo last >&2; sleep 1000 & sleep 1001");
    assert_eq!((it.code, text(&it.out)), (123, "first\n".into()));
    let said = text(&it.err);
    let expected = [
        "tanto: sh hung: no new process, no processor time and no output for 3s\nin /, its processes were:\n",
        "  sleep 1000\n",
        "  sleep 1001\nlast lines of its output:\n",
        "last\n",
    ];
    for part in expected {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn time_limit_kills_a_busy_command() {
    let it = ended(&["--timeout", "500ms"], "while :; do :; done");
    assert_eq!((it.code, text(&it.out)), (124, String::new()));
    assert!(text(&it.err).starts_with("tanto: sh not finished after 0.5s\n"), "{}", text(&it.err));
}

#[test]
fn left_over_processes_are_reported_or_killed() {
    let daemon = "echo $$; setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3";
    for (what, said, lives) in [
        ("ignore", "", true),
        ("report", "tanto: sh left processes behind:\n", true),
        ("kill", "tanto: sh left processes behind, which were killed:\n", false),
    ] {
        let it = ended(&["--leftovers", what], daemon);
        assert!(it.code == 3 && text(&it.err).starts_with(said), "{what}: {}", it.text());
        let pid: u32 = text(&it.out).lines().last().and_then(|line| line.parse().ok()).expect("its number");
        for _ in 0..30_000 {
            if tanto_sys::process::procs::stat(pid).is_some_and(|look| !look.is_gone()) == lives {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let look = tanto_sys::process::procs::stat(pid).filter(|look| !look.is_gone());
        assert_eq!(look.is_some(), lives, "{what}");
        look.map(|look| tanto_sys::process::procs::signal(look.process, 9));
    }
}

#[test]
fn process_that_holds_the_output_is_not_waited_for() {
    let it = ended(&[], "sleep 1000 & echo $!");
    assert_eq!(it.code, 0);
    assert!(
        text(&it.err).contains("left processes behind:\n") && text(&it.err).contains("sleep 1000"),
        "{}",
        it.text()
    );
    let pid = text(&it.out).trim().parse().expect("its number");
    tanto_sys::process::procs::stat(pid).map(|look| tanto_sys::process::procs::signal(look.process, 9));
}

#[test]
fn a_signal_is_handed_on() {
    let dir = tanto_testing::Scratch::new("run");
    let ready = dir.at("ready");
    let line = format!("trap 'echo told; exit 5' TERM; : > {}; while :; do sleep 0.01; done", ready.display());
    let it = tanto_run(&[], &line);
    for _ in 0..30_000 {
        if ready.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    send_signal("TERM", it.id(), false);
    let it = it.end();
    assert_eq!((it.code, text(&it.out)), (5, "told\n".into()), "{}", it.text());
}

#[test]
fn failed_start_has_the_exit_code_of_shells() {
    let run = |words: &[&str]| Running::start(Command::new(env!("CARGO_BIN_EXE_tanto")).arg("run").args(words)).end();
    let it = run(&["/nonexistent/x"]);
    assert_eq!((it.code, text(&it.err)), (127, "tanto: error: /nonexistent/x: No such file or directory\n".into()));
    assert_eq!(run(&["/"]).code, 126);
    assert_eq!(run(&["--leftovers", "x", "true"]).code, 125);
}
