//! Tests of whole comparisons with a fake executor and with real commands. None depends on the speed of the machine.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tanto_testing::{Random, Scratch};

use super::*;
use crate::measure::fake::{FakeExecutor, sample};
use crate::measure::{BackgroundLoad, CommandFailure};
use crate::output::OutputFile;
use tanto_exec::job::Exit;

/// Returns options with a fixed order of runs and without a warm-up.
fn options(runs: usize, commands: &[&str]) -> CompareOptions {
    CompareOptions {
        seed: Some(1),
        runs: Some(runs),
        commands: commands.iter().map(|&line| line.into()).collect(),
        ..CompareOptions::default()
    }
}

fn output(path: std::path::PathBuf) -> OutputFile {
    OutputFile::new(path, Format::ALL).expect("a format")
}

/// An executor on which `b` takes `factor` times as long as other commands, with noise of 1 %.
fn noisy(factor: f64) -> FakeExecutor {
    let mut random = Random::new(1);
    FakeExecutor::new(move |line| {
        let uniform = (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>();
        let scatter = (0.01 * (uniform - 6.0)).exp();
        Ok(sample(10.0 * scatter * if line == b"b" { factor } else { 1.0 }))
    })
}

fn out(outcome: &CommandOutput) -> String {
    String::from_utf8(outcome.out.clone()).expect("text")
}

/// Ignores the width of columns.
fn has_row(text: &str, row: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().eq(row.split(' ')))
}

fn err(outcome: &CommandOutput) -> String {
    String::from_utf8(outcome.err.clone()).expect("text")
}

#[test]
fn runs_are_shuffled_after_a_warm_up() {
    let mut executor = noisy(1.0);
    let options = CompareOptions {
        seed: Some(7),
        warmup: 1,
        prepare: vec![b"p".to_vec()],
        prepare_ab: [vec![], vec![b"q".to_vec()]],
        ..options(4, &["a", "b"])
    };
    let outcome = compare(&options, &mut executor);
    let runs = |line: &str| if line == "a" { vec!["prepare: p", "a"] } else { vec!["prepare: p", "prepare: q", "b"] };
    assert_eq!(executor.lines[..5], [runs("a"), runs("b")].concat());
    let mut order = order::RandomOrder::new(7, 2);
    let variants: Vec<usize> = (0..4).flat_map(|_| order.next()).collect();
    let expected: Vec<&str> = variants.iter().flat_map(|&variant| runs(["a", "b"][variant])).collect();
    assert_eq!(executor.lines[5..], expected);
    assert!(out(&outcome).contains("\nToo few pairs: 4 of at least 6 (estimate "), "{}", out(&outcome));
}

#[test]
fn differences_are_reported_in_a_table_and_a_sentence() {
    let options = |runs: usize, commands: &[&str]| CompareOptions { warmup: 1, ..options(runs, commands) };
    let outcome = compare(&options(20, &["a", "b"]), &mut noisy(1.05));
    let text = out(&outcome);
    assert_eq!((outcome.code, err(&outcome)), (0, String::new()));
    assert!(text.starts_with("A: a\nB: b\n"), "{text}");
    assert!(has_row(&text, "Total iterations 20 20"), "{text}");
    assert!(text.contains("\nUser+system\n"), "{text}");
    let median = text.lines().find(|line| line.starts_with("Median")).expect("it has one");
    assert!(median.contains("  +0.5") && median.ends_with(" s (+5.09 %)"), "{text}");
    assert!(
        text.contains("\nB is slower by 5.3 % (4.3 to 6.1 %, 95 % confidence).\n")
            && text.contains("\nUser+system: B uses 5.3 % more CPU time (4.3 to 6.1 %, 95 % confidence).\n"),
        "{text}"
    );
    let faster = out(&compare(&options(20, &["a", "b"]), &mut noisy(0.9)));
    assert!(faster.contains("\nB is faster by "), "{faster}");
    let none = out(&compare(&options(20, &["a", "b"]), &mut noisy(1.0)));
    assert!(
        none.contains("\nNo significant difference between A and B (estimate ")
            && none.contains(" 20 pairs can detect "),
        "{none}"
    );
}

#[test]
fn fail_if_slower_fails_on_significant_differences() {
    let code = |limit: f64, factor: f64, runs: usize| {
        let options = CompareOptions { fail_if_slower: Some(limit), ..options(runs, &["a", "b"]) };
        compare(&options, &mut noisy(factor)).code
    };
    assert_eq!(code(0.03, 1.1, 10), 1);
    assert_eq!(code(0.1, 1.1, 10), 0);
    assert_eq!(code(0.03, 0.5, 10), 0);
    assert_eq!(code(0.03, 9.0, 3), 0, "three pairs are too few");
}

#[test]
fn a_control_runs_the_first_command_again() {
    let mut executor = noisy(1.2);
    let outcome = compare(&CompareOptions { control: true, ..options(10, &["a", "b"]) }, &mut executor);
    let of = |line: &str| executor.lines.iter().filter(|it| *it == line).count();
    assert_eq!([of("a"), of("b")], [20, 10]);
    let text = out(&outcome);
    assert!(
        text.contains("\nB is slower by ")
            && text.contains("\nControl: No significant difference between A and A again ("),
        "{text}"
    );
    let mut nth = 0;
    let mut odd = FakeExecutor::new(move |_| {
        nth += 1;
        Ok(sample(if nth % 2 == 0 { 1.0 } else { 2.0 }))
    });
    let alone = CompareOptions { control: true, ..options(10, &["a"]) };
    let record = PairedExperiment::new(&alone, &mut odd).run(&mut Silent);
    assert_eq!(record.variants.len(), 2);
}

struct Silent;

impl Observer for Silent {
    fn run_completed(&mut self, _: &CompareRecord) {}
}

#[test]
fn no_run_starts_that_would_exceed_the_time_limit() {
    for seconds in [95, 100, 200, 1000] {
        let mut executor = noisy(2.0);
        let outcome = compare(&within(Duration::from_secs(seconds), 1), &mut executor);
        assert!(executor.now() <= Duration::from_secs(seconds), "{:?}", executor.now());
        // Another round would take about half a minute.
        assert!(executor.now() >= Duration::from_secs(seconds - 40), "{:?}", executor.now());
        assert!(out(&outcome).contains("pairs: another would exceed the time limit.\n"), "{}", out(&outcome));
    }
}

/// Returns options with a time limit and a number of warm-up runs.
fn within(time: Duration, warmup: usize) -> CompareOptions {
    CompareOptions { time: Some(time), runs: None, warmup, ..options(0, &["a", "b"]) }
}

#[test]
fn a_slow_run_is_considered_in_the_same_round() {
    let mut runs = 0;
    let mut executor = FakeExecutor::new(move |_| {
        runs += 1;
        Ok(sample(if runs == 7 { 60.0 } else { 1.0 }))
    });
    let record = PairedExperiment::new(&within(Duration::from_millis(66_500), 1), &mut executor).run(&mut Silent);
    assert_eq!((record.stopped, record.runs.len()), (Some(StopReason::TimeLimit), 5));
}

#[test]
fn a_narrow_interval_stops_the_experiment() {
    let options = CompareOptions { until: Some(0.02), ..options(1000, &["a", "b"]) };
    let mut executor = noisy(1.03);
    let record = PairedExperiment::new(&options, &mut executor).run(&mut Silent);
    assert_eq!(record.stopped, Some(StopReason::NarrowInterval));
    assert!((8..100).contains(&record.rounds()), "{}", record.rounds());
    let half = Comparison::all(&record)[0].wall.estimate().expect("enough pairs").half_width();
    assert!(half <= 0.02, "{half}");
    let text = out(&compare(&options, &mut noisy(1.03)));
    assert!(text.contains("pairs: the interval is narrow enough.\n"), "{text}");
}

#[test]
fn drifts_are_notes() {
    let mut nth = 0.0;
    let mut executor = FakeExecutor::new(move |line| {
        nth += 1.0;
        Ok(sample(if line == b"b" { 1.2 } else { 1.0 } * (1.0 + nth / 1000.0)))
    });
    let text = out(&compare(&options(12, &["a", "b"]), &mut executor));
    assert!(text.contains("\nB is slower by 20."), "{text}");
    assert!(text.contains("\nNote: A drifted by 2.") && text.contains("\nNote: B drifted by 2."), "{text}");
}

#[test]
fn a_drift_larger_than_the_difference_has_no_conclusion() {
    let mut runs_of_b = 0.0;
    let mut executor = FakeExecutor::new(move |line| {
        runs_of_b += f64::from(u8::from(line == b"b"));
        Ok(sample(if line == b"b" { 1.0 + runs_of_b / 100.0 } else { 1.0 }))
    });
    let text = out(&compare(&options(12, &["a", "b"]), &mut executor));
    assert!(text.contains("\nNo conclusion: B / A drifted by ") && text.contains("95 % confidence"), "{text}");
}

#[test]
fn cpu_time_comes_first_for_computing_commands_on_a_busy_machine() {
    let busy = Some(BackgroundLoad { fraction: 0.4, free_cpus: 1.2 });
    let is_cpu_first = |background: Option<BackgroundLoad>, computes: bool| {
        let mut executor = FakeExecutor::new(move |_| {
            let mut run = sample(1.0);
            run.system = Duration::ZERO;
            run.user = Duration::from_millis(if computes { 700 } else { 10 });
            Ok(run)
        });
        executor.background = background;
        let text = out(&compare(&options(10, &["a", "b"]), &mut executor));
        text.contains("\nWall time: No significant difference")
    };
    assert!(is_cpu_first(busy, true));
    assert!(!is_cpu_first(busy, false), "the command sleeps");
    let idle = Some(BackgroundLoad { fraction: 0.01, free_cpus: 1.9 });
    assert!(!is_cpu_first(None, true) && !is_cpu_first(idle, true));
}

#[test]
fn outliers_are_listed_and_included() {
    let mut nth = 0;
    let mut executor = FakeExecutor::new(move |_| {
        nth += 1;
        Ok(sample(if nth == 8 { 9.0 } else { 1.0 + f64::from(nth * 7 % 5) / 1000.0 }))
    });
    let text = out(&compare(&options(10, &["a", "b"]), &mut executor));
    assert!(text.contains("note: run 4 of B is an outlier: 9.000 s, 8.97 times the median (included)\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("Max") && line.contains("9.000 s")), "{text}");
}

fn failure() -> RunError {
    RunError::Failed(CommandFailure {
        line: b"b".into(),
        exit: Exit::Code(3),
        last_lines: b"oh\n".into(),
        log: Some("x/failed.txt".into()),
    })
}

#[test]
fn a_failure_stops_the_experiment_with_a_report() {
    let mut nth = 0;
    let mut executor = FakeExecutor::new(move |_| {
        nth += 1;
        if nth == 20 { Err(failure()) } else { Ok(sample(1.0)) }
    });
    let outcome = compare(&options(10, &["a", "b"]), &mut executor);
    assert_eq!(outcome.code, FAILURE);
    let text = err(&outcome);
    assert!(text.starts_with("tanto: error: run 10 of A: b failed: exit code 3\nlast lines"), "{text}");
    assert!(text.ends_with("full output: x/failed.txt\n"), "{text}");
    assert!(has_row(&out(&outcome), "Total iterations 9 9"), "{}", out(&outcome));
    assert!(out(&outcome).contains("Stopped after 9 pairs, during run 10 of A.\n"), "{}", out(&outcome));
    let prepared = CompareOptions { warmup: 1, prepare: vec![b"p".to_vec()], ..options(10, &["a", "b"]) };
    let mut executor = noisy(1.0);
    executor.prepare_errors = [None, None, Some(failure())].into();
    let outcome = compare(&prepared, &mut executor);
    assert!(err(&outcome).starts_with("tanto: error: preparing run 1 of A: b failed: "), "{}", err(&outcome));
    let mut executor = noisy(1.0);
    executor.prepare_errors = [Some(failure())].into();
    let outcome = compare(&prepared, &mut executor);
    assert!(err(&outcome).starts_with("tanto: error: preparing warm-up 1 of A: b failed: "), "{}", err(&outcome));
}

#[test]
fn an_interrupted_experiment_is_reported() {
    let dir = Scratch::new("compare-interrupt");
    let mut nth = 0;
    let mut executor = FakeExecutor::new(move |_| {
        nth += 1;
        if nth == 16 { Err(RunError::Interrupted(2)) } else { Ok(sample(1.0 + f64::from(nth * 7 % 5) / 1000.0)) }
    });
    let file = dir.at("x.json");
    let options = CompareOptions { outputs: vec![output(file.clone())], ..options(10, &["a", "b"]) };
    let outcome = compare(&options, &mut executor);
    assert_eq!(outcome.code, 130);
    assert!(
        err(&outcome).starts_with("tanto: error: run 8 of ") && err(&outcome).ends_with(": interrupted\n"),
        "{}",
        err(&outcome)
    );
    assert!(
        out(&outcome).contains("95 % confidence") && out(&outcome).contains("Stopped after 7 pairs, during run 8 of "),
        "{}",
        out(&outcome)
    );
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!((all["runs"].as_array().map(Vec::len), all["stopped"].as_str()), (Some(15), Some("failed")));
}

#[test]
fn all_formats_are_written() {
    let dir = Scratch::new("bench-compare-formats");
    let outputs = ["x.json", "x.csv", "x.svg", "x.txt"].map(|name| output(dir.at(name)));
    let options = CompareOptions { outputs: outputs.to_vec(), ..options(10, &["a", "b"]) };
    let outcome = compare(&options, &mut noisy(1.2));
    let read = |name: &str| std::fs::read_to_string(dir.at(name)).expect("written");
    assert_eq!(read("x.txt"), out(&outcome));
    assert_eq!(read("x.csv").lines().count(), 21);
    assert!(read("x.csv").contains("\nA,1,"), "{}", read("x.csv"));
    assert_eq!(read("x.svg").matches("<circle").count(), 20);
    let all: serde_json::Value = serde_json::from_str(&read("x.json")).expect("JSON");
    let wall = &all["comparisons"][0]["wall"];
    assert_eq!((all["pairs"].as_u64(), wall["result"].as_str()), (Some(10), Some("more")));
    assert!(wall["low"].as_f64() > Some(1.1) && wall["high"].as_f64() < Some(1.3), "{wall}");
    assert!(all["runs"][0]["command"].is_string() && all["seed"].is_u64() && wall["drift"].is_object(), "{all}");
}

#[test]
fn files_are_written_during_the_experiment() {
    let dir = Scratch::new("compare-meanwhile");
    let file = dir.at("x.csv");
    let (seen, path) = (Rc::new(Cell::new(0)), file.clone());
    let lines = seen.clone();
    let mut executor = FakeExecutor::new(move |_| {
        lines.set(std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()));
        Ok(sample(1.0))
    });
    compare(&CompareOptions { outputs: vec![output(file)], ..options(2, &["a", "b"]) }, &mut executor);
    assert!(seen.get() >= 2, "the first run was written before the last began");
}

#[test]
fn write_errors_are_reported_at_the_end() {
    let dir = Scratch::new("compare-gone");
    dir.write("sub/x", "");
    let (file, sub) = (dir.at("sub/x.csv"), dir.at("sub"));
    let mut executor = FakeExecutor::new(move |_| {
        let _ = std::fs::remove_dir_all(&sub);
        Ok(sample(1.0))
    });
    let outcome = compare(&CompareOptions { outputs: vec![output(file)], ..options(10, &["a", "b"]) }, &mut executor);
    assert_eq!(outcome.code, FAILURE);
    assert!(out(&outcome).contains("No significant difference"), "{}", out(&outcome));
    assert!(err(&outcome).ends_with("x.csv: No such file or directory\n"), "{}", err(&outcome));
}

#[test]
fn all_commands_are_compared_with_the_first() {
    let text = out(&compare(&options(12, &["a", "b", "c"]), &mut noisy(1.2)));
    assert!(
        text.contains("\nB is slower by ") && text.contains("No significant difference between A and C ("),
        "{text}"
    );
    let few = out(&compare(&options(6, &["a", "b", "c"]), &mut noisy(1.2)));
    assert!(few.contains("Too few pairs: 6 of at least 7 (estimate "), "{few}");
}

#[test]
fn real_commands_are_compared() {
    let dir = Scratch::new("bench-compare-real");
    let file = dir.at("out");
    let same = vec![file.clone()];
    let compare = |first: &str, second: &str| {
        let lines = [first, second].map(|text| format!("printf {text} > {}", file.display()));
        run(&CompareOptions { same: same.clone(), ..options(2, &[&lines[0], &lines[1]]) }).expect("measured")
    };
    let equal = compare("x", "x ");
    assert_eq!((equal.code, err(&equal)), (0, String::new()), "{}", out(&equal));
    let different = compare("x", "y");
    assert_eq!(different.code, FAILURE);
    assert!(err(&different).ends_with("/out differs between run 1 of A and run 1 of B\n"), "{}", err(&different));
    let missing = run(&options(10, &["true", "/nonexistent/command"])).expect("measured");
    assert_eq!(missing.code, FAILURE);
    assert!(err(&missing).starts_with("tanto: error: run 1 of B: /nonexistent/command failed: "), "{}", err(&missing));
}

#[test]
fn equal_commands_are_noted() {
    let text = out(&compare(&options(1, &["a", "a"]), &mut noisy(1.0)));
    assert!(text.contains("\nnote: A and B are the same command\n"), "{text}");
}

#[test]
fn unwritable_outputs_are_errors() {
    let outputs = vec![output("/nonexistent/x.svg".into())];
    let error = run(&CompareOptions { outputs, ..options(1, &["a", "b"]) }).expect_err("refused").to_string();
    assert_eq!(error, "writing /nonexistent/x.svg: No such file or directory");
}
