//! Commands that record their inputs, and others beside them.

use super::*;
use crate::input_recorder::input_list::{Input, InputList};
use crate::job::InputRecording;

fn recording_runner() -> ProcessRunner {
    ProcessRunner::new(RunnerOptions { record_inputs: true, ..RunnerOptions::default() }).unwrap()
}

fn start_recorded(runner: &mut ProcessRunner, job: u32, line: &str) {
    let command = Command { line: line.into(), record_inputs: InputRecording::Library, ..Command::default() };
    runner.start(JobId(job), &command, Cost::default()).unwrap();
}

fn next_completion(runner: &mut ProcessRunner) -> Completion {
    match runner.wait(None).unwrap() {
        Wakeup::Completed(it) => it,
        other => panic!("{other:?}"),
    }
}

fn inputs(runner: &mut ProcessRunner) -> InputList {
    *next_completion(runner).inputs.expect("it was recorded")
}

#[test]
fn only_commands_that_ask_are_recorded() {
    const SHOW: &str = "echo \"${TANTO_RECORD-none} ${LD_PRELOAD-none}\"";
    let mut runner = recording_runner();
    for _ in 0..2 {
        start_recorded(&mut runner, 1, &format!("test -e /none || {SHOW}"));
        let it = next_completion(&mut runner);
        assert!(!it.output.windows(4).any(|part| part == b"none"), "{}", it.output.escape_ascii());
        let list = it.inputs.unwrap();
        assert_eq!(list.missing(), None);
        assert!(list.inputs().contains(&Input::Absent(b"/none".to_vec())), "{list:?}");
        start(&mut runner, 2, SHOW);
        let it = next_completion(&mut runner);
        assert_eq!((it.inputs, it.output), (None, b"none none\n".to_vec()));
    }
}

/// A program that can be forked, of a name that is a compiler's.
fn forked_program(dir: &Scratch) -> String {
    fs::copy("/bin/cat", dir.at("clang")).unwrap();
    // One that has just changed is not forked.
    std::thread::sleep(Duration::from_millis(1100));
    dir.at("clang").display().to_string()
}

#[test]
fn forks_are_recorded_if_they_are_to_be() {
    let dir = Scratch::new("recorded-fork");
    let program = forked_program(&dir);
    let costs_file = dir.at("costs");
    let worker = clang::WorkerOptions { costs_file, required: true, planned: 1, checkpoints: None };
    let options = RunnerOptions { record_inputs: true, clang_worker: Some(worker), ..RunnerOptions::default() };
    let mut runner = ProcessRunner::new(options).unwrap();
    for _ in 0..2 {
        start(&mut runner, 1, &format!("{program} /no/such/file"));
        let it = next_completion(&mut runner);
        assert_eq!((it.executed_by, it.exit, it.inputs), (ExecutedBy::Fork, Exit::Code(1), None));
        start_recorded(&mut runner, 2, &format!("{program} /no/such/file"));
        let it = next_completion(&mut runner);
        assert_eq!((it.executed_by, it.exit), (ExecutedBy::Fork, Exit::Code(1)));
        let list = it.inputs.unwrap();
        assert_eq!(list.missing(), None);
        assert!(list.inputs().contains(&Input::Absent(b"/no/such/file".to_vec())), "{list:?}");
    }
}

#[test]
fn nothing_is_recorded_without_a_recorder() {
    let mut runner = runner();
    start_recorded(&mut runner, 1, "echo ${TANTO_RECORD-none}");
    let it = next_completion(&mut runner);
    assert_eq!((it.inputs, it.output), (None, b"none\n".to_vec()));
}

#[test]
fn a_command_that_is_started_again_begins_with_an_empty_record() {
    let mut runner = recording_runner();
    // The commands of a job have the same number.
    for name in ["/no/such/a", "/no/such/b"] {
        start_recorded(&mut runner, 7, &format!("cat {name}"));
        let list = inputs(&mut runner);
        let absent = |it: &&Input| matches!(it, Input::Absent(path) if path.starts_with(b"/no/such"));
        let absent: Vec<_> = list.inputs().iter().filter(absent).collect();
        assert_eq!((absent, list.missing()), (vec![&Input::Absent(name.into())], None));
    }
}

#[test]
fn a_command_runs_if_its_record_cannot_be_created() {
    let mut runner = recording_runner();
    start_recorded(&mut runner, 8, "true");
    assert_eq!(inputs(&mut runner).missing(), None);
    let Recording::On(recorder) = &runner.recording else { panic!("there is a directory for temporary files") };
    // A record has the number of its job.
    let (_, record) = recorder.begin(9).unwrap();
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    for recording in [None, Some(Recording::Failed)] {
        if let Some(recording) = recording {
            runner.recording = recording;
        }
        start_recorded(&mut runner, 9, "echo ${TANTO_RECORD-none}");
        let it = next_completion(&mut runner);
        assert_eq!(it.output, b"none\n");
        assert_eq!(it.inputs.unwrap().missing(), Some("its record could not be created"));
    }
}
