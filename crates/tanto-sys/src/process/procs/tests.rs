//! Tests with real processes.

use super::*;
use crate::user;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};

const LINE: &[u8] = b"7 (a) b) T 3 5 7 0 -1 4194560 1 2 3 4 100 20 30 1 20 0 4 0 991 8192 25 18446744073709551615";

/// A shell that runs a command and then waits for a line.
struct Held(Child, ChildStdin);

impl Held {
    fn new(before: &str) -> Held {
        let line = format!("{before}\necho there; read x");
        let mut shell = Command::new("/bin/sh");
        let mut child =
            shell.args(["-c", &line]).env("MARK", "yes").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let input = child.stdin.take().unwrap();
        Held(child, input)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn end(mut self) {
        self.1.write_all(b"go\n").unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn anonymous_memory_is_counted() {
    let held = Held::new("x=$(head -c 8388608 /dev/zero | tr '\\0' x)");
    let kib = anonymous_kib(held.pid()).unwrap();
    assert!((8 << 10..64 << 10).contains(&kib), "{kib}");
    let pid = held.pid();
    held.end();
    assert_eq!(anonymous_kib(pid), None);
}

#[test]
fn fields_are_counted_after_the_name() {
    let look = parse(7, LINE).unwrap();
    assert_eq!((look.parent, look.group, look.threads), (3, 5, 4));
    assert_eq!(look.process, ProcessId::new(7, 991));
    assert_eq!((look.cpu_us, look.rss_kib), (1_510_000, 25 * page_kib()));
    assert_eq!(look.waited_faults, 2 + 4);
    assert_eq!(look.name, b"a) b");
    assert!(look.is_stopped() && !look.is_gone());
    for bad in [&b""[..], b"7 (a", b"7 (a) ", b"7 (a) S 3", b")7(", b"7 (a) S x 5 7 0 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7"]
    {
        assert_eq!(parse(7, bad), None, "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn the_own_process_has_memory() {
    let own = stat(std::process::id()).unwrap();
    assert_eq!(own.process, ProcessId::current().unwrap());
    assert!(own.rss_kib > 0 && own.threads > 0 && !own.is_stopped());
    assert!(all().unwrap().iter().any(|look| look.process == own.process));
    assert_eq!(stat(0), None);
}

#[test]
fn trees_are_found_with_and_without_children_lists() {
    let held = Held::new("sleep 1000 & (sleep 1000; :) & ");
    // The shell may be visible before its child.
    let by_lists = std::iter::repeat_with(|| trees(&[held.pid()])).find(|found| found.len() == 4).unwrap();
    assert_eq!(by_lists[0].0, 0);
    assert_eq!(by_lists[0].1.process.pid(), held.pid());
    let mut by_all = Vec::new();
    collect(&all().unwrap(), held.pid(), 0, &mut by_all);
    for found in [by_lists, by_all] {
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[1..].iter().all(|(depth, look)| *depth > 0 && look.process.pid() != held.pid()));
        for (_, look) in &found[1..] {
            assert!(signal(look.process, libc::SIGKILL).is_ok());
        }
    }
    held.end();
}

#[test]
fn command_lines_directories_and_variables_are_read() {
    let held = Held::new("cd /; echo 12345");
    let words = command_line(held.pid()).unwrap();
    assert!(words.starts_with(b"/bin/sh -c cd /; echo"), "{}", String::from_utf8_lossy(&words));
    assert_eq!(current_dir(held.pid()).unwrap(), b"/");
    assert!(written_bytes(held.pid()).is_none_or(|bytes| bytes >= 6));
    assert_eq!(initial_env_var(held.pid(), b"MARK").unwrap(), b"yes");
    assert_eq!((initial_env_var(held.pid(), b"MAR"), initial_env_var(held.pid(), b"MARK=")), (None, None));
    held.end();
}

#[test]
fn variables_are_read_during_exec() {
    // It calls `exec` on itself forever.
    let line = "i=0; while [ $i -lt 99 ]; do i=$((i+1)); done; exec /bin/sh -c \"$0\" \"$0\"";
    let mut child =
        Command::new("/bin/sh").args(["-c", line, line]).env("MARK", "yes").uid(user::effective()).spawn().unwrap();
    let unknown = (0..3000).filter(|_| initial_env_var(child.id(), b"MARK").is_none()).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(unknown, 0);
}

#[test]
fn a_signal_reaches_its_process_and_none_with_a_reused_id() {
    let mut held = Held::new("");
    let process = stat(held.pid()).unwrap().process;
    let earlier = ProcessId::new(held.pid(), 1);
    assert!(!signal(earlier, libc::SIGKILL).unwrap());
    assert!(signal(process, libc::SIGKILL).unwrap());
    assert_eq!(held.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert!(!signal(process, libc::SIGKILL).unwrap());
    assert_eq!(stat(held.pid()).map(|look| look.process).filter(|&it| it == process), None);
}

#[test]
fn stopped_processes_and_zombies_are_recognized() {
    let mut held = Held::new("");
    let process = stat(held.pid()).unwrap().process;
    signal(process, libc::SIGSTOP).unwrap();
    until(|| stat(process.pid()).unwrap().is_stopped());
    signal(process, libc::SIGKILL).unwrap();
    until(|| stat(process.pid()).unwrap().is_gone());
    assert_eq!(command_line(process.pid()), None);
    held.0.wait().unwrap();
}

/// Waits for a condition, however slow the machine is.
fn until(done: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it did not come");
}
