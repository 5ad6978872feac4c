//! Starts commands, with or without a shell.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use tanto_sys::process::namespaces::NamespaceEntry;
use tanto_sys::process::{Argv, Child, Environment, ExitStatus, Launcher, Program};
use tanto_sys::signals;

use super::{shell_split, task};
use crate::call_tracer::TracedCommand;
use crate::job::{Command, Exit};
use crate::runner::clang::{self, NotInWorker, Worker, WorkerJobId};

/// Starts commands with the same effect as `/bin/sh -c`.
pub(super) struct Starter {
    launcher: Launcher,
    /// The environment allows commands without a shell.
    direct: bool,
    words: Argv,
    cgroup_files: Vec<File>,
    /// Commands run in other namespaces, where fork servers are not.
    has_namespaces: bool,
    worker: Option<Worker>,
    /// Variables of a record, with the values for commands without one.
    unrecorded: Vec<(&'static str, Option<OsString>)>,
    /// The file for the record of the next command, whose system calls are traced.
    call_record: Option<PathBuf>,
    /// Whether `/bin/sh` reports a signal that killed its command and exits, instead of dying of it.
    shell_outlives_command: Option<bool>,
}

/// Variable with the descriptors of the command's job tokens: `READ,WRITE`, or empty.
const TOKENS: &str = "TANTO_TOKENS";
/// Cargo reads its jobserver from a variable of its own.
const CARGO_FLAGS: &str = "CARGO_MAKEFLAGS";
/// No descriptors.
const NOTHING: [RawFd; 2] = [-1, -1];

pub(super) struct Started {
    pub(super) child: Child,
    /// Without a shell.
    pub(super) direct: bool,
    pub(super) worker_job: Option<WorkerJobId>,
}

impl Starter {
    pub(super) fn new(environment: Environment, worker: Option<clang::WorkerOptions>) -> Starter {
        let direct = shell_split::wants_the_shell(&environment).is_none();
        let worker = worker.and_then(|options| Worker::new(options, &environment));
        let launcher = Launcher::new(environment);
        let (words, cgroup_files) = (Argv::default(), Vec::new());
        Starter {
            launcher,
            direct,
            words,
            cgroup_files,
            has_namespaces: false,
            worker,
            unrecorded: Vec::new(),
            call_record: None,
            shell_outlives_command: None,
        }
    }

    pub(super) fn worker(&mut self) -> Option<&mut Worker> {
        self.worker.as_mut()
    }

    /// Sets an environment variable for further commands.
    pub(super) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.launcher.set(name, value);
    }

    /// Makes the next command record its inputs, with these variables.
    pub(super) fn record(&mut self, variables: [(&'static str, OsString); 2]) {
        for (name, value) in variables {
            let before = self.launcher.environment().get(name.as_bytes()).map(|it| OsString::from_vec(it.to_vec()));
            self.unrecorded.push((name, before));
            self.launcher.set(name, value);
        }
    }

    /// Makes the next command run under the call tracer, which writes this record.
    pub(super) fn trace(&mut self, record: PathBuf) {
        self.call_record = Some(record);
    }

    /// Further commands do not record their inputs.
    pub(super) fn end_record(&mut self) {
        self.call_record = None;
        for (name, before) in self.unrecorded.drain(..) {
            match before {
                Some(value) => self.launcher.set(name, value),
                None => self.launcher.remove(name),
            }
        }
    }

    /// Makes further commands join these control groups. The files stay open until the next call.
    pub(super) fn set_cgroups(&mut self, cgroup_files: Vec<File>) {
        self.launcher.set_cgroups(&cgroup_files);
        self.cgroup_files = cgroup_files;
    }

    /// Makes further commands enter these namespaces, which must stay open until the next call.
    pub(super) fn set_namespaces(&mut self, namespaces: Option<&NamespaceEntry>) {
        self.launcher.set_namespaces(namespaces);
        self.has_namespaces = namespaces.is_some();
    }

    /// Makes further commands inherit these descriptors.
    pub(super) fn inherit(&mut self, descriptors: [RawFd; 2]) {
        self.launcher.set_inherited_descriptors(descriptors);
    }

    /// Passes the descriptors of job tokens to the next command.
    pub(super) fn set_tokens(&mut self, descriptors: Option<[RawFd; 2]>) {
        let auth = descriptors.map(|[reader, writer]| format!("{reader},{writer}")).unwrap_or_default();
        let flags =
            if auth.is_empty() { String::new() } else { format!("-j --jobserver-fds={auth} --jobserver-auth={auth}") };
        self.launcher.set(TOKENS, &auth);
        self.launcher.set(CARGO_FLAGS, &flags);
        self.launcher.set_inherited_descriptors(descriptors.unwrap_or(NOTHING));
    }

    /// Starts a command. Uses the shell if a direct start fails, which gives the same diagnostics as ninja, and for
    /// console commands, whose shell has to receive the terminal's signals.
    pub(super) fn start(&mut self, command: &Command) -> io::Result<Started> {
        if let Some(record) = self.call_record.take() {
            return self.start_traced(command, &record);
        }
        if !command.console && self.direct && shell_split::split(&command.line, &mut self.words) {
            let is_recorded = !self.unrecorded.is_empty();
            if let Some(worker) = self.worker.as_mut().filter(|_| !self.has_namespaces) {
                match worker.start(&self.words, self.launcher.environment(), &self.cgroup_files, is_recorded) {
                    Ok((child, job)) => return Ok(Started { child, direct: true, worker_job: Some(job) }),
                    Err(why) => worker.check_required(&command.line, why)?,
                }
            }
            return self.start_program(command);
        }
        if let Some(worker) = &self.worker {
            let why = if command.console { NotInWorker::Console } else { NotInWorker::Shell };
            worker.check_required(&command.line, why)?;
        }
        self.start_shell(command)
    }

    /// Starts a command as a process, not in a fork.
    pub(super) fn start_process(&mut self, command: &Command) -> io::Result<Started> {
        if !command.console && self.direct && shell_split::split(&command.line, &mut self.words) {
            return self.start_program(command);
        }
        self.start_shell(command)
    }

    /// Starts the program or, if that fails, the shell.
    fn start_program(&mut self, command: &Command) -> io::Result<Started> {
        match self.launcher.spawn_piped(Program::Argv(&self.words)) {
            Ok(child) => Ok(Started { child, direct: true, worker_job: None }),
            Err(_) => self.start_shell(command),
        }
    }

    /// Starts the call tracer, which starts the command. If that fails, the command starts without it, and its record stays
    /// empty.
    fn start_traced(&mut self, command: &Command, record: &Path) -> io::Result<Started> {
        let direct = self.direct && shell_split::split(&command.line, &mut self.words);
        let words: Vec<&[u8]> = if direct { self.words.iter().collect() } else { Vec::new() };
        let files = command.files.as_deref();
        let written = files.iter().flat_map(|files| files.outputs.iter().chain([&files.depfile]));
        let outputs: Vec<&[u8]> = written.filter(|path| !path.is_empty()).map(|path| &path[..]).collect();
        let traced = TracedCommand { record, outputs: &outputs, line: &command.line, words: &words };
        let mut arguments = Argv::default();
        for argument in traced.arguments() {
            arguments.begin();
            argument.iter().for_each(|&byte| arguments.push(byte));
            arguments.end();
        }
        match self.launcher.spawn_piped(Program::Argv(&arguments)) {
            Ok(child) => Ok(Started { child, direct, worker_job: None }),
            Err(_) => self.start_process(command),
        }
    }

    fn start_shell(&mut self, command: &Command) -> io::Result<Started> {
        let shell = Program::Shell(&command.line);
        let started =
            if command.console { self.launcher.spawn_console(shell) } else { self.launcher.spawn_piped(shell) };
        Ok(Started { child: started?, direct: false, worker_job: None })
    }

    /// Returns the exit of a shell whose command was killed by a signal, and appends the shell's message.
    pub(super) fn exit_of_killed(&mut self, signal: i32, dumped: bool, output: &mut Vec<u8>) -> Exit {
        if !*self.shell_outlives_command.get_or_insert_with(|| probe_shell_outlives_command(&mut self.launcher)) {
            return task::exit(ExitStatus::Killed { signal, dumped });
        }
        if !signals::is_silent(signal) {
            output.extend_from_slice(&signals::description(signal));
            output.extend_from_slice(if dumped { b" (core dumped)\n" } else { b"\n" });
        }
        Exit::Code(128 + signal)
    }
}

/// True for dash; bash replaces itself with its only command.
fn probe_shell_outlives_command(launcher: &mut Launcher) -> bool {
    const KILLED: ExitStatus = ExitStatus::Code(128 + 9);
    let probe = launcher.spawn_piped(Program::Shell(b"/bin/sh -c 'kill -KILL $$'"));
    probe.and_then(|mut child| child.wait()).is_ok_and(|ended| ended.status == KILLED)
}

#[cfg(test)]
mod tests;
