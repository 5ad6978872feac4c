//! Starts a program, takes what it says, and ends it if it hangs. It does not know what it runs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After this the watchdog kills a program: no test may hang.
const LIMIT: Duration = Duration::from_secs(60);

/// How a program ended and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The exit code, or 1000 and the signal's number.
    pub code: i32,
    /// All of stdout.
    pub out: Vec<u8>,
    /// All of stderr.
    pub err: Vec<u8>,
}

impl Ended {
    /// Both streams, for a message or a loose search.
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.out), String::from_utf8_lossy(&self.err))
    }
}

/// A program that runs, in a process group of its own.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: JoinHandle<Vec<u8>>,
    err: JoinHandle<Vec<u8>>,
}

impl Running {
    /// Starts it with pipes for both streams and whatever the command says for stdin.
    pub fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        watch(child.id());
        let out = drain(child.stdout.take().expect("piped"));
        let err = drain(child.stderr.take().expect("piped"));
        let stdin = child.stdin.take();
        Running { child, stdin, out, err }
    }

    /// Its process id, which is its group's too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Types on its stdin, if the command asked for a pipe. The pipe stays open until the end: script(1) would pass
    /// the end of it on to the terminal.
    pub fn type_keys(&mut self, keys: &str) {
        let stdin = self.stdin.as_mut().expect("a piped stdin");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("somebody reads");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let status = self.child.wait().expect("a child can be waited for");
        unwatch(self.child.id());
        let code = status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or(0));
        let take = |reader: JoinHandle<Vec<u8>>| reader.join().expect("a reader ends");
        Ended { code, out: take(self.out), err: take(self.err) }
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Sends a signal to one process, or to a whole group.
pub fn signal(name: &str, id: u32, group: bool) {
    let target = if group { format!("-{id}") } else { id.to_string() };
    let _ = Command::new("kill").args([&format!("-{name}"), "--", &target]).status();
}

static WATCHED: Mutex<BTreeMap<u32, Instant>> = Mutex::new(BTreeMap::new());

fn watch(id: u32) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(kill_the_late);
    });
    WATCHED.lock().expect("no panic inside").insert(id, Instant::now() + LIMIT);
}

fn unwatch(id: u32) {
    WATCHED.lock().expect("no panic inside").remove(&id);
}

fn kill_the_late() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let late: Vec<u32> = {
            let watched = WATCHED.lock().expect("no panic inside");
            watched.iter().filter(|(_, at)| **at < Instant::now()).map(|(id, _)| *id).collect()
        };
        for id in late {
            signal("KILL", id, true);
        }
    }
}
