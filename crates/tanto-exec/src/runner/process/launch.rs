//! How a command becomes a process: directly, or through the shell. Does not know jobs.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use tanto_sys::process::namespaces::NamespaceEntry;
use tanto_sys::process::{Argv, Child, Environment, ExitStatus, Launcher, Program};
use tanto_sys::signals;

use super::shell_split;
use crate::job::{Command, Exit};
use crate::runner::clang::{self, Fork, Worker};

/// Starts commands as `/bin/sh -c` would run them.
pub(super) struct Starter {
    launcher: Launcher,
    /// Commands may go without the shell.
    direct: bool,
    words: Argv,
    entrances: Vec<File>,
    /// Commands live in namespaces of their own, where the worker is not.
    is_shut_in: bool,
    /// Runs what it can of the commands that go without the shell.
    worker: Option<Worker>,
    /// Does the shell say so, and exit, when a signal has ended its command? Else the signal ends it too.
    outlives: Option<bool>,
}

/// Where a command finds its job tokens: two numbers of descriptors, with a comma between them. Empty if it has none.
const TOKENS: &str = "TANTO_TOKENS";
/// Cargo has a variable of its own for them, which no other program heeds.
const CARGO_FLAGS: &str = "CARGO_MAKEFLAGS";
/// In the place of descriptors to hand on.
const NOTHING: [RawFd; 2] = [-1, -1];

/// How the compile worker, or who keeps its checkpoints, knows a command.
pub(super) struct Mark {
    pub(super) id: u64,
    /// It goes on from a checkpoint.
    pub(super) is_kept: bool,
    /// What it makes is to be compared with what a process makes.
    pub(super) is_doubted: bool,
}

/// A command that was started.
pub(super) struct Started {
    pub(super) child: Child,
    /// Without the shell.
    pub(super) direct: bool,
    /// In the compile worker.
    pub(super) fork: Option<Mark>,
}

impl Starter {
    pub(super) fn new(environment: Environment, worker: Option<clang::WorkerOptions>) -> Starter {
        let direct = shell_split::wants_the_shell(&environment).is_none();
        let worker = worker.and_then(|options| Worker::new(options, &environment));
        let launcher = Launcher::new(environment);
        let (words, entrances) = (Argv::default(), Vec::new());
        Starter { launcher, direct, words, entrances, is_shut_in: false, worker, outlives: None }
    }

    /// The compile worker, if there is one.
    pub(super) fn worker(&mut self) -> Option<&mut Worker> {
        self.worker.as_mut()
    }

    /// From now on commands find this in their environment.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.launcher.set(name, value);
    }

    /// From now on commands enter these control groups, whose files stay open until another call.
    pub(super) fn enter(&mut self, entrances: Vec<File>) {
        self.launcher.set_cgroups(&entrances);
        self.entrances = entrances;
    }

    /// From now on commands live in these namespaces, which have to stay open until another call.
    pub(super) fn shut_in(&mut self, entrance: Option<&NamespaceEntry>) {
        self.launcher.set_namespaces(entrance);
        self.is_shut_in = entrance.is_some();
    }

    /// From now on commands keep these descriptors of ours.
    pub(super) fn hand_on(&mut self, descriptors: [RawFd; 2]) {
        self.launcher.set_inherited_descriptors(descriptors);
    }

    /// The next command finds job tokens behind these descriptors, or none.
    pub(super) fn share(&mut self, descriptors: Option<[RawFd; 2]>) {
        let auth = descriptors.map(|[reader, writer]| format!("{reader},{writer}")).unwrap_or_default();
        let flags =
            if auth.is_empty() { String::new() } else { format!("-j --jobserver-fds={auth} --jobserver-auth={auth}") };
        self.launcher.set(TOKENS, &auth);
        self.launcher.set(CARGO_FLAGS, &flags);
        self.launcher.set_inherited_descriptors(descriptors.unwrap_or(NOTHING));
    }

    /// Starts a command. What cannot be run without the shell is the shell's: it may know better, and else its words
    /// tell why. So is a command on the console, where the shell too hears what is typed.
    pub(super) fn start(&mut self, command: &Command) -> io::Result<Started> {
        if !command.console && self.direct && shell_split::split(&command.line, &mut self.words) {
            if let Some(worker) = self.worker.as_mut().filter(|_| !self.is_shut_in) {
                match worker.start(&self.words, self.launcher.environment(), &self.entrances)? {
                    Ok(Fork { child, id, is_kept, is_doubted }) => {
                        return Ok(Started { child, direct: true, fork: Some(Mark { id, is_kept, is_doubted }) });
                    }
                    Err(why) => worker.insist(&command.line, &why)?,
                }
            }
            return self.start_program(command);
        }
        if let Some(worker) = &self.worker {
            worker.insist(&command.line, if command.console { b"it has the console" } else { b"it needs a shell" })?;
        }
        self.start_shell(command)
    }

    /// Starts a command as a process of its own, whatever the compile worker could do.
    pub(super) fn start_alone(&mut self, command: &Command) -> io::Result<Started> {
        if !command.console && self.direct && shell_split::split(&command.line, &mut self.words) {
            return self.start_program(command);
        }
        self.start_shell(command)
    }

    /// Starts the words, or else the shell.
    fn start_program(&mut self, command: &Command) -> io::Result<Started> {
        match self.launcher.spawn_piped(Program::Argv(&self.words)) {
            Ok(child) => Ok(Started { child, direct: true, fork: None }),
            Err(_) => self.start_shell(command),
        }
    }

    fn start_shell(&mut self, command: &Command) -> io::Result<Started> {
        let shell = Program::Shell(&command.line);
        let started =
            if command.console { self.launcher.spawn_console(shell) } else { self.launcher.spawn_piped(shell) };
        Ok(Started { child: started?, direct: false, fork: None })
    }

    /// How a shell would have ended whose command a signal has ended, after adding to the output what it says of it.
    pub(super) fn death(&mut self, signal: i32, dumped: bool, output: &mut Vec<u8>) -> Exit {
        if !*self.outlives.get_or_insert_with(|| outlives_its_command(&mut self.launcher)) {
            return super::exit(ExitStatus::Killed { signal, dumped });
        }
        if !signals::is_silent(signal) {
            output.extend_from_slice(&signals::description(signal));
            output.extend_from_slice(if dumped { b" (core dumped)\n" } else { b"\n" });
        }
        Exit::Code(128 + signal)
    }
}

/// dash does; bash becomes its command, if it has but one.
fn outlives_its_command(launcher: &mut Launcher) -> bool {
    const KILLED: ExitStatus = ExitStatus::Code(128 + 9);
    let probe = launcher.spawn_piped(Program::Shell(b"/bin/sh -c 'kill -KILL $$'"));
    probe.and_then(|mut child| child.wait()).is_ok_and(|ended| ended.status == KILLED)
}

#[cfg(test)]
mod tests;
