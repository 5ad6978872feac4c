//! Tests of whole experiments with a fake executor.

use super::options::tests::options;
use super::*;
use crate::measure::CommandFailure;
use crate::measure::fake::{self, FakeExecutor};
use tanto_exec::job::Exit;
use tanto_testing::Scratch;

/// Returns options for `make -j{jobs}` with these output files.
fn make(dir: &Scratch, counts: &[u32], runs: usize, outputs: &[&str]) -> JobsOptions {
    let output = |name: &&str| OutputFile::new(dir.at(name), Format::ALL).expect("a format");
    JobsOptions { runs, outputs: outputs.iter().map(output).collect(), ..options(counts, &["make", "-j{jobs}"]) }
}

/// A command that becomes faster up to four jobs.
fn faster() -> FakeExecutor {
    FakeExecutor::new(|line| {
        let count: f64 =
            String::from_utf8_lossy(line).rsplit('j').next().expect("it has one").parse().expect("a number");
        Ok(fake::sample(12.0 / count.min(4.0)))
    })
}

/// Interrupts the fourth run.
fn interrupted(signal: i32) -> FakeExecutor {
    let (mut calls, mut inner) = (0, faster());
    FakeExecutor::new(move |line| {
        calls += 1;
        if calls > 3 { Err(RunError::Interrupted(signal)) } else { inner.run(line) }
    })
}

fn measure(session: &mut Session<'_>, executor: &mut FakeExecutor) -> (Result<(), RunError>, String) {
    let mut out = Vec::new();
    let result = session.measure(executor, &mut RunTable { out: &mut out, progress: None });
    (result, String::from_utf8(out).expect("text"))
}

fn text(outcome: &CommandOutput) -> String {
    String::from_utf8_lossy(&outcome.out).into_owned()
}

#[test]
fn runs_are_prepared_measured_and_written() {
    let dir = Scratch::new("bench-jobs");
    let options = JobsOptions {
        prepare: vec![b"clean{jobs}".to_vec()],
        prepare_once: vec![b"start".to_vec()],
        ..make(&dir, &[1, 4], 2, &["x.svg", "x.json", "x.txt", "x.csv"])
    };
    let mut session = Session::new(&options).expect("valid");
    let mut executor = faster();
    let (result, out) = measure(&mut session, &mut executor);
    assert_eq!(result, Ok(()));
    let round = ["prepare: clean1", "make -j1", "prepare: clean4", "make -j4"];
    assert_eq!(executor.lines, [&["prepare: start"][..], &round, &round].concat());
    assert!(out.starts_with("make -j{jobs}: 4 runs, in the given order\n"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("   4    3.000 s")).count(), 2, "{out}");
    let outcome = session.finish(None).expect("finished");
    assert!(text(&outcome).contains("Best: -j 4. All others are significantly slower."), "{}", text(&outcome));
    assert!(text(&outcome).contains("Recommended: -j 4\n"), "{}", text(&outcome));
    assert!(text(&outcome).contains("gnuplot -p"), "{}", text(&outcome));
    let kept = std::fs::read(dir.at("x.json")).expect("a file");
    assert_eq!(file::json::read(&kept).expect("valid"), session.experiment);
    assert!(["x.svg", "x.txt", "x.csv"].iter().all(|name| dir.at(name).exists()));
}

#[test]
fn each_run_is_appended_before_the_next_one() {
    let dir = Scratch::new("bench-jobs-append");
    let options = JobsOptions { append: Some(dir.at("all.txt")), ..make(&dir, &[1, 4], 2, &["x.json"]) };
    let mut session = Session::new(&options).expect("valid");
    assert_eq!(measure(&mut session, &mut interrupted(15)).0, Err(RunError::Interrupted(15)));
    let text = std::fs::read_to_string(dir.at("all.txt")).expect("a file");
    assert_eq!(text.matches("\n# Compiling with ").count(), 3, "{text}");
}

#[test]
fn an_interrupted_experiment_can_be_resumed() {
    let dir = Scratch::new("bench-jobs-resume");
    let first = JobsOptions { shuffled: true, seed: Some(5), ..make(&dir, &[1, 2, 3, 4], 2, &["x.json"]) };
    let mut session = Session::new(&first).expect("valid");
    assert_eq!(measure(&mut session, &mut interrupted(2)).0, Err(RunError::Interrupted(2)));
    let outcome = session.finish(Some(RunError::Interrupted(2))).expect("finished");
    assert_eq!(outcome.code, 130);
    assert!(text(&outcome).contains("Best: -j "), "completed runs are analyzed");
    assert!(outcome.err.ends_with(b"the same command with --resume to continue\n"));
    let before = session.experiment.runs.clone();
    assert_eq!(before.len(), 3);

    let again = JobsOptions { resume: true, ..first };
    let mut session = Session::new(&again).expect("resumed");
    let mut executor = faster();
    let (result, out) = measure(&mut session, &mut executor);
    assert_eq!((result, executor.lines.len()), (Ok(()), 5));
    assert!(out.starts_with("make -j{jobs}: 5 runs after 3 earlier ones, "), "{out}");
    assert_eq!(session.experiment.runs[..3], before);
    assert!(session.experiment.wall_times().values().all(|times| times.len() == 2));
    let (mut done, mut executor) = (Session::new(&again).expect("complete"), faster());
    assert_eq!((measure(&mut done, &mut executor).0, executor.lines.len()), (Ok(()), 0));
}

#[test]
fn another_setup_cannot_be_resumed() {
    let dir = Scratch::new("bench-jobs-other");
    let first = make(&dir, &[1], 1, &["x.json"]);
    measure(&mut Session::new(&first).expect("valid"), &mut faster()).0.expect("measured");
    let again = JobsOptions { resume: true, ..first };
    let error =
        |options: &JobsOptions| Session::new(options).err().expect("refused").to_string().replace(dir.text(), "@");
    let mut other = JobsOptions {
        prepare: vec![b"clean".to_vec()],
        command: vec![b"ninja".to_vec(), b"-j{jobs}".to_vec()],
        ..again.clone()
    };
    other.controls.settle = Duration::from_secs(2);
    assert_eq!(
        error(&other),
        "--resume: @/x.json: measured with another setup:\n  command: make -j{jobs}, now ninja -j{jobs}\n  \
         prepare: nothing, now clean\n  settle: 0 ms, now 2000 ms"
    );
    dir.write("x.json", "{}");
    assert_eq!(error(&again), "--resume: @/x.json: not a result of 'tanto bench jobs'");
    std::fs::remove_file(dir.at("x.json")).expect("removed");
    assert_eq!(error(&again), "reading @/x.json: No such file or directory");
}

#[test]
fn a_failure_ends_the_experiment() {
    let dir = Scratch::new("bench-jobs-failed");
    let options = JobsOptions { prepare: vec![b"clean".to_vec()], ..make(&dir, &[1, 2], 3, &["x.json"]) };
    let mut session = Session::new(&options).expect("valid");
    let failure = CommandFailure { line: b"clean".to_vec(), exit: Exit::Code(127), last_lines: Vec::new(), log: None };
    let mut executor = faster();
    executor.prepare_errors = [None, Some(RunError::Failed(failure.clone()))].into();
    assert_eq!(measure(&mut session, &mut executor).0, Err(RunError::Failed(failure.clone())));
    assert_eq!(session.experiment.runs.len(), 1);
    let outcome = session.finish(Some(RunError::Failed(failure))).expect("finished");
    let stderr = String::from_utf8_lossy(&outcome.err);
    assert!(stderr.starts_with("tanto: error: clean failed: command not found (exit code 127)\n"), "{stderr}");
    assert_eq!(outcome.code, 1);
}

#[test]
fn unwritable_results_are_found_before_anything_runs() {
    let dir = Scratch::new("bench-jobs-unwritable");
    let options = make(&dir, &[1], 1, &["no/x.json"]);
    let error = Session::new(&options).err().expect("refused").to_string();
    assert!(error.ends_with("/no/x.json: No such file or directory"), "{error}");
}
