//! Reports of bulk builds: failures, their dependents, changes, costs. A function of the database rows of a run.

pub mod changes;
pub mod costs;
pub mod dependents;
pub mod errors;
mod html;
mod json;
pub mod machine;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

use std::collections::HashMap;

use tanto_record::database::{self, AttemptRow, Database, EstimateRow, PackageRow, RunRow, StageRow, VerificationRow};

use crate::coordinator::state::{Detail, MACHINE, State};
use crate::coordinator::verification;
use crate::package::records::Record;
use changes::Changes;
use costs::Costs;
use errors::ErrorLines;

/// The rows of a run, and the packages of the run before.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRows {
    pub run: RunRow,
    pub packages: Vec<PackageRow>,
    /// Package and dependency.
    pub edges: Vec<(u32, u32)>,
    pub attempts: Vec<AttemptRow>,
    pub stages: Vec<StageRow>,
    pub expected: Vec<EstimateRow>,
    pub verifications: Vec<VerificationRow>,
    pub earlier: Option<(RunRow, Vec<PackageRow>)>,
}

impl RunRows {
    /// Reads the last run.
    pub fn read(store: &Database) -> database::Result<Option<RunRows>> {
        let runs = store.runs()?;
        let Some((&run, before)) = runs.split_last() else { return Ok(None) };
        let earlier = match before.last() {
            Some(&earlier) => Some((earlier, store.packages(earlier.run)?)),
            None => None,
        };
        Ok(Some(RunRows {
            run,
            packages: store.packages(run.run)?,
            edges: store.edges(run.run)?,
            attempts: store.attempts(run.run)?,
            stages: store.stages(run.run)?,
            expected: store.expected(run.run)?,
            verifications: store.verifications(run.run)?,
            earlier,
        }))
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Report<'r> {
    rows: &'r RunRows,
    /// By package; empty if unknown.
    maintainers: Vec<String>,
    /// Failed packages, most blocking first.
    pub failures: Vec<Failure>,
    /// Excluded packages, most blocking first.
    pub masked: Vec<Excluded>,
    /// Compared with the run before.
    pub changes: Option<Changes>,
    pub costs: Costs,
    pub retries: Vec<Retry>,
    /// Built packages with a remark, such as leftover processes.
    pub notes: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub package: u32,
    /// The number of dependents, direct or not.
    pub blocks: usize,
    /// The failed stage; empty if unknown.
    pub stage: String,
    /// The log; empty if it was removed.
    pub log: String,
    /// The error in the log.
    pub found: Option<ErrorLines>,
}

/// A package that cannot be built, or was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excluded {
    pub package: u32,
    /// The number of dependents, direct or not.
    pub blocks: usize,
}

/// An attempt that was repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retry {
    pub package: u32,
    pub attempt: u32,
    pub client: String,
    pub why: String,
}

/// Whether the attempts were used up.
const FAILED: [State; 2] = [State::Failed, State::MachineFailed];

impl<'r> Report<'r> {
    /// Makes the report. `log` returns the end of a file, at least `errors::TAIL_BYTES` bytes; `records` name the
    /// maintainers.
    pub fn new(rows: &'r RunRows, records: &[Record<'_>], log: impl Fn(&str) -> Option<Vec<u8>>) -> Report<'r> {
        let blocks = dependents::dependents(rows.packages.len(), &rows.edges);
        let mut failures: Vec<Failure> = FAILED
            .iter()
            .flat_map(|&it| in_state(rows, it))
            .map(|it| failure(rows, it.package, &blocks, &log))
            .collect();
        let masked = |it: &PackageRow| Excluded { package: it.package, blocks: blocked(&blocks, it.package) };
        let mut masked: Vec<Excluded> =
            [State::Prefailed, State::NeedsRoot].iter().flat_map(|&it| in_state(rows, it)).map(masked).collect();
        failures.sort_by_key(|it| (std::cmp::Reverse(it.blocks), it.package));
        masked.sort_by_key(|it| (std::cmp::Reverse(it.blocks), it.package));
        Report {
            rows,
            maintainers: maintainers(rows, records),
            failures,
            masked,
            changes: rows.earlier.as_ref().map(|(run, packages)| Changes::new(*run, packages, &rows.packages)),
            costs: Costs::new(rows),
            retries: retries(rows),
            notes: in_state(rows, State::Done).filter(|it| is_noted(it)).map(|it| it.package).collect(),
        }
    }

    fn package(&self, package: u32) -> &'r PackageRow {
        &self.rows.packages[package as usize]
    }

    /// Packages that were built again by other clients, unless all packages are the same.
    fn unequal(&self) -> impl Iterator<Item = &'r VerificationRow> {
        self.rows.verifications.iter().filter(|row| verification::is_unequal(row))
    }

    fn maintainer(&self, package: u32) -> &str {
        self.maintainers.get(package as usize).map_or("", |it| it)
    }

    /// Counts packages by state in the order of `State::ALL`, without zeros.
    pub fn counts(&self) -> Vec<(State, usize)> {
        let count = |state: State| (state, in_state(self.rows, state).count());
        State::ALL.into_iter().map(count).filter(|&(_, count)| count > 0).collect()
    }
}

fn in_state(rows: &RunRows, state: State) -> impl Iterator<Item = &PackageRow> {
    rows.packages.iter().filter(move |it| it.state == state.name())
}

fn is_noted(package: &PackageRow) -> bool {
    !package.why.is_empty() && package.detail != Detail::UpToDate.name()
}

fn blocked(blocks: &[u32], package: u32) -> usize {
    blocks.get(package as usize).map_or(0, |&count| count as usize)
}

fn failure(rows: &RunRows, package: u32, blocks: &[u32], log: &impl Fn(&str) -> Option<Vec<u8>>) -> Failure {
    // Later stages clean up.
    let of_it = rows.stages.iter().filter(|it| it.job == rows.packages[package as usize].job);
    let stage = of_it.rev().find(|it| it.exit != 0);
    let path = stage.map(|it| it.log.clone()).unwrap_or_default();
    let text = if path.is_empty() { None } else { log(&path) };
    Failure {
        package,
        blocks: blocked(blocks, package),
        stage: stage.map(|it| it.stage.clone()).unwrap_or_default(),
        found: text.as_deref().and_then(errors::find),
        log: if text.is_some() { path } else { String::new() },
    }
}

fn maintainers(rows: &RunRows, records: &[Record<'_>]) -> Vec<String> {
    let maintainer =
        |record: &Record<'_>| String::from_utf8_lossy(record.value("MAINTAINER").unwrap_or_default()).into();
    let by_name: HashMap<&[u8], String> = records.iter().map(|record| (record.name, maintainer(record))).collect();
    rows.packages.iter().map(|it| by_name.get(it.name.as_bytes()).cloned().unwrap_or_default()).collect()
}

fn retries(rows: &RunRows) -> Vec<Retry> {
    let packages: HashMap<u32, &PackageRow> = rows.packages.iter().map(|it| (it.job, it)).collect();
    let is_last =
        |it: &AttemptRow| !rows.attempts.iter().any(|other| other.job == it.job && other.attempt > it.attempt);
    let retry = |it: &AttemptRow| {
        let package = *packages.get(&it.job)?;
        if package.state == State::MachineFailed.name() && is_last(it) {
            return None;
        }
        let package = package.package;
        Some(Retry { package, attempt: it.attempt, client: it.client.clone(), why: it.why.clone() })
    };
    rows.attempts.iter().filter(|it| it.outcome == MACHINE).filter_map(retry).collect()
}
