//! A process that stopped before its `main` and forks for each command: the user's own compiler.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tanto_sys::process::{Environment, count_inheritable_descriptors};

use super::NotInWorker;
use super::connection::WorkerConnection;
use super::frames::{PROTOCOL, Reply};
use super::identity::Stamp;
use super::server_process::ServerProcess;
use crate::input_recorder::{LIBRARY, PRELOAD_VARIABLE};

/// Descriptors of the socket and of the library, the number of other ones that processes inherit, and whether the code is
/// moved into huge pages: `SOCKET,LIBRARY,COUNT,HUGE`.
const SOCKET_VARIABLE: &str = "TANTO_FORK_SERVER";
/// The loader binds all functions at the start if it is set.
const BIND_VARIABLE: &str = "LD_BIND_NOW";
/// The loader's cache of the paths of libraries.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Directories below a searched one in which the loader looks for libraries for newer processors: the first one has a
/// directory for each level, the others are of glibc before 2.37 and can be nested.
const LEVELS_DIR: &str = "glibc-hwcaps";
const PROCESSOR_DIRS: [&str; 5] = ["tls", "x86_64", "haswell", "avx512_1", "xeon_phi"];
const PROCESSOR_DEPTH: u32 = 3;

/// When the loader looks up the functions of libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binding {
    /// At their first call, as in a process: to measure the cost of a start.
    Lazy,
    /// At the start: forks need not repeat it.
    AtStart,
}

/// How a server starts.
#[derive(Clone, Copy)]
pub(super) struct StartOptions {
    pub(super) binding: Binding,
    /// The program's code is moved into huge pages.
    pub(super) huge_pages: bool,
    /// Timeout of the start, and of each reply.
    pub(super) timeout: Duration,
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
    pub(super) fn start(
        program: &Path,
        library: &PreloadLibrary,
        environment: &[(OsString, OsString)],
        StartOptions { binding, huge_pages, timeout }: StartOptions,
    ) -> Result<ForkServer, String> {
        let started = SystemTime::now();
        let failed = |error: io::Error| format!("it does not start as a fork server: {error}");
        let inherited = count_inheritable_descriptors().map_err(failed)?;
        let library = library.0.as_raw_fd();
        let variables = |socket| {
            let preload = (PRELOAD_VARIABLE.into(), format!("/proc/self/fd/{library}").into());
            let server =
                (SOCKET_VARIABLE.into(), format!("{socket},{library},{inherited},{}", u8::from(huge_pages)).into());
            let bind = (BIND_VARIABLE.into(), "1".into());
            let own = [preload, server].into_iter().chain((binding == Binding::AtStart).then_some(bind));
            Environment::inherit_with(&environment.iter().cloned().chain(own).collect::<Vec<_>>())
        };
        let mut process = ServerProcess::start(program, timeout, library, variables).map_err(failed)?;
        let ready = process.connection.next().map_err(failed)?;
        let Reply::Ready { version: PROTOCOL, unusable, startup_us, fork_us, files, dirs } = ready else {
            return Err("it answers in another protocol".to_string());
        };
        if !unusable.is_empty() {
            return Err(String::from_utf8_lossy(&unusable).into_owned());
        }
        let files = stamps(program, &files, &dirs);
        if !are_mapped(process.pid(), &files) {
            return Err("its files changed during its start".to_string());
        }
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

/// Returns whether all files that the process has mapped are those at their paths now: a directory may have been
/// replaced since they were opened, which does not change the times of files.
fn are_mapped(pid: u32, files: &[(PathBuf, Option<Stamp>)]) -> bool {
    /// The library of the server, and shared memory.
    const MEMORY: [&[u8]; 2] = [b"/memfd:", b"/dev/zero (deleted)"];
    let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else { return false };
    let program = Stamp::of(Path::new(&format!("/proc/{pid}/exe")));
    program.is_some()
        && files.iter().any(|(_, stamp)| *stamp == program)
        && maps.split(|&byte| byte == b'\n').filter_map(mapped_file).all(|(inode, path)| {
            MEMORY.iter().any(|name| path.starts_with(name))
                || Stamp::of(Path::new(OsStr::from_bytes(path))).is_some_and(|it| it.inode() == inode)
        })
}

/// Returns the inode and the path in a line of `/proc/PID/maps`, if it maps a file.
fn mapped_file(line: &[u8]) -> Option<(i128, &[u8])> {
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    let inode = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(4)?;
    Some((std::str::from_utf8(inode).ok()?.parse().ok()?, path))
}

/// Lists everything that determines which program and libraries a process would load.
fn stamps(program: &Path, files: &[Vec<u8>], dirs: &[Vec<u8>]) -> Vec<(PathBuf, Option<Stamp>)> {
    // An empty directory in a search path is the current one.
    let path = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(if bytes.is_empty() { b"." } else { bytes }));
    let mut paths = vec![program.to_path_buf(), LOADER_CACHE.into()];
    paths.extend(files.iter().map(path));
    dirs.iter().map(path).for_each(|dir| add_searched(dir, PROCESSOR_DEPTH, &mut paths));
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().map(|path| (Stamp::of(&path), path)).map(|(stamp, path)| (path, stamp)).collect()
}

/// Adds a directory, and those below it that the loader searches. One that appears later changes its parent.
fn add_searched(dir: PathBuf, depth: u32, paths: &mut Vec<PathBuf>) {
    let levels = fs::read_dir(dir.join(LEVELS_DIR)).into_iter().flatten();
    paths.extend(levels.flatten().map(|level| level.path()));
    paths.push(dir.join(LEVELS_DIR));
    if depth > 0 {
        let inner = PROCESSOR_DIRS.map(|name| dir.join(name)).into_iter().filter(|inner| inner.is_dir());
        inner.for_each(|inner| add_searched(inner, depth - 1, paths));
    }
    paths.push(dir);
}
