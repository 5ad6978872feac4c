//! Programs that cannot be forked, and environments that forbid it.

use super::*;
use tanto_testing::Scratch;

fn worker(dir: &Scratch, required: bool) -> Worker {
    let options = WorkerOptions { costs_file: dir.at("state/costs"), required, planned: 1, checkpoints: None };
    Worker::new(options, &Environment::inherit_with(&[])).expect("nothing in the environment forbids it")
}

/// A command of a program that is called clang, old enough to be forked.
fn clang(dir: &Scratch) -> Argv {
    std::fs::copy("/bin/true", dir.at("clang")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    server_process::words(&[&dir.bytes("clang"), b"-c", b"x.c"])
}

#[test]
fn only_compiler_names_are_candidates() {
    for name in [&b"clang"[..], b"/usr/bin/clang++-19", b"x86_64-linux-gnu-clang", b"cc", b"/usr/bin/c++", b"ld.lld"] {
        assert!(may_be_clang(name), "{}", name.escape_ascii());
    }
    for name in [&b"gcc"[..], b"", b"/opt/clang/bin/ld", b"ccache"] {
        assert!(!may_be_clang(name), "{}", name.escape_ascii());
    }
}

#[test]
fn the_first_command_of_a_program_is_a_process() {
    let dir = Scratch::new("first-command");
    let mut worker = worker(&dir, false);
    let why = worker.start(&clang(&dir), &Environment::inherit_with(&[]), &[], false).err().unwrap();
    assert!(matches!(why, NotInWorker::FirstCommand), "{why}");
}

#[test]
fn any_dynamic_program_can_be_forked() {
    let dir = Scratch::new("forked-program");
    let mut worker = worker(&dir, true);
    let environment = Environment::inherit_with(&[]);
    let (mut child, job) = worker.start(&clang(&dir), &environment, &[], false).unwrap();
    assert_eq!(child.read_output(&mut [0; 10]).unwrap(), 0);
    worker.wait_until_gone(vec![(job.id, job.origin)]);
    assert!(!worker.is_gone(job.origin), "the server still serves");
}

#[test]
fn variables_of_the_loader_disable_forks() {
    let options = WorkerOptions { costs_file: "/dev/null".into(), required: false, planned: 1, checkpoints: None };
    let environment = Environment::inherit_with(&[("LD_PRELOAD".into(), "x.so".into())]);
    assert!(Worker::new(options, &environment).is_none());
}
