//! `tanto bench`: measures on the user's own machine what Tanto's own choices rest on. Does not know how each is
//! measured.

#[allow(dead_code, reason = "its users follow")]
pub mod args;
mod files;
#[allow(dead_code, unused_imports, reason = "its users follow")]
pub mod measure;
mod read;
mod stat;
#[allow(dead_code, reason = "its users follow")]
pub mod statistics;

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::{commands, help};

/// What `tanto bench` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let Some((what, rest)) = args.split_first() else {
        return Stop::failed(Door::Tanto, "error", b"measure what? 'tanto help bench' tells more");
    };
    match (what.as_slice(), rest) {
        (b"-h" | b"--help", _) => Stop::printed(commands::find(b"bench").map(help::topic).unwrap_or_default(), 0),
        (b"stat", []) => stat::run(b"."),
        (b"stat", [dir]) => stat::run(dir),
        (b"stat", _) => Stop::failed(Door::Tanto, "error", b"one directory at a time"),
        (b"read", []) => read::run(b"."),
        (b"read", [path]) => read::run(path),
        (b"read", _) => Stop::failed(Door::Tanto, "error", b"one file or directory at a time"),
        (what, _) => Stop::failed(Door::Tanto, "error", &modes::unknown("measurement", what, ["read", "stat"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(args: &[&str]) -> String {
        let stop = run(&args.iter().map(|&arg| arg.into()).collect::<Vec<_>>());
        assert_eq!((stop.code, stop.out.len()), (1, 0));
        String::from_utf8(stop.err).expect("text")
    }

    #[test]
    fn what_cannot_be_measured_is_an_error() {
        assert_eq!(complaint(&[]), "tanto: error: measure what? 'tanto help bench' tells more\n");
        assert_eq!(complaint(&["stats"]), "tanto: error: unknown measurement 'stats', did you mean 'stat'?\n");
        assert_eq!(complaint(&["stat", "a", "b"]), "tanto: error: one directory at a time\n");
        assert_eq!(complaint(&["read", "a", "b"]), "tanto: error: one file or directory at a time\n");
        assert_eq!(
            complaint(&["stat", "/nonexistent"]),
            "tanto: error: reading /nonexistent: No such file or directory\n"
        );
    }

    #[test]
    fn it_has_help() {
        assert!(run(&[b"-h".to_vec()]).out.starts_with(b"usage: tanto bench stat|read"));
    }
}
