//! Errors of the command line of a build, and requests that end it.

use tanto_exec::command_output::CommandOutput;
use tanto_ninja::getopt::Bad;

use crate::invocation::Invocation;

use super::ninja_help;

/// A reason to stop reading a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandLineError {
    Help,
    Version,
    /// Unknown options, missing values.
    Usage(Bad),
    /// A list, such as `-d list`.
    Text {
        text: String,
        code: u8,
    },
    /// An invalid value that ninja reports as `fatal`.
    Fatal(Vec<u8>),
    /// An invalid value that ninja reports as `error`.
    Error(Vec<u8>),
}

impl CommandLineError {
    /// The message and exit code of this invocation. `program` is `argv[0]`; `help` returns the text of `--help` as tanto.
    pub fn output(self, invocation: Invocation, program: &[u8], help: impl FnOnce() -> String) -> CommandOutput {
        match (self, invocation) {
            (CommandLineError::Help, Invocation::Ninja) => {
                CommandOutput { out: Vec::new(), err: ninja_help::text().into_bytes(), code: 1 }
            }
            (CommandLineError::Help, Invocation::Tanto) => CommandOutput::printed(help(), 0),
            (CommandLineError::Version, _) => CommandOutput::printed(format!("{}\n", invocation.version()), 0),
            (CommandLineError::Usage(bad), Invocation::Ninja) => {
                let err = [program, b": ", &bad.message[..], b"\n", ninja_help::text().as_bytes()].concat();
                CommandOutput { out: Vec::new(), err, code: 1 }
            }
            (CommandLineError::Usage(bad), Invocation::Tanto) => {
                let message = [&bad.with_hint()[..], b"\nTry '", program, b" --help'."].concat();
                CommandOutput::message(invocation.name(), "error", &message)
            }
            (CommandLineError::Text { text, code }, _) => CommandOutput::printed(text, code),
            (CommandLineError::Fatal(message), _) => CommandOutput::message(invocation.name(), "fatal", &message),
            (CommandLineError::Error(message), _) => CommandOutput::message(invocation.name(), "error", &message),
        }
    }
}
