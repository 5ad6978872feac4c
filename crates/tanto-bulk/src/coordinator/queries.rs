//! Answers `tanto bulk status`, `why` and `log` from the running build or the database.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tanto_record::database::{AttemptRow, Database, PackageRow};

use super::control_socket::{self, AskError, REMOTE, Request, Response};
use super::plan::Plan;
use super::state::{Detail, State};
use super::{explain, follow, phase_file, provenance, state_dir, verification};
use crate::config::Config;
use crate::error::BulkError;
use crate::package::name::Name;

/// Describes the running build; `None` if none runs.
pub fn running(config: &Config) -> Result<Option<String>, BulkError> {
    match control_socket::ask(Path::new(&config.state), &Request::Status) {
        Ok(answer) => Ok(Some(String::from_utf8_lossy(&answer.out).into_owned())),
        Err(AskError::NoBuild) => Ok(phase_file::describe(config)),
        Err(error) => Err(error.message().into()),
    }
}

/// The last run in the database.
pub struct LastRun {
    pub store: Database,
    pub run: i64,
    pub has_ended: bool,
    pub packages: Vec<PackageRow>,
}

impl LastRun {
    /// Reads it without locking the state.
    pub fn read(config: &Config) -> Result<LastRun, BulkError> {
        LastRun::of(state_dir::open_read_only(config)?)
    }

    pub fn of(store: Database) -> Result<LastRun, BulkError> {
        let (run, ended) = store.last_run()?.ok_or(BulkError::NothingBuilt)?;
        let packages = store.packages(run)?;
        Ok(LastRun { store, run, has_ended: ended.is_some(), packages })
    }

    pub fn plan(&self) -> Result<Plan, BulkError> {
        Ok(Plan::from_rows(&self.packages, &self.store.edges(self.run)?))
    }

    /// Finds a package by its name, or by its base or directory if that is unambiguous.
    pub fn find(&self, word: &str) -> Result<&PackageRow, BulkError> {
        let matches = |package: &&PackageRow| {
            package.location == word || Name::new(package.name.as_bytes()).base() == word.as_bytes()
        };
        if let Some(package) = self.packages.iter().find(|package| package.name == word) {
            return Ok(package);
        }
        let mut similar = self.packages.iter().filter(matches);
        match (similar.next(), similar.next()) {
            (Some(package), None) => Ok(package),
            (None, _) => Err(format!("there is no package '{word}'").into()),
            _ => Err(format!("'{word}' is ambiguous: give the version").into()),
        }
    }

    /// Returns the attempts at a package, in order.
    pub fn attempts_of(&self, package: &PackageRow) -> Result<Vec<AttemptRow>, BulkError> {
        Ok(self.store.attempts(self.run)?.into_iter().filter(|it| it.job == package.job).collect())
    }

    /// Explains the state of a package, with its attempts and stages.
    pub fn why(&self, config: &Config, word: &str) -> Result<String, BulkError> {
        let LastRun { store, run, .. } = self;
        let package = self.find(word)?;
        let waiting = why_waiting(config, package);
        let state = waiting.as_deref().unwrap_or(&package.state);
        let mut text = format!("{}: {state}{}\n", package.name, because(&package.why));
        let due = store.due(*run)?;
        if let Some((_, why)) = due.iter().find(|(due, _)| *due == package.package) {
            let _ = writeln!(text, "  must be built: {why}");
        }
        if waiting.is_none() {
            text += &explain::explain(&self.plan()?, package.package);
        }
        if package.state == State::Done.name()
            && let Some(row) = store.provenance_of(&package.name)?
        {
            let distrusted = if store.distrusted_tokens()?.contains(&row.token) { ", which is distrusted" } else { "" };
            let _ = writeln!(text, "  {}{distrusted}", provenance::describe(&row));
            let verified = store.verification_of(&package.name)?.filter(|it| Some(it.digest) == row.digest);
            verified.iter().for_each(|it| text += &format!("  {}\n", verification::describe(it)));
        }
        for attempt in self.attempts_of(package)? {
            let outcome = if attempt.outcome.is_empty() { "running" } else { &attempt.outcome };
            let _ = writeln!(text, "  attempt {}: {outcome}{}", attempt.attempt, because(&attempt.why));
        }
        for stage in store.stages(*run)?.iter().filter(|it| it.job == package.job) {
            let (wall, cpu) = (stage.wall_ms as f64 / 1e3, stage.cpu_ms as f64 / 1e3);
            // Logs of built packages are removed.
            let log = if Path::new(&stage.log).exists() { format!("  {}", stage.log) } else { String::new() };
            let _ = writeln!(text, "    {:12} exit {:3} {wall:9.2} s {cpu:9.2} s cpu{log}", stage.stage, stage.exit);
        }
        Ok(text)
    }

    /// Returns the log of a package: of the named stage, or else of the last one that has a log.
    pub fn log(&self, config: &Config, word: &str, wanted: Option<&str>) -> Result<String, BulkError> {
        let package = self.find(word)?;
        let request = Request::Log { package: package.name.clone(), stage: wanted.map(str::to_owned) };
        if package.state == State::Running.name()
            && let Ok(Response { code, out, .. }) = control_socket::ask(Path::new(&config.state), &request)
        {
            match code {
                0 => return Ok(String::from_utf8_lossy(&out).into_owned()),
                REMOTE => return follow::remote_log(config, &package.name),
                _ => {}
            }
        }
        let stages = self.store.stages(self.run)?;
        let is_wanted = |stage: &str| wanted.is_none_or(|wanted| wanted == stage) && stage != "clean";
        let mut with_log = stages.iter().rev().filter(|it| !it.log.is_empty() && Path::new(&it.log).exists());
        let stage = with_log.find(|it| it.job == package.job && is_wanted(&it.stage));
        let stage = stage.ok_or_else(|| format!("there is no such log for {}", package.name))?;
        let text = fs::read(&stage.log).map_err(BulkError::io("reading ", &stage.log))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Asks the running build why a ready package waits; `None` if it is not ready or no build answers.
fn why_waiting(config: &Config, package: &PackageRow) -> Option<String> {
    if package.state != State::Open.name() {
        return None;
    }
    let answer = control_socket::ask(Path::new(&config.state), &Request::Why(package.name.clone())).ok()?;
    let is_waiting = answer.code == 0 && !answer.out.is_empty();
    is_waiting.then(|| String::from_utf8_lossy(&answer.out).into_owned())
}

/// Summarizes a run: counts of states, and the failed packages.
pub fn summary(store: &Database, run: i64) -> Result<String, BulkError> {
    let packages = store.packages(run)?;
    if packages.is_empty() {
        return Ok("a build was interrupted before its packages: run 'tanto bulk build' to continue it\n".into());
    }
    let mut text = format!("{} packages", packages.len());
    for state in State::ALL {
        let in_state = packages.iter().filter(|package| package.state == state.name());
        let count = in_state.clone().count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", state.name());
        }
        let up_to_date = in_state.filter(|it| it.detail == Detail::UpToDate.name()).count();
        if up_to_date > 0 {
            let _ = write!(text, " ({up_to_date} up to date before)");
        }
    }
    text.push('\n');
    text += &verification::summary(&store.verifications(run)?);
    for state in [State::Failed.name(), State::MachineFailed.name()] {
        for package in packages.iter().filter(|package| package.state == state) {
            let _ = writeln!(text, "{state}: {}{}", package.name, because(&package.why));
        }
    }
    Ok(text)
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}
