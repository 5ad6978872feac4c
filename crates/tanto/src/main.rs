//! The program: its doors, its settings and its wiring. Everything else it asks the other crates.

#![cfg_attr(not(test), no_main)]

mod bulk;
mod clang;
mod command_line;
mod doctor;
mod flags;
mod generate;
mod help;
mod ninja;
mod report;
mod run;
mod settings;
mod simulate;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::flags::door::Door;
use crate::settings::Surroundings;

#[cfg(not(test))]
tanto_sys::entry_point!(run);

#[cfg_attr(test, expect(dead_code, reason = "tests have a main of their own"))]
fn run() -> i32 {
    let mut args = std::env::args_os().map(OsString::into_vec);
    let program = args.next().unwrap_or_default();
    let args: Vec<Vec<u8>> = args.collect();
    match Door::of(&program) {
        Door::Ninja => build(Door::Ninja, &program, &args),
        Door::Tanto => command(&args),
    }
}

fn command(args: &[Vec<u8>]) -> i32 {
    match args.split_first() {
        Some((name, rest)) if name == b"build" => build(Door::Tanto, b"tanto build", rest),
        _ => command_line::dispatch(args).exit(),
    }
}

fn build(door: Door, program: &[u8], args: &[Vec<u8>]) -> i32 {
    let mut warn = |text: &[u8]| eprintln!("{}: warning: {}", door.name(), String::from_utf8_lossy(text));
    match flags::options(door, program, args, &Surroundings::of_process(), &mut warn) {
        Ok(options) => ninja::run(&options),
        Err(stop) => stop.exit(),
    }
}
