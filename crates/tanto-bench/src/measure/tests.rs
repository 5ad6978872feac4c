//! Tests with real commands. None depends on the speed of the machine.

use super::controls::Controls;
use super::*;
use tanto_sys::machine::affinity::CpuMask;
use tanto_testing::Scratch;

fn executor(dir: &Scratch, controls: Controls) -> LocalExecutor {
    LocalExecutor::new(controls, &dir.at(".tanto/bench")).expect("these controls need no privileges")
}

fn failure(error: RunError) -> CommandFailure {
    match error {
        RunError::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_are_quoted() {
    let words = |words: &[&str]| {
        let words: Vec<Vec<u8>> = words.iter().map(|&word| word.into()).collect();
        String::from_utf8(command_line(&words)).expect("text")
    };
    assert_eq!(words(&["make -j4 | cat"]), "make -j4 | cat");
    assert_eq!(words(&["make", "-j4", "A=b c", ""]), "make -j4 'A=b c' ''");
}

#[test]
fn all_descendants_are_measured() {
    let dir = Scratch::new("bench-measure");
    let mut executor = executor(&dir, Controls::default());
    // Two background processes use processor time; the shell waits for both.
    let spin = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
    let line = format!("({spin}) & ({spin}) & wait; sleep 0.3");
    let sample = executor.run(line.as_bytes()).expect("it succeeds");
    assert!(sample.wall >= Duration::from_millis(300), "{sample:?}");
    assert!(sample.cpu() > Duration::from_millis(10), "{sample:?}");
    assert!(sample.peak_memory.is_some_and(|bytes| bytes > 100 << 10), "{sample:?}");
    assert_eq!(sample.conditions.processors, CpuMask::current().expect("a mask").count());
    assert!(sample.conditions.background.is_some_and(|share| (0.0..=1.0).contains(&share)), "{sample:?}");
    assert!(!dir.at(".tanto").exists(), "a successful run writes nothing");
}

#[test]
fn a_failure_has_a_log() {
    let dir = Scratch::new("bench-measure-failed");
    let mut executor = executor(&dir, Controls::default());
    let it = failure(executor.run(b"echo some words; exit 3").expect_err("it fails"));
    assert_eq!((it.exit, it.last_lines.as_slice()), (Exit::Code(3), &b"some words\n"[..]));
    assert_eq!(std::fs::read(it.log.as_ref().expect("a log")).expect("a file"), b"some words\n");
    let text = String::from_utf8(RunError::Failed(it).message()).expect("text");
    assert!(text.starts_with("echo some words; exit 3 failed: exit code 3\nlast lines"), "{text}");
    let it = failure(executor.prepare(b"/nonexistent/command").expect_err("there is none"));
    assert_eq!(it.exit, Exit::Code(127));
    assert!(RunError::Failed(it).message().starts_with(b"/nonexistent/command failed: command not found"));
    assert!(failure(executor.run(b"kill -KILL $$").expect_err("it is killed")).log.is_none_or(|log| log.exists()));
}

#[test]
fn settle_waits_at_most_its_limit() {
    let dir = Scratch::new("bench-measure-settle");
    let settled = |ms| {
        let mut executor = executor(&dir, Controls { settle: Duration::from_millis(ms), ..Controls::default() });
        executor.run(b"true").expect("it succeeds").conditions.settled
    };
    assert_eq!(settled(0), None);
    // Either result is possible, depending on other programs.
    assert!(settled(1).is_some());
}

#[test]
fn commands_run_on_the_given_processors() {
    let dir = Scratch::new("bench-measure-cpus");
    let own = CpuMask::current().expect("a mask");
    let first: String = own.to_string().chars().take_while(char::is_ascii_digit).collect();
    let controls = Controls { cpus: CpuMask::parse(first.as_bytes()), count_sync: true, ..Controls::default() };
    let mut executor = executor(&dir, controls);
    let line = format!("grep -q \"^Cpus_allowed_list:.{first}$\" /proc/self/status");
    assert_eq!(executor.run(line.as_bytes()).map(|sample| sample.conditions.processors), Ok(1));
    assert_eq!(CpuMask::current().expect("a mask"), own, "the own mask is restored");
}
