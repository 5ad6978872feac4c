//! Job slots of a run: those of a `make` that runs it, or its own, offered to its jobs by a jobserver.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::event::Level;
use tanto_exec::jobserver::makeflags::names_a_server;
use tanto_exec::jobserver::server::{MOST_SLOTS, Server};
use tanto_exec::jobserver::{self, Client, Jobserver, JobserverError};
use tanto_record::views::ninja::Verbosity;

use super::BuildRun;
use crate::invocation::Invocation;
use crate::settings::Options;
use crate::settings::values::JobserverMode;

const FLAGS: &str = "MAKEFLAGS";
/// Takes precedence in `cargo`.
const CARGO_FLAGS: &str = "CARGO_MAKEFLAGS";
const FIFO: &str = "jobserver";

#[derive(PartialEq, Eq, Debug)]
enum JobserverRole {
    None,
    Client,
    /// `fifo`: through a named pipe.
    Server {
        fifo: bool,
    },
}

fn role(options: &Options, makeflags: &[u8]) -> JobserverRole {
    match options.settings.jobserver.value {
        _ if options.dry_run => JobserverRole::None,
        JobserverMode::Off => JobserverRole::None,
        JobserverMode::On => JobserverRole::Server { fifo: false },
        JobserverMode::Fifo => JobserverRole::Server { fifo: true },
        JobserverMode::Auto if names_a_server(makeflags) || options.invocation == Invocation::Ninja => {
            match options.settings.jobs.is_on_command_line() {
                true => JobserverRole::None,
                false => JobserverRole::Client,
            }
        }
        JobserverMode::Auto => JobserverRole::Server { fifo: false },
    }
}

fn makeflags() -> Option<OsString> {
    std::env::var_os(FLAGS)
}

impl BuildRun<'_> {
    fn role(&self) -> JobserverRole {
        role(self.options, makeflags().unwrap_or_default().as_bytes())
    }

    /// Connects to the jobserver in `MAKEFLAGS`, if the options allow it.
    pub(super) fn connect_jobserver(&mut self) -> Option<Client> {
        if self.role() != JobserverRole::Client {
            return None;
        }
        let connection = jobserver::connect(makeflags().as_deref().map(OsStrExt::as_bytes));
        for notice in connection.notices {
            if !notice.with_status || self.options.settings.verbosity.value != Verbosity::Quiet {
                self.say(notice.level, &notice.text);
            }
        }
        connection.client
    }

    /// Returns the client, or starts a server with `parallelism` slots.
    pub(super) fn open_jobserver(
        &mut self,
        client: Option<Client>,
        parallelism: usize,
        builddir: &[u8],
    ) -> Option<Jobserver> {
        if let Some(client) = client {
            return Some(Jobserver::Client(client));
        }
        let JobserverRole::Server { fifo } = self.role() else { return None };
        // An unlimited build has no slots to share.
        if parallelism > MOST_SLOTS {
            return None;
        }
        match if fifo { self.fifo(parallelism, builddir) } else { Server::pipe(parallelism) } {
            Ok(server) => Some(Jobserver::Server(server)),
            Err(why) => {
                self.say(Level::Warning, &[b"no jobserver: ", &why.message()[..]].concat());
                None
            }
        }
    }

    fn fifo(&self, parallelism: usize, builddir: &[u8]) -> Result<Server, JobserverError> {
        let mut refusal = None;
        for path in self.fifo_paths(builddir).iter().filter(|path| is_allowed_in_makeflags(path)) {
            match Server::fifo(parallelism, path) {
                Ok(server) => return Ok(server),
                Err(why) => refusal = Some(why),
            }
        }
        Err(refusal.unwrap_or(JobserverError::NoFifoPath))
    }

    /// Paths for the named pipe: in Tanto's own state, if the lock makes it unique, then in the temporary directory.
    fn fifo_paths(&self, builddir: &[u8]) -> Vec<PathBuf> {
        let mut places = Vec::new();
        if self.build_dir_lock.as_ref().is_some_and(|build_dir_lock| build_dir_lock.is_held())
            && let (Some(own), Ok(directory)) = (self.own_state(builddir), std::env::current_dir())
        {
            let path = directory.join(own).join(FIFO);
            // Left by a killed process.
            let _ = fs::remove_file(&path);
            places.push(path);
        }
        let pid = std::process::id();
        places.extend((0..8).map(|number| std::env::temp_dir().join(format!("tanto-{FIFO}.{pid}.{number}"))));
        places
    }
}

/// The number of slots of which half may run while the CPUs are overloaded. A number chosen by the user is not reduced.
pub(super) fn yielding_slots(options: &Options, parallelism: usize) -> usize {
    if options.settings.jobs.is_set() { usize::MAX } else { parallelism }
}

/// Returns whether the path can be part of `MAKEFLAGS`: absolute, and without special characters of make or the shell.
fn is_allowed_in_makeflags(path: &Path) -> bool {
    let is_allowed_in_makeflags =
        |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-+,=:@%".contains(byte);
    path.is_absolute() && path.as_os_str().as_bytes().iter().all(is_allowed_in_makeflags)
}

/// Environment variables for commands.
pub(super) fn environment(share: Option<&Jobserver>) -> Vec<(OsString, OsString)> {
    let Some(Jobserver::Server(server)) = share else { return Vec::new() };
    let flags = OsString::from_vec(server.makeflags(makeflags().unwrap_or_default().as_bytes()));
    let for_cargo = std::env::var_os(CARGO_FLAGS).map(|_| (CARGO_FLAGS.into(), flags.clone()));
    for_cargo.into_iter().chain([(FLAGS.into(), flags)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EnvVars;

    const SERVER: &str = " -j4 --jobserver-auth=3,4";

    fn options(invocation: Invocation, args: &str, around: &EnvVars) -> Options {
        let args: Vec<Vec<u8>> = args.split_whitespace().map(Vec::from).collect();
        crate::settings::options(invocation, &args, around, &mut |_| {}).unwrap()
    }

    fn role_of(invocation: Invocation, args: &str, makeflags: &str) -> JobserverRole {
        role(&options(invocation, args, &EnvVars::default()), makeflags.as_bytes())
    }

    #[test]
    fn only_the_default_number_of_jobs_yields() {
        let none = EnvVars::default();
        let variable = EnvVars::from([("TANTO_FLAGS", "-j 4")]);
        assert_eq!(yielding_slots(&options(Invocation::Tanto, "", &none), 4), 4);
        assert_eq!(yielding_slots(&options(Invocation::Tanto, "-j4", &none), 4), usize::MAX);
        assert_eq!(yielding_slots(&options(Invocation::Tanto, "", &variable), 4), usize::MAX);
    }

    #[test]
    fn tanto_build_serves_unless_it_is_a_client() {
        const PIPE: JobserverRole = JobserverRole::Server { fifo: false };
        let tanto = |args, makeflags| role_of(Invocation::Tanto, args, makeflags);
        for args in ["", "-j4", "--jobserver=auto"] {
            assert_eq!(tanto(args, "k"), PIPE, "{args}");
        }
        assert_eq!([tanto("", SERVER), tanto("-j4", SERVER)], [JobserverRole::Client, JobserverRole::None]);
        assert_eq!([tanto("--jobserver=on", SERVER), tanto("-j4 --jobserver=on", "")], [PIPE, PIPE]);
        assert_eq!(tanto("--jobserver=fifo", SERVER), JobserverRole::Server { fifo: true });
        assert_eq!(
            [tanto("--jobserver=off", SERVER), tanto("-n", ""), tanto("-n", SERVER)],
            [const { JobserverRole::None }; 3]
        );
    }

    #[test]
    fn ninja_serves_only_on_request() {
        let ninja = |args, makeflags| role_of(Invocation::Ninja, args, makeflags);
        assert_eq!([ninja("", ""), ninja("", SERVER)], [const { JobserverRole::Client }; 2]);
        assert_eq!([ninja("-j4", SERVER), ninja("-n", SERVER)], [const { JobserverRole::None }; 2]);
        assert_eq!(ninja("--jobserver=on", SERVER), JobserverRole::Server { fifo: false });
    }

    #[test]
    fn path_with_special_characters_is_not_allowed_in_makeflags() {
        assert!(is_allowed_in_makeflags(Path::new("/a/b-c_d.e")));
        for other in ["a/b", "/a b", "/a$b", "/a\\b", "/a\tb", "/a'b", "/a#b", "/a;b"] {
            assert!(!is_allowed_in_makeflags(Path::new(other)), "{other}");
        }
    }
}
