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
use self::frames::{Run, Said, Used};
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
pub use self::checkpoints::Wanted;
pub use self::frames::Without;
pub use self::identity::{is_left_alone_because_of, stands_for};
pub use self::identity_cache::programs;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    pub program: PathBuf,
    /// File that caches which clang the worker replaces.
    pub known: PathBuf,
    /// A failure to start the worker is an error.
    pub required: bool,
    pub checkpoints: Option<Wanted>,
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
    known: Option<Vec<Identity>>,
    /// Validity of `known`, besides the files.
    surroundings: String,
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
    pub(super) is_kept: bool,
    /// Its result is compared with that of a process.
    pub(super) is_doubted: bool,
}

/// Message about a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum News {
    Ended(ExitReport),
    /// It has to run as a process, for this reason. Empty: it failed, and the process prints more.
    Declined(Vec<u8>),
    /// Its process is gone. Without a previous message, it crashed.
    Gone,
}

/// More control groups than a job has.
const MOST_ENTRANCES: usize = MAX_DESCRIPTORS - 4;

impl Worker {
    /// Returns `None` if the environment requires real programs. Starts nothing yet.
    pub(super) fn new(options: WorkerOptions, environment: &Environment) -> Option<Worker> {
        if is_left_alone_because_of(environment).is_some() {
            return None;
        }
        let checkpoints = options.checkpoints.clone().map(Checkpoints::new);
        let (state, surroundings) = (State::Idle, String::new());
        Some(Worker { options, state, known: None, surroundings, next: 0, common: None, checkpoints })
    }

    /// Starts the command in the worker, or returns why it has to run as a process. Fails only if the worker is
    /// required.
    pub(super) fn start(
        &mut self,
        words: &Argv,
        environment: &Environment,
        entrances: &[File],
    ) -> io::Result<Result<Fork, Vec<u8>>> {
        let name = words.iter().next().unwrap_or_default();
        if !may_be_clang(name) {
            return Ok(Err([name, b" is no clang"].concat()));
        }
        if matches!(self.state, State::Gone) || entrances.len() > MOST_ENTRANCES {
            return Ok(Err(b"the worker is gone".into()));
        }
        let path = environment.get(b"PATH").unwrap_or_default();
        let Some(program) = identity::find(name, path) else {
            return Ok(Err([name, b" is no clang, or a script"].concat()));
        };
        match self.identify(&program, environment)? {
            Some(Identity { ours: true, lld, .. }) => {
                self.fork(words, environment, entrances, &program, lld.as_deref())
            }
            _ => Ok(Err([program.as_os_str().as_bytes(), b" is not the clang that the worker is built from"].concat())),
        }
    }

    /// Returns an error if the worker is required and this command compiles, but has to run as a process.
    pub(super) fn insist(&self, line: &[u8], why: &[u8]) -> io::Result<()> {
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
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                let stamp = Stamp::of(&self.options.program);
                let libraries = environment.get(b"LD_LIBRARY_PATH").unwrap_or_default();
                self.surroundings = format!("{:?} {}", stamp.map(|stamp| stamp.0), libraries.escape_ascii());
                let mut known = identity_cache::read(&self.options.known, &self.surroundings);
                known.retain(Identity::is_same_build);
                known
            }
        };
        let known = self.known.insert(known);
        if let Some(identity) = known.iter().find(|it| it.program == program && it.holds()) {
            return Ok(Some(identity.clone()));
        }
        known.retain(|it| it.program != program);
        let Some(zygote) = self.zygote()? else { return Ok(None) };
        let identity = identity::ask(program, &zygote.link);
        if let (Some(identity), Some(known)) = (&identity, &mut self.known) {
            known.push(identity.clone());
            // Without the cache, the next build asks again.
            let _ = identity_cache::write(&self.options.known, &self.surroundings, known);
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
        entrances: &[File],
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
        with.extend(entrances.iter().map(AsFd::as_fd));
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.note(&run);
            if let Some(pid) = checkpoints.run(&self.options.program, id, &frame, &with) {
                let is_doubted = checkpoints.doubts();
                return Ok(Ok(Fork { child: Child::with_other_parent(pid, output), id, is_kept: true, is_doubted }));
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
        with.extend(entrances.iter().map(AsFd::as_fd));
        match zygote.link.run(id, &frame, &with) {
            Ok(pid) => Ok(pid.map(|pid| {
                let child = Child::with_other_parent(pid, output);
                Fork { child, id, is_kept: false, is_doubted: false }
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
            State::Running(zygote) => zygote.link.watch(),
            State::Idle | State::Gone => Watch::none(),
        };
        [worker, self.checkpoints.as_ref().map_or(Watch::none(), Checkpoints::watch)]
    }

    /// Returns whether no more messages about this command can come.
    pub(super) fn is_gone(&self, is_kept: bool) -> bool {
        match (&self.checkpoints, is_kept) {
            (Some(checkpoints), true) => checkpoints.are_gone(),
            _ => matches!(self.state, State::Gone),
        }
    }

    /// Returns the next message about a command, if there is one.
    pub(super) fn news(&mut self) -> Option<(u64, News)> {
        loop {
            if let Some(said) = self.checkpoints.as_mut().and_then(Checkpoints::said) {
                if let Some(news) = news(said) {
                    return Some(news);
                }
                continue;
            }
            let State::Running(zygote) = &mut self.state else { return None };
            match zygote.link.said() {
                Ok(Some(said)) => {
                    if let Some(news) = news(said) {
                        return Some(news);
                    }
                }
                Ok(None) => return None,
                Err(_) => self.state = State::Gone,
            }
        }
    }

    /// Waits until the processes of these commands are gone.
    pub(super) fn bury(&mut self, mut ids: Vec<(u64, bool)>) {
        loop {
            match self.news() {
                Some((id, News::Gone)) => ids.retain(|(its, _)| *its != id),
                Some(_) => {}
                None => {
                    let Some(&(_, is_kept)) = ids.iter().find(|(_, is_kept)| !self.is_gone(*is_kept)) else { return };
                    let waited = match (&self.state, &self.checkpoints) {
                        (_, Some(checkpoints)) if is_kept => checkpoints.wait(),
                        (State::Running(zygote), _) => zygote.link.wait(),
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

fn news(said: Said) -> Option<(u64, News)> {
    match said {
        Said::Ended { id, code, used } => {
            let status = ExitStatus::Code(i32::try_from(code & 0xff).expect("a byte fits"));
            let Used { user_us, system_us, max_rss_kib, read_bytes, written_bytes } = used;
            Some((id, News::Ended(ExitReport { status, user_us, system_us, max_rss_kib, read_bytes, written_bytes })))
        }
        Said::Declined { id, why } => Some((id, News::Declined(why))),
        Said::Gone { id } => Some((id, News::Gone)),
        // Late messages about commands that were given up.
        Said::Hello { .. } | Said::Started { .. } | Said::Holding { .. } => None,
    }
}

#[cfg(test)]
mod tests;
