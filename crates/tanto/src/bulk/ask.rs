//! `tanto bulk status`, `why` and `log`: what became of packages, as far as the database tells. Changes nothing.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tanto_bulk::build::state::State;
use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, name};
use tanto_record::store::{Package, Store};

use super::place::{config, look, unusable};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

static FLAGS: [Plain; 1] = [name("config").with_value()];

/// How many packages are in which state, and which have failed.
pub(super) fn status(args: &[Vec<u8>]) -> Stop {
    answer(args, 0, |store, run, _| summary(store, run))
}

/// Where a package stands and why, and what was tried.
pub(super) fn why(args: &[Vec<u8>]) -> Stop {
    answer(args, 1, |store, run, words| {
        let package = find(store, run, &words[0])?;
        let mut text = format!("{}: {}{}\n", package.name, package.state, because(&package.why));
        let due = store.due(run).map_err(|error| unusable(&error))?;
        if let Some((_, why)) = due.iter().find(|(due, _)| *due == package.package) {
            let _ = writeln!(text, "  it has to be built: {why}");
        }
        for attempt in store.attempts(run).map_err(|error| unusable(&error))? {
            if attempt.job == package.job {
                let outcome = if attempt.outcome.is_empty() { "goes on" } else { &attempt.outcome };
                let _ = writeln!(text, "  attempt {}: {outcome}{}", attempt.attempt, because(&attempt.why));
            }
        }
        for stage in store.stages(run).map_err(|error| unusable(&error))?.iter().filter(|it| it.job == package.job) {
            let (wall, cpu) = (stage.wall_ms as f64 / 1e3, stage.cpu_ms as f64 / 1e3);
            // The logs of what was built are gone.
            let log = if Path::new(&stage.log).exists() { format!("  {}", stage.log) } else { String::new() };
            let _ = writeln!(text, "    {:12} exit {:3} {wall:9.2} s {cpu:9.2} s cpu{log}", stage.stage, stage.exit);
        }
        Ok(text)
    })
}

/// What a failed package printed: in its last stage, or in the stage that is named.
pub(super) fn log(args: &[Vec<u8>]) -> Stop {
    answer(args, 1, |store, run, words| {
        let package = find(store, run, &words[0])?;
        let stages = store.stages(run).map_err(|error| unusable(&error))?;
        let is_wanted = |stage: &str| words.get(1).is_none_or(|word| word == stage.as_bytes()) && stage != "clean";
        let of_it = stages.iter().rev().filter(|it| it.job == package.job && !it.log.is_empty());
        let stage = of_it.clone().find(|it| is_wanted(&it.stage));
        let stage = stage.ok_or_else(|| format!("there is no such log of {}", package.name).into_bytes())?;
        let read = fs::read(Path::new(&stage.log));
        let text = read.map_err(|error| super::files::failed("reading ", stage.log.as_bytes(), &error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    })
}

/// A few lines on a run.
pub(super) fn summary(store: &Store, run: i64) -> Result<String, Vec<u8>> {
    let packages = store.packages(run).map_err(|error| unusable(&error))?;
    let mut text = format!("{} packages", packages.len());
    for state in State::ALL {
        let count = packages.iter().filter(|package| package.state == state.name()).count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", state.name());
        }
        let stood = packages.iter().filter(|it| it.state == state.name() && it.why == State::UP_TO_DATE).count();
        if stood > 0 {
            let _ = write!(text, " ({stood} up to date before)");
        }
    }
    text.push('\n');
    for package in packages.iter().filter(|package| package.state == State::Failed.name()) {
        let _ = writeln!(text, "failed: {}{}", package.name, because(&package.why));
    }
    Ok(text)
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

type Answer = fn(&Store, i64, &[Vec<u8>]) -> Result<String, Vec<u8>>;

/// Asks the last run; `least` words are needed.
fn answer(args: &[Vec<u8>], least: usize, ask: Answer) -> Stop {
    let asked = || {
        let given = Given::read(&FLAGS, args).map_err(|Bad(message)| message)?;
        if given.operands.len() < least {
            return Err(b"which package?".to_vec());
        }
        let store = look(&config(given.value("config"))?)?;
        let last = store.last_run().map_err(|error| unusable(&error))?;
        let (run, _) = last.ok_or(b"nothing was built yet")?;
        ask(&store, run, &given.operands)
    };
    match asked() {
        Ok(text) => Stop::printed(text, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

/// The package of this name, or the only one with this base or directory.
fn find(store: &Store, run: i64, word: &[u8]) -> Result<Package, Vec<u8>> {
    let packages = store.packages(run).map_err(|error| unusable(&error))?;
    let base = |package: &Package| tanto_bulk::name::Name::new(package.name.as_bytes()).base() == word;
    let is_it = |package: &&Package| package.location.as_bytes() == word || base(package);
    let exact = packages.iter().find(|package| package.name.as_bytes() == word);
    let mut alike = packages.iter().filter(is_it);
    match (exact, alike.next(), alike.next()) {
        (Some(package), ..) | (None, Some(package), None) => Ok(package.clone()),
        (None, Some(_), Some(_)) => Err([b"more than one package is '", word, b"': name it with its version"].concat()),
        (None, None, _) => Err([b"there is no package '", word, b"'"].concat()),
    }
}
