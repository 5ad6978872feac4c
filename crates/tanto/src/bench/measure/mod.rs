//! One run of a command, measured: the time it took and what it used, with all processes below it, and what the machine
//! was like meanwhile. Does not know why it is run, nor what is made of the numbers.

mod below;
pub mod conditions;
pub mod controls;
pub mod json;
mod meter;

use std::path::PathBuf;
use std::time::Duration;

use tanto_exec::job::Exit;
use tanto_ninja::graph::shell_quote_into;

use conditions::Conditions;

pub use meter::{Meter, make};

/// What a run took and used.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time of programs, of all its processes.
    pub user: Duration,
    /// Processor time of the system on their behalf.
    pub system: Duration,
    /// The most memory, in bytes, that was seen at once of all its processes, or that one of them held.
    pub peak_memory: Option<u64>,
    /// For so long processors had nothing to do because something waited for a disk: of the whole machine, all
    /// processors together.
    pub io_wait: Duration,
    /// For how long it was hard pressed.
    pub pressure: Pressure,
    /// What the machine was like.
    pub conditions: Conditions,
}

/// For how long some process of the machine had to wait for something; none where the kernel does not measure it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// For a processor.
    pub cpu: Option<Duration>,
    /// For memory.
    pub memory: Option<Duration>,
    /// For a disk.
    pub io: Option<Duration>,
}

impl Sample {
    /// Processor time in all.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// What other programs, and the host of a virtual machine, used of the processors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Others {
    /// As a share of all of them.
    pub share: f64,
    /// What they left, in processors.
    pub left: f64,
}

/// Why there is no sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// The user (or a supervisor) asked for an end by this signal. What ran has been ended.
    Interrupted(i32),
    /// A command failed.
    Failed(Failure),
    /// The machine could not do its part.
    Machine(Vec<u8>),
}

/// A command that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its line.
    pub line: Vec<u8>,
    /// How it ended.
    pub exit: Exit,
    /// The end of what it printed, whole lines.
    pub last_lines: Vec<u8>,
    /// Where all of what it printed is kept, if it printed something and that could be written.
    pub log: Option<PathBuf>,
}

/// Where commands run and are measured: this machine, or what a test makes up.
pub trait Bench {
    /// Runs a line of the shell, measured.
    fn run(&mut self, line: &[u8]) -> Result<Sample, Halt>;

    /// Runs a line of the shell that is no part of what is measured.
    fn prepare(&mut self, line: &[u8]) -> Result<(), Halt>;

    /// The time since some moment before the first run.
    fn now(&self) -> Duration;

    /// What other programs used of the processors since the bench was made; `None` if the time was too short to tell.
    fn others(&self) -> Option<Others>;
}

impl Halt {
    /// What a user is told, without the program's name before it; ends with a line's end.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Halt::Interrupted(_) => b"interrupted\n".to_vec(),
            Halt::Machine(why) => [why, &b"\n"[..]].concat(),
            Halt::Failed(failure) => failure.text(),
        }
    }
}

impl Failure {
    fn text(&self) -> Vec<u8> {
        let how = match self.exit {
            Exit::Code(127) => "there is no such command (exit code 127)".to_owned(),
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) | Exit::Dumped(signal) => {
                format!("killed: {}", String::from_utf8_lossy(&tanto_sys::signals::description(signal)))
            }
        };
        let mut text = [&self.line[..], b" failed: ", how.as_bytes(), b"\n"].concat();
        if !self.last_lines.is_empty() {
            text.extend_from_slice(b"the last lines that it printed were:\n");
            text.extend_from_slice(&self.last_lines);
        }
        if let Some(log) = &self.log {
            text.extend_from_slice(format!("all of what it printed is in {}\n", log.display()).as_bytes());
        }
        text
    }
}

/// The line for the shell that words make: one word is a line already, several are quoted.
pub fn line(words: &[Vec<u8>]) -> Vec<u8> {
    if let [line] = words {
        return line.clone();
    }
    let mut line = Vec::new();
    for (at, word) in words.iter().enumerate() {
        line.extend((at > 0).then_some(b' '));
        match word.is_empty() {
            true => line.extend_from_slice(b"''"),
            false => shell_quote_into(word, &mut line),
        }
    }
    line
}

#[cfg(test)]
pub mod fake;
#[cfg(test)]
mod tests;
