//! `tanto simulate`: estimates how long a build takes with other numbers of jobs and in another order.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::schedule::Order;
use tanto_exec::simulate::scenario::Scenario;
use tanto_exec::simulate::usual_slots;
use tanto_exec::text::number;
use tanto_ninja::plan::full_plan::FullPlan;
use tanto_record::history::History;
use tanto_record::session::scenario::scenario;
use tanto_record::session::{FindSessionError, Session, SessionError, Sessions};
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::machine::cpu;

use crate::settings::EnvVars;
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
        Ok(scenario) => CommandOutput::printed(report(&scenario, args), 0),
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

fn load(args: &SimulateArgs) -> Result<Scenario, SimulateError> {
    if let Some(dir) = &args.dir {
        std::env::set_current_dir(dir).map_err(|error| SimulateError::ChangeDir {
            dir: dir.display().to_string(),
            cause: String::from_utf8_lossy(&tanto_sys::error::text(&error)).into_owned(),
        })?;
    }
    let state = EnvVars::of_process().state(None);
    match &args.session {
        Some(session) => load_session(&state, session.as_encoded_bytes()),
        None => load_manifest(&state, args),
    }
}

fn load_session(state: &StateDirs, name: &[u8]) -> Result<Scenario, SimulateError> {
    let all = Sessions::new(state);
    let name = all.find(name)?;
    let session = Session::read(&all.path(&name))?;
    match session.jobs.iter().filter(|job| !job.is_group).count() {
        0 => Err(SimulateError::EmptySession(name)),
        commands => Ok(scenario(&session, format!("{commands} commands of session {name}"))),
    }
}

fn load_manifest(state: &StateDirs, args: &SimulateArgs) -> Result<Scenario, SimulateError> {
    let manifest = args.manifest.as_encoded_bytes();
    let targets: Vec<Vec<u8>> = args.targets.iter().map(|target| target.as_encoded_bytes().to_vec()).collect();
    let history = OnceCell::new();
    let past = |output: &[u8]| history.get_or_init(|| History::open(state)).cost(output);
    let FullPlan { schedule, order: chain, command_count, measured_count } = FullPlan::load(manifest, &targets, &past)?;
    if command_count == 0 {
        return Err(SimulateError::NoCommand);
    }
    let manifest = String::from_utf8_lossy(manifest);
    let about = format!("{command_count} commands of {manifest}, {measured_count} of them measured");
    Ok(Scenario { schedule, chain, about })
}

fn report(scenario: &Scenario, args: &SimulateArgs) -> String {
    let slots = args.jobs.as_ref().map_or_else(|| usual_slots(cpu::count()), |jobs| jobs.0.clone());
    let order = match args.order {
        SimulatedOrder::Auto => None,
        SimulatedOrder::Critical => Some(Order::Critical),
        SimulatedOrder::Ninja => Some(Order::Ninja),
        SimulatedOrder::Fifo => Some(Order::Manifest),
    };
    let memory_kib = match args.memory {
        Memory::AtMost(kib) => Some(kib),
        Memory::Off | Memory::Free => None,
    };
    scenario.report(order, memory_kib, &slots)
}

#[cfg(test)]
mod tests;
