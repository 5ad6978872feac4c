//! The program `tanto`, which is also a `ninja`: command line, settings, wiring.

#![cfg_attr(not(test), no_main)]

mod bulk;
mod cache;
mod clang;
mod command_line;
mod doctor;
mod invocation;
mod ninja;
mod report;
mod run;
mod settings;
mod simulate;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use tanto_exec::call_tracer;

use crate::invocation::Invocation;
use crate::settings::EnvVars;

#[cfg(not(test))]
tanto_sys::entry_point!(run);

#[cfg_attr(test, expect(dead_code, reason = "tests have a main of their own"))]
fn run() -> i32 {
    let mut args = std::env::args_os().map(OsString::into_vec);
    let program = args.next().unwrap_or_default();
    let args: Vec<Vec<u8>> = args.collect();
    match Invocation::of(&program) {
        Invocation::Ninja => build(Invocation::Ninja, &program, &args),
        Invocation::Tanto => command(&args),
    }
}

fn command(args: &[Vec<u8>]) -> i32 {
    match args.split_first() {
        Some((name, rest)) if name == call_tracer::SUBCOMMAND.as_bytes() => call_tracer::run(rest),
        Some((name, rest)) if name == b"build" => build(Invocation::Tanto, b"tanto build", rest),
        _ => command_line::dispatch(args).exit(),
    }
}

fn build(invocation: Invocation, program: &[u8], args: &[Vec<u8>]) -> i32 {
    let mut warn = |text: &[u8]| eprintln!("{}: warning: {}", invocation.name(), String::from_utf8_lossy(text));
    match settings::options(invocation, args, &EnvVars::of_process(), &mut warn) {
        Ok(options) => ninja::run(&options),
        Err(error) => error.output(invocation, program, || command_line::help("build", args)).exit(),
    }
}
