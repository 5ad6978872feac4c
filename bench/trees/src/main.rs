//! Writes synthetic build trees that ninja-compatible programs can be compared on, with the logs of a finished build.
//!
//! Each entry manifest names a build directory of its own, so that programs with different logs do not disturb each
//! other: `build-v5.ninja` (ninja up to 1.11), `build-v7.ninja` (ninja from 1.13), `build-n2.ninja`; `build-siso.ninja`,
//! `build-x.ninja` and `build.ninja` have no logs and need a real build, which works where there is a C compiler. At
//! scale 1 `aosp` has 640,000 edges, 250,000 rules and 1.4 GB of manifests, and its default target reaches 225,000 paths.

mod aosp;
mod chromium;
mod compiler;
mod files;
mod hashes;
mod small;
mod state;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

const USAGE: &str = "\
usage: tanto-trees aosp     --out DIR [--scale 1] [--headers 200] [--seed 1] [--no-files]
       tanto-trees chromium --out DIR [--scale 1] [--headers 400] [--seed 1] [--no-files]
       tanto-trees spawn    --out DIR [--n 20000] [--cmd ':']
       tanto-trees tiny     --out DIR
The build directory of chromium is DIR/out/Default. --headers is how many an object reads on average.";

/// The command line.
struct Options {
    kind: String,
    out: PathBuf,
    scale: f64,
    seed: u64,
    headers: Option<u64>,
    files: bool,
    edges: u64,
    command: String,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        kind: words.next().ok_or(USAGE)?,
        out: PathBuf::new(),
        scale: 1.0,
        seed: 1,
        headers: None,
        files: true,
        edges: 20_000,
        command: ":".to_owned(),
    };
    while let Some(word) = words.next() {
        let value = words.by_ref();
        match word.as_str() {
            "--out" => options.out = value_of(&word, value)?,
            "--scale" => options.scale = value_of(&word, value)?,
            "--seed" => options.seed = value_of(&word, value)?,
            "--headers" => options.headers = Some(value_of(&word, value)?),
            "--n" => options.edges = value_of(&word, value)?,
            "--cmd" => options.command = value_of(&word, value)?,
            "--no-files" => options.files = false,
            _ => return Err(format!("unknown option {word}\n{USAGE}")),
        }
    }
    if options.out.as_os_str().is_empty() { Err(format!("--out is missing\n{USAGE}")) } else { Ok(options) }
}

fn value_of<T: FromStr>(option: &str, words: &mut impl Iterator<Item = String>) -> Result<T, String> {
    let value = words.next().ok_or_else(|| format!("{option} needs a value\n{USAGE}"))?;
    value.parse().map_err(|_| format!("bad value for {option}: {value}\n{USAGE}"))
}

fn write(options: &Options) -> Result<(), String> {
    let out = &options.out;
    let written = fs::create_dir_all(out).and_then(|()| match options.kind.as_str() {
        "aosp" => aosp::write(out, options),
        "chromium" => chromium::write(out, options),
        "spawn" => small::write_spawn(out, options.edges, &options.command),
        "tiny" => small::write_tiny(out),
        _ => Err(std::io::Error::other(format!("unknown tree\n{USAGE}"))),
    });
    written.map_err(|error| format!("writing the tree {} in {}: {error}", options.kind, out.display()))
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|options| write(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tanto-trees: error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
