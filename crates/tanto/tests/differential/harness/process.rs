//! Runs a program with a time limit.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After this time a watchdog kills the program.
const LIMIT: Duration = Duration::from_secs(60);

/// The result of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The exit code, or 1000 plus the signal number.
    pub code: i32,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

impl Ended {
    /// Both streams.
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.out), String::from_utf8_lossy(&self.err))
    }
}

/// A running program in its own process group.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: JoinHandle<Vec<u8>>,
    err: JoinHandle<Vec<u8>>,
}

impl Running {
    /// Standard output and error are pipes; the command sets standard input.
    pub fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        watch(child.id());
        let out = drain(child.stdout.take().expect("piped"));
        let err = drain(child.stderr.take().expect("piped"));
        let stdin = child.stdin.take();
        Running { child, stdin, out, err }
    }

    /// Also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Needs a pipe as standard input. The pipe stays open, because script(1) would pass its end on to the terminal.
    pub fn type_keys(&mut self, keys: &str) {
        let stdin = self.stdin.as_mut().expect("a piped stdin");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("somebody reads");
    }

    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

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

/// Sends a signal to a process or a process group.
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
