//! Why a command line leads to no build, and what is printed instead.

use std::io::Write;

use tanto_ninja::getopt::Bad;

use crate::flags::door::Door;
use crate::{command_line, help};

/// Why the flags are not followed to their end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// `-h`.
    Help,
    /// `--version`.
    Version,
    /// The command line cannot be taken apart.
    Usage(Bad),
    /// A list that was asked for.
    Text {
        /// What to print on standard output.
        text: String,
        /// The exit code.
        code: u8,
    },
    /// A value is wrong; ninja calls it fatal.
    Fatal(Vec<u8>),
    /// A value is wrong; ninja calls it an error.
    Error(Vec<u8>),
}

/// What to print and the code to exit with.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Stop {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error.
    pub err: Vec<u8>,
    /// The exit code.
    pub code: u8,
}

impl Stop {
    /// Ends with a text on standard output.
    pub fn printed(text: impl Into<Vec<u8>>, code: u8) -> Self {
        Stop { out: text.into(), err: Vec::new(), code }
    }

    /// Ends with a line on standard error: `ninja: fatal: MESSAGE`.
    pub fn failed(door: Door, level: &str, message: &[u8]) -> Self {
        let err = [door.name().as_bytes(), b": ", level.as_bytes(), b": ", message, b"\n"].concat();
        Stop { out: Vec::new(), err, code: 1 }
    }

    /// What a halt means at this door. `program` is the name the program was called by.
    pub fn of(halt: Halt, door: Door, program: &[u8]) -> Self {
        match halt {
            Halt::Help => Self::help(door),
            Halt::Version => Stop::printed(format!("{}\n", door.version()), 0),
            Halt::Usage(bad) => Self::usage(door, program, bad),
            Halt::Text { text, code } => Stop::printed(text, code),
            Halt::Fatal(message) => Stop::failed(door, "fatal", &message),
            Halt::Error(message) => Stop::failed(door, "error", &message),
        }
    }

    fn help(door: Door) -> Self {
        match door {
            Door::Ninja => Stop { out: Vec::new(), err: help::ninja().into_bytes(), code: 1 },
            Door::Tanto => Stop::printed(command_line::help("build", false), 0),
        }
    }

    fn usage(door: Door, program: &[u8], bad: Bad) -> Self {
        let err = match door {
            Door::Ninja => [program, b": ", &bad.message[..], b"\n", help::ninja().as_bytes()].concat(),
            Door::Tanto => [b"tanto: error: ", &bad.with_hint()[..], b"\nTry 'tanto build --help'.\n"].concat(),
        };
        Stop { out: Vec::new(), err, code: 1 }
    }

    /// Prints the text and returns the exit code. Ignores errors of printing.
    pub fn exit(self) -> i32 {
        let _ = std::io::stdout().write_all(&self.out).and_then(|()| std::io::stdout().flush());
        let _ = std::io::stderr().write_all(&self.err);
        self.code.into()
    }
}
