//! The part of Tanto in a jobserver: the role that its options give it, and the server that it opens.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::makeflags::names_a_server;
use super::server::Server;
use super::{Jobserver, JobserverError};

const FLAGS: &str = "MAKEFLAGS";
/// Takes precedence in `cargo`.
const CARGO_FLAGS: &str = "CARGO_MAKEFLAGS";
const FIFO: &str = "jobserver";

/// Whether the tokens of `-j` are shared with commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobserverMode {
    /// `On` as tanto if `MAKEFLAGS` names no jobserver.
    Auto,
    /// Through an inherited pipe.
    On,
    Off,
    /// Through a named pipe.
    Fifo,
}

#[derive(PartialEq, Eq, Debug)]
pub enum JobserverRole {
    None,
    Client,
    /// `fifo`: through a named pipe.
    Server {
        fifo: bool,
    },
}

impl JobserverRole {
    /// `is_tanto`: serves unless there is a jobserver. `has_own_jobs`: `-j` is on the command line.
    pub fn of(mode: JobserverMode, is_tanto: bool, has_own_jobs: bool, makeflags: &[u8]) -> JobserverRole {
        match mode {
            JobserverMode::Off => JobserverRole::None,
            JobserverMode::On => JobserverRole::Server { fifo: false },
            JobserverMode::Fifo => JobserverRole::Server { fifo: true },
            JobserverMode::Auto if is_tanto && !names_a_server(makeflags) => JobserverRole::Server { fifo: false },
            JobserverMode::Auto if has_own_jobs => JobserverRole::None,
            JobserverMode::Auto => JobserverRole::Client,
        }
    }
}

pub fn makeflags() -> Option<OsString> {
    std::env::var_os(FLAGS)
}

/// Environment variables for commands.
pub fn environment(share: Option<&Jobserver>) -> Vec<(OsString, OsString)> {
    let Some(Jobserver::Server(server)) = share else { return Vec::new() };
    let flags = OsString::from_vec(server.makeflags(makeflags().unwrap_or_default().as_bytes()));
    let for_cargo = std::env::var_os(CARGO_FLAGS).map(|_| (CARGO_FLAGS.into(), flags.clone()));
    for_cargo.into_iter().chain([(FLAGS.into(), flags)]).collect()
}

/// Creates a server with a named pipe: in `own`, a directory that no other build uses, or else in the temporary
/// directory.
pub fn open_fifo(slots: usize, own: Option<&Path>) -> Result<Server, JobserverError> {
    let mut refusal = None;
    for path in fifo_paths(own).iter().filter(|path| is_allowed_in_makeflags(path)) {
        match Server::fifo(slots, path) {
            Ok(server) => return Ok(server),
            Err(why) => refusal = Some(why),
        }
    }
    Err(refusal.unwrap_or(JobserverError::NoFifoPath))
}

fn fifo_paths(own: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let (Some(own), Ok(directory)) = (own, std::env::current_dir()) {
        let path = directory.join(own).join(FIFO);
        // Left by a killed process.
        let _ = fs::remove_file(&path);
        places.push(path);
    }
    let pid = std::process::id();
    places.extend((0..8).map(|number| std::env::temp_dir().join(format!("tanto-{FIFO}.{pid}.{number}"))));
    places
}

/// Returns whether the path can be part of `MAKEFLAGS`: absolute, and without special characters of make or the shell.
fn is_allowed_in_makeflags(path: &Path) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-+,=:@%".contains(byte);
    path.is_absolute() && path.as_os_str().as_bytes().iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_with_special_characters_is_not_allowed_in_makeflags() {
        assert!(is_allowed_in_makeflags(Path::new("/a/b-c_d.e")));
        for other in ["a/b", "/a b", "/a$b", "/a\\b", "/a\tb", "/a'b", "/a#b", "/a;b"] {
            assert!(!is_allowed_in_makeflags(Path::new(other)), "{other}");
        }
    }
}
