//! Signals to a whole process: each test runs this program again as the receiver.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::process::{Environment, ExitStatus, Launcher, Program};
use tanto_sys::signals::{self, TerminationSignals};

const HUP: i32 = 1;
const INT: i32 = 2;

/// This program as another process that runs only `role`, started by a shell after `before`.
struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, before: &str) -> Other {
        let line = format!("{before}\nexec \"$0\" --exact {role} --ignored --nocapture");
        let this = std::env::current_exe().unwrap();
        let mut child = Command::new("/bin/sh").args(["-c", &line]).arg(this).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Other { child, lines }
    }

    /// Returns its next message; empty at its end.
    fn says(&mut self) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some(message) = line.split_once('@') {
                return message.1.trim_end().to_owned();
            }
            line.clear();
        }
        String::new()
    }

    fn send(&self, signal: i32) {
        signals::send(self.child.id(), signal).unwrap();
    }

    fn ends(mut self) -> std::process::ExitStatus {
        while !self.says().is_empty() {}
        self.child.wait().unwrap()
    }
}

#[test]
#[ignore = "a role that other tests start"]
fn listener() {
    let endings = TerminationSignals::listen().unwrap();
    println!("@listens");
    poll::wait(&mut [Watch::new(&endings)], None).unwrap();
    println!("@took {:?}", endings.take());
    println!("@then {:?}", endings.take());
}

#[test]
#[ignore = "a role that other tests start"]
fn leaver() {
    let (first, second) = (TerminationSignals::listen().unwrap(), TerminationSignals::listen().unwrap());
    signals::send(std::process::id(), INT).unwrap();
    // Another thread may handle the signal, and later.
    poll::wait(&mut [Watch::new(&first)], None).unwrap();
    drop(second);
    println!("@still here");
    drop(first);
    println!("@survived");
}

#[test]
#[ignore = "a role that other tests start"]
fn parent() {
    let _endings = TerminationSignals::listen().unwrap();
    let run = |line: &[u8]| {
        let mut child = Launcher::new(Environment::inherit_with(&[])).spawn_piped(Program::Shell(line)).unwrap();
        let mut buffer = [0; 1000];
        let length = child.read_output(&mut buffer).unwrap();
        (String::from_utf8(buffer[..length].to_vec()).unwrap(), child.wait().unwrap().status)
    };
    // Signals 1 to 15; the C library ignores two others.
    println!("@{}", run(b"grep SigIgn: /proc/self/status | sed 's/.*\\(....\\)$/\\1/'").0.trim());
    println!("@{:?}", run(b"kill -HUP $$; echo alive").1 == ExitStatus::Killed { signal: HUP, dumped: false });
    println!("@{:?}", run(b"exit 7").1 == ExitStatus::Code(7));
}

#[test]
fn a_termination_signal_is_received_once() {
    for signal in signals::TERMINATION_SIGNALS {
        let mut other = Other::start("listener", "");
        assert_eq!(other.says(), "listens");
        other.send(signal);
        assert_eq!(other.says(), format!("took Some({signal})"));
        assert_eq!(other.says(), "then None");
        assert!(other.ends().success());
    }
}

#[test]
fn an_untaken_signal_ends_the_process_afterwards() {
    let mut other = Other::start("leaver", "");
    assert_eq!(other.says(), "still here");
    assert_eq!(other.says(), "");
    assert_eq!(other.ends().signal(), Some(INT));
}

#[test]
fn an_ignored_signal_is_received_and_ignored_afterwards() {
    let mut other = Other::start("listener", "trap '' HUP");
    assert_eq!(other.says(), "listens");
    other.send(HUP);
    assert_eq!(other.says(), "took Some(1)");
    assert!(other.ends().success());
    let mut other = Other::start("leaver", "trap '' INT");
    assert_eq!(other.says(), "still here");
    assert_eq!(other.says(), "survived");
    assert!(other.ends().success());
}

#[test]
fn children_have_default_actions() {
    let mut other = Other::start("parent", "trap '' HUP CHLD");
    assert_eq!(other.says(), "0000");
    assert_eq!(other.says(), "true");
    assert_eq!(other.says(), "true");
    assert!(other.ends().success());
}

#[test]
fn children_inherit_an_ignored_sigpipe() {
    let mut other = Other::start("parent", "trap '' PIPE");
    assert_eq!(other.says(), "1000");
    assert!(other.ends().success());
}
