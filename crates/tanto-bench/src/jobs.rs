//! `tanto bench jobs`: the best number of jobs for a command.

mod analysis;
mod append;
mod bottlenecks;
mod experiment;
pub mod file;
mod options;
mod order;
mod save;
mod table;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::measure::{self, Executor, LocalExecutor, RunError, conditions};
use crate::output::{Format, OutputFile};
use crate::random::new_seed;
use analysis::JobsAnalysis;
use append::AppendFile;
use experiment::{Experiment, JobsRun, Setup};
use file::FileError;
use options::{PLACEHOLDER, replace_all};
use table::RunTable;
use tanto_exec::command_output::CommandOutput;

pub use options::{JobCounts, JobsOptions};

/// Results and logs of failures.
const STATE_DIR: &str = ".tanto/bench";
/// The default result file.
const DEFAULT_FILE: &str = ".tanto/bench/jobs.json";

/// Runs the experiment. Prints each run at once; the outcome holds the conclusions.
pub fn run(options: &JobsOptions) -> Result<CommandOutput, Error> {
    options.check()?;
    let mut session = Session::new(options)?;
    let mut executor = LocalExecutor::new(options.controls.clone(), Path::new(STATE_DIR))?;
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let on_terminal = out.is_terminal() && err.is_terminal();
    let progress: Option<&mut dyn Write> = if on_terminal { Some(&mut err) } else { None };
    let error = session.measure(&mut executor, &mut RunTable { out: &mut out, progress }).err();
    drop(executor);
    session.finish(error)
}

/// An experiment in progress.
struct Session<'s> {
    options: &'s JobsOptions,
    experiment: Experiment,
    seed: Option<u64>,
    remaining: Vec<u32>,
    /// The first one is JSON with all measurements.
    outputs: Vec<OutputFile>,
    append: Option<AppendFile>,
}

impl Session<'_> {
    /// Checks that all results can be written before anything runs.
    fn new(options: &JobsOptions) -> Result<Session<'_>, Error> {
        let setup = Setup::new(options)?;
        let outputs = outputs(options)?;
        if let Some(config) = &options.save_to {
            save::check(config)?;
        }
        let experiment = match options.resume {
            true => resume(&outputs[0].path, setup)?,
            false => Experiment { setup, runs: Vec::new() },
        };
        let seed = options.shuffled.then(|| options.seed.unwrap_or_else(new_seed));
        let order = order::run_order(&options.counts.0, options.runs, seed);
        let remaining = order::remaining(order, experiment.runs.iter().map(|run| run.jobs));
        let append = options.append.as_ref().map(|path| AppendFile::open(path, &experiment.setup)).transpose()?;
        Ok(Session { options, experiment, seed, remaining, outputs, append })
    }

    /// Runs all remaining runs. Writes each result before the next run starts.
    fn measure(&mut self, executor: &mut dyn Executor, table: &mut RunTable<'_>) -> Result<(), RunError> {
        table.print(&self.introduction());
        if self.remaining.is_empty() {
            return Ok(());
        }
        table.head();
        let started = executor.now();
        let (done, all) = (self.experiment.runs.len(), self.experiment.runs.len() + self.remaining.len());
        for line in &self.options.prepare_once {
            executor.prepare(line)?;
        }
        let line = self.options.line();
        let mut ran = Duration::ZERO;
        let remaining = std::mem::take(&mut self.remaining);
        for (nth, &jobs) in remaining.iter().enumerate() {
            let spent = executor.now().saturating_sub(started);
            let left = table::time_left(&self.experiment, &remaining[nth..], spent, ran);
            table.start(done + nth + 1, all, jobs, left);
            let count = jobs.to_string();
            let with_count = |line: &[u8]| replace_all(line, PLACEHOLDER, count.as_bytes());
            for line in &self.options.prepare {
                executor.prepare(&with_count(line))?;
            }
            let run = JobsRun { jobs, sample: executor.run(&with_count(&line))? };
            ran += run.sample.wall;
            table.row(&run);
            if let Some(file) = &mut self.append {
                file.add(&run)?;
            }
            self.experiment.runs.push(run);
            for output in &self.outputs {
                output.write(&file::render(&self.experiment, output))?;
            }
        }
        Ok(())
    }

    fn introduction(&self) -> String {
        let order = self.seed.map_or("in the given order".to_owned(), |seed| format!("shuffled with --seed {seed}"));
        let command = &self.experiment.setup.command;
        let resumed = match self.experiment.runs.len() {
            0 => String::new(),
            done => format!(" after {done} earlier ones"),
        };
        format!("{command}: {} runs{resumed}, {order}\n{}\n\n", self.remaining.len(), self.experiment.place())
    }

    /// Prints the conclusions and the error, and saves the recommendation.
    fn finish(&self, error: Option<RunError>) -> Result<CommandOutput, Error> {
        let mut outcome = CommandOutput::default();
        let analysis = JobsAnalysis::of(&self.experiment);
        if let Some(analysis) = &analysis {
            outcome.print(&format!("\n{}", analysis.text()));
            let samples = self.experiment.runs.iter().map(|run| &run.sample);
            outcome.print(&conditions::report(samples, &self.options.controls, &self.experiment.setup.machine));
            outcome.print(&self.written());
        }
        if let Some(error) = error {
            let code =
                if let RunError::Interrupted(signal) = error { u8::try_from(128 + signal).unwrap_or(1) } else { 1 };
            outcome.fail(&error.message(), code);
            if analysis.is_some() {
                outcome.err.extend_from_slice(b"tanto: run the same command with --resume to continue\n");
            }
            return Ok(outcome);
        }
        if let (Some(analysis), Some(config)) = (analysis, &self.options.save_to) {
            match analysis.recommended() {
                Some(jobs) => {
                    let before = save::save(config, jobs)?;
                    let before = before.map(|jobs| format!(" (was {jobs})")).unwrap_or_default();
                    outcome.print(&format!("{}: jobs = {jobs}{before}\n", config.display()));
                }
                None => outcome.fail(b"--save: there is no recommendation to save", 1),
            }
        }
        Ok(outcome)
    }

    /// Lists the files written.
    fn written(&self) -> String {
        let paths = self.outputs.iter().map(|output| &output.path).chain(&self.options.append);
        let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let text = self.outputs.iter().filter(|output| output.format == Format::Text);
        let lines: String = text.map(|output| file::text::gnuplot(&output.path) + "\n").collect();
        format!("Written: {}\n{lines}", names.join(", "))
    }
}

/// Returns the requested files; the first is JSON, which `--resume` reads.
fn outputs(options: &JobsOptions) -> Result<Vec<OutputFile>, Error> {
    let (mut outputs, others): (Vec<OutputFile>, Vec<OutputFile>) =
        options.outputs.iter().cloned().partition(|output| output.format == Format::Json);
    if outputs.is_empty() {
        let path = PathBuf::from(DEFAULT_FILE);
        measure::create_log_dir(Path::new(STATE_DIR)).map_err(|error| Error::write(&path, &error))?;
        outputs.push(OutputFile { path, format: Format::Json });
    }
    outputs.extend(others);
    outputs.iter().try_for_each(OutputFile::check)?;
    Ok(outputs)
}

/// Reads an experiment with the same setup.
fn resume(path: &Path, setup: Setup) -> Result<Experiment, Error> {
    let text = tanto_sys::fs::file::read(path.as_os_str().as_encoded_bytes());
    let text = text.map_err(|error| Error::read(path, &error))?;
    let refused = |error| Error::Resume { path: path.into(), error };
    let before = file::json::read(&text).map_err(refused)?;
    let differences = setup.differences(&before.setup);
    if differences.is_empty() { Ok(before) } else { Err(refused(FileError::OtherSetup(differences))) }
}
