//! Errors of the settings of a build, and requests that end the reading of a command line.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tanto_exec::command_output::CommandOutput;
use tanto_exec::text::suggest;
use tanto_ninja::getopt::Bad;

use super::FLAGS_VARIABLE;
use super::config::ConfigFileError;
use super::flags::{Flag, Id};
use super::ninja_help;
use crate::invocation::Invocation;

/// A reason to stop reading a command line and the other sources of settings.
#[derive(Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(&self.message()))]
pub enum CommandLineError {
    Help,
    Version,
    /// A list, such as `-d list`.
    List {
        text: String,
        code: u8,
    },
    /// Unknown options, missing values.
    Usage(Bad),
    InvalidValue(&'static Flag),
    /// A value of `-d` or `-w`.
    UnknownMode {
        kind: &'static str,
        word: Vec<u8>,
        known: &'static [&'static str],
    },
    UnknownTool(tanto_ninja::error::Error),
    WatchWithTool,
    InvalidVariable {
        name: &'static str,
        expected: &'static str,
    },
    /// An option in the variable for options that goes on the command line.
    CommandLineOnly(&'static Flag),
    UnclosedQuote,
    /// A target in the variable for options.
    NotAnOption(Vec<u8>),
    /// An error in the variable for options.
    InFlagsVariable(Box<CommandLineError>),
    ReadConfig {
        path: PathBuf,
        cause: io::Error,
    },
    Config {
        path: PathBuf,
        error: ConfigFileError,
    },
}

impl CommandLineError {
    /// The output and exit code of this invocation. `program` is `argv[0]`; `help` returns the text of `--help` as tanto.
    pub fn output(self, invocation: Invocation, program: &[u8], help: impl FnOnce() -> String) -> CommandOutput {
        let failed = |err| CommandOutput { err, code: 1, ..CommandOutput::default() };
        match (self, invocation) {
            (CommandLineError::Help, Invocation::Ninja) => failed(ninja_help::text().into()),
            (CommandLineError::Help, Invocation::Tanto) => CommandOutput::printed(help(), 0),
            (CommandLineError::Version, _) => CommandOutput::printed(format!("{}\n", invocation.version()), 0),
            (CommandLineError::List { text, code }, _) => CommandOutput::printed(text, code),
            (CommandLineError::Usage(bad), Invocation::Ninja) => {
                failed([program, b": ", &bad.message[..], b"\n", ninja_help::text().as_bytes()].concat())
            }
            (CommandLineError::Usage(bad), Invocation::Tanto) => {
                CommandOutput::failed([&bad.with_hint()[..], b"\nTry '", program, b" --help'."].concat())
            }
            (error, _) => CommandOutput::message(invocation.name(), error.level(), &error.message()),
        }
    }

    /// `error` or `fatal`, as ninja reports it.
    fn level(&self) -> &'static str {
        match self {
            CommandLineError::UnknownMode { .. }
            | CommandLineError::ReadConfig { .. }
            | CommandLineError::Config { .. } => "error",
            CommandLineError::InFlagsVariable(error) => error.level(),
            _ => "fatal",
        }
    }

    fn message(&self) -> Vec<u8> {
        match self {
            CommandLineError::Help | CommandLineError::Version | CommandLineError::List { .. } => Vec::new(),
            CommandLineError::Usage(bad) => bad.message.clone(),
            CommandLineError::InvalidValue(flag) => invalid_value(flag).into(),
            CommandLineError::UnknownMode { kind, word, known } => suggest::unknown(kind, word, known.iter().copied()),
            CommandLineError::UnknownTool(error) => error.text().into(),
            CommandLineError::WatchWithTool => b"--watch is for builds, not for a tool (-t)".into(),
            CommandLineError::InvalidVariable { name, expected } => format!("{name}: expected {expected}").into(),
            CommandLineError::CommandLineOnly(flag) => {
                format!("{} is permitted on the command line only", flag.names()).into()
            }
            CommandLineError::UnclosedQuote => b"a quote is not closed".into(),
            CommandLineError::NotAnOption(word) => [b"'", &word[..], b"' is not an option"].concat(),
            CommandLineError::InFlagsVariable(error) => [FLAGS_VARIABLE.as_bytes(), b": ", &error.message()].concat(),
            CommandLineError::ReadConfig { path, cause } => {
                [b"reading ", path.as_os_str().as_bytes(), b": ", &tanto_sys::error::text(cause)].concat()
            }
            CommandLineError::Config { path, error } => error.render(path.as_os_str().as_bytes()),
        }
    }
}

/// The message for an invalid value: ninja's own for its options.
fn invalid_value(flag: &Flag) -> String {
    match flag.id {
        Id::Jobs => "invalid -j parameter".into(),
        Id::KeepGoing => "-k parameter not numeric; did you mean -k 0?".into(),
        Id::MaxLoad => "-l parameter not numeric: did you mean -l 0.0?".into(),
        _ => {
            let expected = flag.value.map_or("nothing", |value| value.expected);
            format!("invalid {} parameter: expected {expected}", flag.names())
        }
    }
}
