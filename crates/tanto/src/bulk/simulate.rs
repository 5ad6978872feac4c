//! `tanto bulk simulate`: how long a bulk build would take. Runs nothing, writes nothing.

use std::collections::HashMap;
use std::path::Path;

use tanto_bulk::coordinator::simulate::Forecast;
use tanto_bulk::estimate::{self, distfiles, median_error};
use tanto_bulk::package::records::{self, Record};
use tanto_bulk::resolve::{Package, depends_of};
use tanto_exec::simulate::SimulatedBuild;
use tanto_exec::simulate::shared::{Parts, Sharing};

use super::files::{check, open};
use super::findings;
use crate::command_line::bulk::BulkSimulateArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::simulate::table;
use crate::simulate::usual_slots;

/// What `tanto bulk simulate` prints.
pub(crate) fn run(args: &BulkSimulateArgs) -> Stop {
    match report(args) {
        Ok(text) => Stop::printed(text, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn report(args: &BulkSimulateArgs) -> Result<String, Vec<u8>> {
    let resolved = args.resolved.as_os_str().as_encoded_bytes();
    let slots = args.jobs.clone().unwrap_or_else(|| usual_slots(tanto_sys::machine::cpu::count())).0;
    let map = open(resolved)?;
    let records = records::read(&map).map_err(|bad| findings::bad_scan(resolved, bad))?;
    let depends = depends_of(&records).map_err(|unknown| findings::unknown(resolved, &unknown))?;
    let forecast = Forecast::new(records.len(), |package: Package| &depends[package as usize][..])
        .ok_or_else(|| [resolved, b": packages need each other; 'tanto bulk resolve' tells which"].concat())?;
    let sizes = args.pkgsrc.as_ref().map_or_else(|| vec![0; records.len()], |it| distfiles::sizes(it, &records));
    let tree = estimate::Tree { records: &records, depends: &depends, sizes: &sizes };
    let (rows, guesses) = match (&args.times, &args.pool) {
        (Some(times), _) => {
            let took = read_times(times, &records)?;
            let known = args.known.as_ref().map_or_else(|| Ok(took.clone()), |path| read_times(path, &records))?;
            let (takes, expected) = (guess(tree, &took), guess(tree, &known));
            let rows: Vec<SimulatedBuild> =
                slots.iter().map(|&slots| forecast.play(slots, &expected, &takes)).collect();
            (rows, guesses(&took, &known, &expected))
        }
        (None, Some(parts)) => {
            let sharing = args.make_jobs.map_or(Sharing::Pool, Sharing::Fixed);
            let parts = read_lines(parts, &records, "seconds, a tab, and seconds", read_parts)?;
            let took: Vec<Option<u64>> = parts.iter().map(|parts| Some((*parts)?.duration_ms(1))).collect();
            let parts = guess_parts(tree, &parts, &took);
            let rows = slots.iter().map(|&tokens| forecast.share(tokens, sharing, &parts)).collect();
            (rows, guesses(&took, &took, &[]))
        }
        (None, None) => return Err(b"--times or --pool is required".to_vec()),
    };
    check(resolved, &map)?;
    let about = rows.first().map(table::work).unwrap_or_default();
    let rows: Vec<table::Row> = rows.into_iter().map(|outcome| table::Row { outcome, ninja_ms: None }).collect();
    Ok(format!("{} packages; {about}\n{guesses}\n{}", records.len(), table::text(&rows)))
}

/// How good the guesses are, as far as is known what packages took.
fn guesses(took: &[Option<u64>], known: &[Option<u64>], expected: &[u64]) -> String {
    let guessed = known.iter().filter(|known| known.is_none()).count();
    let pairs = took.iter().zip(known).zip(expected);
    let pairs = pairs.filter_map(|((took, known), &expected)| known.is_none().then_some((expected, (*took)?)));
    match median_error(pairs) {
        _ if guessed == 0 => String::new(),
        Some(error) => format!("{guessed} times are guessed; of half of them, by a factor of at most {error:.2}\n"),
        None => format!("{guessed} times are guessed\n"),
    }
}

/// What is known, and guesses for the rest.
fn guess(tree: estimate::Tree<'_>, known: &[Option<u64>]) -> Vec<u64> {
    estimate::all(tree, known).into_iter().map(|estimate| estimate.ms).collect()
}

/// The same for both parts of what packages take: `took` is their sum.
fn guess_parts(tree: estimate::Tree<'_>, known: &[Option<Parts>], took: &[Option<u64>]) -> Vec<Parts> {
    let alone: Vec<Option<u64>> = known.iter().map(|parts| Some((*parts)?.serial_ms)).collect();
    let guesses = guess(tree, &alone).into_iter().zip(guess(tree, took));
    let parts =
        |(alone_ms, ms): (u64, u64)| Parts { serial_ms: alone_ms.min(ms), parallel_ms: ms.saturating_sub(alone_ms) };
    known.iter().zip(guesses).map(|(known, guess)| known.unwrap_or_else(|| parts(guess))).collect()
}

/// The times of a file, for these packages, in milliseconds.
fn read_times(path: &Path, records: &[Record<'_>]) -> Result<Vec<Option<u64>>, Vec<u8>> {
    read_lines(path, records, "seconds", milliseconds)
}

/// What a file says of these packages: in each line a name, a tab, and `what`.
fn read_lines<T: Copy>(
    path: &Path,
    records: &[Record<'_>],
    what: &str,
    read: fn(&[u8]) -> Option<T>,
) -> Result<Vec<Option<T>>, Vec<u8>> {
    let path = path.as_os_str().as_encoded_bytes();
    let map = open(path)?;
    let mut values = HashMap::new();
    for (number, line) in (1..).zip(map.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())) {
        let Some((name, value)) = at_tab(line).and_then(|(name, rest)| Some((name, read(rest)?))) else {
            return Err([path, format!(":{number}: expected a package's name, a tab, and {what}").as_bytes()].concat());
        };
        values.insert(name, value);
    }
    let known = records.iter().map(|record| values.get(record.name).copied()).collect();
    check(path, &map)?;
    Ok(known)
}

fn at_tab(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    Some((&line[..tab], &line[tab + 1..]))
}

fn milliseconds(text: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (0.0..1e9).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}

fn read_parts(text: &[u8]) -> Option<Parts> {
    let (alone, shared) = at_tab(text)?;
    Some(Parts { serial_ms: milliseconds(alone)?, parallel_ms: milliseconds(shared)? })
}
