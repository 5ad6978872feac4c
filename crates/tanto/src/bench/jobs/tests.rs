//! Tests of a whole experiment, on a bench that says what each run took.

use super::*;
use crate::bench::measure::Failure;
use crate::bench::measure::fake::{self, Fake};
use tanto_exec::job::Exit;
use tanto_testing::Scratch;

fn args(line: &str) -> Args {
    let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.into()).collect();
    Args::read(&words).expect("sound").expect("no help")
}

/// A command that gets faster up to four jobs.
fn faster() -> Fake {
    Fake::new(|line| {
        let count: f64 =
            String::from_utf8_lossy(line).rsplit('j').next().expect("it has one").parse().expect("a number");
        Ok(fake::sample(12.0 / count.min(4.0)))
    })
}

fn play(session: &mut Session<'_>, bench: &mut Fake) -> (Result<(), Halt>, String) {
    let mut out = Vec::new();
    let result = session.measure(bench, &mut Table { out: &mut out, progress: None });
    (result, String::from_utf8(out).expect("text"))
}

fn text(stop: &Stop) -> String {
    String::from_utf8_lossy(&stop.out).into_owned()
}

#[test]
fn everything_is_prepared_run_and_written() {
    let dir = Scratch::new("jobs");
    let line = format!(
        "-j 1,4 --runs 2 --order swept --prepare-once start --prepare clean{{jobs}} -o {0}/x.svg -o {0}/x.json -o {0}/x.txt \
         -o {0}/x.csv -- make -j{{jobs}}",
        dir.text()
    );
    let args = args(&line);
    let mut session = Session::begin(&args).expect("it can begin");
    let mut bench = faster();
    let (result, out) = play(&mut session, &mut bench);
    assert_eq!(result, Ok(()));
    let round = ["prepare: clean1", "make -j1", "prepare: clean4", "make -j4"];
    assert_eq!(bench.lines, [&["prepare: start"][..], &round, &round].concat());
    assert!(out.starts_with("make -j{jobs}: 4 runs, as given\n"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("   4    3.000 s")).count(), 2, "{out}");
    let stop = session.end(None).expect("an end");
    assert!(text(&stop).contains("The best is -j 4. All others are slower"), "{}", text(&stop));
    assert!(text(&stop).contains("Recommended: -j 4\n") && text(&stop).contains("gnuplot -p"), "{}", text(&stop));
    let kept = std::fs::read(dir.at("x.json")).expect("a file");
    assert_eq!(file::json::read(&kept).expect("sound"), session.experiment);
    assert!(["x.svg", "x.txt", "x.csv"].iter().all(|name| dir.at(name).exists()));
}

#[test]
fn each_run_is_appended_before_the_next_begins() {
    let dir = Scratch::new("jobs-append");
    let args = args(&format!("-j 1,4 --runs 2 -o {0}/x.json --append {0}/all.txt -- make -j{{jobs}}", dir.text()));
    let mut session = Session::begin(&args).expect("it can begin");
    let (mut calls, mut inner) = (0, faster());
    let mut bench = Fake::new(move |line| {
        calls += 1;
        if calls > 3 { Err(Halt::Interrupted(15)) } else { inner.run(line) }
    });
    assert_eq!(play(&mut session, &mut bench).0, Err(Halt::Interrupted(15)));
    let text = std::fs::read_to_string(dir.at("all.txt")).expect("a file");
    assert_eq!(text.matches("\n# Compiling with ").count(), 3, "{text}");
}

#[test]
fn an_interrupt_loses_nothing_and_is_gone_on_from() {
    let dir = Scratch::new("jobs-resume");
    let line = format!("-j 1..4 --runs 2 --seed 5 -o {}/x.json", dir.text());
    let first = args(&format!("{line} -- make -j{{jobs}}"));
    let mut session = Session::begin(&first).expect("it can begin");
    let (mut calls, mut inner) = (0, faster());
    let mut bench = Fake::new(move |line| {
        calls += 1;
        if calls > 3 { Err(Halt::Interrupted(2)) } else { inner.run(line) }
    });
    assert_eq!(play(&mut session, &mut bench).0, Err(Halt::Interrupted(2)));
    let stop = session.end(Some(Halt::Interrupted(2))).expect("an end");
    assert_eq!(stop.code, 130);
    assert!(text(&stop).contains("The best is "), "what was measured is summarised");
    assert!(stop.err.ends_with(b"the same command with --resume goes on\n"));
    let before = session.experiment.runs.clone();
    assert_eq!(before.len(), 3);

    let again = args(&format!("{line} --resume -- make -j{{jobs}}"));
    let mut session = Session::begin(&again).expect("it goes on");
    let mut bench = faster();
    let (result, out) = play(&mut session, &mut bench);
    assert_eq!((result, bench.lines.len()), (Ok(()), 5));
    assert!(out.starts_with("make -j{jobs}: 5 runs, after 3 that were measured before"), "{out}");
    assert_eq!(session.experiment.runs[..3], before);
    assert!(session.experiment.walls().values().all(|walls| walls.len() == 2));
    let (mut done, mut bench) = (Session::begin(&again).expect("nothing is left"), faster());
    assert_eq!((play(&mut done, &mut bench).0, bench.lines.len()), (Ok(()), 0));
}

#[test]
fn what_was_measured_in_another_way_is_not_gone_on_with() {
    let dir = Scratch::new("jobs-other");
    let line = format!("-j 1 --runs 1 -o {}/x.json", dir.text());
    let first = args(&format!("{line} -- make -j{{jobs}}"));
    play(&mut Session::begin(&first).expect("it can begin"), &mut faster()).0.expect("measured");
    let complaint = |more: &str| {
        let args = args(&format!("{line} --resume {more}"));
        let why = Session::begin(&args).err().expect("refused");
        String::from_utf8(why).expect("text").replace(dir.text(), "@")
    };
    assert_eq!(
        complaint("--settle 2s --prepare clean -- ninja -j{jobs}"),
        "--resume: @/x.json: it was measured in another way:\n  command: make -j{jobs}, now ninja -j{jobs}\n  \
         prepare: nothing, now clean\n  settle: 0 ms, now 2000 ms"
    );
    dir.write("x.json", "{}");
    assert_eq!(complaint("-- make -j{jobs}"), "--resume: @/x.json: not of 'tanto bench jobs'");
    std::fs::remove_file(dir.at("x.json")).expect("it was there");
    assert_eq!(complaint("-- make -j{jobs}"), "--resume: @/x.json: No such file or directory");
}

#[test]
fn a_failure_ends_it_and_says_why() {
    let dir = Scratch::new("jobs-failed");
    let args = args(&format!("-j 1,2 -o {}/x.json --prepare clean -- make -j{{jobs}}", dir.text()));
    let mut session = Session::begin(&args).expect("it can begin");
    let failure = Failure { line: b"clean".to_vec(), exit: Exit::Code(127), last_lines: Vec::new(), log: None };
    let mut bench = faster();
    bench.halts = [None, Some(Halt::Failed(failure.clone()))].into();
    assert_eq!(play(&mut session, &mut bench).0, Err(Halt::Failed(failure.clone())));
    assert_eq!(session.experiment.runs.len(), 1);
    let stop = session.end(Some(Halt::Failed(failure))).expect("an end");
    let err = String::from_utf8_lossy(&stop.err);
    assert!(err.starts_with("tanto: error: clean failed: there is no such command (exit code 127)\n"), "{err}");
    assert_eq!(stop.code, 1);
}

#[test]
fn a_result_that_cannot_be_written_is_known_before_anything_runs() {
    let dir = Scratch::new("jobs-unwritable");
    let args = args(&format!("-j 1 -o {}/no/x.json -- make -j{{jobs}}", dir.text()));
    let why = Session::begin(&args).err().expect("refused");
    assert!(why.ends_with(b"/no/x.json: No such file or directory"), "{}", String::from_utf8_lossy(&why));
}
