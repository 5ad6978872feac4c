//! Compilers in forks: a fork server for each compiler, or a checkpoint of an earlier compile of the same file.
//!
//! Results are those of a process.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tanto_sys::fs::file;
use tanto_sys::ipc::poll::Watch;
use tanto_sys::ipc::seqpacket::MAX_DESCRIPTORS;
use tanto_sys::process::{Argv, Child, Environment, ExitReport, ExitStatus};

use self::checkpoints::Checkpoints;
use self::fork_servers::{ForkServers, MAX_SERVERS, ServerNumber};
use self::frames::{Reply, Run, Used};
use self::identity::FoundProgram;

mod checkpoint_daemon;
mod checkpoints;
mod connection;
mod fork_server;
mod fork_servers;
mod frames;
mod identity;
mod identity_cache;
pub mod installation;
mod require;
mod response;
mod server_process;
mod startup_costs;

pub use self::checkpoint_daemon::{Held, held, is_checkpoint_daemon, stop};
pub use self::checkpoints::CheckpointOptions;
pub use self::frames::Without;
use self::identity::loader_variable;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    /// File with the startup costs of compilers.
    pub costs_file: PathBuf,
    /// A compile that cannot run in a fork is an error.
    pub required: bool,
    /// The number of commands in the build's plan.
    pub planned: usize,
    pub checkpoints: Option<CheckpointOptions>,
}

/// Runs compiles in forks.
pub(super) struct Worker {
    required: bool,
    servers: ForkServers,
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

/// The process that forks for a command, and reports about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    ForkServer(ServerNumber),
    /// The checkpoint daemon.
    Checkpoint,
}

/// A running command, by its number in the protocol.
pub(super) struct WorkerJobId {
    pub(super) id: u64,
    pub(super) origin: Origin,
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
    #[error("{}: {}", .0.display(), .1)]
    NotForked(PathBuf, String),
    /// A build with one compile does not need a server.
    #[error("it is the first command of its compiler")]
    FirstCommand,
    #[error("its directory cannot be opened")]
    Directory,
    #[error("it is too long")]
    TooLong,
    #[error("it needs more control groups than a fork can enter")]
    ControlGroups,
    #[error("the fork server is busy")]
    Busy,
    #[error("the fork server is gone")]
    WorkerGone,
    /// The reason of the fork. Empty: the command failed, and the process prints more.
    #[error("{}", String::from_utf8_lossy(.0))]
    Declined(Vec<u8>),
}

/// Message about a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WorkerMessage {
    Ended(ExitReport),
    /// It has to run as a process, for this reason. Empty: it failed, and the process prints more.
    Declined(Vec<u8>),
    /// Its process is gone. Without a previous message, it has to run as a process.
    Gone,
}

/// More control groups than a job has.
const MAX_CGROUP_FILES: usize = MAX_DESCRIPTORS - 4;
/// Descriptors that are watched.
pub(super) const WATCHES: usize = MAX_SERVERS + 1;

impl Worker {
    /// Returns `None` if the environment requires processes. Starts nothing yet.
    pub(super) fn new(options: WorkerOptions, environment: &Environment) -> Option<Worker> {
        if loader_variable(environment).is_some() {
            return None;
        }
        let checkpoints = options.checkpoints.and_then(|wanted| Checkpoints::new(wanted, environment));
        let servers = ForkServers::new(options.costs_file, options.required, options.planned, environment);
        Some(Worker { required: options.required, servers, next: 0, common: None, checkpoints })
    }

    /// Starts the command in a fork. One that records its inputs never continues from a checkpoint: the fork would not
    /// repeat what the checkpoint has looked at.
    pub(super) fn start(
        &mut self,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
        is_recorded: bool,
    ) -> Result<(Child, WorkerJobId), NotInWorker> {
        let name = words.iter().next().unwrap_or_default();
        let not_clang = || NotInWorker::NotClang(name.to_vec());
        if !may_be_clang(name) {
            return Err(not_clang());
        }
        if cgroup_files.len() > MAX_CGROUP_FILES {
            return Err(NotInWorker::ControlGroups);
        }
        let path = environment.get(b"PATH").unwrap_or_default();
        let program = identity::find(name, path).ok_or_else(not_clang)?;
        self.fork(&program, words, environment, cgroup_files, is_recorded)
    }

    /// Returns an error if forks are required and this command compiles, but has to run as a process.
    pub(super) fn check_required(&self, line: &[u8], why: NotInWorker) -> io::Result<()> {
        match why {
            NotInWorker::Busy => return Ok(()),
            NotInWorker::Declined(why) if why.is_empty() => return Ok(()),
            _ if !self.required || !require::compiles(line) => return Ok(()),
            _ => {}
        }
        Err(io::Error::other(format!(
            "--clang-worker=require: a command cannot run in a fork of its compiler: {why}\n  {}\n\
             --clang-worker=auto runs such commands as processes",
            String::from_utf8_lossy(line)
        )))
    }

    fn fork(
        &mut self,
        program: &FoundProgram,
        words: &Argv,
        environment: &Environment,
        cgroup_files: &[File],
        is_recorded: bool,
    ) -> Result<(Child, WorkerJobId), NotInWorker> {
        self.next += 1;
        let id = self.next;
        if self.common.is_none() {
            self.common = Common::find();
        }
        let Common { directory, nothing, umask } = self.common.as_ref().ok_or(NotInWorker::Directory)?;
        let strings: Vec<&[u8]> = environment.strings().collect();
        let clang = program.path.as_os_str().as_bytes();
        let run = Run { id, umask: *umask, clang, lld: b"", words, environment: &strings };
        // Without descriptors for a pipe, a process fails with ninja's message.
        let (Some(frame), Ok((output, written))) = (frames::encode(&run), io::pipe()) else {
            return Err(NotInWorker::TooLong);
        };
        let mut with = vec![directory.as_fd(), nothing.as_fd(), written.as_fd(), written.as_fd()];
        with.extend(cgroup_files.iter().map(AsFd::as_fd));
        if let Some(checkpoints) = self.checkpoints.as_mut().filter(|_| !is_recorded)
            && let Some(pid) = checkpoints.run(&program.real, &run, &with)
        {
            let job = WorkerJobId { id, origin: Origin::Checkpoint, is_verified: checkpoints.is_verified_next() };
            return Ok((Child::with_other_parent(pid, output), job));
        }
        let (pid, server) = self.servers.run(&program.real, id, &frame, &with)?;
        let job = WorkerJobId { id, origin: Origin::ForkServer(server), is_verified: false };
        Ok((Child::with_other_parent(pid, output), job))
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.servers.pids()
    }

    /// Watches the fork servers and the checkpoint daemon: readable on messages, and when they are gone.
    pub(super) fn watches(&self) -> [Watch; WATCHES] {
        let mut watches = [Watch::none(); WATCHES];
        watches[..MAX_SERVERS].copy_from_slice(&self.servers.watches());
        watches[MAX_SERVERS] = self.checkpoints.as_ref().map_or(Watch::none(), Checkpoints::watch);
        watches
    }

    /// Returns whether no more messages can come from there.
    pub(super) fn is_gone(&self, origin: Origin) -> bool {
        match origin {
            Origin::ForkServer(number) => self.servers.is_gone(number),
            Origin::Checkpoint => self.checkpoints.as_ref().is_none_or(Checkpoints::are_gone),
        }
    }

    /// Returns the next message about a command, if there is one.
    pub(super) fn next_message(&mut self) -> Option<(u64, WorkerMessage)> {
        loop {
            let reply =
                self.checkpoints.as_mut().and_then(Checkpoints::try_next).or_else(|| self.servers.try_next())?;
            if let Some(message) = message_of(reply) {
                return Some(message);
            }
        }
    }

    /// Waits until the processes of these commands are gone.
    pub(super) fn wait_until_gone(&mut self, mut ids: Vec<(u64, Origin)>) {
        loop {
            if let Some((id, message)) = self.next_message() {
                if message == WorkerMessage::Gone {
                    ids.retain(|(its, _)| *its != id);
                }
                continue;
            }
            let Some(&(_, origin)) = ids.iter().find(|(_, origin)| !self.is_gone(*origin)) else { return };
            let may_come = match (origin, &self.checkpoints) {
                (Origin::ForkServer(number), _) => self.servers.wait(number),
                (Origin::Checkpoint, Some(checkpoints)) => checkpoints.wait().is_ok(),
                (Origin::Checkpoint, None) => false,
            };
            if !may_come {
                return;
            }
        }
    }

    /// Called at the end of a build: recent compiles may be kept as checkpoints.
    pub(super) fn rest(&mut self) {
        if let (Some(checkpoints), Some(Common { directory, nothing, .. })) = (&mut self.checkpoints, &self.common) {
            let nothing = nothing.as_fd();
            checkpoints.rest(&[directory.as_fd(), nothing, nothing, nothing]);
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
    matches!(file, b"cc" | b"c++" | b"CC" | b"ld.lld") || file.windows(5).any(|part| part == b"clang")
}

fn message_of(reply: Reply) -> Option<(u64, WorkerMessage)> {
    match reply {
        Reply::Ended { id, status, used } => {
            let status = ExitStatus::of(status.cast_signed());
            let Used { user_us, system_us, max_rss_kib, read_bytes, written_bytes } = used;
            Some((
                id,
                WorkerMessage::Ended(ExitReport { status, user_us, system_us, max_rss_kib, read_bytes, written_bytes }),
            ))
        }
        Reply::Declined { id, why } => Some((id, WorkerMessage::Declined(why))),
        Reply::Gone { id } => Some((id, WorkerMessage::Gone)),
        // Late messages about commands that were given up.
        Reply::Hello { .. } | Reply::Ready { .. } | Reply::Started { .. } | Reply::Holding { .. } => None,
    }
}

#[cfg(test)]
mod tests;
