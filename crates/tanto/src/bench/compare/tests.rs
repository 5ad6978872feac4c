//! Experiments on a bench that is made up, and a few with real commands. None depends on how fast the machine is.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tanto_testing::{Random, Scratch};

use super::*;
use crate::bench::measure::fake::{Fake, sample};
use crate::bench::measure::{Failure, Others};
use tanto_exec::job::Exit;

/// Arguments with a seed, so that the order of runs is always the same.
fn args(line: &[&str]) -> Args {
    let words: Vec<Vec<u8>> = ["--seed", "1"].iter().chain(line).map(|&word| word.into()).collect();
    Args::read(&words).expect("it makes sense").expect("no help")
}

/// A bench on which `b` takes `factor` times as long as all else, and each run scatters by 1 %.
fn noisy(factor: f64) -> Fake {
    let mut random = Random::new(1);
    Fake::new(move |line| {
        let uniform = (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>();
        let scatter = (0.01 * (uniform - 6.0)).exp();
        Ok(sample(10.0 * scatter * if line == b"b" { factor } else { 1.0 }))
    })
}

fn out(stop: &Stop) -> String {
    String::from_utf8(stop.out.clone()).expect("text")
}

/// Whatever the columns' width.
fn has_row(text: &str, row: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().eq(row.split(' ')))
}

fn err(stop: &Stop) -> String {
    String::from_utf8(stop.err.clone()).expect("text")
}

#[test]
fn runs_go_by_turns_after_a_warm_up() {
    let mut bench = noisy(1.0);
    let line = ["--runs", "4", "--seed", "7", "--prepare", "p", "--prepare-b", "q", "--", "a", "b"];
    let stop = compare(&args(&line), &mut bench);
    let runs = |line: &str| if line == "a" { vec!["prepare: p", "a"] } else { vec!["prepare: p", "prepare: q", "b"] };
    assert_eq!(bench.lines[..5], [runs("a"), runs("b")].concat());
    let mut order = order::Order::new(7, 2);
    let sides: Vec<usize> = (0..4).flat_map(|_| order.next()).collect();
    let expected: Vec<&str> = sides.iter().flat_map(|&side| runs(["a", "b"][side])).collect();
    assert_eq!(bench.lines[5..], expected);
    assert!(out(&stop).contains("\nToo few pairs for an answer: 4 of at least 6 (estimate "), "{}", out(&stop));
}

#[test]
fn a_difference_is_told_in_a_table_and_in_words() {
    let stop = compare(&args(&["--runs", "20", "a", "b"]), &mut noisy(1.05));
    let text = out(&stop);
    assert_eq!((stop.code, err(&stop)), (0, String::new()));
    assert!(text.starts_with("A: a\nB: b\n"), "{text}");
    assert!(has_row(&text, "Total iterations 20 20"), "{text}");
    assert!(text.contains("\nUser+system\n"), "{text}");
    let median = text.lines().find(|line| line.starts_with("Median")).expect("it has one");
    assert!(median.contains("  +0.5") && median.ends_with(" s (+5.09 %)"), "{text}");
    assert!(
        text.contains("\nB is slower by 5.3 % (4.3 to 6.1 %, 95 % confidence).\n")
            && text.contains("\nUser+system: B uses 5.3 % more processor time (4.3 to 6.1 %, 95 % confidence).\n"),
        "{text}"
    );
    let faster = out(&compare(&args(&["--runs", "20", "a", "b"]), &mut noisy(0.9)));
    assert!(faster.contains("\nB is faster by "), "{faster}");
    let none = out(&compare(&args(&["--runs", "20", "a", "b"]), &mut noisy(1.0)));
    assert!(
        none.contains("\nNo difference seen between A and B (estimate ")
            && none.contains(" 20 pairs would have shown "),
        "{none}"
    );
}

#[test]
fn a_slower_command_fails_where_that_is_wanted() {
    let code =
        |share: &str, factor: f64| compare(&args(&["--fail-if-slower", share, "a", "b"]), &mut noisy(factor)).code;
    assert_eq!(code("3%", 1.1), 1);
    assert_eq!(code("10%", 1.1), 0);
    assert_eq!(code("3%", 0.5), 0);
    // Three pairs say nothing, whatever they say.
    let few = compare(&args(&["--fail-if-slower", "3%", "--runs", "3", "a", "b"]), &mut noisy(9.0));
    assert_eq!(few.code, 0);
}

#[test]
fn a_control_runs_the_first_once_more() {
    let mut bench = noisy(1.2);
    let stop = compare(&args(&["--control", "--runs", "10", "--warmup", "0", "a", "b"]), &mut bench);
    let of = |line: &str| bench.lines.iter().filter(|it| *it == line).count();
    assert_eq!([of("a"), of("b")], [20, 10]);
    let text = out(&stop);
    assert!(
        text.contains("\nB is slower by ") && text.contains("\nControl: No difference seen between A and A again ("),
        "{text}"
    );
    let mut nth = 0;
    let mut odd = Fake::new(move |_| {
        nth += 1;
        Ok(sample(if nth % 2 == 0 { 1.0 } else { 2.0 }))
    });
    let record = Measuring::new(&args(&["--control", "--warmup", "0", "a"]), &mut odd).run(&mut Silent);
    assert_eq!(record.sides.len(), 2);
}

struct Silent;

impl Audience for Silent {
    fn progress(&mut self, _: &Record) {}
}

#[test]
fn nothing_is_begun_that_would_not_end_in_time() {
    for seconds in [95, 100, 200, 1000] {
        let mut bench = noisy(2.0);
        let stop = compare(&args(&["--for", &format!("{seconds}s"), "a", "b"]), &mut bench);
        assert!(bench.now() <= Duration::from_secs(seconds), "{:?}", bench.now());
        // Another round would have taken about half a minute.
        assert!(bench.now() >= Duration::from_secs(seconds - 40), "{:?}", bench.now());
        assert!(out(&stop).contains("pairs: another would not have ended in time.\n"), "{}", out(&stop));
    }
}

#[test]
fn a_command_that_becomes_slow_does_not_pull_another_one_over_the_limit() {
    let mut runs = 0;
    let mut bench = Fake::new(move |_| {
        runs += 1;
        Ok(sample(if runs == 7 { 60.0 } else { 1.0 }))
    });
    let record = Measuring::new(&args(&["--for", "66500ms", "a", "b"]), &mut bench).run(&mut Silent);
    assert_eq!((record.end, record.runs.len()), (Some(End::Time), 5));
}

#[test]
fn a_narrow_interval_ends_it() {
    let line = ["--runs", "1000", "--until", "2%", "a", "b"];
    let mut bench = noisy(1.03);
    let record = Measuring::new(&args(&line), &mut bench).run(&mut Silent);
    assert_eq!(record.end, Some(End::Narrow));
    assert!((8..100).contains(&record.rounds()), "{}", record.rounds());
    let half = Comparison::all(&record)[0].wall.estimate().expect("it is seen").half_width();
    assert!(half <= 0.02, "{half}");
    let text = out(&compare(&args(&line), &mut noisy(1.03)));
    assert!(text.contains("pairs, with an interval that is narrow enough.\n"), "{text}");
}

#[test]
fn drifts_are_notes_beside_the_answer() {
    let mut nth = 0.0;
    let mut bench = Fake::new(move |line| {
        nth += 1.0;
        Ok(sample(if line == b"b" { 1.2 } else { 1.0 } * (1.0 + nth / 1000.0)))
    });
    let text = out(&compare(&args(&["--runs", "12", "a", "b"]), &mut bench));
    assert!(text.contains("\nB is slower by 20."), "{text}");
    assert!(text.contains("\nNote: A drifted by 2.") && text.contains("\nNote: B drifted by 2."), "{text}");
}

#[test]
fn a_ratio_that_drifts_by_more_than_the_difference_has_no_answer_but_an_estimate() {
    let mut runs_of_b = 0.0;
    let mut bench = Fake::new(move |line| {
        runs_of_b += f64::from(u8::from(line == b"b"));
        Ok(sample(if line == b"b" { 1.0 + runs_of_b / 100.0 } else { 1.0 }))
    });
    let text = out(&compare(&args(&["--runs", "12", "--fail-if-slower", "3%", "a", "b"]), &mut bench));
    assert!(text.contains("\nNo answer: B / A drifted by ") && text.contains("95 % confidence"), "{text}");
}

#[test]
fn processor_time_leads_for_commands_that_compute_on_a_busy_machine() {
    let busy = Some(Others { share: 0.4, left: 1.2 });
    let first = |others: Option<Others>, computes: bool| {
        let mut bench = Fake::new(move |_| {
            let mut run = sample(1.0);
            run.system = Duration::ZERO;
            run.user = Duration::from_millis(if computes { 700 } else { 10 });
            Ok(run)
        });
        bench.others = others;
        let text = out(&compare(&args(&["a", "b"]), &mut bench));
        text.contains("\nBy the clock: No difference seen")
    };
    assert!(first(busy, true));
    assert!(!first(busy, false), "a command that sleeps is judged by the clock");
    assert!(!first(None, true) && !first(Some(Others { share: 0.01, left: 1.9 }), true));
}

#[test]
fn outliers_are_named_and_count() {
    let mut nth = 0;
    let mut bench = Fake::new(move |_| {
        nth += 1;
        Ok(sample(if nth == 8 { 9.0 } else { 1.0 + f64::from(nth * 7 % 5) / 1000.0 }))
    });
    let text = out(&compare(&args(&["--warmup", "0", "a", "b"]), &mut bench));
    assert!(text.contains("note: run 4 of B is far off: 9.000 s, 8.97 times the median (it counts)\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("Max") && line.contains("9.000 s")), "{text}");
}

fn failure() -> Halt {
    let failed = Failure {
        line: b"b".into(),
        exit: Exit::Code(3),
        last_lines: b"oh\n".into(),
        log: Some("x/failed.txt".into()),
    };
    Halt::Failed(failed)
}

#[test]
fn a_failure_stops_it_with_the_log_and_what_was_measured() {
    let mut nth = 0;
    let mut bench = Fake::new(move |_| {
        nth += 1;
        if nth == 20 { Err(failure()) } else { Ok(sample(1.0)) }
    });
    let stop = compare(&args(&["--warmup", "0", "a", "b"]), &mut bench);
    assert_eq!(stop.code, FAILURE);
    let text = err(&stop);
    assert!(text.starts_with("tanto: error: run 10 of A: b failed: exit code 3\nthe last lines"), "{text}");
    assert!(text.ends_with("all of what it printed is in x/failed.txt\n"), "{text}");
    assert!(has_row(&out(&stop), "Total iterations 9 9"), "{}", out(&stop));
    assert!(out(&stop).contains("Stopped after 9 pairs, at run 10 of A.\n"), "{}", out(&stop));
    let mut bench = noisy(1.0);
    bench.halts = [None, None, Some(failure())].into();
    let stop = compare(&args(&["--prepare", "p", "a", "b"]), &mut bench);
    assert!(err(&stop).starts_with("tanto: error: preparing run 1 of A: b failed: "), "{}", err(&stop));
    let mut bench = noisy(1.0);
    bench.halts = [Some(failure())].into();
    let stop = compare(&args(&["--prepare", "p", "a", "b"]), &mut bench);
    assert!(err(&stop).starts_with("tanto: error: preparing warm-up 1 of A: b failed: "), "{}", err(&stop));
}

#[test]
fn an_interrupt_keeps_and_sums_up_what_was_measured() {
    let dir = Scratch::new("compare-interrupt");
    let mut nth = 0;
    let mut bench = Fake::new(move |_| {
        nth += 1;
        if nth == 16 { Err(Halt::Interrupted(2)) } else { Ok(sample(1.0 + f64::from(nth * 7 % 5) / 1000.0)) }
    });
    let file = dir.at("x.json").display().to_string();
    let stop = compare(&args(&["--warmup", "0", "-o", &file, "a", "b"]), &mut bench);
    assert_eq!(stop.code, 130);
    assert!(
        err(&stop).starts_with("tanto: error: run 8 of ") && err(&stop).ends_with(": interrupted\n"),
        "{}",
        err(&stop)
    );
    assert!(
        out(&stop).contains("95 % confidence") && out(&stop).contains("Stopped after 7 pairs, at run 8 of "),
        "{}",
        out(&stop)
    );
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!((all["runs"].as_array().map(Vec::len), all["ended"].as_str()), (Some(15), Some("halted")));
}

#[test]
fn all_forms_are_written() {
    let dir = Scratch::new("compare-forms");
    let file = |ending: &str| dir.at(&format!("x.{ending}")).display().to_string();
    let [json, csv, svg, txt] = ["json", "csv", "svg", "txt"].map(file);
    let line = ["-o", &json, "-o", &csv, "-o", &svg, "-o", &txt, "a", "b"];
    let stop = compare(&args(&line), &mut noisy(1.2));
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    assert_eq!(read(&txt), out(&stop));
    assert_eq!(read(&csv).lines().count(), 21);
    assert!(read(&csv).contains("\nA,1,0.000000,") || read(&csv).contains("\nA,1,"), "{}", read(&csv));
    assert_eq!(read(&svg).matches("<circle").count(), 20);
    let all: serde_json::Value = serde_json::from_str(&read(&json)).expect("JSON");
    let wall = &all["comparisons"][0]["wall"];
    assert_eq!((all["pairs"].as_u64(), wall["verdict"].as_str()), (Some(10), Some("more")));
    assert!(wall["low"].as_f64() > Some(1.1) && wall["high"].as_f64() < Some(1.3), "{wall}");
    assert!(all["runs"][0]["side"].is_string() && all["seed"].is_u64() && wall["drift"].is_object(), "{all}");
}

#[test]
fn files_are_written_while_it_goes_on() {
    let dir = Scratch::new("compare-meanwhile");
    let file = dir.at("x.csv").display().to_string();
    let (seen, path) = (Rc::new(Cell::new(0)), file.clone());
    let lines = seen.clone();
    let mut bench = Fake::new(move |_| {
        lines.set(std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()));
        Ok(sample(1.0))
    });
    compare(&args(&["--warmup", "0", "--runs", "2", "-o", &file, "a", "b"]), &mut bench);
    assert!(seen.get() >= 2, "the first run was written before the last began");
}

#[test]
fn a_file_that_cannot_be_written_any_more_is_said_at_the_end() {
    let dir = Scratch::new("compare-gone");
    dir.write("sub/x", "");
    let (file, sub) = (dir.at("sub/x.csv").display().to_string(), dir.at("sub"));
    let mut bench = Fake::new(move |_| {
        let _ = std::fs::remove_dir_all(&sub);
        Ok(sample(1.0))
    });
    let stop = compare(&args(&["-o", &file, "a", "b"]), &mut bench);
    assert_eq!(stop.code, FAILURE);
    assert!(out(&stop).contains("No difference seen"), "{}", out(&stop));
    assert!(err(&stop).ends_with("x.csv: No such file or directory\n"), "{}", err(&stop));
}

#[test]
fn three_commands_are_each_compared_with_the_first() {
    let text = out(&compare(&args(&["--runs", "12", "a", "b", "c"]), &mut noisy(1.2)));
    assert!(text.contains("\nB is slower by ") && text.contains("No difference seen between A and C ("), "{text}");
    let few = out(&compare(&args(&["--runs", "6", "a", "b", "c"]), &mut noisy(1.2)));
    assert!(few.contains("Too few pairs for an answer: 6 of at least 7 (estimate "), "{few}");
}

#[test]
fn real_commands_are_compared() {
    let dir = Scratch::new("compare-real");
    let words = |line: &[&str]| ["--seed", "1"].iter().chain(line).map(|&word| word.into()).collect::<Vec<Vec<u8>>>();
    let out_file = dir.at("out").display().to_string();
    let write = |text: &str| format!("printf {text} > {out_file}");
    let same = run(&words(&["--runs", "2", "--warmup", "0", "--same", &out_file, "--", &write("x"), &write("x ")]));
    assert_eq!((same.code, err(&same)), (0, String::new()), "{}", out(&same));
    let unlike = run(&words(&["--runs", "2", "--warmup", "0", "--same", &out_file, "--", &write("x"), &write("y")]));
    assert_eq!(unlike.code, FAILURE);
    assert!(err(&unlike).ends_with("/out is not the same after run 1 of B as after run 1 of A\n"), "{}", err(&unlike));
    let none = run(&words(&["--warmup", "0", "--", "true", "/nonexistent/command"]));
    assert_eq!(none.code, FAILURE);
    assert!(err(&none).starts_with("tanto: error: run 1 of B: /nonexistent/command failed: "), "{}", err(&none));
}

#[test]
fn the_same_command_twice_is_noted() {
    let text = out(&compare(&args(&["--runs", "1", "a", "a"]), &mut noisy(1.0)));
    assert!(text.contains("\nnote: A and B are the same command\n"), "{text}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let said = |line: &[&str]| {
        let stop = run(&line.iter().map(|&word| word.into()).collect::<Vec<Vec<u8>>>());
        assert_eq!(stop.code, FAILURE);
        err(&stop)
    };
    assert!(said(&["a"]).starts_with("tanto: error: compare what? Two commands are needed"));
    assert!(said(&["-o", "/nonexistent/x.svg", "a", "b"]).contains("/nonexistent/x.svg: No such file or directory"));
    assert!(run(&[b"--help".to_vec()]).out.starts_with(b"usage: tanto bench compare [options] [--] "));
}
