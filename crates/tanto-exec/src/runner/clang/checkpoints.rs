//! Compiles that continue from a checkpoint of an earlier compile of the same file.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::ipc::poll::Watch;
use tanto_sys::process::Environment;

use super::NotInWorker;
use super::checkpoint_daemon::DaemonConnection;
use super::frames::{self, Reply, Run};
use super::identity::{self, Identity, Replaced, Stamp, checkpoint_variable};
use super::identity_cache;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointOptions {
    /// The program with LLVM.
    pub program: PathBuf,
    /// File that caches which clangs the program replaces.
    pub identities: PathBuf,
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
    /// The programs that were identified; loaded on first use.
    cache: Option<Vec<Identity>>,
    /// Validity of `cache`, besides the files.
    cache_key: String,
    /// Frames of recent compiles, the last one first.
    recent: VecDeque<Vec<u8>>,
    /// Commands that continued from a checkpoint.
    used: u32,
}

impl Checkpoints {
    /// Returns `None` if the environment asks clang for something that a checkpoint does not do.
    pub(super) fn new(wanted: CheckpointOptions, environment: &Environment) -> Option<Checkpoints> {
        if checkpoint_variable(environment).is_some() {
            return None;
        }
        let stamp = Stamp::of(&wanted.program);
        let libraries = environment.get(b"LD_LIBRARY_PATH").unwrap_or_default();
        let cache_key = format!("{:?} {}", stamp.map(|stamp| stamp.0), libraries.escape_ascii());
        let (cache, recent) = (None, VecDeque::new());
        Some(Checkpoints { wanted, state: State::Unknown, cache, cache_key, recent, used: 0 })
    }

    /// Continues the command from its checkpoint, if there is one, and returns its process. Remembers the command for a
    /// checkpoint.
    pub(super) fn run(&mut self, program: &Path, run: &Run<'_>, with: &[BorrowedFd<'_>]) -> Option<u32> {
        if matches!(self.state, State::Unknown) {
            self.state = find(&self.wanted.program, &self.wanted.place);
        }
        if matches!(self.state, State::Gone) && !self.wanted.may_start {
            return None;
        }
        let Identity { is_replaced: true, lld, .. } = self.identify(program)? else { return None };
        let lld = lld.as_ref().map_or(&b""[..], |lld| lld.as_os_str().as_bytes());
        let run = Run { clang: program.as_os_str().as_bytes(), lld, ..*run };
        self.note(&run);
        let State::Found(daemon) = &mut self.state else { return None };
        match daemon.connection.run(run.id, &frames::encode(&run)?, with) {
            Ok(pid) => {
                self.used += 1;
                return Some(pid);
            }
            Err(NotInWorker::WorkerGone) => self.state = State::Gone,
            Err(_) => {}
        }
        None
    }

    fn note(&mut self, run: &Run<'_>) {
        let Some(frame) = is_compile(run).then(|| frames::encode_keep(run, self.wanted.most)).flatten() else { return };
        self.recent.push_front(frame);
        self.recent.truncate(self.wanted.most.try_into().unwrap_or(usize::MAX));
    }

    /// Returns the identity of a program, from the cache or by asking both programs.
    fn identify(&mut self, program: &Path) -> Option<Identity> {
        let (file, key) = (&self.wanted.identities, &self.cache_key);
        let cache = self.cache.get_or_insert_with(|| {
            let mut cache = identity_cache::read(file, key);
            cache.retain(Identity::is_same_build);
            cache
        });
        if let Some(identity) = cache.iter().find(|it| it.program == program && it.is_unchanged()) {
            return Some(identity.clone());
        }
        cache.retain(|it| it.program != program);
        let Some(replaced) = Replaced::by(&self.wanted.program) else {
            // It does not run: it is not asked again.
            (self.state, self.wanted.may_start) = (State::Gone, false);
            return None;
        };
        let identity = identity::identify(program, &replaced)?;
        cache.push(identity.clone());
        // Without the cache, the next build asks again.
        let _ = identity_cache::write(file, key, cache);
        Some(identity)
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
    pub(super) fn rest(&mut self, with: &[BorrowedFd<'_>]) {
        let recent = std::mem::take(&mut self.recent);
        if recent.is_empty() {
            return;
        }
        let started;
        let socket = match &self.state {
            State::Found(daemon) => daemon.connection.socket(),
            State::Unknown | State::Gone if self.wanted.may_start => {
                match DaemonConnection::start(&self.wanted.program, &self.wanted.place) {
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

/// Stops a daemon that runs another version of the program.
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
