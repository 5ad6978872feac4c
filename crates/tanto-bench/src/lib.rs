//! The experiments of `tanto bench`, and the statistics that evaluate them.

pub mod compare;
pub mod jobs;
pub mod measure;
pub mod output;
pub mod plot;
pub mod stat;

mod chart;
mod error;
mod format;
mod random;
mod statistics;

pub use error::{Error, InvalidValue};

/// Text to print at the end of an experiment, and the exit code.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: u8,
}

impl Outcome {
    fn print(&mut self, text: &str) {
        self.stdout.extend_from_slice(text.as_bytes());
    }

    /// Adds `tanto: error: MESSAGE` and raises the exit code to `code`.
    fn fail(&mut self, message: &[u8], code: u8) {
        self.stderr.extend_from_slice(b"tanto: error: ");
        self.stderr.extend_from_slice(message.trim_ascii_end());
        self.stderr.push(b'\n');
        self.code = self.code.max(code);
    }
}
