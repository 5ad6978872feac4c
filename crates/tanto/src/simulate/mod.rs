//! `tanto simulate`: how long a build would take on other machines and in another order. Runs nothing, writes nothing.

pub(crate) mod args;
mod session;
pub(crate) mod table;
mod tree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use tanto_exec::job::JobId;
use tanto_exec::schedule::{AdmissionLimits, Order, Schedule};
use tanto_exec::simulate::{self, SimulatedBuild};

use self::args::{Args, Wanted};
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::settings::layer::Memory;
use crate::{commands, help};

/// A build to be simulated, wherever it comes from.
struct Build {
    /// Its jobs, which have no order yet.
    schedule: Schedule,
    /// The jobs, each after all that it waits for.
    chain: Vec<JobId>,
    /// What it is, for the first line.
    about: String,
}

/// What `tanto simulate` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let args = match Args::read(args) {
        Ok(Some(args)) => args,
        Ok(None) => return Stop::printed(commands::find(b"simulate").map(help::topic).unwrap_or_default(), 0),
        Err(message) => return Stop::failed(Door::Tanto, "error", &message),
    };
    match load(&args) {
        Ok(build) => Stop::printed(report(&build, &args), 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn load(args: &Args) -> Result<Build, Vec<u8>> {
    if let Some(dir) = &args.dir {
        std::env::set_current_dir(OsStr::from_bytes(dir))
            .map_err(|error| [&dir[..], b": ", &tanto_sys::error::text(&error)].concat())?;
    }
    match &args.session {
        Some(session) => session::load(session),
        None => tree::load(args),
    }
}

fn report(build: &Build, args: &Args) -> String {
    let rows = args.slots.iter().map(|&slots| {
        let theirs = (args.order != Wanted::Ninja).then(|| build.play(Wanted::Ninja, args.memory, slots).makespan_ms);
        table::Row { outcome: build.play(args.order, args.memory, slots), ninja_ms: theirs }
    });
    let rows: Vec<table::Row> = rows.collect();
    let about = rows.first().map(|row| table::work(&row.outcome)).unwrap_or_default();
    format!("{}; {about}\n\n{}", build.about, table::text(&rows))
}

impl Build {
    fn play(&self, order: Wanted, memory: Memory, slots: usize) -> SimulatedBuild {
        let mut schedule = self.schedule.clone();
        if let Memory::AtMost(kib) = memory {
            schedule.limit_admission(AdmissionLimits { memory_kib: Some(kib), slots });
        }
        let order = match order {
            Wanted::Ours => simulate::best_order(&schedule, &self.chain, slots),
            Wanted::Critical => Order::Critical,
            Wanted::Ninja => Order::Ninja,
            Wanted::Fifo => Order::Manifest,
        };
        schedule.prioritize(&self.chain, order);
        simulate::run(&mut schedule, slots)
    }
}

#[cfg(test)]
mod tests;
