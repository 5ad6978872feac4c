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
mod require;
mod response;
mod zygote;

pub use self::checkpoint_daemon::{Held, held, is_checkpoint_daemon, stop};
pub use self::checkpoints::CheckpointOptions;
pub use self::frames::Without;
pub use self::identity::{is_left_alone_because_of, stands_for};
pub use self::identity_cache::programs;

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

/// A running command.
pub(super) struct Fork {
    pub(super) child: Child,
    /// Its number in the protocol.
    pub(super) id: u64,
    /// It continues from a checkpoint, so that the daemon reports about it, not the worker.
    pub(super) from_checkpoint: bool,
    /// Its result is compared with that of a process.
    pub(super) is_verified: bool,
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
        if is_left_alone_because_of(environment).is_some() {
            return None;
        }
        let checkpoints = options.checkpoints.clone().map(Checkpoints::new);
        let (state, cache_key) = (State::Idle, String::new());
        Some(Worker { options, state, cache: None, cache_key, next: 0, common: None, checkpoints })
    }

    /// Starts the command in the worker, or returns why it has to run as a process. Fails only if the worker is
    /// required.
    pub(super) fn start(
        &mut self,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
    ) -> io::Result<Result<Fork, Vec<u8>>> {
        let name = words.iter().next().unwrap_or_default();
        if !may_be_clang(name) {
            return Ok(Err([name, b" is no clang"].concat()));
        }
        if matches!(self.state, State::Gone) || cgroup_files.len() > MAX_CGROUP_FILES {
            return Ok(Err(b"the worker is gone".into()));
        }
        let path = environment.get(b"PATH").unwrap_or_default();
        let Some(program) = identity::find(name, path) else {
            return Ok(Err([name, b" is no clang, or a script"].concat()));
        };
        match self.identify(&program, environment)? {
            Some(Identity { ours: true, lld, .. }) => {
                self.fork(words, environment, cgroup_files, &program, lld.as_deref())
            }
            _ => Ok(Err([program.as_os_str().as_bytes(), b" is not the clang that the worker is built from"].concat())),
        }
    }

    /// Returns an error if the worker is required and this command compiles, but has to run as a process.
    pub(super) fn check_required(&self, line: &[u8], why: &[u8]) -> io::Result<()> {
        if !self.options.required || why.is_empty() || !require::compiles(line) {
            return Ok(());
        }
        let (line, why) = (String::from_utf8_lossy(line), String::from_utf8_lossy(why));
        let text = format!(
            "--clang-worker=require: a command cannot run in the compile worker: {why}\n  {line}\n\
             'tanto doctor' names the worker's clang; --clang-worker=auto runs such commands as processes"
        );
        Err(io::Error::other(text))
    }

    /// Returns the identity of a program, from the cache or by asking it.
    fn identify(&mut self, program: &Path, environment: &Environment) -> io::Result<Option<Identity>> {
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
        if let Some(identity) = cache.iter().find(|it| it.program == program && it.holds()) {
            return Ok(Some(identity.clone()));
        }
        cache.retain(|it| it.program != program);
        let Some(zygote) = self.zygote()? else { return Ok(None) };
        let identity = identity::ask(program, &zygote.connection);
        if let (Some(identity), Some(cache)) = (&identity, &mut self.cache) {
            cache.push(identity.clone());
            // Without the cache, the next build asks again.
            let _ = identity_cache::write(&self.options.cache, &self.cache_key, cache);
        }
        Ok(identity)
    }

    /// Starts the worker, unless it has started already.
    fn zygote(&mut self) -> io::Result<Option<&mut Zygote>> {
        if matches!(self.state, State::Idle) {
            self.state = match Zygote::start(&self.options.program) {
                Ok(zygote) => State::Running(Box::new(zygote)),
                Err(error) if self.options.required => {
                    let what = format!("compile worker {}: {error}", self.options.program.display());
                    return Err(io::Error::other(what));
                }
                Err(_) => State::Gone,
            };
        }
        Ok(match &mut self.state {
            State::Running(zygote) => Some(zygote),
            State::Idle | State::Gone => None,
        })
    }

    fn fork(
        &mut self,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
        clang: &Path,
        lld: Option<&Path>,
    ) -> io::Result<Result<Fork, Vec<u8>>> {
        self.next += 1;
        let id = self.next;
        if self.common.is_none() {
            self.common = Common::find();
        }
        let Some(common) = &self.common else { return Ok(Err(b"its directory cannot be opened".into())) };
        let strings: Vec<&[u8]> = environment.strings().collect();
        let (clang, lld) = (clang.as_os_str().as_bytes(), lld.map_or(&b""[..], |lld| lld.as_os_str().as_bytes()));
        let run = Run { id, umask: common.umask, clang, lld, words, environment: &strings };
        // Too long for a frame, or no descriptors left: run a process.
        let (Some(frame), Ok((output, written))) = (frames::encode(&run), io::pipe()) else {
            return Ok(Err(b"it is too long".into()));
        };
        let Common { directory, nothing, .. } = common;
        let mut with = vec![directory.as_fd(), nothing.as_fd(), written.as_fd(), written.as_fd()];
        with.extend(cgroup_files.iter().map(AsFd::as_fd));
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.note(&run);
            if let Some(pid) = checkpoints.run(&self.options.program, id, &frame, &with) {
                let is_verified = checkpoints.is_verified_next();
                return Ok(Ok(Fork {
                    child: Child::with_other_parent(pid, output),
                    id,
                    from_checkpoint: true,
                    is_verified,
                }));
            }
        }
        drop(with);
        let gone = || Err(b"the worker is gone".to_vec());
        if self.zygote()?.is_none() {
            return Ok(gone());
        }
        let (State::Running(zygote), Some(common)) = (&mut self.state, &self.common) else { return Ok(gone()) };
        let Common { directory, nothing, .. } = common;
        let mut with = vec![directory.as_fd(), nothing.as_fd(), written.as_fd(), written.as_fd()];
        with.extend(cgroup_files.iter().map(AsFd::as_fd));
        match zygote.connection.run(id, &frame, &with) {
            Ok(pid) => Ok(pid.map(|pid| {
                let child = Child::with_other_parent(pid, output);
                Fork { child, id, from_checkpoint: false, is_verified: false }
            })),
            // A temporary problem: run a process this time.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Err(Vec::new())),
            Err(_) => {
                self.state = State::Gone;
                Ok(gone())
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
