//! The clang worker: a running process with clang and lld, which forks for each command.
//!
//! It never affects results: a command runs in it only if the real program would certainly do the same.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;
use tanto_sys::ipc::poll::Watch;
use tanto_sys::ipc::seqpacket::MAX_DESCRIPTORS;
use tanto_sys::process::{Argv, Child, Environment, ExitReport, ExitStatus};

use self::checkpoints::Checkpoints;
use self::frames::{Reply, Run, Used};
use self::identity::{Identity, Stamp};
use self::zygote::Zygote;

mod checkpoint_daemon;
mod checkpoints;
mod connection;
mod frames;
mod identity;
mod identity_cache;
pub mod installation;
mod require;
mod response;
mod zygote;

pub use self::checkpoint_daemon::{Held, held, is_checkpoint_daemon, stop};
pub use self::checkpoints::CheckpointOptions;
pub use self::frames::Without;
use self::identity::conflicting_variable;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    pub program: PathBuf,
    /// File that caches which clang the worker replaces.
    pub cache: PathBuf,
    /// A failure to start the worker is an error.
    pub required: bool,
    pub checkpoints: Option<CheckpointOptions>,
}

enum State {
    /// Not needed so far.
    Idle,
    Running(Box<Zygote>),
    /// It did not start, or has ended.
    Gone,
}

/// Tanto's side of the clang worker.
pub(super) struct Worker {
    options: WorkerOptions,
    state: State,
    /// Loaded on first use.
    cache: Option<Vec<Identity>>,
    /// Validity of `cache`, besides the files.
    cache_key: String,
    next: u64,
    common: Option<Common>,
    checkpoints: Option<Checkpoints>,
}

/// Descriptors and settings that all commands share.
struct Common {
    directory: File,
    /// /dev/null.
    nothing: File,
    umask: u32,
}

/// A running command, by its number in the protocol.
pub(super) struct WorkerJobId {
    pub(super) id: u64,
    /// It continues from a checkpoint, so that the daemon reports about it, not the worker.
    pub(super) from_checkpoint: bool,
    /// Its result is compared with that of a process.
    pub(super) is_verified: bool,
}

/// Why a command has to run as a process.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotInWorker {
    #[error("it has the console")]
    Console,
    #[error("it needs a shell")]
    Shell,
    #[error("{} is not clang, or is a script", String::from_utf8_lossy(.0))]
    NotClang(Vec<u8>),
    #[error("{} is not the clang that the worker is built from", .0.display())]
    OtherClang(PathBuf),
    #[error("its directory cannot be opened")]
    Directory,
    #[error("it is too long")]
    TooLong,
    #[error("the worker is busy")]
    Busy,
    #[error("the worker is gone")]
    WorkerGone,
    /// Only if the worker is required.
    #[error("compile worker {}: {error}", program.display())]
    NotStarted { program: PathBuf, error: io::Error },
    /// The worker's reason. Empty: the command failed, and the process prints more.
    #[error("{}", String::from_utf8_lossy(.0))]
    Declined(Vec<u8>),
}

/// Message about a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WorkerMessage {
    Ended(ExitReport),
    /// It has to run as a process, for this reason. Empty: it failed, and the process prints more.
    Declined(Vec<u8>),
    /// Its process is gone. Without a previous message, it crashed.
    Gone,
}

/// More control groups than a job has.
const MAX_CGROUP_FILES: usize = MAX_DESCRIPTORS - 4;

impl Worker {
    /// Returns `None` if the environment requires real programs. Starts nothing yet.
    pub(super) fn new(options: WorkerOptions, environment: &Environment) -> Option<Worker> {
        if conflicting_variable(environment).is_some() {
            return None;
        }
        let checkpoints = options.checkpoints.clone().map(Checkpoints::new);
        let (state, cache_key) = (State::Idle, String::new());
        Some(Worker { options, state, cache: None, cache_key, next: 0, common: None, checkpoints })
    }

    /// Starts the command in the worker.
    pub(super) fn start(
        &mut self,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
    ) -> Result<(Child, WorkerJobId), NotInWorker> {
        let name = words.iter().next().unwrap_or_default();
        let not_clang = || NotInWorker::NotClang(name.to_vec());
        if !may_be_clang(name) {
            return Err(not_clang());
        }
        if matches!(self.state, State::Gone) || cgroup_files.len() > MAX_CGROUP_FILES {
            return Err(NotInWorker::WorkerGone);
        }
        let path = environment.get(b"PATH").unwrap_or_default();
        let program = identity::find(name, path).ok_or_else(not_clang)?;
        match self.identify(&program, environment)? {
            Some(Identity { is_replaced: true, lld, .. }) => {
                self.fork(words, environment, cgroup_files, &program, lld.as_deref())
            }
            _ => Err(NotInWorker::OtherClang(program)),
        }
    }

    /// Returns an error if the worker is required and this command compiles, but has to run as a process.
    pub(super) fn check_required(&self, line: &[u8], why: NotInWorker) -> io::Result<()> {
        match why {
            NotInWorker::NotStarted { .. } => return Err(io::Error::other(why)),
            NotInWorker::Busy => return Ok(()),
            NotInWorker::Declined(why) if why.is_empty() => return Ok(()),
            _ if !self.options.required || !require::compiles(line) => return Ok(()),
            _ => {}
        }
        Err(io::Error::other(format!(
            "--clang-worker=require: a command cannot run in the compile worker: {why}\n  {}\n\
             'tanto doctor' names the worker's clang; --clang-worker=auto runs such commands as processes",
            String::from_utf8_lossy(line)
        )))
    }

    /// Returns the identity of a program, from the cache or by asking it.
    fn identify(&mut self, program: &Path, environment: &Environment) -> Result<Option<Identity>, NotInWorker> {
        let cache = match self.cache.take() {
            Some(cache) => cache,
            None => {
                let stamp = Stamp::of(&self.options.program);
                let libraries = environment.get(b"LD_LIBRARY_PATH").unwrap_or_default();
                self.cache_key = format!("{:?} {}", stamp.map(|stamp| stamp.0), libraries.escape_ascii());
                let mut cache = identity_cache::read(&self.options.cache, &self.cache_key);
                cache.retain(Identity::is_same_build);
                cache
            }
        };
        let cache = self.cache.insert(cache);
        if let Some(identity) = cache.iter().find(|it| it.program == program && it.is_unchanged()) {
            return Ok(Some(identity.clone()));
        }
        cache.retain(|it| it.program != program);
        let zygote = running(&mut self.state, &self.options)?;
        let identity = identity::identify(program, &zygote.connection);
        if let (Some(identity), Some(cache)) = (&identity, &mut self.cache) {
            cache.push(identity.clone());
            // Without the cache, the next build asks again.
            let _ = identity_cache::write(&self.options.cache, &self.cache_key, cache);
        }
        Ok(identity)
    }

    fn fork(
        &mut self,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
        clang: &Path,
        lld: Option<&Path>,
    ) -> Result<(Child, WorkerJobId), NotInWorker> {
        self.next += 1;
        let id = self.next;
        if self.common.is_none() {
            self.common = Common::find();
        }
        let Common { directory, nothing, umask } = self.common.as_ref().ok_or(NotInWorker::Directory)?;
        let strings: Vec<&[u8]> = environment.strings().collect();
        let (clang, lld) = (clang.as_os_str().as_bytes(), lld.map_or(&b""[..], |lld| lld.as_os_str().as_bytes()));
        let run = Run { id, umask: *umask, clang, lld, words, environment: &strings };
        // Without descriptors for a pipe, a process fails with ninja's message.
        let (Some(frame), Ok((output, written))) = (frames::encode(&run), io::pipe()) else {
            return Err(NotInWorker::TooLong);
        };
        let mut with = vec![directory.as_fd(), nothing.as_fd(), written.as_fd(), written.as_fd()];
        with.extend(cgroup_files.iter().map(AsFd::as_fd));
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.note(&run);
            if let Some(pid) = checkpoints.run(&self.options.program, id, &frame, &with) {
                let is_verified = checkpoints.is_verified_next();
                let job = WorkerJobId { id, from_checkpoint: true, is_verified };
                return Ok((Child::with_other_parent(pid, output), job));
            }
        }
        match running(&mut self.state, &self.options)?.connection.run(id, &frame, &with) {
            Ok(pid) => {
                let job = WorkerJobId { id, from_checkpoint: false, is_verified: false };
                Ok((Child::with_other_parent(pid, output), job))
            }
            Err(why) => {
                if matches!(why, NotInWorker::WorkerGone) {
                    self.state = State::Gone;
                }
                Err(why)
            }
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(zygote) => Some(zygote.pid()),
            State::Idle | State::Gone => None,
        }
    }

    /// Watches the worker and the checkpoint daemon: readable on messages, and when they are gone.
    pub(super) fn watches(&self) -> [Watch; 2] {
        let worker = match &self.state {
            State::Running(zygote) => zygote.connection.watch(),
            State::Idle | State::Gone => Watch::none(),
        };
        [worker, self.checkpoints.as_ref().map_or(Watch::none(), Checkpoints::watch)]
    }

    /// Returns whether no more messages about this command can come.
    pub(super) fn is_gone(&self, from_checkpoint: bool) -> bool {
        match (&self.checkpoints, from_checkpoint) {
            (Some(checkpoints), true) => checkpoints.are_gone(),
            _ => matches!(self.state, State::Gone),
        }
    }

    /// Returns the next message about a command, if there is one.
    pub(super) fn next_message(&mut self) -> Option<(u64, WorkerMessage)> {
        loop {
            if let Some(reply) = self.checkpoints.as_mut().and_then(Checkpoints::try_next) {
                if let Some(message) = message_of(reply) {
                    return Some(message);
                }
                continue;
            }
            let State::Running(zygote) = &mut self.state else { return None };
            match zygote.connection.try_next() {
                Ok(Some(reply)) => {
                    if let Some(message) = message_of(reply) {
                        return Some(message);
                    }
                }
                Ok(None) => return None,
                Err(_) => self.state = State::Gone,
            }
        }
    }

    /// Waits until the processes of these commands are gone.
    pub(super) fn wait_until_gone(&mut self, mut ids: Vec<(u64, bool)>) {
        loop {
            match self.next_message() {
                Some((id, WorkerMessage::Gone)) => ids.retain(|(its, _)| *its != id),
                Some(_) => {}
                None => {
                    let Some(&(_, from_checkpoint)) =
                        ids.iter().find(|(_, from_checkpoint)| !self.is_gone(*from_checkpoint))
                    else {
                        return;
                    };
                    let waited = match (&self.state, &self.checkpoints) {
                        (_, Some(checkpoints)) if from_checkpoint => checkpoints.wait(),
                        (State::Running(zygote), _) => zygote.connection.wait(),
                        _ => return,
                    };
                    if waited.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Called at the end of a build: recent compiles may be kept as checkpoints.
    pub(super) fn rest(&mut self) {
        if let (Some(checkpoints), Some(Common { directory, nothing, .. })) = (&mut self.checkpoints, &self.common) {
            let nothing = nothing.as_fd();
            checkpoints.rest(&self.options.program, &[directory.as_fd(), nothing, nothing, nothing]);
        }
    }
}

impl Common {
    fn find() -> Option<Common> {
        let (directory, nothing) = (File::open(".").ok()?, File::open("/dev/null").ok()?);
        Some(Common { directory, nothing, umask: file::umask()? })
    }
}

/// Returns the worker, which is started on first use.
fn running<'s>(state: &'s mut State, options: &WorkerOptions) -> Result<&'s mut Zygote, NotInWorker> {
    if matches!(state, State::Idle) {
        *state = match Zygote::start(&options.program) {
            Ok(zygote) => State::Running(Box::new(zygote)),
            Err(error) if options.required => {
                return Err(NotInWorker::NotStarted { program: options.program.clone(), error });
            }
            Err(_) => State::Gone,
        };
    }
    match state {
        State::Running(zygote) => Ok(zygote),
        State::Idle | State::Gone => Err(NotInWorker::WorkerGone),
    }
}

/// Cheap test by name: most commands are no compilers.
fn may_be_clang(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    matches!(file, b"cc" | b"c++" | b"CC") || file.windows(5).any(|part| part == b"clang")
}

fn message_of(reply: Reply) -> Option<(u64, WorkerMessage)> {
    match reply {
        Reply::Ended { id, code, used } => {
            let status = ExitStatus::Code(i32::try_from(code & 0xff).expect("a byte fits"));
            let Used { user_us, system_us, max_rss_kib, read_bytes, written_bytes } = used;
            Some((
                id,
                WorkerMessage::Ended(ExitReport { status, user_us, system_us, max_rss_kib, read_bytes, written_bytes }),
            ))
        }
        Reply::Declined { id, why } => Some((id, WorkerMessage::Declined(why))),
        Reply::Gone { id } => Some((id, WorkerMessage::Gone)),
        // Late messages about commands that were given up.
        Reply::Hello { .. } | Reply::Started { .. } | Reply::Holding { .. } => None,
    }
}

#[cfg(test)]
mod tests;
