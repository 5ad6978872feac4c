//! `tanto bench compare`: whether one command is faster than another.

mod comparison;
mod conclusion;
mod experiment;
mod export;
mod options;
mod order;
mod output_check;
mod record;
mod report;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod validity;

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tanto_exec::text::units::{rough_duration, seconds};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use crate::Error;
use crate::measure::{Executor, LocalExecutor, RunError, conditions};
use crate::output::Format;
use comparison::Comparison;
use experiment::{Observer, PairedExperiment};
use record::{CompareRecord, StopReason, Variant};
use tanto_exec::command_output::CommandOutput;

pub use options::{CompareOptions, Percentage};

/// The exit code for errors; 1 means that a command is too slow.
pub const FAILURE: u8 = 2;
const LOG_DIR: &str = ".tanto/bench";
/// The shortest time between two writes of the result files.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the experiment.
pub fn run(options: &CompareOptions) -> Result<CommandOutput, Error> {
    options.check()?;
    let mut executor = LocalExecutor::new(options.controls.clone(), Path::new(LOG_DIR))?;
    Ok(compare(options, &mut executor))
}

fn compare(options: &CompareOptions, executor: &mut dyn Executor) -> CommandOutput {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let notes = validity::check_commands(&Variant::all(options), path.as_bytes());
    let mut presenter = Presenter::new(options, notes);
    let record = PairedExperiment::new(options, executor).run(&mut presenter);
    presenter.clear();
    let mut outcome = CommandOutput { out: presenter.report(&record), ..CommandOutput::default() };
    match &record.stopped {
        Some(StopReason::Failed(run, error)) => {
            let code = match error {
                RunError::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(FAILURE),
                _ => FAILURE,
            };
            outcome.fail(&[run.as_bytes(), b": ", &error.message()[..]].concat(), code);
        }
        Some(StopReason::OutputsDiffer(message)) => outcome.fail(message.as_bytes(), FAILURE),
        _ => {}
    }
    if let Some(error) = presenter.write(&record).err().or(presenter.write_error.take()) {
        outcome.fail(error.to_string().as_bytes(), FAILURE);
    }
    if let Some(limit) = options.fail_if_slower {
        for comparison in Comparison::all(&record).iter().filter(|comparison| comparison.is_slower_by(limit)) {
            let Variant { name, is_control, .. } = &record.variants[comparison.variant];
            if !is_control {
                outcome.err.extend(format!("tanto: {name} is slower by more than {} %\n", 100.0 * limit).bytes());
                outcome.code = outcome.code.max(1);
            }
        }
    }
    outcome
}

/// Shows progress on the terminal and writes the result files.
struct Presenter<'a> {
    options: &'a CompareOptions,
    /// Notes from before the first run.
    notes: Vec<String>,
    machine: Option<(MachineInfo, CpuMask)>,
    on_terminal: bool,
    last_write: Option<Instant>,
    /// Reported at the end; does not stop the experiment.
    write_error: Option<Error>,
}

impl<'a> Presenter<'a> {
    fn new(options: &'a CompareOptions, notes: Vec<String>) -> Presenter<'a> {
        let on_terminal = std::io::stderr().is_terminal();
        notes.iter().filter(|_| on_terminal).for_each(|note| eprintln!("note: {note}"));
        let cpus = options.controls.cpus.clone().or_else(|| CpuMask::current().ok());
        let machine = cpus.map(|cpus| (MachineInfo::query(), cpus));
        Presenter { options, notes, machine, on_terminal, last_write: None, write_error: None }
    }

    fn notes(&self, record: &CompareRecord) -> Vec<String> {
        self.notes.iter().cloned().chain(validity::check_runs(record)).collect()
    }

    fn report(&self, record: &CompareRecord) -> Vec<u8> {
        let mut text = report::report(record, &self.notes(record));
        if let Some((machine, _)) = self.machine.as_ref().filter(|_| !record.runs.is_empty()) {
            let samples = record.runs.iter().map(|run| &run.sample);
            text.extend(conditions::report(samples, &self.options.controls, machine).bytes());
        }
        text
    }

    fn write(&self, record: &CompareRecord) -> Result<(), Error> {
        let notes = self.notes(record);
        self.options.outputs.iter().try_for_each(|output| {
            output.write(&match output.format {
                Format::Text => self.report(record),
                Format::Json => export::json(self.options, self.machine.as_ref(), record, &notes),
                Format::Csv => export::csv(record),
                Format::Svg | Format::Png => export::chart(record).render(output.format),
            })
        })
    }

    fn progress_line(&self, record: &CompareRecord) -> Option<String> {
        let last = record.runs.last()?;
        let spent = last.started + last.sample.wall;
        let name = record.run_name(last.variant, last.round);
        let of = self.options.runs.map(|runs| format!(" of {runs}")).unwrap_or_default();
        let by_runs = self.options.runs.map(|runs| {
            let ratio = (runs * record.variants.len()) as f64 / record.runs.len() as f64;
            spent.mul_f64((ratio - 1.0).max(0.0))
        });
        let left = self.options.time.map(|time| time.saturating_sub(spent)).into_iter().chain(by_runs).min();
        let left = left.map(|left| format!("; at most {} left", rough_duration(left))).unwrap_or_default();
        Some(format!("{} pairs{of}; {name}: {}{left}", record.rounds(), seconds(last.sample.wall.as_secs_f64())))
    }

    fn clear(&self) {
        if self.on_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Observer for Presenter<'_> {
    fn run_completed(&mut self, record: &CompareRecord) {
        if let Some(line) = self.progress_line(record).filter(|_| self.on_terminal) {
            eprint!("\r\x1b[K{line}");
            // A closed terminal must not end the experiment.
            let _ = std::io::stderr().flush();
        }
        if self.last_write.is_none_or(|last| last.elapsed() >= WRITE_INTERVAL) {
            self.write_error = self.write(record).err();
            self.last_write = Some(Instant::now());
        }
    }
}
