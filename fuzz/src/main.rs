//! Fuzzes one parser: `tanto-fuzz TARGET [--seed N] [--runs N | --seconds N]`, or `tanto-fuzz TARGET FILE...` to run
//! inputs again.
//!
//! The input of a panic is saved. After a crash that cannot be caught (stack overflow, out of memory) the input is in
//! `target/fuzz/TARGET.current`. Runs in the dev profile, in which panics unwind.

mod content;
mod packages;
mod server;
mod snapshot;
mod targets;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tanto_testing::{Material, Random};
use targets::{TARGETS, Target};

const USAGE: &str = "usage: tanto-fuzz TARGET [--seed N] [--runs N | --seconds N]\n       tanto-fuzz TARGET FILE...";

struct Options {
    target: &'static Target,
    seed: u64,
    runs: u64,
    time: Duration,
    files: Vec<PathBuf>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let name = words.next().ok_or(USAGE)?;
    let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(|| unknown(&name))?;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut options = Options { target, seed: clock, runs: u64::MAX, time: Duration::MAX, files: Vec::new() };
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse::<u64>().ok()).ok_or(USAGE);
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--runs" => options.runs = number()?,
            "--seconds" => options.time = Duration::from_secs(number()?),
            word if word.starts_with('-') => return Err(USAGE.to_owned()),
            file => options.files.push(PathBuf::from(file)),
        }
    }
    Ok(options)
}

fn unknown(name: &str) -> String {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    format!("no target is called {name}; there are {}", names.join(", "))
}

/// Files of a target.
struct Place {
    directory: PathBuf,
    /// The current input.
    current: File,
    /// A file for the target's use.
    scratch: PathBuf,
}

impl Place {
    fn new(target: &Target) -> std::io::Result<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("fuzz");
        std::fs::create_dir_all(&directory)?;
        let current = File::create(directory.join(format!("{}.current", target.name)))?;
        let scratch = directory.join(format!("{}.scratch", target.name));
        Ok(Place { directory, current, scratch })
    }

    fn remember(&self, input: &[u8]) -> std::io::Result<()> {
        self.current.set_len(input.len() as u64)?;
        self.current.write_all_at(input, 0)
    }

    /// Removes the temporary files after a run without a crash.
    fn clear(&self, target: &Target) {
        for name in [format!("{}.current", target.name), format!("{}.scratch", target.name)] {
            // It may be gone already.
            let _ = std::fs::remove_file(self.directory.join(name));
        }
    }
}

/// Runs one input; returns the message of a panic.
fn run_one(target: &Target, place: &Place, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input, &place.scratch))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_owned()
    })
}

fn seeds(target: &Target) -> std::io::Result<Vec<Vec<u8>>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut paths =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Runs inputs until a limit is reached or one fails.
fn fuzz(options: &Options, place: &Place) -> std::io::Result<bool> {
    let target = options.target;
    let material = Material { seeds: seeds(target)?, tokens: target.tokens, head: target.head };
    let begun = Instant::now();
    let mut runs = 0;
    let mut inputs = material.seeds.iter();
    while runs < options.runs && begun.elapsed() < options.time {
        let seed = options.seed.wrapping_add(runs);
        let input = inputs.next().cloned().unwrap_or_else(|| material.input(&mut Random::new(seed)));
        place.remember(&input)?;
        if let Err(text) = run_one(target, place, &input) {
            let saved = place.directory.join(format!("{}.{seed}", target.name));
            std::fs::write(&saved, &input)?;
            println!("not ok {}: {text}\n    with the input in {}", target.name, saved.display());
            return Ok(false);
        }
        runs += 1;
    }
    println!("ok {}: {runs} runs from seed {}", target.name, options.seed);
    Ok(true)
}

/// Runs the given inputs without catching panics.
fn replay(options: &Options, place: &Place) -> std::io::Result<bool> {
    for path in &options.files {
        (options.target.run)(&std::fs::read(path)?, &place.scratch);
        println!("ok {}: {}", options.target.name, path.display());
    }
    Ok(true)
}

fn run(options: &Options) -> std::io::Result<bool> {
    let place = Place::new(options.target)?;
    let good = if options.files.is_empty() { fuzz(options, &place)? } else { replay(options, &place)? };
    place.clear(options.target);
    Ok(good)
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tanto-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}
