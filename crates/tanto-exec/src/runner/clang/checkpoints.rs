//! Compiles that continue from a checkpoint of an earlier compile of the same file.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use tanto_sys::ipc::poll::Watch;

use super::NotInWorker;
use super::checkpoint_daemon::DaemonConnection;
use super::frames::{self, Reply, Run};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointOptions {
    /// Directory of the daemon; created when needed.
    pub place: PathBuf,
    /// Maximum number of checkpoints.
    pub most: u32,
    /// A daemon may be started.
    pub may_start: bool,
    /// Compares one in this many commands from checkpoints with a process; 0: none.
    pub verify_every: u32,
}

enum State {
    /// Not needed so far.
    Unknown,
    Found(Box<DaemonConnection>),
    /// There is none, or none any more.
    Gone,
}

/// Tanto's side of the checkpoints.
pub(super) struct Checkpoints {
    wanted: CheckpointOptions,
    state: State,
    /// Frames of recent compiles, the last one first.
    recent: VecDeque<Vec<u8>>,
    /// Commands that continued from a checkpoint.
    used: u32,
}

impl Checkpoints {
    pub(super) fn new(wanted: CheckpointOptions) -> Checkpoints {
        Checkpoints { wanted, state: State::Unknown, recent: VecDeque::new(), used: 0 }
    }

    /// Records a command that is about to run.
    pub(super) fn note(&mut self, run: &Run<'_>) {
        let Some(frame) = is_compile(run).then(|| frames::encode_keep(run, self.wanted.most)).flatten() else { return };
        self.recent.push_front(frame);
        self.recent.truncate(self.wanted.most.try_into().unwrap_or(usize::MAX));
    }

    /// Continues the command from its checkpoint, if there is one. Returns its process.
    pub(super) fn run(&mut self, program: &Path, id: u64, frame: &[u8], with: &[BorrowedFd<'_>]) -> Option<u32> {
        if matches!(self.state, State::Unknown) {
            self.state = find(program, &self.wanted.place);
        }
        let State::Found(daemon) = &mut self.state else { return None };
        match daemon.connection.run(id, frame, with) {
            Ok(pid) => {
                self.used += 1;
                return Some(pid);
            }
            Err(NotInWorker::WorkerGone) => self.state = State::Gone,
            Err(_) => {}
        }
        None
    }

    /// Returns whether the last command from a checkpoint is to be compared with a process.
    pub(super) fn is_verified_next(&self) -> bool {
        self.wanted.verify_every != 0 && self.used.is_multiple_of(self.wanted.verify_every)
    }

    pub(super) fn watch(&self) -> Watch {
        match &self.state {
            State::Found(daemon) => daemon.connection.watch(),
            State::Unknown | State::Gone => Watch::none(),
        }
    }

    pub(super) fn are_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    pub(super) fn try_next(&mut self) -> Option<Reply> {
        let State::Found(daemon) = &mut self.state else { return None };
        daemon.connection.try_next().unwrap_or_else(|_| {
            self.state = State::Gone;
            None
        })
    }

    pub(super) fn wait(&self) -> io::Result<()> {
        match &self.state {
            State::Found(daemon) => daemon.connection.wait(),
            State::Unknown | State::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Requests checkpoints of recent compiles, from a new daemon if there is none and one may be started. Does not
    /// wait.
    pub(super) fn rest(&mut self, program: &Path, with: &[BorrowedFd<'_>]) {
        let recent = std::mem::take(&mut self.recent);
        if recent.is_empty() {
            return;
        }
        let started;
        let socket = match &self.state {
            State::Found(daemon) => daemon.connection.socket(),
            State::Unknown | State::Gone if self.wanted.may_start => {
                match DaemonConnection::start(program, &self.wanted.place) {
                    Ok(socket) => started = socket,
                    Err(_) => return,
                }
                &started
            }
            State::Unknown | State::Gone => return,
        };
        // The last request is served first. Requests that do not fit into the socket are dropped.
        for frame in recent.iter().rev() {
            if socket.send(frame, with).is_err() {
                return;
            }
        }
    }
}

/// Stops a daemon that runs another version of the worker.
fn find(program: &Path, place: &Path) -> State {
    match DaemonConnection::find(place) {
        Ok(daemon) if daemon.is(program) => State::Found(Box::new(daemon)),
        Ok(stranger) => {
            // It may be gone already.
            let _ = stranger.stop();
            State::Gone
        }
        Err(_) => State::Gone,
    }
}

/// Returns whether the command compiles to a named object. Others have no checkpoints.
fn is_compile(run: &Run<'_>) -> bool {
    let has = |wanted: &[u8]| run.words.iter().filter(|word| *word == wanted).count() == 1;
    has(b"-c") && has(b"-o")
}

#[cfg(test)]
mod tests;
