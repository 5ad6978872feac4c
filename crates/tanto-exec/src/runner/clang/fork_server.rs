//! A process that stopped before its `main` and forks for each command: the user's own compiler.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_sys::process::{Environment, count_inheritable_descriptors};

use super::NotInWorker;
use super::connection::WorkerConnection;
use super::frames::{PROTOCOL, Reply};
use super::identity::Stamp;
use super::server_process::ServerProcess;
use crate::input_recorder::{LIBRARY, PRELOAD_VARIABLE};

/// Descriptors of the socket and of the library, and the number of other ones that processes inherit:
/// `SOCKET,LIBRARY,COUNT`.
const SOCKET_VARIABLE: &str = "TANTO_FORK_SERVER";
/// The loader binds all functions at the start if it is set.
const BIND_VARIABLE: &str = "LD_BIND_NOW";
/// The loader's cache of the paths of libraries.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Libraries for newer processors are below it, in a directory for each level.
const PROCESSOR_DIR: &str = "glibc-hwcaps";
/// When the loader looks up the functions of libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binding {
    /// At their first call, as in a process: to measure the cost of a start.
    Lazy,
    /// At the start: forks need not repeat it.
    AtStart,
}

pub(super) struct ForkServer {
    process: ServerProcess,
    /// The program and all that it has loaded, and the directories that were searched.
    files: Vec<(PathBuf, Option<Stamp>)>,
    pub(super) startup_us: u64,
    pub(super) fork_us: u64,
    /// Commands that are not gone.
    running: usize,
}

/// The library in memory, which each server loads.
pub(super) struct PreloadLibrary(File);

impl PreloadLibrary {
    pub(super) fn create() -> io::Result<PreloadLibrary> {
        tanto_sys::fs::file::in_memory(LIBRARY).map(PreloadLibrary)
    }
}

impl ForkServer {
    /// Starts a program, and waits until it is ready.
    pub(super) fn start(program: &Path, library: &PreloadLibrary, binding: Binding) -> Result<ForkServer, String> {
        let started = SystemTime::now();
        let failed = |error: io::Error| format!("it does not start as a fork server: {error}");
        let inherited = count_inheritable_descriptors().map_err(failed)?;
        let library = library.0.as_raw_fd();
        let variables = |socket| {
            let preload = (PRELOAD_VARIABLE.into(), format!("/proc/self/fd/{library}").into());
            let server = (SOCKET_VARIABLE.into(), format!("{socket},{library},{inherited}").into());
            match binding {
                Binding::Lazy => Environment::inherit_with(&[preload, server]),
                Binding::AtStart => Environment::inherit_with(&[preload, server, (BIND_VARIABLE.into(), "1".into())]),
            }
        };
        let mut process = ServerProcess::start(program, library, variables).map_err(failed)?;
        let ready = process.connection.next().map_err(failed)?;
        let Reply::Ready { version: PROTOCOL, unusable, startup_us, fork_us, files, dirs } = ready else {
            return Err("it answers in another protocol".to_string());
        };
        if !unusable.is_empty() {
            return Err(String::from_utf8_lossy(&unusable).into_owned());
        }
        let files = stamps(program, &files, &dirs);
        match files.iter().find(|(_, stamp)| stamp.is_some_and(|stamp| !stamp.is_older(started))) {
            Some((path, _)) => Err(format!("{} has just changed", path.display())),
            None => Ok(ForkServer { process, files, startup_us, fork_us, running: 0 }),
        }
    }

    /// Returns whether a process would still run the same program with the same libraries.
    pub(super) fn is_current(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// Starts a command; returns its process ID.
    pub(super) fn run(&mut self, id: u64, frame: &[u8], with: &[BorrowedFd<'_>]) -> Result<u32, NotInWorker> {
        let pid = self.process.connection.run(id, frame, with)?;
        self.running += 1;
        Ok(pid)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn connection(&self) -> &WorkerConnection {
        &self.process.connection
    }

    /// Returns the next message, if there is one. An error means that the server is gone.
    pub(super) fn try_next(&mut self) -> io::Result<Option<Reply>> {
        let reply = self.process.connection.try_next()?;
        if matches!(reply, Some(Reply::Gone { .. })) {
            self.running = self.running.saturating_sub(1);
        }
        Ok(reply)
    }
}

/// Lists everything that determines which program and libraries a process would load.
fn stamps(program: &Path, files: &[Vec<u8>], dirs: &[Vec<u8>]) -> Vec<(PathBuf, Option<Stamp>)> {
    let path = |bytes: &Vec<u8>| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let mut paths = vec![program.to_path_buf(), LOADER_CACHE.into()];
    paths.extend(files.iter().map(path));
    for dir in dirs.iter().map(path) {
        let levels = std::fs::read_dir(dir.join(PROCESSOR_DIR)).into_iter().flatten();
        paths.extend(levels.flatten().map(|level| level.path()));
        paths.push(dir.join(PROCESSOR_DIR));
        paths.push(dir);
    }
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().map(|path| (Stamp::of(&path), path)).map(|(stamp, path)| (path, stamp)).collect()
}
