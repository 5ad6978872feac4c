//! Tests of `tanto bench` with real commands.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tanto_testing::Scratch;

use crate::harness::{Ended, Running, send_signal};

fn bench(dir: &Path, words: &[&str]) -> Running {
    Running::start(
        Command::new(env!("CARGO_BIN_EXE_tanto")).current_dir(dir).arg("bench").args(words).env("XDG_CACHE_HOME", dir),
    )
}

fn ended(dir: &Path, words: &[&str]) -> Ended {
    bench(dir, words).end()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wait_for(path: &Path) {
    for _ in 0..30_000 {
        if path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} was not created", path.display());
}

fn runs_in(path: &Path) -> usize {
    std::fs::read_to_string(path).expect("a result").matches("\"wall_s\"").count()
}

#[test]
fn the_recommended_number_of_jobs_is_saved() {
    let dir = Scratch::new("bench-jobs");
    let line = ["jobs", "-j1,2", "--runs=2", "-o", "a.txt", "--save", "--prepare", "touch p{jobs}", "test -e p{jobs}"];
    let it = ended(dir.path(), &line);
    assert_eq!(it.code, 0, "{}", it.text());
    let out = text(&it.out);
    assert!(out.starts_with("test -e p{jobs}: 4 runs, shuffled with --seed "), "{out}");
    assert!(out.contains("\nRecommended: -j "), "{out}");
    assert_eq!(runs_in(&dir.at(".tanto/bench/jobs.json")), 4);
    let timings = std::fs::read_to_string(dir.at("a.txt")).expect("timings");
    assert_eq!(timings.lines().filter(|line| !line.starts_with('#')).count(), 4, "{timings}");
    let config = std::fs::read_to_string(dir.at(".tanto/config")).expect("a config");
    assert!(config.starts_with("# measured by tanto bench jobs\njobs = "), "{config}");
    let doctor = Running::start(Command::new(env!("CARGO_BIN_EXE_tanto")).current_dir(dir.path()).arg("doctor")).end();
    let jobs = text(&doctor.out).lines().find(|line| line.starts_with("jobs")).map(str::to_owned).expect("a setting");
    assert!(jobs.ends_with(".tanto/config:2"), "{jobs}");
}

#[test]
fn an_interrupt_ends_all_processes_and_keeps_results() {
    let dir = Scratch::new("bench-interrupt");
    // The second run must be killed: the shell and a process in another session ignore the signal.
    let line = "if [ -e first ]; then trap '' INT; setsid sh -c 'trap \"\" INT; echo $$ > p1; sleep 1000' & \
                echo $$ > p2; while [ ! -s p1 ]; do sleep 0.01; done; : > ready; while :; do sleep 0.1; done; fi; : > first; : {jobs}";
    let words = ["jobs", "--jobs=1,2", "--runs=1", "--order=swept", "--", line];
    let it = bench(dir.path(), &words);
    wait_for(&dir.at("ready"));
    send_signal("INT", it.id(), false);
    std::thread::sleep(Duration::from_millis(50));
    // A second signal skips the grace period.
    send_signal("INT", it.id(), false);
    let it = it.end();
    assert_eq!(it.code, 130, "{}", it.text());
    assert_eq!(text(&it.err), "tanto: error: interrupted\ntanto: run the same command with --resume to continue\n");
    assert!(text(&it.out).contains("Best: -j 1."), "{}", it.text());
    assert_eq!(runs_in(&dir.at(".tanto/bench/jobs.json")), 1);
    for name in ["p1", "p2"] {
        let pid = std::fs::read_to_string(dir.at(name)).expect("a number").trim().parse().expect("a number");
        assert!(tanto_sys::process::procs::stat(pid).is_none_or(|look| look.is_gone()), "{name}");
    }
    std::fs::remove_file(dir.at("first")).expect("it exists");
    let it = ended(dir.path(), &["jobs", "--jobs=1,2", "--runs=1", "--order=swept", "--resume", "--", line]);
    assert_eq!((it.code, runs_in(&dir.at(".tanto/bench/jobs.json"))), (0, 2), "{}", it.text());
}

#[test]
fn a_pause_can_be_interrupted() {
    let dir = Scratch::new("bench-pause");
    let words = ["jobs", "-j1", "--settle=1h", "--prepare", ": > ready", "--", "true {jobs}"];
    let it = bench(dir.path(), &words);
    wait_for(&dir.at("ready"));
    send_signal("TERM", it.id(), false);
    let it = it.end();
    assert_eq!((it.code, text(&it.err)), (143, "tanto: error: interrupted\n".into()), "{}", it.text());
}

#[test]
fn invalid_experiments_are_errors() {
    let dir = Scratch::new("bench-bad");
    let error = |words: &[&str]| {
        let it = ended(dir.path(), words);
        assert_eq!(it.code, 1, "{}", it.text());
        text(&it.err)
    };
    assert!(error(&["jobs", "-j1", "true"]).contains("the command does not contain {jobs}"));
    assert!(error(&["jobs", "-j0", "true {jobs}"]).contains("expected numbers above 0"));
    let message = error(&["jobs", "-j1", "/nonexistent/command {jobs}"]);
    assert!(message.starts_with("tanto: error: /nonexistent/command 1 failed: command not found"), "{message}");
    assert!(error(&["jobs", "-j1", "-o", "no/x.svg", "true {jobs}"]).contains("writing no/x.svg: No such file"));
    let message = error(&["jobs", "-j1", "--cpus", "1000", "true {jobs}"]);
    assert!(message.starts_with("tanto: error: --cpus 1000: 1000 not available to this process, only "), "{message}");
    assert!(!dir.at(".tanto/bench/jobs.json").exists());
}

#[test]
fn memory_is_limited_or_an_error_says_why_not() {
    let dir = Scratch::new("bench-memory");
    let line = "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null || exit 9; : {jobs}";
    let it = ended(dir.path(), &["jobs", "-j1", "--runs=1", "--cgroup-memory=64M", "--", line]);
    let message = text(&it.err);
    let refused = message.starts_with("tanto: error: --cgroup-memory: ");
    assert!(it.code == 1 && (refused || message.contains(" failed: exit code ")), "{}", it.text());
    let it = ended(dir.path(), &["jobs", "-j1", "--runs=1", "--", line]);
    assert_eq!(it.code, 0, "{}", it.text());
}

#[test]
fn stat_results_are_written() {
    let dir = Scratch::new("bench-files");
    dir.write("some", vec![b'x'; 100_000]);
    let it = ended(dir.path(), &["stat", ".", "-o", "r.svg", "-o", "r.json", "-o", "r.csv", "-o", "r.txt"]);
    assert!(it.code == 0 && text(&it.out).ends_with("Written: r.txt\n"), "{}", it.text());
    assert!(["r.svg", "r.json", "r.csv", "r.txt"].iter().all(|name| dir.at(name).exists()));
}
