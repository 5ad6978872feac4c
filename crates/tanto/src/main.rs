//! The program: its doors, its settings and its wiring. Everything else it asks the other crates.

mod bench;
mod build;
mod bulk;
mod clang;
mod columns;
mod commands;
mod completions;
mod doctor;
mod flags;
mod help;
mod man;
mod report;
mod run;
mod settings;
mod simulate;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use crate::flags::door::Door;
use crate::settings::Surroundings;

fn main() -> ExitCode {
    // Rust ignores it; ninja and whatever it runs do not.
    tanto_sys::signals::restore_pipe();
    let mut args = std::env::args_os().map(OsString::into_vec);
    let program = args.next().unwrap_or_default();
    let args: Vec<Vec<u8>> = args.collect();
    match Door::of(&program) {
        Door::Ninja => build(Door::Ninja, &program, &args),
        Door::Tanto => command(&args),
    }
}

fn command(args: &[Vec<u8>]) -> ExitCode {
    match args.split_first() {
        Some((name, rest)) if name == b"build" => build(Door::Tanto, b"tanto build", rest),
        _ => commands::obey(args).exit(),
    }
}

fn build(door: Door, program: &[u8], args: &[Vec<u8>]) -> ExitCode {
    let mut warn = |text: &[u8]| eprintln!("{}: warning: {}", door.name(), String::from_utf8_lossy(text));
    match flags::options(door, program, args, &Surroundings::of_process(), &mut warn) {
        // Everything that is held is the system's to take back: freeing a large graph piece by piece costs time.
        Ok(options) => std::process::exit(build::run(&options)),
        Err(stop) => stop.exit(),
    }
}
