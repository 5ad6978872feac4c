//! The fork servers of a build: one for each compiler that it uses.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tanto_sys::ipc::poll::Watch;
use tanto_sys::machine::pressure::PressureMonitor;
use tanto_sys::process::Environment;

use super::NotInWorker;
use super::fork_server::{Binding, ForkServer, PreloadLibrary, StartOptions};
use super::frames::Reply;
use super::identity::Stamp;
use super::startup_costs::{self, StartupCost};
use crate::elf;

/// Maximum number of servers at a time.
pub(super) const MAX_SERVERS: usize = 4;
/// A build of this many commands starts the server of a known compiler at its first command.
const MANY_COMMANDS: usize = 8;
/// A build of this many commands moves the code of compilers into huge pages if this much memory is free, in KiB: it takes
/// 190 MiB for each clang.
const MANY_FOR_HUGE_PAGES: usize = 256;
const FREE_FOR_HUGE_PAGES: u64 = 4 << 20;
/// Maximum number of servers of one program in a build. More are not worth it: it changes all the time.
const MAX_STARTS: u32 = 3;

/// Timeout of replies. Commands run as processes after it, so it is short.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of replies if commands may not run as processes: a compiler that is not in the page cache takes a while to load.
const REQUIRED_TIMEOUT: Duration = Duration::from_secs(120);

const JUST_CHANGED: &str = "it has just changed";
const NOT_CHEAPER: &str = "a fork of it is not cheaper than a process";
const TOO_MANY: &str = "other compilers have all fork servers of this build";

/// The number of a server in this build.
pub(super) type ServerNumber = u32;

pub(super) struct ForkServers {
    /// File with the costs of earlier builds.
    costs_file: PathBuf,
    /// All programs are forked, whether it is cheaper or not.
    required: bool,
    /// The number of commands in the build's plan.
    planned: usize,
    /// The variables of all commands, without those that are set per command.
    environment: Vec<(OsString, OsString)>,
    library: Option<PreloadLibrary>,
    servers: Vec<Numbered>,
    next_number: ServerNumber,
    programs: HashMap<PathBuf, KnownProgram>,
    /// Read on first use.
    costs: Option<Vec<StartupCost>>,
}

struct Numbered {
    number: ServerNumber,
    program: PathBuf,
    server: ForkServer,
    /// Its program has changed. It ends after its last command.
    is_outdated: bool,
}

/// What this build knows about a program.
#[derive(Default)]
struct KnownProgram {
    commands: u32,
    starts: u32,
    /// Why this version cannot be forked.
    unusable: Option<(Option<Stamp>, String)>,
}

impl ForkServers {
    pub(super) fn new(costs_file: PathBuf, required: bool, planned: usize, environment: &Environment) -> ForkServers {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let environment = environment.iter().map(|(name, value)| (text(name), text(value))).collect();
        let (library, servers, programs, costs) = (None, Vec::new(), HashMap::new(), None);
        ForkServers { costs_file, required, planned, environment, library, servers, next_number: 0, programs, costs }
    }

    /// Starts a command in a fork of this program. Returns its process ID and the number of the server.
    pub(super) fn run(
        &mut self,
        program: &Path,
        id: u64,
        frame: &[u8],
        with: &[BorrowedFd<'_>],
    ) -> Result<(u32, ServerNumber), NotInWorker> {
        let at = match self.current_server(program) {
            Some(at) => at,
            None => self.start(program)?,
        };
        let Numbered { number, server, .. } = &mut self.servers[at];
        match server.run(id, frame, with) {
            Ok(pid) => Ok((pid, *number)),
            Err(why) => {
                if matches!(why, NotInWorker::WorkerGone) {
                    self.servers.swap_remove(at);
                }
                Err(why)
            }
        }
    }

    /// Returns the index of the program's server, and retires one whose program has changed.
    fn current_server(&mut self, program: &Path) -> Option<usize> {
        let at = self.servers.iter().position(|it| it.program == program && !it.is_outdated)?;
        if self.servers[at].server.is_current() {
            return Some(at);
        }
        self.servers[at].is_outdated = true;
        self.end_outdated();
        None
    }

    /// Ends servers of changed programs without commands.
    fn end_outdated(&mut self) {
        self.servers.retain(|it| !(it.is_outdated && it.server.is_idle()));
    }

    /// Starts a server, unless that is impossible or not worth it. Returns its index.
    fn start(&mut self, program: &Path) -> Result<usize, NotInWorker> {
        let is_worthwhile = self.required || self.planned >= MANY_COMMANDS && self.known_cost(program).is_some();
        let known = self.programs.entry(program.to_path_buf()).or_default();
        known.commands += 1;
        if known.commands == 1 && !is_worthwhile {
            return Err(NotInWorker::FirstCommand);
        }
        let not_forked = |reason: &str| NotInWorker::NotForked(program.to_path_buf(), reason.to_string());
        if self.servers.len() >= MAX_SERVERS {
            return Err(not_forked(TOO_MANY));
        }
        let stamp = Stamp::of(program);
        if let Some((its, reason)) = &known.unusable
            && *its == stamp
        {
            return Err(not_forked(reason));
        }
        if known.starts >= MAX_STARTS {
            return Err(not_forked("it changes during the build"));
        }
        if stamp.is_none_or(|stamp| !stamp.is_older(SystemTime::now())) {
            return Err(not_forked(JUST_CHANGED));
        }
        known.starts += 1;
        let started = self.start_new(program);
        if let Err(reason) = &started {
            let known = self.programs.entry(program.to_path_buf()).or_default();
            known.unusable = Some((stamp, reason.clone()));
        }
        started.map_err(|reason| not_forked(&reason))
    }

    fn start_new(&mut self, program: &Path) -> Result<usize, String> {
        check_program(program)?;
        let was_cheaper = self.known_cost(program).map(StartupCost::is_fork_cheaper);
        if was_cheaper == Some(false) && !self.required {
            return Err(NOT_CHEAPER.to_string());
        }
        let is_new = was_cheaper.is_none();
        let stamp = Stamp::of(program);
        let library = match &mut self.library {
            Some(library) => library,
            none => none.insert(PreloadLibrary::create().map_err(|error| error.to_string())?),
        };
        let binding = if is_new { Binding::Lazy } else { Binding::AtStart };
        let huge_pages = self.planned >= MANY_FOR_HUGE_PAGES && has_memory_for_huge_pages();
        let timeout = if self.required { REQUIRED_TIMEOUT } else { TIMEOUT };
        let options = StartOptions { binding, huge_pages, timeout };
        let server = ForkServer::start(program, library, &self.environment, options)?;
        if let Some(stamp) = stamp.filter(|_| is_new) {
            let (program, startup_us, fork_us) = (program.to_path_buf(), server.startup_us, server.fork_us);
            let cost = StartupCost { program, stamp, startup_us, fork_us };
            let is_cheaper = cost.is_fork_cheaper();
            let costs = self.costs.get_or_insert_default();
            costs.push(cost);
            // Without the file, the next build measures again.
            let _ = startup_costs::write(&self.costs_file, costs);
            if !is_cheaper && !self.required {
                return Err(NOT_CHEAPER.to_string());
            }
        }
        self.next_number += 1;
        let number = self.next_number;
        self.servers.push(Numbered { number, program: program.to_path_buf(), server, is_outdated: false });
        Ok(self.servers.len() - 1)
    }

    /// Returns the cost that an earlier server of this program had.
    fn known_cost(&mut self, program: &Path) -> Option<&StartupCost> {
        let costs = self.costs.get_or_insert_with(|| startup_costs::read(&self.costs_file));
        costs.iter().find(|it| it.program == program)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.servers.iter().map(|it| it.server.pid())
    }

    /// Watches all servers: readable on messages, and when they are gone.
    pub(super) fn watches(&self) -> [Watch; MAX_SERVERS] {
        std::array::from_fn(|at| self.servers.get(at).map_or(Watch::none(), |it| it.server.connection().watch()))
    }

    /// Returns whether no more messages of this server can come.
    pub(super) fn is_gone(&self, number: ServerNumber) -> bool {
        self.find(number).is_none()
    }

    fn find(&self, number: ServerNumber) -> Option<&Numbered> {
        self.servers.iter().find(|it| it.number == number)
    }

    /// Returns the next message, if there is one.
    pub(super) fn try_next(&mut self) -> Option<Reply> {
        let mut at = 0;
        while let Some(it) = self.servers.get_mut(at) {
            match it.server.try_next() {
                Ok(Some(reply)) => {
                    self.end_outdated();
                    return Some(reply);
                }
                Ok(None) => at += 1,
                Err(_) => drop(self.servers.remove(at)),
            }
        }
        None
    }

    /// Waits for a message of this server. Returns false if none can come.
    pub(super) fn wait(&self, number: ServerNumber) -> bool {
        self.find(number).is_some_and(|it| it.server.connection().wait().is_ok())
    }
}

fn has_memory_for_huge_pages() -> bool {
    PressureMonitor::open().sample().free_kib.is_some_and(|free| free >= FREE_FOR_HUGE_PAGES)
}

/// Returns an error if the library cannot be loaded into the program.
fn check_program(program: &Path) -> Result<(), String> {
    const LIBRARIES_OF_ALL: &str = "/etc/ld.so.preload";
    let Some(loader) = elf::loader(program) else { return Err("it is linked statically".to_string()) };
    if !loader.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-linux")) {
        return Err("its C library is not glibc".to_string());
    }
    if std::fs::metadata(LIBRARIES_OF_ALL).is_ok_and(|data| data.len() > 0) {
        return Err(format!("{LIBRARIES_OF_ALL} loads libraries into all programs"));
    }
    Ok(())
}
