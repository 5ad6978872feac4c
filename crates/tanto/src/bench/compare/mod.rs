//! `tanto bench compare`: is B really faster than A? Does not know how a command is measured.

pub mod args;
mod duff;
mod files;
mod findings;
mod measuring;
mod order;
mod outputs;
mod record;
mod sentences;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod text;

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tanto_exec::text::units::{rough_duration, seconds};

use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use crate::bench::measure::{Bench, Halt, Meter, conditions};
use crate::bench::output::Form;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

use args::Args;
use findings::Comparison;
use measuring::{Audience, Measuring};
use record::{End, Record, Side};

/// What Tanto exits with if something went wrong; 1 is for a command that is too slow.
const FAILURE: u8 = 2;
/// Where logs of failures lie.
const LOGS: &str = ".tanto/bench";
/// Files are written after each run, but not more often.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Compares the commands that these arguments name.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let args = match Args::read(args) {
        Ok(Some(args)) => args,
        Ok(None) => return crate::bench::helped("compare"),
        Err(why) => return failed(&why),
    };
    if let Some(why) = args.outputs.iter().find_map(|output| output.check().err()) {
        return failed(&why);
    }
    match Meter::new(args.controls.clone(), Path::new(LOGS)) {
        Ok(mut meter) => compare(&args, &mut meter),
        Err(why) => failed(&why),
    }
}

fn failed(why: &[u8]) -> Stop {
    Stop { code: FAILURE, ..Stop::failed(Door::Tanto, "error", why) }
}

/// Measures, and says what there is to say.
fn compare(args: &Args, bench: &mut dyn Bench) -> Stop {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let before = duff::of_sides(&Side::all(args), path.as_bytes());
    let mut shown = Shown::new(args, before);
    let record = Measuring::new(args, bench).run(&mut shown);
    shown.clear();
    let mut stop = Stop::printed(shown.report(&record), 0);
    match &record.end {
        Some(End::Halted(run, halt)) => {
            stop.err = [b"tanto: error: ", run.as_bytes(), b": ", &halt.text()[..]].concat()
        }
        Some(End::Unlike(why)) => stop.err = format!("tanto: error: {why}\n").into(),
        _ => {}
    }
    if let Some(why) = shown.write(&record).err().or(shown.refused.take()) {
        stop.err.extend(failed(&why).err);
        stop.code = FAILURE;
    }
    stop.code = stop.code.max(code(args, &record));
    let slower = Comparison::all(&record).into_iter().filter(|comparison| is_too_slow(args, &record, comparison));
    for comparison in slower {
        let (name, share) = (&record.sides[comparison.side].name, args.fail_if_slower.unwrap_or_default());
        stop.err.extend(format!("tanto: {name} is slower by more than {} %\n", 100.0 * share).bytes());
    }
    stop
}

fn is_too_slow(args: &Args, record: &Record, comparison: &Comparison) -> bool {
    let control = record.sides[comparison.side].control;
    !control && args.fail_if_slower.is_some_and(|share| comparison.is_slower_by(share))
}

fn code(args: &Args, record: &Record) -> u8 {
    match &record.end {
        Some(End::Halted(_, Halt::Interrupted(signal))) => u8::try_from(128 + signal).unwrap_or(FAILURE),
        Some(End::Halted(..) | End::Unlike(_)) => FAILURE,
        _ => u8::from(Comparison::all(record).iter().any(|comparison| is_too_slow(args, record, comparison))),
    }
}

/// What becomes of it while it is measured: a line on the terminal, and the files.
struct Shown<'a> {
    args: &'a Args,
    /// What was noticed before.
    before: Vec<String>,
    machine: Option<(MachineInfo, CpuMask)>,
    terminal: bool,
    written: Option<Instant>,
    /// Why a file could not be written: no reason to stop measuring, but one to fail.
    refused: Option<Vec<u8>>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Args, before: Vec<String>) -> Shown<'a> {
        let terminal = std::io::stderr().is_terminal();
        before.iter().filter(|_| terminal).for_each(|note| eprintln!("note: {note}"));
        let cpus = args.controls.cpus.clone().or_else(|| CpuMask::current().ok());
        let machine = cpus.map(|cpus| (MachineInfo::query(), cpus));
        Shown { args, before, machine, terminal, written: None, refused: None }
    }

    fn notes(&self, record: &Record) -> Vec<String> {
        self.before.iter().cloned().chain(duff::of_runs(record)).collect()
    }

    fn report(&self, record: &Record) -> Vec<u8> {
        let mut text = text::report(record, &self.notes(record));
        if let Some((machine, _)) = self.machine.as_ref().filter(|_| !record.runs.is_empty()) {
            let samples = record.runs.iter().map(|run| &run.sample);
            text.extend(conditions::notes(samples, &self.args.controls, machine).bytes());
        }
        text
    }

    /// Writes all files. An error is a text for the user.
    fn write(&self, record: &Record) -> Result<(), Vec<u8>> {
        let notes = self.notes(record);
        for output in &self.args.outputs {
            output.write(&match output.form {
                Form::Text => self.report(record),
                Form::Json => files::json(self.args, self.machine.as_ref(), record, &notes),
                Form::Csv => files::table(record),
                Form::Svg | Form::Png => files::chart(record).file(output.form),
            })?;
        }
        Ok(())
    }

    /// The line on the terminal.
    fn line(&self, record: &Record) -> Option<String> {
        let last = record.runs.last()?;
        let spent = last.at + last.sample.wall;
        let name = record.name(last.side, last.round);
        let of = self.args.runs.map(|runs| format!(" of {runs}")).unwrap_or_default();
        let by_runs = self.args.runs.map(|runs| {
            let share = (runs * record.sides.len()) as f64 / record.runs.len() as f64;
            spent.mul_f64((share - 1.0).max(0.0))
        });
        let left = self.args.time.map(|time| time.saturating_sub(spent)).into_iter().chain(by_runs).min();
        let left = left.map(|left| format!("; {} left at most", rough_duration(left))).unwrap_or_default();
        Some(format!("{} pairs{of}; {name}: {}{left}", record.rounds(), seconds(last.sample.wall.as_secs_f64())))
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Audience for Shown<'_> {
    fn progress(&mut self, record: &Record) {
        if let Some(line) = self.line(record).filter(|_| self.terminal) {
            eprint!("\r\x1b[K{line}");
            // Nobody may be there to read it.
            let _ = std::io::stderr().flush();
        }
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            self.refused = self.write(record).err();
            self.written = Some(Instant::now());
        }
    }
}
