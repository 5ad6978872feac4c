//! Job slots of a run: those of a `make` that runs it, or its own, offered to its jobs by a jobserver.

use std::os::unix::ffi::OsStrExt;

use tanto_exec::event::Level;
use tanto_exec::jobserver::role::{self, JobserverRole, makeflags};
use tanto_exec::jobserver::server::{MOST_SLOTS, Server};
use tanto_exec::jobserver::{self, Client, Jobserver, JobserverError};
use tanto_ninja::build_dir_lock::BuildDirLock;
use tanto_record::views::ninja::Verbosity;

use super::BuildRun;
use crate::invocation::Invocation;
use crate::settings::Options;

fn role(options: &Options, makeflags: &[u8]) -> JobserverRole {
    if options.dry_run {
        return JobserverRole::None;
    }
    let (settings, is_tanto) = (&options.settings, options.invocation == Invocation::Tanto);
    JobserverRole::of(settings.jobserver.value, is_tanto, settings.jobs.is_on_command_line(), makeflags)
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
        let opened = match fifo {
            true => {
                // Only the lock makes its path in the state directory unique.
                let is_unique = self.build_dir_lock.as_ref().is_some_and(BuildDirLock::is_held);
                let own = if is_unique { self.own_state(builddir) } else { None };
                role::open_fifo(parallelism, own.as_deref())
            }
            false => Server::pipe(parallelism),
        };
        let refused = |why: JobserverError| self.say(Level::Warning, &[b"no jobserver: ", &why.message()[..]].concat());
        opened.map_err(refused).ok().map(Jobserver::Server)
    }
}

/// The number of slots of which half may run while the CPUs are overloaded. A number chosen by the user is not reduced.
pub(super) fn yielding_slots(options: &Options, parallelism: usize) -> usize {
    if options.settings.jobs.is_set() { usize::MAX } else { parallelism }
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
}
