//! `tanto bulk fetch`: how a package comes to its distfiles. For Tanto itself; does not know how files are fetched.

use tanto_bulk::attempt::distfiles::Fetch;
use tanto_sys::process::lifecycle;

use super::deliver::ended;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Fetches what is missing, and ends as the line that failed.
pub(crate) fn run(args: &[Vec<u8>]) -> Stop {
    let Some(fetch) = Fetch::read(args) else {
        return Stop::failed(Door::Tanto, "error", b"'tanto bulk fetch' is for Tanto itself");
    };
    ended("the distfiles", lifecycle::exit_with_parent().and_then(|()| fetch.run()))
}
