//! `tanto bulk simulate`: estimates how long a bulk build takes. Runs and writes nothing.

use std::collections::HashMap;
use std::path::Path;

use tanto_bulk::coordinator::simulate::PackageSimulation;
use tanto_bulk::error::BulkError;
use tanto_bulk::estimate::{self, distfiles, median_error};
use tanto_bulk::package::input_file::InputFile;
use tanto_bulk::package::records::Record;
use tanto_bulk::resolve::meta_dir::resolved_depends;
use tanto_bulk::resolve::{PackageId, cycle};
use tanto_sys::machine::cpu;

use super::args::BulkSimulateArgs;
use super::printed;
use crate::output::CommandOutput;
use crate::simulate::table;
use crate::simulate::usual_slots;

pub fn run(args: &BulkSimulateArgs) -> CommandOutput {
    printed(simulate(args))
}

fn simulate(args: &BulkSimulateArgs) -> Result<String, BulkError> {
    let slots = args.jobs.clone().unwrap_or_else(|| usual_slots(cpu::count())).0;
    let file = InputFile::open(&args.resolved)?;
    let records = file.records()?;
    let depends = resolved_depends(&file, &records)?;
    let cycle = |cycle: Vec<PackageId>| {
        format!("{}: {}", file.path.display(), cycle::message(&cycle, |package| records[package as usize].name))
    };
    let forecast =
        PackageSimulation::new(records.len(), |package: PackageId| &depends[package as usize][..]).map_err(cycle)?;
    let sizes = args.pkgsrc.as_ref().map_or_else(|| vec![0; records.len()], |it| distfiles::sizes(it, &records));
    let tree = estimate::Tree { records: &records, depends: &depends, sizes: &sizes };
    let times =
        |known: &[Option<u64>]| -> Vec<u64> { estimate::all(tree, known).into_iter().map(|it| it.ms).collect() };
    let took = read_times(&args.times, &records)?;
    let known = args.known.as_ref().map_or_else(|| Ok(took.clone()), |path| read_times(path, &records))?;
    let (takes, expected) = (times(&took), times(&known));
    let outcomes: Vec<_> = slots.iter().map(|&slots| forecast.run(slots, &expected, &takes)).collect();
    file.check()?;
    let work = outcomes.first().map(table::work).unwrap_or_default();
    let rows: Vec<table::Row> = outcomes.into_iter().map(|outcome| table::Row { outcome, ninja_ms: None }).collect();
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
