//! The environment of one program in a case: its tree and its barriers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::case::Run;
use super::logs::Times;
use super::process::{Ended, Running, signal};
use super::programs::Program;
use super::tree::Tree;

/// `barrier NAME`: signals that a command has reached the barrier, and waits until the case opens it.
const BARRIER: &str = r#"#!/bin/sh
: > "$B/$1.here"
i=0
until [ -e "$B/$1.go" ]; do
  i=$((i+1)); [ $i -gt 1500 ] && exit 99
  sleep 0.02
done
"#;

/// `tick`: waits until the file system's clock has advanced.
const TICK: &str = r#"#!/bin/sh
a=$B/tick.$$; : > "$a.1"; : > "$a.2"
until [ -n "$(find "$a.2" -newer "$a.1")" ]; do sleep 0.002; : > "$a.2"; done
rm -f "$a.1" "$a.2"
"#;

pub struct Side {
    program: Program,
    base: PathBuf,
    pub root: PathBuf,
    /// The reference ninja failed, so nothing can be compared.
    pub astray: bool,
    /// The default of `TANTO_THREADS`.
    pub threads: Option<&'static str>,
    /// The default of `TANTO_LOG_VERSION`, since there may be an older ninja in `PATH`.
    pub log_version: Option<&'static str>,
    running: Option<Running>,
    kept: Vec<fs::File>,
}

impl Side {
    /// All paths have the same length, since messages contain them.
    pub fn new(program: &Program, base: PathBuf) -> Side {
        let _ = fs::remove_dir_all(&base);
        let side = Side {
            program: program.clone(),
            root: base.join("t"),
            base,
            astray: false,
            threads: None,
            log_version: Some("7"),
            running: None,
            kept: Vec::new(),
        };
        for dir in ["t", "b", "bin", "home"] {
            fs::create_dir_all(side.base.join(dir)).expect("a temporary directory");
        }
        let ninja = fs::canonicalize(&program.path).unwrap_or_else(|e| panic!("{}: {e}", program.path.display()));
        std::os::unix::fs::symlink(ninja, side.base.join("bin/ninja")).expect("a link");
        side.script("barrier", BARRIER);
        side.script("tick", TICK);
        side
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.base.join("bin").join(name);
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// Tanto's own state under the name `ninja`, in the user's cache.
    pub fn state(&self, name: &str) -> PathBuf {
        let builds = self.base.join("home/.cache/tanto/builds");
        let tree = format!("{}\n", self.root.display());
        let mut tops = fs::read_dir(&builds).into_iter().flatten().flatten().map(|entry| entry.path());
        let own = tops.find(|top| fs::read_to_string(top.join("dir")).is_ok_and(|dir| dir == tree));
        own.unwrap_or_else(|| builds.join("none")).join(name)
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// Creates parent directories; without a time, uses the current one.
    pub fn write(&self, path: &str, content: &[u8], at: Option<u64>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, content).expect("a file");
        if let Some(seconds) = at {
            set_time(&path, seconds);
        }
    }

    /// Creates the file if it is missing.
    pub fn touch(&self, path: &str, at: Option<u64>) {
        let path = self.root.join(path);
        let file = fs::OpenOptions::new().append(true).create(true).open(&path).expect("a file");
        match at {
            Some(seconds) => set_time(&path, seconds),
            None => file.set_modified(self.now()).expect("a time"),
        }
    }

    pub fn delete(&self, path: &str) {
        let path = self.root.join(path);
        let done = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        done.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// The file system's clock.
    fn now(&self) -> SystemTime {
        let path = self.base.join("clock");
        fs::write(&path, "").expect("a file");
        fs::metadata(&path).and_then(|m| m.modified()).expect("a time")
    }

    pub fn tick(&self) {
        let before = self.now();
        while self.now() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn command(&self, run: &Run) -> Command {
        self.command_of(&self.base.join("bin/ninja"), run)
    }

    /// Jobs still find this side's program as `ninja`.
    pub fn command_of(&self, program: &Path, run: &Run) -> Command {
        let mut command = run.command(program);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.base.join("bin").display());
        command.current_dir(&self.root).env_clear();
        command.stdin(if run.columns.is_some() { Stdio::piped() } else { Stdio::null() });
        command.env("PATH", path).env("B", self.base.join("b")).env("HOME", self.base.join("home"));
        // The whole suite can run with snapshots.
        command.envs(std::env::var_os("TANTO_SNAPSHOT").map(|policy| ("TANTO_SNAPSHOT", policy)));
        command.envs(self.threads.map(|threads| ("TANTO_THREADS", threads)));
        command.envs(self.log_version.map(|version| ("TANTO_LOG_VERSION", version)));
        command.env("LC_ALL", "C").env("TERM", "xterm").env("SHELL", "/bin/sh").envs(run.env.iter().cloned());
        command
    }

    pub fn run(&mut self, run: &Run) -> Ended {
        self.tick();
        let ended = Running::start(&mut self.command(run)).end();
        self.tick();
        ended
    }

    /// Must be followed by `end`.
    pub fn start(&mut self, run: &Run) {
        self.tick();
        self.running = Some(Running::start(&mut self.command(run)));
    }

    pub fn wait_for(&mut self, barrier: &str) {
        let path = self.base.join("b").join(format!("{barrier}.here"));
        let until = Instant::now() + Duration::from_secs(30);
        let mut running = self.running.take();
        while !path.exists() && Instant::now() < until && running.as_mut().is_none_or(Running::runs) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.running = running;
        assert!(path.exists(), "{}: no command came to barrier '{barrier}'", self.name());
        self.tick();
    }

    /// Asserts that no command reaches the barrier soon.
    pub fn absent(&self, barrier: &str) {
        self.pause();
        let here = self.base.join("b").join(format!("{barrier}.here")).exists();
        assert!(!here, "{}: a command came to barrier '{barrier}' too early", self.name());
    }

    /// Gives the program time to act when nothing can be observed.
    pub fn pause(&self) {
        std::thread::sleep(Duration::from_millis(150));
    }

    pub fn appears(&self, path: &str) {
        let path = self.root.join(path);
        let until = Instant::now() + Duration::from_secs(30);
        while !path.exists() {
            assert!(Instant::now() < until, "{}: {} never appeared", self.name(), path.display());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Keeps a file open until `let_go`.
    pub fn keep(&mut self, file: fs::File) {
        self.kept.push(file);
    }

    pub fn let_go(&mut self) {
        self.kept.clear();
    }

    pub fn open(&self, barrier: &str) {
        self.tick();
        fs::write(self.base.join("b").join(format!("{barrier}.go")), "").expect("a file");
    }

    pub fn reset_barriers(&self) {
        for entry in fs::read_dir(self.base.join("b")).expect("a directory").flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }

    /// Sends a signal to the program, or to its whole group.
    pub fn signal(&self, name: &str, group: bool) {
        signal(name, self.running.as_ref().expect("started").id(), group);
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.running.as_mut().expect("started").type_keys(keys);
    }

    pub fn end(&mut self) -> Ended {
        let ended = self.running.take().expect("started").end();
        self.tick();
        ended
    }

    /// A picture of the tree.
    pub fn tree(&self, times: Times) -> Tree {
        Tree::of(&self.root, times)
    }
}

/// Sets a file's time to whole seconds.
fn set_time(path: &Path, seconds: u64) {
    let file = fs::OpenOptions::new().append(true).open(path).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
    assert_eq!(fs::metadata(path).expect("a file").mtime(), seconds as i64);
}
