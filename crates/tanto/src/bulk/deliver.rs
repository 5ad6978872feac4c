//! `tanto bulk deliver`: how a package gets its place. For Tanto itself; does not know what is done with it there.

use std::io;

use tanto_bulk::attempt::install_artifact::Delivery;
use tanto_sys::error;
use tanto_sys::process::lifecycle;

use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What is said to have been exited with where the machine is to blame.
const MACHINE: u8 = 126;

/// Brings a package to its place, and ends as the line that failed.
pub(crate) fn run(args: &[Vec<u8>]) -> Stop {
    let Some(delivery) = Delivery::read(args) else {
        return Stop::failed(Door::Tanto, "error", b"'tanto bulk deliver' is for Tanto itself");
    };
    ended("the package", lifecycle::exit_with_parent().and_then(|()| delivery.run()))
}

/// As it was with something that runs lines of the shell.
pub(super) fn ended(what: &str, done: io::Result<i32>) -> Stop {
    match done {
        Ok(code) => Stop { out: Vec::new(), err: Vec::new(), code: u8::try_from(code).unwrap_or(u8::MAX) },
        Err(failed) => {
            let why = [what.as_bytes(), b": ", &error::text(&failed)].concat();
            Stop { code: MACHINE, ..Stop::failed(Door::Tanto, "error", &why) }
        }
    }
}
