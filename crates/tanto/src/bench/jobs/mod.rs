//! `tanto bench jobs`: how many jobs at a time are best for a command. Does not know how one run is measured, nor how
//! numbers are judged.

mod append;
pub mod args;
pub mod experiment;
pub mod file;
mod limits;
mod order;
mod save;
mod table;
pub mod verdict;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use append::Appended;
use args::{Args, PLACE};
use experiment::{Experiment, Run, Setup};
use table::Table;
use verdict::Verdict;

use super::measure::{self, Bench, Halt, Meter, conditions};
use super::output::{Form, Output, refused};
use super::shuffle::new_seed;
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::settings;

/// Below `.tanto/`: what was measured, and logs of failures.
const PLACE_OF_OURS: &str = ".tanto/bench";
/// What was measured, where nobody names another file.
const OWN_FILE: &str = ".tanto/bench/jobs.json";

/// Measures, prints as it goes, and says what is to be said at the end.
pub fn run(words: &[Vec<u8>]) -> Stop {
    let args = match Args::read(words) {
        Ok(Some(args)) => args,
        Ok(None) => {
            return super::helped("jobs");
        }
        Err(why) => return Stop::failed(Door::Tanto, "error", &why),
    };
    match measured(&args) {
        Ok(stop) => stop,
        Err(why) => Stop::failed(Door::Tanto, "error", &why),
    }
}

fn measured(args: &Args) -> Result<Stop, Vec<u8>> {
    let mut session = Session::begin(args)?;
    let mut meter = Meter::new(args.controls.clone(), Path::new(PLACE_OF_OURS))?;
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let on_screen = out.is_terminal() && err.is_terminal();
    let progress: Option<&mut dyn Write> = if on_screen { Some(&mut err) } else { None };
    let halt = session.measure(&mut meter, &mut Table { out: &mut out, progress }).err();
    drop(meter);
    session.end(halt)
}

/// An experiment under way.
struct Session<'s> {
    args: &'s Args,
    experiment: Experiment,
    seed: Option<u64>,
    remaining: Vec<u32>,
    /// The first holds all that was measured.
    outputs: Vec<Output>,
    appended: Option<Appended>,
}

impl Session<'_> {
    /// Finds out whether everything can be done before anything is.
    fn begin(args: &Args) -> Result<Session<'_>, Vec<u8>> {
        let setup = Setup::of(args)?;
        let outputs = outputs(args)?;
        if args.save {
            save::check(&settings::build_file(None))?;
        }
        let experiment = match args.resume {
            true => resumed(&outputs[0].path, setup)?,
            false => Experiment { setup, runs: Vec::new() },
        };
        let seed = args.shuffled.then(|| args.seed.unwrap_or_else(new_seed));
        let order = order::order(&args.counts, args.runs, seed);
        let remaining = order::remaining(order, experiment.runs.iter().map(|run| run.jobs));
        let appended = args.append.as_ref().map(|path| Appended::open(path, &experiment.setup)).transpose()?;
        Ok(Session { args, experiment, seed, remaining, outputs, appended })
    }

    /// All that is still to be run, one after the other; each is written down before the next begins.
    fn measure(&mut self, bench: &mut dyn Bench, table: &mut Table<'_>) -> Result<(), Halt> {
        table.say(&self.introduction());
        if self.remaining.is_empty() {
            return Ok(());
        }
        table.head();
        let begun = bench.now();
        let (done, all) = (self.experiment.runs.len(), self.experiment.runs.len() + self.remaining.len());
        for line in &self.args.prepare_once {
            bench.prepare(line)?;
        }
        let line = experiment::line(self.args);
        let mut ran = Duration::ZERO;
        for (nth, jobs) in std::mem::take(&mut self.remaining).into_iter().enumerate() {
            let rest = order::remaining(self.order(), self.experiment.runs.iter().map(|run| run.jobs));
            let left = table::left(&self.experiment, &rest, bench.now().saturating_sub(begun), ran);
            table.begin(done + nth + 1, all, jobs, left);
            let count = jobs.to_string();
            let with_count = |line: &[u8]| experiment::with(line, PLACE, count.as_bytes());
            for line in &self.args.prepare {
                bench.prepare(&with_count(line))?;
            }
            let run = Run { jobs, sample: bench.run(&with_count(&line))? };
            ran += run.sample.wall;
            table.row(&run);
            if let Some(file) = &mut self.appended {
                file.add(&run).map_err(Halt::Machine)?;
            }
            self.experiment.runs.push(run);
            self.write().map_err(Halt::Machine)?;
        }
        Ok(())
    }

    fn order(&self) -> Vec<u32> {
        order::order(&self.args.counts, self.args.runs, self.seed)
    }

    fn introduction(&self) -> String {
        let order = self.seed.map_or("as given".to_owned(), |seed| format!("shuffled by --seed {seed}"));
        let command = &self.experiment.setup.command;
        let before = match self.experiment.runs.len() {
            0 => String::new(),
            done => format!(", after {done} that were measured before"),
        };
        format!("{command}: {} runs{before}, {order}\n{}\n\n", self.remaining.len(), file::place(&self.experiment))
    }

    fn write(&self) -> Result<(), Vec<u8>> {
        self.outputs.iter().try_for_each(|output| output.write(&file::content(&self.experiment, output)))
    }

    /// What it all means, and why it ended before its time if it did.
    fn end(&self, halt: Option<Halt>) -> Result<Stop, Vec<u8>> {
        let mut stop = Stop::printed(Vec::new(), 0);
        let verdict = Verdict::of(&self.experiment);
        if let Some(verdict) = &verdict {
            stop.out.extend(format!("\n{}", verdict.text()).bytes());
            let samples = self.experiment.runs.iter().map(|run| &run.sample);
            stop.out.extend(conditions::notes(samples, &self.args.controls, &self.experiment.setup.machine).bytes());
            stop.out.extend(self.kept().bytes());
        }
        if let Some(halt) = halt {
            stop.err = [b"tanto: error: ", &halt.text()[..]].concat();
            if verdict.is_some() {
                stop.err
                    .extend_from_slice(b"tanto: what was measured is kept; the same command with --resume goes on\n");
            }
            stop.code = if let Halt::Interrupted(signal) = halt { u8::try_from(128 + signal).unwrap_or(1) } else { 1 };
            return Ok(stop);
        }
        if let Some(verdict) = verdict.filter(|_| self.args.save) {
            match verdict.recommended() {
                Some(jobs) => stop.out.extend(saved(jobs)?.bytes()),
                None => {
                    stop.err = b"tanto: error: --save: nothing is saved, for there is no recommendation\n".to_vec();
                    stop.code = 1;
                }
            }
        }
        Ok(stop)
    }

    /// Where it is written.
    fn kept(&self) -> String {
        let paths = self.outputs.iter().map(|output| &output.path).chain(&self.args.append);
        let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let text = self.outputs.iter().filter(|output| output.form == Form::Text);
        let lines: String = text.map(|output| file::text::gnuplot(&output.path) + "\n").collect();
        format!("Written: {}\n{lines}", names.join(", "))
    }
}

/// Makes this number of jobs the default of the tree, and says so.
fn saved(jobs: u32) -> Result<String, Vec<u8>> {
    let config = settings::build_file(None);
    let before = save::save(&config, jobs)?;
    let before = before.map(|jobs| format!(" (it was {jobs})")).unwrap_or_default();
    Ok(format!("{}: jobs = {jobs}{before}\n", config.display()))
}

/// The files that were asked for; the first is of JSON, from which another run could go on.
fn outputs(args: &Args) -> Result<Vec<Output>, Vec<u8>> {
    let (mut outputs, others): (Vec<Output>, Vec<Output>) =
        args.outputs.iter().cloned().partition(|output| output.form == Form::Json);
    if outputs.is_empty() {
        let own = PathBuf::from(OWN_FILE);
        measure::make(Path::new(PLACE_OF_OURS)).map_err(|error| refused(&own, &error))?;
        outputs.push(Output { path: own, form: Form::Json });
    }
    outputs.extend(others);
    outputs.iter().try_for_each(Output::check)?;
    Ok(outputs)
}

/// The experiment that is gone on with, if it was made the same way.
fn resumed(path: &Path, setup: Setup) -> Result<Experiment, Vec<u8>> {
    let shown = path.as_os_str().as_encoded_bytes();
    let blame = |why: &[u8]| [b"--resume: ", shown, b": ", why].concat();
    let text = tanto_sys::fs::file::read(shown).map_err(|error| blame(&tanto_sys::error::text(&error)))?;
    let before = file::json::read(&text).map_err(|why| blame(&why))?;
    let differences = setup.differences(&before.setup);
    if differences.is_empty() {
        return Ok(before);
    }
    Err(blame(format!("it was measured in another way:\n  {}", differences.join("\n  ")).as_bytes()))
}

#[cfg(test)]
mod tests;
