//! Compiles that go on from where an earlier one of the same file has paused. Does not know who makes them pause, nor
//! whether what they would read is still the same.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use tanto_sys::ipc::poll::Watch;

use super::checkpoint_daemon::Keeper;
use super::frames::{self, Run, Said};

/// What the user wants of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// A directory of its own for who keeps them; made when there is something to keep.
    pub place: PathBuf,
    /// So many at most.
    pub most: u32,
    /// Somebody who keeps them may be started.
    pub may_start: bool,
    /// Of so many commands that go on from one, one is also run as a process, and what both make compared; 0: none.
    pub doubted: u32,
}

/// Who keeps them.
enum State {
    /// Nothing has asked for it.
    Unknown,
    Found(Box<Keeper>),
    /// There is nobody, or nobody any more.
    Nobody,
}

/// Our side of them.
pub(super) struct Checkpoints {
    wanted: Wanted,
    state: State,
    /// Frames of what was compiled last, the last one first. It may be kept.
    recent: VecDeque<Vec<u8>>,
    /// How many commands have gone on from one.
    used: u32,
}

impl Checkpoints {
    pub(super) fn new(wanted: Wanted) -> Checkpoints {
        Checkpoints { wanted, state: State::Unknown, recent: VecDeque::new(), used: 0 }
    }

    /// A command is about to run.
    pub(super) fn note(&mut self, run: &Run<'_>) {
        let Some(frame) = is_compile(run).then(|| frames::encode_keep(run, self.wanted.most)).flatten() else { return };
        self.recent.push_front(frame);
        self.recent.truncate(self.wanted.most.try_into().unwrap_or(usize::MAX));
    }

    /// Has the command go on from its checkpoint, if it has one: its process.
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

    /// Is the last that has gone on from one to be run twice?
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

    /// Says what is to be kept, with these descriptors; to somebody new, if there is nobody and that may be. Does not wait
    /// for any of it.
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
        // What is said last is made first. What there is no room to say is not kept.
        for frame in recent.iter().rev() {
            if socket.send(frame, with).is_err() {
                return;
            }
        }
    }
}

/// One that runs another worker than ours is sent away.
fn find(program: &Path, place: &Path) -> State {
    match Keeper::find(place) {
        Ok(keeper) if keeper.is(program) => State::Found(Box::new(keeper)),
        Ok(stranger) => {
            // If it is gone already, so much the better.
            let _ = stranger.stop();
            State::Nobody
        }
        Err(_) => State::Nobody,
    }
}

/// Is it one that makes an object, which is named? Of others there are no checkpoints.
fn is_compile(run: &Run<'_>) -> bool {
    let has = |wanted: &[u8]| run.words.iter().filter(|word| *word == wanted).count() == 1;
    has(b"-c") && has(b"-o")
}

#[cfg(test)]
mod tests;
