//! Jobs of an interrupted build: each test runs this program again as the build to be interrupted.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command as Process, Stdio};

use tanto_exec::job::Cost;
use tanto_exec::job::{Command, JobId};
use tanto_exec::runner::Runner;
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_sys::ipc::token_pipe::make_fifo;
use tanto_sys::signals;
use tanto_testing::Scratch;

const DIRECTORY: &str = "TANTO_TEST_DIRECTORY";

/// A directory for one test, with named pipes: `up0` and `up1`, to which one job each writes when it runs, and `go`,
/// which holds some.
struct Address(Scratch);

impl Address {
    fn new(name: &str) -> Address {
        let dir = Scratch::new(name);
        ["up0", "up1", "go"].iter().for_each(|name| make_fifo(&dir.at(name)).unwrap());
        Address(dir)
    }

    fn build(&self, role: &str) -> Build {
        let mut process = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--ignored", "--nocapture"])
            .env(DIRECTORY, self.0.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Build { process, lines }
    }

    fn wait_for_job(&self, job: u32) {
        assert_eq!(fs::read_to_string(self.0.at(&format!("up{job}"))).unwrap(), "up\n");
    }

    fn let_go(&self) {
        fs::write(self.0.at("go"), "go\n").unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.at("log")).unwrap_or_default()
    }
}

/// A build in another process.
struct Build {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Build {
    fn interrupt(&self, signal: i32) {
        signals::send(self.process.id(), signal).unwrap();
    }

    /// Returns its next line for the test.
    fn says(&mut self) -> Option<String> {
        self.lines.find_map(|line| Some(line.unwrap().split_once('@')?.1.to_owned()))
    }

    fn ends_well(mut self) {
        assert_eq!(self.says(), None);
        assert!(self.process.wait().unwrap().success());
    }
}

fn start(runner: &mut ProcessRunner, job: u32, line: &str, console: bool) {
    let directory = std::env::var(DIRECTORY).unwrap();
    let line = format!("cd '{directory}'; job={job}; {line}").into_bytes();
    runner.start(JobId(job), &Command { line, console, ..Command::default() }, Cost::default()).unwrap();
}

/// Records each signal. Standard error is dropped: the shell complains there about the end of `sleep`.
const NOTES: &str = "exec 2> /dev/null; for s in INT TERM HUP; do trap \"echo $s >> log; exit 1\" $s; done
    echo up > up$job; while :; do sleep 0.1; done";
/// Records each signal until it is released.
const HELD: &str = "for s in INT TERM HUP; do trap \"echo $s >> log\" $s; done; echo up > up$job; read x < go";

#[test]
#[ignore = "a role that other tests start"]
fn two_jobs() {
    let mut runner = ProcessRunner::new(RunnerOptions::default()).unwrap();
    start(&mut runner, 0, NOTES, false);
    start(&mut runner, 1, NOTES, false);
    println!("@{:?}", runner.wait(None).unwrap());
    println!("@{:?}", runner.abort());
}

#[test]
#[ignore = "a role that other tests start"]
fn dropped() {
    let mut runner = ProcessRunner::new(RunnerOptions::default()).unwrap();
    start(&mut runner, 0, NOTES, false);
    println!("@{:?}", runner.wait(None).unwrap());
}

#[test]
#[ignore = "a role that other tests start"]
fn console() {
    let mut runner = ProcessRunner::new(RunnerOptions::default()).unwrap();
    start(&mut runner, 0, HELD, true);
    println!("@{:?}", runner.wait(None).unwrap());
    println!("@{:?}", runner.abort());
}

#[test]
fn signals_are_forwarded_to_every_job() {
    for (signal, name) in [(2, "INT"), (15, "TERM"), (1, "HUP")] {
        let place = Address::new(name);
        let mut build = place.build("two_jobs");
        place.wait_for_job(0);
        place.wait_for_job(1);
        build.interrupt(signal);
        assert_eq!(build.says(), Some(format!("Interrupted({signal})")));
        assert_eq!(build.says().as_deref(), Some("[JobId(0), JobId(1)]"));
        build.ends_well();
        assert_eq!(place.log(), format!("{name}\n{name}\n"));
    }
}

#[test]
fn a_dropped_runner_leaves_no_orphans() {
    let place = Address::new("dropped");
    let mut build = place.build("dropped");
    place.wait_for_job(0);
    build.interrupt(15);
    assert_eq!(build.says().as_deref(), Some("Interrupted(15)"));
    build.ends_well();
    assert_eq!(place.log(), "TERM\n");
}

#[test]
fn console_jobs_are_signalled_by_their_terminal_only() {
    let place = Address::new("console");
    let mut build = place.build("console");
    place.wait_for_job(0);
    build.interrupt(2);
    assert_eq!(build.says().as_deref(), Some("Interrupted(2)"));
    place.let_go();
    assert_eq!(build.says().as_deref(), Some("[JobId(0)]"));
    build.ends_well();
    assert_eq!(place.log(), "");
}
