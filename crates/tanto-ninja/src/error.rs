//! An error for the user, in bytes: it quotes paths, and paths need not be UTF-8. Does not know where it is shown.

use std::fmt;

/// A message as ninja words it, without the `ninja: error: ` in front and without a line end.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(pub Vec<u8>);

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Joins the parts of a message.
    pub fn of(parts: &[&[u8]]) -> Self {
        Error(parts.concat())
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Error(text.into())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Error(text.into_bytes())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}
