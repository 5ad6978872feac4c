//! A missing or unwanted worker.

use super::*;
use tanto_testing::Scratch;

fn worker(program: &str, required: bool) -> Worker {
    let options =
        WorkerOptions { program: program.into(), cache: "/nowhere/known".into(), required, checkpoints: None };
    Worker::new(options, &Environment::inherit_with(&[])).expect("nothing in the environment forbids it")
}

/// A program that is called clang.
fn clang(dir: &Scratch) -> Argv {
    std::fs::copy("/bin/true", dir.at("clang")).unwrap();
    zygote::words(&[&dir.bytes("clang"), b"-c", b"x.c"])
}

#[test]
fn only_compiler_names_are_candidates() {
    for name in [&b"clang"[..], b"/usr/bin/clang++-19", b"x86_64-linux-gnu-clang", b"cc", b"/usr/bin/c++"] {
        assert!(may_be_clang(name), "{}", name.escape_ascii());
    }
    for name in [&b"gcc"[..], b"", b"/opt/clang/bin/ld", b"ccache"] {
        assert!(!may_be_clang(name), "{}", name.escape_ascii());
    }
}

#[test]
fn without_a_worker_commands_are_processes() {
    let dir = Scratch::new("no-worker");
    let environment = Environment::inherit_with(&[]);
    // One is missing, one exits at once, one sends garbage.
    for program in ["/nowhere/clang-worker", "/bin/true", "/bin/sh"] {
        let mut worker = worker(program, false);
        assert!(worker.start(&clang(&dir), &environment, &[]).is_err());
        assert!(worker.is_gone(false) && worker.pid().is_none() && worker.next_message().is_none(), "{program}");
    }
}

#[test]
fn a_required_worker_that_does_not_start_is_an_error() {
    let dir = Scratch::new("required-worker");
    let mut worker = worker("/nowhere/clang-worker", true);
    let error = worker.start(&clang(&dir), &Environment::inherit_with(&[]), &[]).err().expect("an error");
    assert!(error.to_string().starts_with("compile worker /nowhere/clang-worker: "));
}

#[test]
fn spawn_cc1_disables_the_worker() {
    let options =
        WorkerOptions { program: "/bin/true".into(), cache: "/nowhere".into(), required: false, checkpoints: None };
    let environment = Environment::inherit_with(&[("CLANG_SPAWN_CC1".into(), "1".into())]);
    assert!(Worker::new(options, &environment).is_none());
}
