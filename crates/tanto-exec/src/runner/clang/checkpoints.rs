//! Compiles that continue from a checkpoint of an earlier compile of the same file.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use tanto_sys::ipc::poll::Watch;

use super::checkpoint_daemon::Keeper;
use super::frames::{self, Run, Said};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Directory of the daemon; created when needed.
    pub place: PathBuf,
    /// Maximum number of checkpoints.
    pub most: u32,
    /// A daemon may be started.
    pub may_start: bool,
    /// Compares one in this many commands from checkpoints with a process; 0: none.
    pub doubted: u32,
}

enum State {
    /// Not needed so far.
    Unknown,
    Found(Box<Keeper>),
    /// There is none, or none any more.
    Nobody,
}

/// Tanto's side of the checkpoints.
pub(super) struct Checkpoints {
    wanted: Wanted,
    state: State,
    /// Frames of recent compiles, the last one first.
    recent: VecDeque<Vec<u8>>,
    /// Commands that continued from a checkpoint.
    used: u32,
}

impl Checkpoints {
    pub(super) fn new(wanted: Wanted) -> Checkpoints {
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
        let State::Found(keeper) = &mut self.state else { return None };
        match keeper.link.run(id, frame, with) {
            Ok(started) => {
                self.used += u32::from(started.is_ok());
                started.ok()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.state = State::Nobody;
                None
            }
        }
    }

    /// Returns whether the last command from a checkpoint is to be compared with a process.
    pub(super) fn doubts(&self) -> bool {
        self.wanted.doubted != 0 && self.used.is_multiple_of(self.wanted.doubted)
    }

    pub(super) fn watch(&self) -> Watch {
        match &self.state {
            State::Found(keeper) => keeper.link.watch(),
            State::Unknown | State::Nobody => Watch::none(),
        }
    }

    pub(super) fn are_gone(&self) -> bool {
        matches!(self.state, State::Nobody)
    }

    pub(super) fn said(&mut self) -> Option<Said> {
        let State::Found(keeper) = &mut self.state else { return None };
        keeper.link.said().unwrap_or_else(|_| {
            self.state = State::Nobody;
            None
        })
    }

    pub(super) fn wait(&self) -> io::Result<()> {
        match &self.state {
            State::Found(keeper) => keeper.link.wait(),
            State::Unknown | State::Nobody => Err(io::ErrorKind::NotConnected.into()),
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
            State::Found(keeper) => keeper.link.socket(),
            State::Unknown | State::Nobody if self.wanted.may_start => {
                match Keeper::start(program, &self.wanted.place) {
                    Ok(socket) => started = socket,
                    Err(_) => return,
                }
                &started
            }
            State::Unknown | State::Nobody => return,
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
    match Keeper::find(place) {
        Ok(keeper) if keeper.is(program) => State::Found(Box::new(keeper)),
        Ok(stranger) => {
            // It may be gone already.
            let _ = stranger.stop();
            State::Nobody
        }
        Err(_) => State::Nobody,
    }
}

/// Returns whether the command compiles to a named object. Others have no checkpoints.
fn is_compile(run: &Run<'_>) -> bool {
    let has = |wanted: &[u8]| run.words.iter().filter(|word| *word == wanted).count() == 1;
    has(b"-c") && has(b"-o")
}

#[cfg(test)]
mod tests;
