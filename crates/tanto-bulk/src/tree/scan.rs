//! Asks a tree's directories what packages they make, and does not ask again where nothing has changed that the answer
//! rests on. Does not know how commands are run, nor what becomes of the answers.

mod ask;
mod base;
mod environment;
mod files;
mod import;
mod inputs;
mod list;
mod output;
mod rows;
mod session;
mod sight;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use tanto_exec::clock::Clock;
use tanto_exec::event::View;
use tanto_exec::runner::Runner;
use tanto_record::database::{Database, DatabaseError};
use thiserror::Error;

pub use self::import::{Imported, import};
pub use self::list::BadList;
use self::rows::{Rows, TOP};
use self::session::Session;
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::package::records;
use crate::resolve::{Finding, resolve};

/// What a scan needs.
pub struct Scan<'a> {
    /// What is scanned, and with what.
    pub config: &'a Config,
    /// What executes commands.
    pub runner: &'a mut dyn Runner,
    /// Who looks on.
    pub view: &'a mut dyn View,
    /// What time it is.
    pub clock: &'a dyn Clock,
    /// Says what makefiles need not ask the system then (`facts`); called where there is something to ask.
    pub facts: &'a dyn Fn() -> Vec<String>,
    /// Of answers that would be used again, so many of 100 are asked for again and compared.
    pub verify: f64,
    /// Which of them: another number, another sample.
    pub seed: u64,
}

/// What a scan has brought.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ScanReport {
    /// The records of all directories, in their order, each package once: pbulk's `pscan`.
    pub records: Vec<u8>,
    /// Packages that are not among them, for another one has their name.
    pub duplicates: Vec<Duplicate>,
    /// So many of the records, the first ones, are of what is wanted. The others are of what that needs.
    pub wanted: usize,
    /// So many directories were scanned.
    pub scanned: usize,
    /// Of so many the last answer still holds.
    pub reused: usize,
    /// So many commands were started.
    pub started: usize,
    /// So many directories that need not have been were scanned, to compare.
    pub verified: usize,
    /// Those of them that gave another answer.
    pub differing: Vec<String>,
    /// Directories that gave none, with what they printed.
    pub failed: Vec<(String, String)>,
}

/// A package that is made twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// Its name.
    pub name: String,
    /// The directory whose package it is.
    pub first: String,
    /// The one that makes it too.
    pub second: String,
}

impl Duplicate {
    fn of(name: &[u8], first: &[u8], second: &[u8]) -> Duplicate {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Duplicate { name: text(name), first: text(first), second: text(second) }
    }

    /// For the user.
    pub fn told(&self) -> String {
        let Duplicate { name, first, second } = self;
        match first == second {
            true => format!("{first} makes {name} more than once; the first is taken"),
            false => format!("{name} is made in {first} and in {second}; the first is taken"),
        }
    }
}

/// Why a scan failed.
#[derive(Debug, Error)]
pub enum ScanError {
    #[error("{path}: {}", cause(.error))]
    NoList { path: String, error: io::Error },
    #[error("{path}:{}: expected category/directory: {}", .bad.line, .bad.text)]
    List { path: String, bad: BadList },
    /// The makefile at the top of the tree failed; with its output.
    #[error("{pkgsrc} does not list its directories:\n{}", output.trim_end())]
    Tree { pkgsrc: String, output: String },
    #[error("script_phase_scan failed:\n{}", .0.trim_end())]
    Script(String),
    /// The database has the answers until then.
    #[error("interrupted by user")]
    Interrupted,
    #[error("{0}")]
    Stopped(String),
    #[error("the database: {0}")]
    Store(#[from] DatabaseError),
}

impl From<ScanError> for BulkError {
    fn from(error: ScanError) -> BulkError {
        match error {
            ScanError::Interrupted => BulkError::Interrupted,
            ScanError::Store(error) => BulkError::Database(error),
            error => BulkError::Invalid(error.to_string()),
        }
    }
}

impl Scan<'_> {
    /// Runs what the user wants to be run before a scan, which may change all that is scanned.
    pub fn script(mut self, store: Database) -> Result<Database, ScanError> {
        session::script(&mut self, store)
    }

    /// Scans what the configuration names. The report, and the database, which has all answers.
    pub fn run(self, store: Database) -> Result<(ScanReport, Database), ScanError> {
        let limited = limited(self.config)?;
        let mut session = Session::begin(self, &store)?;
        match limited {
            None => {
                let (locations, store) = session.tree(store)?;
                let store = session.directories(&locations, store)?;
                Ok((session.end(&locations, &locations), store))
            }
            Some(wanted) => fixed_point(session, wanted, store),
        }
    }
}

impl Scan<'_> {
    /// Scans these directories, and those that they name and that are not `known`, until all are known that can be scanned.
    pub fn some(
        self,
        wanted: Vec<String>,
        known: &dyn Fn(&str) -> bool,
        mut store: Database,
    ) -> Result<(ScanReport, Database), ScanError> {
        let mut session = Session::begin(self, &store)?;
        let (mut locations, mut next) = (wanted.clone(), wanted.clone());
        while !next.is_empty() {
            store = session.directories(&next, store)?;
            let needed = session.needed(&next);
            next.clear();
            for location in needed.into_iter().filter(|it| list::is_location(it) && !known(it)) {
                if !locations.contains(&location) {
                    locations.push(location.clone());
                    next.push(location);
                }
            }
        }
        Ok((session.end(&locations, &wanted), store))
    }
}

/// Where a scan's commands write, besides what is for nobody else.
pub fn written(config: &Config) -> [PathBuf; 2] {
    session::written(config)
}

/// Scans what is wanted, and again what that lacks, until it lacks nothing that can be scanned.
fn fixed_point(
    mut session: Session<'_>,
    wanted: Vec<String>,
    mut store: Database,
) -> Result<(ScanReport, Database), ScanError> {
    let mut locations = wanted.clone();
    let mut next = wanted.clone();
    while !next.is_empty() {
        store = session.directories(&next, store)?;
        next = lacking(session.rows(), &wanted, &locations);
        locations.extend(next.iter().cloned());
    }
    Ok((session.end(&locations, &wanted), store))
}

/// The directories that the configuration names; none if that is the whole tree.
fn limited(config: &Config) -> Result<Option<Vec<String>>, ScanError> {
    Ok(match config.limited_list.as_str() {
        "" => None,
        path => {
            let name = || path.to_owned();
            let text = std::fs::read(path).map_err(|error| ScanError::NoList { path: name(), error })?;
            Some(list::limited(&text).map_err(|bad| ScanError::List { path: name(), bad })?)
        }
    })
}

/// What the last scans have said of the packages that the configuration names, whether it still holds or not: the
/// records, how many of them are of what is wanted, and directories that gave none. Runs nothing.
pub fn known(config: &Config, store: &Database) -> Result<ScanReport, ScanError> {
    let rows = Rows::of(store)?;
    let (locations, wanted) = match limited(config)? {
        None if rows.get(TOP).is_none() => {
            let output = "it was not scanned yet".into();
            return Err(ScanError::Tree { pkgsrc: config.pkgsrc.clone(), output });
        }
        None => (rows.tree(), rows.tree()),
        Some(wanted) => {
            let mut locations = wanted.clone();
            loop {
                let next = lacking(&rows, &wanted, &locations);
                if next.is_empty() {
                    break (locations, wanted);
                }
                locations.extend(next);
            }
        }
    };
    let (records, wanted, duplicates) = output::joined(rows.answers(&locations), rows.answers(&wanted).count());
    let failed = |location: &String| Some((location.clone(), rows.failure(location)?.clone()));
    let failed = locations.iter().filter_map(failed).collect();
    Ok(ScanReport { records, wanted, duplicates, failed, ..ScanReport::default() })
}

/// What would have to be scanned besides these locations, which begin with what is wanted.
fn lacking(rows: &Rows, wanted: &[String], locations: &[String]) -> Vec<String> {
    let found = missing(&rows.records(locations), &rows.records(wanted));
    found.into_iter().filter(|it| !locations.contains(it)).collect()
}

/// The directories of what these records lack; what is wanted of them are the first.
fn missing(text: &[u8], first: &[u8]) -> Vec<String> {
    let Ok(all) = records::read(text) else { return Vec::new() };
    let resolution = resolve(&all, count(first));
    let location = |finding: &Finding<'_>| match finding {
        Finding::NoMatch { location, .. } => std::str::from_utf8(location).ok().map(str::to_owned),
        _ => None,
    };
    let mut found: Vec<String> = Vec::new();
    for location in resolution.findings.iter().filter_map(location).filter(|it| list::is_location(it)) {
        if !found.contains(&location) {
            found.push(location);
        }
    }
    found
}

fn count(records: &[u8]) -> usize {
    records::read(records).map_or(0, |records| records.len())
}
