//! Runs a command whose system calls are traced, and writes the record of its inputs. This is a process of its own between
//! the build and the command (`tanto trace-calls`).

mod interpreter;
mod observation;
mod own_files;
mod system_files;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tanto_sys::fs::file;
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::process::ExitStatus;
use tanto_sys::process::lifecycle;
use tanto_sys::process::procs;
use tanto_sys::process::traced::{self, CallListener, Received, SignalMask, TracedChild};

use self::observation::Observation;
use crate::input_recorder::obstacle::Obstacle;

/// This program, also if its file was replaced.
const OWN_PROGRAM: &[u8] = b"/proc/self/exe";
/// The word after the program's name.
pub const SUBCOMMAND: &str = "trace-calls";

/// A command to trace.
#[derive(Debug)]
pub(crate) struct TracedCommand<'c> {
    /// The file for the record.
    pub(crate) record: &'c Path,
    pub(crate) outputs: &'c [&'c [u8]],
    /// For the shell.
    pub(crate) line: &'c [u8],
    /// The same without a shell; empty if it needs one.
    pub(crate) words: &'c [&'c [u8]],
}

impl TracedCommand<'_> {
    /// Returns the words of the command that traces it.
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let count = self.outputs.len().to_string();
        let own = [OWN_PROGRAM, SUBCOMMAND.as_bytes(), self.record.as_os_str().as_bytes(), count.as_bytes()];
        own.iter().chain(self.outputs).chain([&self.line]).chain(self.words).map(|word| word.to_vec()).collect()
    }
}

/// Runs the subcommand with the arguments after its name. Returns the exit code.
pub fn run(arguments: &[Vec<u8>]) -> i32 {
    let Some(request) = Request::parse(arguments) else {
        eprintln!("tanto: {SUBCOMMAND} is only for builds");
        return 2;
    };
    match trace(&request) {
        Ok(ExitStatus::Code(code)) => code,
        Ok(ExitStatus::Killed { signal, .. }) => {
            lifecycle::die_of(signal);
            128 + signal
        }
        Err(error) => {
            eprintln!("tanto: {error}");
            1
        }
    }
}

/// The arguments of the subcommand.
struct Request<'a> {
    record: &'a Path,
    outputs: &'a [Vec<u8>],
    /// Programs with their arguments, of which the first that exists runs.
    programs: Vec<Vec<&'a [u8]>>,
}

impl Request<'_> {
    fn parse(arguments: &[Vec<u8>]) -> Option<Request<'_>> {
        let (record, rest) = arguments.split_first()?;
        let (count, rest) = rest.split_first()?;
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let (outputs, rest) = rest.split_at_checked(count)?;
        let (line, words) = rest.split_first()?;
        let shell = vec![&b"/bin/sh"[..], b"-c", line];
        let direct = words.iter().map(|word| &word[..]).collect();
        // A direct start that fails is repeated by the shell, which explains the error.
        let programs = [direct, shell].into_iter().filter(|words: &Vec<&[u8]>| !words.is_empty()).collect();
        Some(Request { record: file::path(record), outputs, programs })
    }
}

fn trace(request: &Request<'_>) -> io::Result<ExitStatus> {
    let Request { record, outputs, programs } = request;
    let mut observation = Observation::new(&std::env::current_dir()?, outputs);
    let TracedChild { pid, calls, signals } = traced::spawn(programs)?;
    let Some(mut calls) = calls else {
        observation.give_up(Obstacle::NotTraced);
        fs::write(record, observation.into_record())?;
        return lifecycle::wait_and_reap(pid);
    };
    calls.wake_at_once();
    let status = serve_until_end(pid, &calls, &mut observation)?;
    serve_pending(&calls, &mut observation)?;
    calls.release()?;
    let is_over = calls.is_closed();
    if !is_over {
        observation.give_up(Obstacle::Outlived);
    }
    let was_interrupted = observation.was_interrupted();
    fs::write(record, observation.into_record())?;
    if !is_over {
        serve_others(&calls)?;
    }
    match status {
        ExitStatus::Code(code) if code != 0 && was_interrupted && is_over => Err(run_again(programs, &signals)),
        status => Ok(status),
    }
}

/// Runs a command again that may have failed because a signal interrupted a system call that was traced: replaces this
/// process by it. Returns only if that fails.
fn run_again(programs: &[Vec<&[u8]>], signals: &SignalMask) -> io::Error {
    eprintln!("tanto: the command failed after a signal interrupted a traced system call; it runs again, not traced");
    traced::execute(programs, signals)
}

/// Serves calls until the child has ended.
fn serve_until_end(pid: u32, calls: &CallListener, observation: &mut Observation) -> io::Result<ExitStatus> {
    let child = procs::pidfd(pid).ok_or_else(|| io::Error::other("pidfd_open failed"))?;
    loop {
        let mut watches = [Watch::new(calls), Watch::new(&child)];
        poll::wait(&mut watches, None)?;
        // Other processes may still make calls when the child has ended.
        if watches[0].ready() {
            serve(calls, calls.receive()?, observation)?;
        } else if watches[1].ready() {
            return lifecycle::wait_and_reap(pid);
        }
    }
}

fn serve(calls: &CallListener, received: Received, observation: &mut Observation) -> io::Result<()> {
    let call = match received {
        Received::Call(call) => call,
        Received::Interrupted => {
            observation.note_interruption();
            return Ok(());
        }
        Received::Nothing => return Ok(()),
    };
    match call.decode() {
        Ok(decoded) => observation.note(&decoded),
        Err(_) => observation.give_up(Obstacle::Unreadable),
    }
    if !calls.resume(&call)? {
        observation.give_up(Obstacle::Killed);
    }
    Ok(())
}

/// Serves the calls of processes that the child has left, and notices calls that were interrupted unseen.
fn serve_pending(calls: &CallListener, observation: &mut Observation) -> io::Result<()> {
    loop {
        let received = calls.receive_pending()?;
        let is_call = matches!(received, Received::Call(_));
        serve(calls, received, observation)?;
        if !is_call {
            return Ok(());
        }
    }
}

/// Leaves a process that serves the calls of those that still run.
fn serve_others(calls: &CallListener) -> io::Result<()> {
    if lifecycle::fork()?.is_some() {
        return Ok(());
    }
    // The build waits until the output of the command is closed.
    let _ = lifecycle::leave_session();
    let resume = |received: Received| match received {
        Received::Call(call) => calls.resume(&call).map(drop),
        Received::Interrupted | Received::Nothing => Ok(()),
    };
    while !calls.is_closed() {
        let waited = poll::wait(&mut [Watch::new(calls)], None);
        if waited.and_then(|()| calls.receive()).and_then(resume).is_err() {
            break;
        }
    }
    std::process::exit(0)
}
