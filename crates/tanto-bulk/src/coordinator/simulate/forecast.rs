//! Estimates how long a bulk build takes. Runs and writes nothing.

use std::collections::HashMap;
use std::path::Path;

use tanto_exec::simulate::table::{self, SimulatedRow};

use super::PackageSimulation;
use crate::error::BulkError;
use crate::estimate::{self, distfiles, median_error};
use crate::package::input_file::InputFile;
use crate::package::records::Record;
use crate::resolve::meta_dir::resolved_depends;
use crate::resolve::{PackageId, cycle};

/// A bulk build to simulate.
#[derive(Clone, Copy)]
pub struct ForecastRequest<'a> {
    /// A resolved scan.
    pub resolved: &'a Path,
    /// The file with the seconds that each package takes.
    pub times: &'a Path,
    /// The file with the times that the order is based on; `None` for `times`.
    pub known: Option<&'a Path>,
    /// The tree whose distfiles' sizes improve the estimates.
    pub pkgsrc: Option<&'a Path>,
    /// Numbers of packages at a time.
    pub slots: &'a [usize],
}

/// Returns a table with the makespan for each number of packages at a time.
pub fn forecast(request: ForecastRequest<'_>) -> Result<String, BulkError> {
    let file = InputFile::open(request.resolved)?;
    let records = file.records()?;
    let depends = resolved_depends(&file, &records)?;
    let cycle = |cycle: Vec<PackageId>| {
        format!("{}: {}", file.path.display(), cycle::message(&cycle, |package| records[package as usize].name))
    };
    let simulation =
        PackageSimulation::new(records.len(), |package: PackageId| &depends[package as usize][..]).map_err(cycle)?;
    let sizes = request.pkgsrc.map_or_else(|| vec![0; records.len()], |it| distfiles::sizes(it, &records));
    let tree = estimate::Tree { records: &records, depends: &depends, sizes: &sizes };
    let times =
        |known: &[Option<u64>]| -> Vec<u64> { estimate::all(tree, known).into_iter().map(|it| it.ms).collect() };
    let took = read_times(request.times, &records)?;
    let known = request.known.map_or_else(|| Ok(took.clone()), |path| read_times(path, &records))?;
    let (takes, expected) = (times(&took), times(&known));
    let outcomes: Vec<_> = request.slots.iter().map(|&slots| simulation.run(slots, &expected, &takes)).collect();
    file.check()?;
    let work = outcomes.first().map(table::work).unwrap_or_default();
    let rows: Vec<SimulatedRow> =
        outcomes.into_iter().map(|outcome| SimulatedRow { outcome, ninja_ms: None }).collect();
    let accuracy = accuracy(&took, &known, &expected);
    Ok(format!("{} packages; {work}\n{accuracy}\n{}", records.len(), table::text(&rows)))
}

/// Describes the estimates of missing times, compared with measured ones where they exist.
fn accuracy(took: &[Option<u64>], known: &[Option<u64>], expected: &[u64]) -> String {
    let estimated = known.iter().filter(|known| known.is_none()).count();
    let pairs = took.iter().zip(known).zip(expected);
    let pairs = pairs.filter_map(|((took, known), &expected)| known.is_none().then_some((expected, (*took)?)));
    match median_error(pairs) {
        _ if estimated == 0 => String::new(),
        Some(error) => format!("{estimated} times are estimated; half of them within a factor of {error:.2}\n"),
        None => format!("{estimated} times are estimated\n"),
    }
}

/// Reads the times of packages, in milliseconds, from lines with a name, a tab, and seconds.
fn read_times(path: &Path, records: &[Record<'_>]) -> Result<Vec<Option<u64>>, BulkError> {
    let file = InputFile::open(path)?;
    let mut times = HashMap::new();
    for (number, line) in (1..).zip(file.bytes().split(|&byte| byte == b'\n').filter(|line| !line.is_empty())) {
        let pair =
            line.iter().position(|&byte| byte == b'\t').map(|tab| (&line[..tab], milliseconds(&line[tab + 1..])));
        let Some((name, Some(ms))) = pair else {
            return Err(format!("{}:{number}: expected a package name, a tab and seconds", path.display()).into());
        };
        times.insert(name, ms);
    }
    let known = records.iter().map(|record| times.get(record.name).copied()).collect();
    file.check()?;
    Ok(known)
}

fn milliseconds(text: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (0.0..1e9).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}
