//! Which programs are compared, and where from.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Once;

/// A program that is called `ninja`.
#[derive(Clone, Debug)]
pub struct Program {
    /// What messages call it.
    pub name: &'static str,
    /// Where it lies.
    pub path: PathBuf,
}

/// The referee and the subject, or `None` (and one line on stderr per test run) where there is no referee.
pub fn programs() -> Option<(Program, Program)> {
    let Some(path) = std::env::var_os("TANTO_REFEREE") else {
        say_once("differential tests: skipped, TANTO_REFEREE does not name a ninja 1.13.2\n");
        return None;
    };
    Some((Program { name: "referee", path: path.into() }, tanto()))
}

/// What messages call the subject.
pub const TANTO: &str = "tanto";

/// The subject: Tanto, unless `TANTO_SUBJECT` says otherwise.
pub fn tanto() -> Program {
    let path = std::env::var_os("TANTO_SUBJECT").unwrap_or_else(|| env!("CARGO_BIN_EXE_tanto").into());
    Program { name: TANTO, path: path.into() }
}

/// Past the capture of the test harness, and only the first time.
fn say_once(line: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}
