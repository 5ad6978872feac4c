//! Tests of measuring, with real commands. None depends on how fast the machine is.

use super::controls::Controls;
use super::*;
use tanto_sys::machine::affinity::CpuMask;
use tanto_testing::Scratch;

fn meter(dir: &Scratch, controls: Controls) -> Meter {
    Meter::new(controls, &dir.at(".tanto/bench")).expect("nothing is asked for that could be refused")
}

fn failure(halt: Halt) -> Failure {
    match halt {
        Halt::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_become_a_line() {
    let words = |words: &[&str]| {
        let words: Vec<Vec<u8>> = words.iter().map(|&word| word.into()).collect();
        String::from_utf8(line(&words)).expect("text")
    };
    assert_eq!(words(&["make -j4 | cat"]), "make -j4 | cat");
    assert_eq!(words(&["make", "-j4", "A=b c", ""]), "make -j4 'A=b c' ''");
}

#[test]
fn the_whole_tree_is_measured() {
    let dir = Scratch::new("measure");
    let mut meter = meter(&dir, Controls::default());
    // Each of two processes spends a while; the shell waits for both.
    let spin = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
    let line = format!("({spin}) & ({spin}) & wait; sleep 0.3");
    let sample = meter.run(line.as_bytes()).expect("it succeeds");
    assert!(sample.wall >= Duration::from_millis(300), "{sample:?}");
    assert!(sample.cpu() > Duration::from_millis(10), "{sample:?}");
    assert!(sample.peak_memory.is_some_and(|bytes| bytes > 100 << 10), "{sample:?}");
    assert_eq!(sample.conditions.processors, CpuMask::current().expect("a mask").count());
    assert!(sample.conditions.background.is_some_and(|share| (0.0..=1.0).contains(&share)), "{sample:?}");
    assert!(!dir.at(".tanto").exists(), "nothing is written for what succeeds");
}

#[test]
fn a_failure_comes_with_its_log() {
    let dir = Scratch::new("measure-failed");
    let mut meter = meter(&dir, Controls::default());
    let it = failure(meter.run(b"echo some words; exit 3").expect_err("it fails"));
    assert_eq!((it.exit, it.last_lines.as_slice()), (Exit::Code(3), &b"some words\n"[..]));
    assert_eq!(std::fs::read(it.log.as_ref().expect("a log")).expect("a file"), b"some words\n");
    let text = String::from_utf8(Halt::Failed(it).text()).expect("text");
    assert!(text.starts_with("echo some words; exit 3 failed: exit code 3\nthe last lines"), "{text}");
    let it = failure(meter.prepare(b"/nonexistent/command").expect_err("there is none"));
    assert_eq!(it.exit, Exit::Code(127));
    assert!(Halt::Failed(it).text().starts_with(b"/nonexistent/command failed: there is no such command"));
    assert!(failure(meter.run(b"kill -KILL $$").expect_err("it is killed")).log.is_none_or(|log| log.exists()));
}

#[test]
fn settle_waits_for_calm_and_no_longer_than_it_may() {
    let dir = Scratch::new("measure-settle");
    let settled = |ms| {
        let mut meter = meter(&dir, Controls { settle: Duration::from_millis(ms), ..Controls::default() });
        meter.run(b"true").expect("it succeeds").conditions.calm
    };
    assert_eq!(settled(0), None);
    // Others may work meanwhile or not: either way there is an answer, and an end.
    assert!(settled(1).is_some());
}

#[test]
fn commands_have_the_processors_that_are_wanted() {
    let dir = Scratch::new("measure-cpus");
    let own = CpuMask::current().expect("a mask");
    let first: String = own.to_string().chars().take_while(char::is_ascii_digit).collect();
    let controls = Controls { cpus: CpuMask::parse(first.as_bytes()), count_sync: true, ..Controls::default() };
    let mut meter = meter(&dir, controls);
    let line = format!("grep -q \"^Cpus_allowed_list:.{first}$\" /proc/self/status");
    assert_eq!(meter.run(line.as_bytes()).map(|sample| sample.conditions.processors), Ok(1));
    assert_eq!(CpuMask::current().expect("a mask"), own, "we have ours again");
}
