//! The compile worker: clang and lld in a process that is already running, of which each command gets a fork. Does not
//! know why a command is run, nor what became of it.
//!
//! It never decides a result: whatever is not certain to be what the real program would do is left to the real program.

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

/// Where the worker is, and how much depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    /// Its program.
    pub program: PathBuf,
    /// A file that remembers for which clang it stands; made when there is something to remember.
    pub known: PathBuf,
    /// That it cannot be started is an error.
    pub required: bool,
    /// The checkpoints, if commands may go on from them.
    pub checkpoints: Option<Wanted>,
}

/// What there is of it.
enum State {
    /// Nothing has asked for it.
    Idle,
    Running(Box<Zygote>),
    /// It did not start, or has gone away.
    Gone,
}

/// Our side of it.
pub(super) struct Worker {
    options: WorkerOptions,
    state: State,
    /// Read when it is asked for.
    known: Option<Vec<Identity>>,
    /// What `known` depends on besides the files.
    surroundings: String,
    next: u64,
    common: Option<Common>,
    checkpoints: Option<Checkpoints>,
}

/// What all commands have.
struct Common {
    directory: File,
    /// To read.
    nothing: File,
    umask: u32,
}

/// A command's fork.
pub(super) struct Fork {
    pub(super) child: Child,
    /// Its number in what the worker says.
    pub(super) id: u64,
    /// It goes on from a checkpoint: who keeps those tells of it, not the worker.
    pub(super) is_kept: bool,
    /// What it makes is to be compared with what a process makes.
    pub(super) is_doubted: bool,
}

/// What the worker has told of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// It is done.
    Ended(ExitReport),
    /// It has to be run as a process, for this reason. Empty: it failed, and the process tells more.
    Declined(Vec<u8>),
    /// Its process is gone. If nothing was told before, it crashed.
    Gone,
}

/// More control groups than a job has.
const MOST_ENTRANCES: usize = MAX_DESCRIPTORS - 4;

impl Worker {
    /// For commands with this environment; none if something in it wants real programs. Looks at nothing yet.
    pub(super) fn new(options: WorkerOptions, environment: &Environment) -> Option<Worker> {
        if is_left_alone_because_of(environment).is_some() {
            return None;
        }
        let checkpoints = options.checkpoints.clone().map(Checkpoints::new);
        let (state, surroundings) = (State::Idle, String::new());
        Some(Worker { options, state, known: None, surroundings, next: 0, common: None, checkpoints })
    }

    /// Starts the command as a fork of the worker, or says why it has to be a process. An error only if the worker is
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

    /// An error, if the worker is required and this command compiles, but runs as a process.
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

    /// What is known of a program, or can be found out.
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
            // What cannot be remembered is asked again by the next build.
            let _ = identity_cache::write(&self.options.known, &self.surroundings, known);
        }
        Ok(identity)
    }

    /// Starts the worker, if it was not started yet.
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
        // What is too much for a frame, or for now, is a process's.
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
            // Nothing is wrong with the command: it is a process's this time.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Err(Vec::new())),
            Err(_) => {
                self.state = State::Gone;
                Ok(gone())
            }
        }
    }

    /// The worker's own process.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(zygote) => Some(zygote.pid()),
            State::Idle | State::Gone => None,
        }
    }

    /// Ready when there is something to tell of commands, or somebody is gone who would: the worker, and who keeps
    /// checkpoints.
    pub(super) fn watches(&self) -> [Watch; 2] {
        let worker = match &self.state {
            State::Running(zygote) => zygote.link.watch(),
            State::Idle | State::Gone => Watch::none(),
        };
        [worker, self.checkpoints.as_ref().map_or(Watch::none(), Checkpoints::watch)]
    }

    /// Nobody will tell of this command any more.
    pub(super) fn is_gone(&self, is_kept: bool) -> bool {
        match (&self.checkpoints, is_kept) {
            (Some(checkpoints), true) => checkpoints.are_gone(),
            _ => matches!(self.state, State::Gone),
        }
    }

    /// The next thing that was told of a command, if there is one now.
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

    /// The build is over: what it has compiled last may be kept for the next.
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

/// Is the program worth a look? Most commands are no compilers, and there are many.
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
        // Said before a command was heard of, or late of one that was given up.
        Said::Hello { .. } | Said::Started { .. } | Said::Holding { .. } => None,
    }
}

#[cfg(test)]
mod tests;
