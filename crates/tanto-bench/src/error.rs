//! Errors of experiments.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A failure to set up an experiment or to keep its results. `cause` is the operating system's text.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Error {
    #[error("reading {}: {cause}", .path.display())]
    Read { path: PathBuf, cause: String },
    #[error("writing {}: {cause}", .path.display())]
    Write { path: PathBuf, cause: String },
    #[error("{0}")]
    System(String),
    #[error("--output {}: unknown format; the name must end in {expected}", .path.display())]
    UnknownFormat { path: PathBuf, expected: String },
    #[error("no files in {}", .0.display())]
    NoFiles(PathBuf),
    #[error("reading {}: {error}", .path.display())]
    Timings { path: PathBuf, error: FileError },
    #[error("--append {}: {error}", .path.display())]
    Append { path: PathBuf, error: FileError },
    #[error("--resume: {}: {error}", .path.display())]
    Resume { path: PathBuf, error: FileError },
    #[error("--{option}: {cause} ({hint})")]
    Control { option: &'static str, cause: String, hint: &'static str },
    #[error("--cpus {wanted}: {missing} not available to this process, only {allowed}")]
    UnavailableCpus { wanted: String, missing: String, allowed: String },
    #[error("the command does not contain {{jobs}}, so all runs would be the same")]
    NoPlaceholder,
    #[error("{0}")]
    Usage(&'static str),
}

impl Error {
    pub fn read(path: &Path, error: &io::Error) -> Error {
        Error::Read { path: path.into(), cause: cause(error) }
    }

    pub fn write(path: &Path, error: &io::Error) -> Error {
        Error::Write { path: path.into(), cause: cause(error) }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::System(cause(&error))
    }
}

/// Describes an error without its number.
pub fn cause(error: &io::Error) -> String {
    String::from_utf8_lossy(&tanto_sys::error::text(error)).into_owned()
}

/// A file that is not a result of `tanto bench jobs`, or not of the expected experiment.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FileError {
    #[error("invalid JSON: {0}")]
    Json(String),
    #[error("not a result of 'tanto bench jobs'")]
    OtherFormat,
    #[error("unsupported version of the format, expected {0}; measure again")]
    Version(u64),
    #[error("a field is missing or invalid")]
    InvalidField,
    #[error("line {line}: expected a number of jobs and seconds, not '{text}'")]
    InvalidLine { line: usize, text: String },
    #[error("no timings found")]
    Empty,
    #[error("larger than 64 MiB; use another file")]
    TooLarge,
    #[error("contains timings of '{found}', not of '{expected}'; use another file")]
    OtherCommand { found: String, expected: String },
    #[error("not a file of timings: no line '# Timings of ...'; use another file")]
    NoTitle,
    #[error("measured with another setup:\n  {}", .0.join("\n  "))]
    OtherSetup(Vec<String>),
}

/// An option's value that cannot be parsed; names the expected form.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("expected {0}")]
pub struct InvalidValue(pub String);
