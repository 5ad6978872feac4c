//! What a bulk build has brought: what failed and why, what that blocks, what has changed, what it cost. Does not know
//! how rows are kept, nor where a report goes.

pub mod changes;
pub mod costs;
pub mod errors;
mod html;
mod json;
pub mod machine;
mod picture;
pub mod reach;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;

use tanto_record::database::{self, AttemptRow, Database, EstimateRow, PackageRow, RunRow, StageRow};

use crate::coordinator::state::{MACHINE, State};
use crate::package::records::Record;
use changes::Changes;
use costs::Costs;
use errors::Found;

/// All rows of a run, and the packages of the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows {
    /// The run.
    pub run: RunRow,
    /// By number.
    pub packages: Vec<PackageRow>,
    /// Which package needs which.
    pub edges: Vec<(u32, u32)>,
    /// By job.
    pub attempts: Vec<AttemptRow>,
    /// By job and time.
    pub stages: Vec<StageRow>,
    /// By package.
    pub expected: Vec<EstimateRow>,
    /// Of the run before, if there was one.
    pub earlier: Option<(RunRow, Vec<PackageRow>)>,
}

impl Rows {
    /// Of the last run; nothing if there was none.
    pub fn read(store: &Database) -> database::Result<Option<Rows>> {
        let runs = store.runs()?;
        let Some((&run, before)) = runs.split_last() else { return Ok(None) };
        let earlier = match before.last() {
            Some(&earlier) => Some((earlier, store.packages(earlier.run)?)),
            None => None,
        };
        Ok(Some(Rows {
            run,
            packages: store.packages(run.run)?,
            edges: store.edges(run.run)?,
            attempts: store.attempts(run.run)?,
            stages: store.stages(run.run)?,
            expected: store.expected(run.run)?,
            earlier,
        }))
    }
}

/// What is to be told of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report<'r> {
    rows: &'r Rows,
    /// By package; empty where that is not known.
    maintainers: Vec<String>,
    /// What failed; what blocks most comes first.
    pub failures: Vec<Failure>,
    /// What was not tried, for reasons of its own; what blocks most comes first.
    pub masked: Vec<Masked>,
    /// Against the run before.
    pub changes: Option<Changes>,
    /// What all of it took.
    pub costs: Costs,
    /// What was tried more than once.
    pub retries: Vec<Retry>,
    /// What was built, and of which there is something to say all the same: it left processes running, for one.
    pub notes: Vec<u32>,
}

/// A package that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which.
    pub package: u32,
    /// How many packages need it, directly or not.
    pub blocks: usize,
    /// The stage that failed; empty if that is not known.
    pub stage: String,
    /// The file with what that printed; empty if it is gone.
    pub log: String,
    /// What stands there.
    pub found: Option<Found>,
}

/// A package that says itself that it cannot be built, or was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Masked {
    /// Which.
    pub package: u32,
    /// How many packages need it, directly or not.
    pub blocks: usize,
}

/// An attempt that did not end as the package's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Whose.
    pub package: u32,
    /// Which attempt.
    pub attempt: u32,
    /// Who made it.
    pub client: String,
    /// Why it was made again.
    pub why: String,
}

/// What was tried in vain, whoever is to blame.
const FAILED: [State; 2] = [State::Failed, State::MachineFailed];

impl<'r> Report<'r> {
    /// What these rows tell. `log` gives the end of a file, at least what `errors::LOOKED_AT` wants; `records` tells who
    /// looks after packages.
    pub fn new(rows: &'r Rows, records: &[Record<'_>], log: impl Fn(&str) -> Option<Vec<u8>>) -> Report<'r> {
        let blocks = reach::dependents(rows.packages.len(), &rows.edges);
        let mut failures: Vec<Failure> = FAILED
            .iter()
            .flat_map(|&it| in_state(rows, it))
            .map(|it| failure(rows, it.package, &blocks, &log))
            .collect();
        let masked = |it: &PackageRow| Masked { package: it.package, blocks: blocked(&blocks, it.package) };
        let mut masked: Vec<Masked> =
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

    fn maintainer(&self, package: u32) -> &str {
        self.maintainers.get(package as usize).map_or("", |it| it)
    }

    /// How many packages are in each state, in the order of `State::ALL`; those with none are left out.
    pub fn counts(&self) -> Vec<(State, usize)> {
        let count = |state: State| (state, in_state(self.rows, state).count());
        State::ALL.into_iter().map(count).filter(|&(_, count)| count > 0).collect()
    }
}

fn in_state(rows: &Rows, state: State) -> impl Iterator<Item = &PackageRow> {
    rows.packages.iter().filter(move |it| it.state == state.name())
}

fn is_noted(package: &PackageRow) -> bool {
    !package.why.is_empty() && package.why != State::UP_TO_DATE
}

fn blocked(blocks: &[u32], package: u32) -> usize {
    blocks.get(package as usize).map_or(0, |&count| count as usize)
}

fn failure(rows: &Rows, package: u32, blocks: &[u32], log: &impl Fn(&str) -> Option<Vec<u8>>) -> Failure {
    // What came after the failure cleaned up.
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

fn maintainers(rows: &Rows, records: &[Record<'_>]) -> Vec<String> {
    let maintainer =
        |record: &Record<'_>| String::from_utf8_lossy(record.value("MAINTAINER").unwrap_or_default()).into();
    let by_name: HashMap<&[u8], String> = records.iter().map(|record| (record.name, maintainer(record))).collect();
    rows.packages.iter().map(|it| by_name.get(it.name.as_bytes()).cloned().unwrap_or_default()).collect()
}

fn retries(rows: &Rows) -> Vec<Retry> {
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
