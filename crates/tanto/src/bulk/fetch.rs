//! `tanto bulk fetch`: how a package comes to its distfiles. For Tanto itself; does not know how files are fetched.

use tanto_bulk::distfiles::Fetch;
use tanto_sys::{error, spaces};

use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What is said to have been exited with where the machine is to blame.
const MACHINE: u8 = 126;

/// Fetches what is missing, and ends as the line that failed.
pub(super) fn run(args: &[Vec<u8>]) -> Stop {
    let Some(fetch) = Fetch::read(args) else {
        return Stop::failed(Door::Tanto, "error", b"'tanto bulk fetch' is for Tanto itself");
    };
    match spaces::end_with_parent().and_then(|()| fetch.run()) {
        Ok(code) => Stop { out: Vec::new(), err: Vec::new(), code: u8::try_from(code).unwrap_or(u8::MAX) },
        Err(failed) => {
            let why = [b"the distfiles: ", &error::text(&failed)[..]].concat();
            Stop { code: MACHINE, ..Stop::failed(Door::Tanto, "error", &why) }
        }
    }
}
