//! Measures the cost of the coordinator: a bulk build of a resolved scan in which stages do nothing. With `fake`, no process
//! is started; with a command, it replaces the stage `build` of each package.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tanto_bulk::attempt::build_settings::BuildSettings;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::Build;
use tanto_bulk::coordinator::control_socket::NoControl;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::sources::Sources;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::coordinator::workdirs::Workdirs;
use tanto_bulk::package::records;
use tanto_bulk::resolve::depends_of;
use tanto_exec::clock::RealClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::Cost;
use tanto_exec::job::{Command, Completion, Exit, JobId};
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_record::database::Database;
use tanto_record::database::journal::Journal;

struct NoView;

impl View for NoView {
    fn event(&mut self, _: Event<'_>) {}
}

/// Runs one command for each build stage; other stages succeed at once.
struct Builds {
    runner: ProcessRunner,
    command: Command,
    done: VecDeque<JobId>,
}

impl Runner for Builds {
    fn capacity(&mut self) -> usize {
        self.runner.capacity().saturating_sub(self.done.len())
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        if memchr::memmem::find(&command.line, b" all BATCH=1 ").is_some() {
            return self.runner.start(job, &self.command, expected);
        }
        self.done.push_back(job);
        Ok(())
    }

    fn has_completed(&self) -> bool {
        !self.done.is_empty() || self.runner.has_completed()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        let Some(job) = self.done.pop_front() else { return self.runner.wait(most) };
        Ok(Wakeup::Completed(Completion::new(job, Exit::Code(0), Vec::new())))
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.runner.abort()
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [resolved, directory, command, jobs] = &arguments[..] else {
        eprintln!("usage: coordinate RESOLVED DIRECTORY fake|COMMAND JOBS");
        return ExitCode::FAILURE;
    };
    match coordinate(resolved, &PathBuf::from(directory), command, jobs.parse().unwrap_or(1)) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn coordinate(resolved: &str, directory: &Path, command: &str, jobs: usize) -> Result<String, String> {
    let text = std::fs::read(resolved).map_err(|error| format!("{resolved}: {error}"))?;
    let records = records::read(&text).map_err(|error| format!("{resolved}:{error}"))?;
    let depends = depends_of(&records).map_err(|_| format!("{resolved}: unresolved dependencies"))?;
    let plan = Plan::new(&records, &depends).map_err(|bad| format!("{bad:?}"))?;
    let mut store = Database::open(&directory.join("db")).map_err(|error| error.to_string())?;
    let run = store.begin_run(0).map_err(|error| error.to_string())?;
    let mut journal = Journal::start(store, run).map_err(|error| error.to_string())?;
    plan.rows().for_each(|change| journal.record(change));
    let times = vec![1; plan.packages.len()];
    let mut runner: Box<dyn Runner> = match command {
        "fake" => Box::new(FakeRunner::new(jobs, |_: &Command| Effect::success())),
        line => {
            let options = RunnerOptions { parallelism: jobs, ..RunnerOptions::default() };
            let runner = ProcessRunner::new(options).map_err(|error| error.to_string())?;
            Box::new(Builds {
                runner,
                command: Command { line: line.into(), ..Command::default() },
                done: VecDeque::new(),
            })
        }
    };
    let (settings, clock) = (settings(directory)?, RealClock::start());
    let build = Build {
        settings: &settings,
        runner: &mut *runner,
        view: &mut NoView,
        clock: &clock,
        epoch_ms: 0,
        control: &mut NoControl,
        sources: Sources::default(),
        workdirs: Workdirs::of(&directory.to_string_lossy()),
        farm: None,
        keeps_provenance: false,
        sampler: None,
    };
    let (_, plan, journal) = build.run(plan, &times, journal).map_err(|bad| format!("{bad:?}"))?;
    journal.finish().map_err(|error| error.to_string())?;
    let counts = State::ALL.iter().zip(plan.counts()).map(|(state, count)| format!("{} {count}", state.name()));
    Ok(counts.collect::<Vec<_>>().join(", "))
}

/// Paths below the directory.
const SETTINGS: &str =
    "pkgsrc = 'pkgsrc'\nmake = 'make'\nprefix = 'prefix'\npkgdb = 'pkgdb'\nbootstrapkit = 'kit'\nmake_jobs = 1\n";

fn settings(directory: &Path) -> Result<BuildSettings, String> {
    let config = Config::read(SETTINGS, directory).map_err(|error| format!("{error:?}"))?;
    Ok(BuildSettings::new(&config))
}
