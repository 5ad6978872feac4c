//! `tanto bulk simulate`: how long a bulk build would take. Runs nothing, writes nothing.

use std::collections::HashMap;

use tanto_bulk::estimate::{self, median_error};
use tanto_bulk::forecast::Forecast;
use tanto_bulk::records::{self, Record};
use tanto_bulk::resolve::{Package, depends_of};
use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, letter, name};

use super::files::{check, open};
use super::findings;
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::simulate::args::{slots, usual_slots};
use crate::simulate::table;

/// A command line.
struct Args {
    resolved: Vec<u8>,
    /// What packages take.
    times: Vec<u8>,
    /// What the order rests on, if that is not `times`.
    known: Option<Vec<u8>>,
    slots: Vec<usize>,
}

static FLAGS: [Plain; 4] =
    [name("resolved").with_value(), name("times").with_value(), name("known").with_value(), letter(b'j').with_value()];

impl Args {
    fn read(args: &[Vec<u8>]) -> Result<Args, Vec<u8>> {
        let given = Given::read(&FLAGS, args).map_err(|Bad(message)| message)?;
        if let Some(operand) = given.operands.first() {
            return Err([b"unexpected '", &operand[..], b"'"].concat());
        }
        let owned = |key: &str| given.value(key).map(<[u8]>::to_vec);
        Ok(Args {
            resolved: owned("resolved").ok_or(b"simulate what? Name a file with --resolved")?,
            times: owned("times").ok_or(b"what do packages take? Name a file with --times")?,
            known: owned("known"),
            slots: match given.value("j") {
                None => usual_slots(tanto_sys::cpu::count()),
                Some(value) => slots(value).ok_or(b"expected numbers such as -j 4,8,16")?,
            },
        })
    }
}

/// What `tanto bulk simulate` prints.
pub(super) fn run(args: &[Vec<u8>]) -> Stop {
    match Args::read(args).and_then(|args| report(&args)) {
        Ok(text) => Stop::printed(text, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn report(args: &Args) -> Result<String, Vec<u8>> {
    let map = open(&args.resolved)?;
    let records = records::read(&map).map_err(|bad| findings::bad_scan(&args.resolved, bad))?;
    let depends = depends_of(&records).map_err(|unknown| findings::unknown(&args.resolved, &unknown))?;
    let took = read_times(&args.times, &records)?;
    let known = args.known.as_ref().map(|path| read_times(path, &records)).transpose()?;
    let takes: Vec<u64> = guess(&records, &depends, &took);
    let expected = known.as_ref().map_or_else(|| takes.clone(), |known| guess(&records, &depends, known));
    check(&args.resolved, &map)?;
    let forecast =
        Forecast::new(records.len(), |package: Package| &depends[package as usize][..]).ok_or_else(|| {
            [&args.resolved[..], b": packages need each other; 'tanto bulk resolve' tells which"].concat()
        })?;
    let rows = args.slots.iter().map(|&slots| forecast.play(slots, &expected, &takes));
    let rows: Vec<table::Row> = rows.map(|outcome| table::Row { outcome, ninja_ms: None }).collect();
    let about = rows.first().map(|row| table::work(&row.outcome)).unwrap_or_default();
    let guesses = guesses(&took, known.as_deref().unwrap_or(&took), &expected);
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
fn guess(records: &[Record<'_>], depends: &[Vec<Package>], known: &[Option<u64>]) -> Vec<u64> {
    estimate::all(records, depends, known).into_iter().map(|estimate| estimate.ms).collect()
}

/// The times of a file, for these packages, in milliseconds.
fn read_times(path: &[u8], records: &[Record<'_>]) -> Result<Vec<Option<u64>>, Vec<u8>> {
    let map = open(path)?;
    let mut times = HashMap::new();
    for (number, line) in (1..).zip(map.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())) {
        let Some((name, ms)) = read_time(line) else {
            return Err([path, format!(":{number}: expected a package's name, a tab, and seconds").as_bytes()].concat());
        };
        times.insert(name, ms);
    }
    let known = records.iter().map(|record| times.get(record.name).copied()).collect();
    check(path, &map)?;
    Ok(known)
}

fn read_time(line: &[u8]) -> Option<(&[u8], u64)> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    let seconds: f64 = std::str::from_utf8(&line[tab + 1..]).ok()?.parse().ok()?;
    (0.0..1e9).contains(&seconds).then(|| (&line[..tab], (seconds * 1000.0).round() as u64))
}
