//! Finds the programs to compare.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Once;

#[derive(Clone, Debug)]
pub struct Program {
    /// The name in test messages.
    pub name: &'static str,
    pub path: PathBuf,
}

/// The reference ninja and Tanto. `None`, with a message, if there is no reference ninja.
pub fn programs() -> Option<(Program, Program)> {
    let Some(path) = std::env::var_os("TANTO_REFEREE") else {
        say_once("differential tests: skipped, TANTO_REFEREE does not name a ninja 1.13.2\n");
        return None;
    };
    Some((Program { name: "referee", path: path.into() }, tanto()))
}

pub const TANTO: &str = "tanto";

/// Tanto, or the program in `TANTO_SUBJECT`.
pub fn tanto() -> Program {
    let path = std::env::var_os("TANTO_SUBJECT").unwrap_or_else(|| env!("CARGO_BIN_EXE_tanto").into());
    Program { name: TANTO, path: path.into() }
}

/// Prints once, even if the test harness captures output.
fn say_once(line: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}
