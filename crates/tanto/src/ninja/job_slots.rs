//! Whose job slots the commands of a run take: those of a `make` that runs us, or our own, which what they start takes
//! too. Does not know how a slot is taken.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::event::Level;
use tanto_exec::jobserver::makeflags::names_a_server;
use tanto_exec::jobserver::server::{MOST_SLOTS, Server};
use tanto_exec::jobserver::{self, Client, Jobserver, JobserverError};
use tanto_record::views::ninja::Verbosity;

use super::Invocation;
use crate::flags::Options;
use crate::flags::door::Door;
use crate::settings::layer::JobserverMode;

/// Where flags are for every `make`; others read them too.
const FLAGS: &str = "MAKEFLAGS";
/// Where `cargo` looks first.
const CARGO_FLAGS: &str = "CARGO_MAKEFLAGS";
/// A named pipe's name.
const FIFO: &str = "jobserver";

/// Our part.
#[derive(PartialEq, Eq, Debug)]
enum Part {
    None,
    Client,
    /// Through a named pipe?
    Server {
        fifo: bool,
    },
}

fn part(options: &Options, makeflags: &[u8]) -> Part {
    match options.jobserver {
        _ if options.dry_run => Part::None,
        JobserverMode::Off => Part::None,
        JobserverMode::On => Part::Server { fifo: false },
        JobserverMode::Fifo => Part::Server { fifo: true },
        JobserverMode::Auto if names_a_server(makeflags) || options.door == Door::Ninja => match options.typed_jobs {
            true => Part::None,
            false => Part::Client,
        },
        JobserverMode::Auto => Part::Server { fifo: false },
    }
}

fn makeflags() -> Option<OsString> {
    std::env::var_os(FLAGS)
}

impl Invocation<'_> {
    fn part(&self) -> Part {
        part(self.options, makeflags().unwrap_or_default().as_bytes())
    }

    /// The jobserver of a `make` that runs us, if we are to take part in it.
    pub(super) fn client(&mut self) -> Option<Client> {
        if self.part() != Part::Client {
            return None;
        }
        let connection = jobserver::connect(makeflags().as_deref().map(OsStrExt::as_bytes));
        for notice in connection.notices {
            if !notice.with_status || self.options.verbosity != Verbosity::Quiet {
                self.say(notice.level, &notice.text);
            }
        }
        connection.client
    }

    /// Slots that others take too: those, or `parallelism` of our own.
    pub(super) fn share(&mut self, client: Option<Client>, parallelism: usize, builddir: &[u8]) -> Option<Jobserver> {
        if let Some(client) = client {
            return Some(Jobserver::Client(client));
        }
        let Part::Server { fifo } = self.part() else { return None };
        // Without a limit there is nothing to share.
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
        for path in self.fifo_places(builddir).iter().filter(|path| is_plain(path)) {
            match Server::fifo(parallelism, path) {
                Ok(server) => return Ok(server),
                Err(why) => refusal = Some(why),
            }
        }
        Err(refusal.unwrap_or(JobserverError::NoFifoPath))
    }

    /// The place of our own state, where nobody else is while we have our turn; then the system's place for such things.
    fn fifo_places(&self, builddir: &[u8]) -> Vec<PathBuf> {
        let mut places = Vec::new();
        if self.turn.as_ref().is_some_and(|turn| turn.is_mine())
            && let (Some(own), Ok(directory)) = (self.own_state(builddir), std::env::current_dir())
        {
            let path = directory.join(own).join(FIFO);
            // One that was killed has left it there.
            let _ = fs::remove_file(&path);
            places.push(path);
        }
        let pid = std::process::id();
        places.extend((0..8).map(|number| std::env::temp_dir().join(format!("tanto-{FIFO}.{pid}.{number}"))));
        places
    }
}

/// Of how many commands half may run while the processors have too much to do. A number that the user chose is not lowered,
/// whatever else runs on the machine.
pub(super) fn yielding(options: &Options, parallelism: usize) -> usize {
    if options.own_jobs { usize::MAX } else { parallelism }
}

/// It can be named in `MAKEFLAGS`: absolute, and without a byte that make, or a shell that makes a command of it, takes
/// for something else.
fn is_plain(path: &Path) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-+,=:@%".contains(byte);
    path.is_absolute() && path.as_os_str().as_bytes().iter().all(is_plain)
}

/// What commands find in their environment because of these slots.
pub(super) fn environment(share: Option<&Jobserver>) -> Vec<(OsString, OsString)> {
    let Some(Jobserver::Server(server)) = share else { return Vec::new() };
    let flags = OsString::from_vec(server.makeflags(makeflags().unwrap_or_default().as_bytes()));
    let for_cargo = std::env::var_os(CARGO_FLAGS).map(|_| (CARGO_FLAGS.into(), flags.clone()));
    for_cargo.into_iter().chain([(FLAGS.into(), flags)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Surroundings;

    const SERVER: &str = " -j4 --jobserver-auth=3,4";

    fn options(door: Door, args: &str, around: &Surroundings) -> Options {
        let args: Vec<Vec<u8>> = args.split_whitespace().map(Vec::from).collect();
        crate::flags::options(door, b"x", &args, around, &mut |_| {}).unwrap()
    }

    fn part_of(door: Door, args: &str, makeflags: &str) -> Part {
        part(&options(door, args, &Surroundings::default()), makeflags.as_bytes())
    }

    #[test]
    fn only_a_number_that_nobody_chose_yields_to_other_processes() {
        let none = Surroundings::default();
        let variable = Surroundings { flags: Some("-j 4".into()), ..Surroundings::default() };
        assert_eq!(yielding(&options(Door::Tanto, "", &none), 4), 4);
        assert_eq!(yielding(&options(Door::Tanto, "-j4", &none), 4), usize::MAX);
        assert_eq!(yielding(&options(Door::Tanto, "", &variable), 4), usize::MAX);
    }

    #[test]
    fn a_build_offers_slots_unless_there_are_some() {
        const PIPE: Part = Part::Server { fifo: false };
        let tanto = |args, makeflags| part_of(Door::Tanto, args, makeflags);
        for args in ["", "-j4", "--jobserver=auto"] {
            assert_eq!(tanto(args, "k"), PIPE, "{args}");
        }
        assert_eq!([tanto("", SERVER), tanto("-j4", SERVER)], [Part::Client, Part::None]);
        assert_eq!([tanto("--jobserver=on", SERVER), tanto("-j4 --jobserver=on", "")], [PIPE, PIPE]);
        assert_eq!(tanto("--jobserver=fifo", SERVER), Part::Server { fifo: true });
        assert_eq!([tanto("--jobserver=off", SERVER), tanto("-n", ""), tanto("-n", SERVER)], [const { Part::None }; 3]);
    }

    #[test]
    fn ninja_offers_none_unless_asked() {
        let ninja = |args, makeflags| part_of(Door::Ninja, args, makeflags);
        assert_eq!([ninja("", ""), ninja("", SERVER)], [const { Part::Client }; 2]);
        assert_eq!([ninja("-j4", SERVER), ninja("-n", SERVER)], [const { Part::None }; 2]);
        assert_eq!(ninja("--jobserver=on", SERVER), Part::Server { fifo: false });
    }

    #[test]
    fn a_path_that_make_would_split_is_no_place() {
        assert!(is_plain(Path::new("/a/b-c_d.e")));
        for other in ["a/b", "/a b", "/a$b", "/a\\b", "/a\tb", "/a'b", "/a#b", "/a;b"] {
            assert!(!is_plain(Path::new(other)), "{other}");
        }
    }
}
