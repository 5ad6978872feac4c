//! The error type of bulk commands.

use std::io;
use std::path::Path;

use tanto_record::database::DatabaseError;
use thiserror::Error;

/// Why a bulk command failed. `Display` is the message for the user.
#[derive(Debug, Error)]
pub enum BulkError {
    #[error("interrupted by user")]
    Interrupted,
    #[error("another bulk build is using this state: wait for it")]
    StateLocked,
    #[error("nothing was built yet")]
    NothingBuilt,
    #[error("nothing was built yet: there is no {0}")]
    NoDatabase(String),
    #[error("the database: {0}")]
    Database(#[from] DatabaseError),
    /// An input or output failure: `action object: cause`.
    #[error("{action}{object}: {}", cause(.error))]
    Io { action: &'static str, object: String, error: io::Error },
    /// The input is not usable; only shown, never matched.
    #[error("{0}")]
    Invalid(String),
}

impl BulkError {
    /// Wraps an I/O error of an action on a path; `action` ends with a space.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> BulkError {
        move |error| BulkError::Io { action, object: path.as_ref().display().to_string(), error }
    }

    /// Wraps an I/O error on something that has no path.
    pub fn of(object: &'static str) -> impl FnOnce(io::Error) -> BulkError {
        move |error| BulkError::Io { action: "", object: object.to_owned(), error }
    }
}

impl From<String> for BulkError {
    fn from(message: String) -> BulkError {
        BulkError::Invalid(message)
    }
}

impl From<&str> for BulkError {
    fn from(message: &str) -> BulkError {
        BulkError::Invalid(message.to_owned())
    }
}

/// The text of an I/O error, without Rust's `(os error 2)`.
pub fn cause(error: &io::Error) -> String {
    String::from_utf8_lossy(&tanto_sys::error::text(error)).into_owned()
}
