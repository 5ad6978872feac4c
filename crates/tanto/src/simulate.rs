//! `tanto simulate`: estimates how long a build takes with other numbers of jobs and in another order.

mod session;
mod tree;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{AdmissionLimits, Order, Schedule};
use tanto_exec::simulate::table::{self, SimulatedRow};
use tanto_exec::simulate::{self, SimulatedBuild, usual_slots};
use tanto_exec::text::number;
use tanto_record::session::{FindSessionError, SessionError};

use tanto_sys::machine::cpu;

use crate::settings::flags::TARGET_HINT;
use crate::settings::values::{self, Memory};

/// Larger numbers of slots are refused.
const MAX_SLOTS: i64 = 1 << 20;

/// Estimate how long a build of the targets from nothing takes, for each number of jobs
///
/// Uses build.ninja and the measured times of past builds; a command that never ran is estimated from others of its
/// rule. Prints the makespan, the lower bound of any order, their ratio, and the idle slots on average. Runs and writes
/// nothing.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// Change to DIR before doing anything else
    #[arg(short = 'C', value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Manifest
    #[arg(short = 'f', value_name = "FILE", default_value = "build.ninja", value_hint = ValueHint::FilePath)]
    manifest: OsString,
    /// Numbers of jobs, such as 4,8,16
    #[arg(short, value_name = "N,N...", value_parser = parse_slots)]
    jobs: Option<SlotCounts>,
    /// Memory that commands share: off, or a size such as 8G
    #[arg(long, value_name = "SIZE", default_value = "off", value_parser = parse_memory)]
    memory: Memory,
    /// Order of commands that are ready at the same time
    #[arg(long, value_enum, default_value_t = SimulatedOrder::Auto)]
    order: SimulatedOrder,
    /// Simulate the commands of a recorded build, named as for `tanto report`
    #[arg(long, value_name = "NAME", conflicts_with = "targets")]
    session: Option<OsString>,
    /// Targets of the build [default: the default targets of the manifest]
    #[arg(value_name = "TARGET", value_hint = TARGET_HINT)]
    targets: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum SimulatedOrder {
    /// The order that a build would choose
    Auto,
    /// Longest remaining chain by time first
    Critical,
    /// Longest remaining chain by number of commands first
    Ninja,
    /// Order of the manifest
    Fifo,
}

/// Numbers of jobs to simulate, each 1 or more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotCounts(pub(crate) Vec<usize>);

/// A build to be simulated, from a manifest or a session.
struct Build {
    /// Its jobs, without priorities.
    schedule: Schedule,
    /// The jobs in topological order.
    chain: Vec<JobId>,
    /// Description for the first line.
    about: String,
}

#[derive(Debug, thiserror::Error)]
enum SimulateError {
    #[error("{dir}: {cause}")]
    ChangeDir { dir: String, cause: String },
    #[error(transparent)]
    Find(#[from] FindSessionError),
    #[error(transparent)]
    Read(#[from] SessionError),
    #[error("no command ran in session {0}")]
    EmptySession(String),
    #[error("no command makes these targets")]
    NoCommand,
    #[error(transparent)]
    Manifest(#[from] tanto_ninja::error::Error),
}

pub fn run(args: &SimulateArgs) -> CommandOutput {
    match load(args) {
        Ok(build) => CommandOutput::printed(report(&build, args), 0),
        Err(error) => CommandOutput::failed(error.to_string()),
    }
}

pub(crate) fn parse_slots(value: &str) -> Result<SlotCounts, &'static str> {
    let count = |text: &str| number::integer(text.as_bytes()).filter(|count| (1..=MAX_SLOTS).contains(count));
    let counts: Option<Vec<usize>> = value.split(',').map(|text| Some(count(text)? as usize)).collect();
    counts.map(SlotCounts).ok_or("expected numbers such as 4,8,16")
}

fn parse_memory(value: &str) -> Result<Memory, &'static str> {
    let memory = values::memory(value.as_bytes()).filter(|&memory| memory != Memory::Free);
    memory.ok_or("expected 'off' or a size such as 8G")
}

fn load(args: &SimulateArgs) -> Result<Build, SimulateError> {
    if let Some(dir) = &args.dir {
        std::env::set_current_dir(dir).map_err(|error| SimulateError::ChangeDir {
            dir: dir.display().to_string(),
            cause: String::from_utf8_lossy(&tanto_sys::error::text(&error)).into_owned(),
        })?;
    }
    match &args.session {
        Some(session) => session::load(session.as_encoded_bytes()),
        None => tree::load(args),
    }
}

fn report(build: &Build, args: &SimulateArgs) -> String {
    let slots = args.jobs.clone().map_or_else(|| usual_slots(cpu::count()), |jobs| jobs.0);
    let rows = slots.into_iter().map(|slots| {
        let theirs = (args.order != SimulatedOrder::Ninja)
            .then(|| build.play(SimulatedOrder::Ninja, args.memory, slots).makespan_ms);
        SimulatedRow { outcome: build.play(args.order, args.memory, slots), ninja_ms: theirs }
    });
    let rows: Vec<SimulatedRow> = rows.collect();
    let about = rows.first().map(|row| table::work(&row.outcome)).unwrap_or_default();
    format!("{}; {about}\n\n{}", build.about, table::text(&rows))
}

impl Build {
    fn play(&self, order: SimulatedOrder, memory: Memory, slots: usize) -> SimulatedBuild {
        let mut schedule = self.schedule.clone();
        if let Memory::AtMost(kib) = memory {
            schedule.limit_admission(AdmissionLimits { memory_kib: Some(kib), slots });
        }
        let order = match order {
            SimulatedOrder::Auto => simulate::best_order(&schedule, &self.chain, slots),
            SimulatedOrder::Critical => Order::Critical,
            SimulatedOrder::Ninja => Order::Ninja,
            SimulatedOrder::Fifo => Order::Manifest,
        };
        schedule.prioritize(&self.chain, order);
        simulate::run(&mut schedule, slots)
    }
}

#[cfg(test)]
mod tests;
