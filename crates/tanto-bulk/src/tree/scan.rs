//! Scans package trees. Results are reused while their inputs are unchanged.

mod base;
mod batch;
mod cache_key;
mod commands;
mod environment;
mod files;
mod import;
mod list;
mod output;
mod path_view;
mod remote;
mod rows;
mod session;
mod summary;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use tanto_exec::clock::Clock;
use tanto_exec::event::View;
use tanto_exec::runner::Runner;
use tanto_record::database::{Database, DatabaseError};
use thiserror::Error;

pub use self::batch::BatchScanner;
pub use self::files::now_ns;
pub use self::import::{Imported, import};
pub use self::list::BadList;
pub use self::remote::{RemoteResult, RemoteScanners};
use self::rows::{StoredScans, TOP};
use self::session::Session;
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::package::records;
use crate::resolve::{Finding, resolve};

pub struct Scan<'a> {
    pub config: &'a Config,
    pub runner: &'a mut dyn Runner,
    pub view: &'a mut dyn View,
    pub clock: &'a dyn Clock,
    /// Returns platform variables for make; called if something is scanned.
    pub facts: &'a dyn Fn() -> Vec<String>,
    /// The percentage of reusable results that are scanned again and compared.
    pub verify: f64,
    /// The seed of that sample.
    pub seed: u64,
    /// Other machines that scan directories too.
    pub remote: Option<&'a mut dyn RemoteScanners>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ScanReport {
    /// All records in the order of directories, each package once: pbulk's `pscan`.
    pub records: Vec<u8>,
    /// Packages left out because of a duplicate name.
    pub duplicates: Vec<Duplicate>,
    /// The number of records of wanted directories, which come first; the rest are dependencies.
    pub wanted: usize,
    /// The number of scanned directories.
    pub scanned: usize,
    /// The number of reused results.
    pub reused: usize,
    /// The number of commands.
    pub started: usize,
    /// The number of directories scanned for comparison.
    pub verified: usize,
    /// Directories with another result.
    pub differing: Vec<String>,
    /// Directories that could not be scanned, with their output.
    pub failed: Vec<(String, String)>,
}

/// A package name that is made twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    pub name: String,
    /// The directory that is used.
    pub first: String,
    /// The other directory.
    pub second: String,
}

impl Duplicate {
    fn of(name: &[u8], first: &[u8], second: &[u8]) -> Duplicate {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Duplicate { name: text(name), first: text(first), second: text(second) }
    }

    pub fn message(&self) -> String {
        let Duplicate { name, first, second } = self;
        match first == second {
            true => format!("{first} makes {name} more than once: using the first"),
            false => format!("{name} is made in {first} and in {second}: using the first"),
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
    #[error("cannot list the directories of {pkgsrc}:\n{}", output.trim_end())]
    Tree { pkgsrc: String, output: String },
    #[error("script_phase_scan failed:\n{}", .0.trim_end())]
    Script(String),
    /// The database has the results until then.
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
    /// Runs `script_phase_scan`, which may change the tree.
    pub fn script(mut self, store: Database) -> Result<Database, ScanError> {
        session::script(&mut self, store)
    }

    /// Scans what the configuration names. Returns the report and the database with all results.
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
    /// Scans directories and, transitively, their dependencies that are not `known`.
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

/// Directories that commands of a scan write to, besides private ones.
pub fn written(config: &Config) -> [PathBuf; 2] {
    session::written(config)
}

/// Scans wanted directories and missing dependencies until no more can be scanned.
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

/// The directories of `limited_list`; `None` for the whole tree.
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

/// Returns the last results for the configured directories, even stale ones. Runs nothing.
pub fn known(config: &Config, store: &Database) -> Result<ScanReport, ScanError> {
    let rows = StoredScans::of(store)?;
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

/// Directories to scan besides these, of which the wanted ones come first.
fn lacking(rows: &StoredScans, wanted: &[String], locations: &[String]) -> Vec<String> {
    let found = missing(&rows.records(locations), &rows.records(wanted));
    found.into_iter().filter(|it| !locations.contains(it)).collect()
}

/// Directories of missing dependencies; wanted records come first.
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
