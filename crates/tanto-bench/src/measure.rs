//! One measured run of a command: its times and resources, including all descendants, and the state of the machine.

pub mod conditions;
pub mod controls;
mod descendants;
#[cfg(test)]
pub mod fake;
pub mod json;
mod local;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tanto_exec::job::Exit;
use tanto_exec::text::shell;

use crate::Error;
use conditions::Conditions;

pub use local::{LocalExecutor, create_log_dir};

/// Resources used by one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    #[serde(rename = "wall_s", with = "json::seconds")]
    pub wall: Duration,
    /// User time of all processes.
    #[serde(rename = "user_s", with = "json::seconds")]
    pub user: Duration,
    /// System time of all processes.
    #[serde(rename = "system_s", with = "json::seconds")]
    pub system: Duration,
    /// In bytes: the larger of the sampled peak of all processes together and the peak of one process.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: Option<u64>,
    /// Idle time of all processors of the machine while I/O was outstanding.
    #[serde(rename = "io_wait_s", with = "json::seconds")]
    pub io_wait: Duration,
    pub pressure: Pressure,
    pub conditions: Conditions,
}

/// Pressure stall times of the machine; `None` if the kernel does not measure them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pressure {
    #[serde(rename = "cpu_s", with = "json::optional_seconds", default)]
    pub cpu: Option<Duration>,
    #[serde(rename = "memory_s", with = "json::optional_seconds", default)]
    pub memory: Option<Duration>,
    #[serde(rename = "io_s", with = "json::optional_seconds", default)]
    pub io: Option<Duration>,
}

impl Sample {
    /// Returns user plus system time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Processor time used by other programs and by the hypervisor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BackgroundLoad {
    /// As a fraction of all processors.
    pub fraction: f64,
    /// Processors left to the measured commands.
    pub free_cpus: f64,
}

/// The reason for a missing sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// This signal interrupted Tanto; all commands were ended.
    Interrupted(i32),
    Failed(CommandFailure),
    Other(Error),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandFailure {
    pub line: Vec<u8>,
    pub exit: Exit,
    /// The end of the output, in whole lines.
    pub last_lines: Vec<u8>,
    /// The file with the whole output; `None` if there was no output, or the file could not be written.
    pub log: Option<PathBuf>,
}

/// Runs and measures commands.
pub trait Executor {
    /// Runs a shell command line and measures it.
    fn run(&mut self, line: &[u8]) -> Result<Sample, RunError>;

    /// Runs a shell command line without measuring it.
    fn prepare(&mut self, line: &[u8]) -> Result<(), RunError>;

    /// Returns the time since an arbitrary moment before the first run.
    fn now(&self) -> Duration;

    /// Returns the load of other programs since the executor was created; `None` if that time is too short.
    fn background_load(&self) -> Option<BackgroundLoad>;
}

impl From<Error> for RunError {
    fn from(error: Error) -> RunError {
        RunError::Other(error)
    }
}

impl From<std::io::Error> for RunError {
    fn from(error: std::io::Error) -> RunError {
        RunError::Other(error.into())
    }
}

impl RunError {
    /// Returns the message, which ends with a newline.
    pub fn message(&self) -> Vec<u8> {
        match self {
            RunError::Interrupted(_) => b"interrupted\n".to_vec(),
            RunError::Other(error) => format!("{error}\n").into(),
            RunError::Failed(failure) => failure.message(),
        }
    }
}

impl CommandFailure {
    fn message(&self) -> Vec<u8> {
        let status = match self.exit {
            Exit::Code(127) => "command not found (exit code 127)".to_owned(),
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) | Exit::Dumped(signal) => {
                format!("killed: {}", String::from_utf8_lossy(&tanto_sys::signals::description(signal)))
            }
        };
        let mut text = [&self.line[..], b" failed: ", status.as_bytes(), b"\n"].concat();
        if !self.last_lines.is_empty() {
            text.extend_from_slice(b"last lines of its output:\n");
            text.extend_from_slice(&self.last_lines);
        }
        if let Some(log) = &self.log {
            text.extend_from_slice(format!("full output: {}\n", log.display()).as_bytes());
        }
        text
    }
}

/// Builds a shell command line: a single word is one already, several words are quoted.
pub fn command_line(words: &[Vec<u8>]) -> Vec<u8> {
    if let [line] = words {
        return line.clone();
    }
    let mut line = Vec::new();
    for (at, word) in words.iter().enumerate() {
        line.extend((at > 0).then_some(b' '));
        match word.is_empty() {
            true => line.extend_from_slice(b"''"),
            false => shell::quote_into(word, &mut line),
        }
    }
    line
}
