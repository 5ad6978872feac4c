//! `tanto bulk`: a whole package tree. Does not know how packages are found, resolved or built.

mod ask;
mod build;
mod change;
mod check;
mod deliver;
mod enter;
mod exchange;
mod fetch;
mod files;
mod findings;
mod init;
mod jobs;
mod meta;
mod pbulk;
mod phases;
mod place;
mod prepare;
mod progress;
mod publish;
mod report;
mod resolve;
mod scan;
mod shell;
mod sign;
mod simulate;
mod site;
mod tasks;

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::{commands, help};

pub use tasks::{TASKS, Task};

/// What `tanto bulk` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let Some((what, rest)) = args.split_first() else {
        return Stop::failed(Door::Tanto, "error", b"do what? 'tanto help bulk' tells more");
    };
    match what.as_slice() {
        b"-h" | b"--help" => Stop::printed(commands::find(b"bulk").map(help::topic).unwrap_or_default(), 0),
        b"init" => init::run(rest),
        b"scan" => scan::run(rest),
        b"resolve" => resolve::run(rest),
        b"check" => check::run(rest),
        b"enter" => enter::run(rest),
        b"fetch" => fetch::run(rest),
        b"deliver" => deliver::run(rest),
        b"build" => build::run(rest),
        b"status" => ask::status(rest),
        b"why" => ask::why(rest),
        b"log" => ask::log(rest),
        b"shell" => shell::run(rest),
        b"retry" => change::retry(rest),
        b"skip" => change::skip(rest),
        b"kill" => change::kill(rest),
        b"report" => report::run(rest),
        b"publish" => publish::run(rest),
        // The signer: nobody calls it but `publish`.
        sign::DOOR => sign::serve(rest),
        b"import" => exchange::import(rest),
        b"export" => exchange::export(rest),
        b"simulate" => simulate::run(rest),
        what => Stop::failed(Door::Tanto, "error", &unknown(what)),
    }
}

/// The error of a command that there is not.
pub fn unknown(name: &[u8]) -> Vec<u8> {
    modes::unknown("bulk command", name, TASKS.iter().map(|task| task.name))
}
