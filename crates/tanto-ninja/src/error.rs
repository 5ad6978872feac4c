//! An error for the user, in bytes: it quotes paths, and paths need not be UTF-8. Does not know where it is shown.

use std::{fmt, io};

/// Why something cannot go on.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// A message as ninja words it, without the `ninja: error: ` in front. Ninja's errors that point into a
    /// manifest end with a line end where they show no line; it belongs to the text.
    pub text: Vec<u8>,
    /// Ninja says `ninja: fatal: `, not `ninja: error: `, and exits with 1 at once.
    pub fatal: bool,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Joins the parts of a message.
    pub fn new(parts: &[&[u8]]) -> Self {
        parts.concat().into()
    }

    /// A file could not be looked at, for another reason than that it is not there.
    pub fn stat(path: &[u8], why: &io::Error) -> Self {
        Self::new(&[b"stat(", path, b"): ", &tanto_sys::error::text(why)])
    }

    /// As `of`, for what ninja calls fatal.
    pub fn fatal(parts: &[&[u8]]) -> Self {
        Error { text: parts.concat(), fatal: true }
    }
}

impl From<Vec<u8>> for Error {
    fn from(text: Vec<u8>) -> Self {
        Error { text, fatal: false }
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Vec::from(text).into()
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<io::Error> for Error {
    /// The reason alone, worded as C's `strerror` does.
    fn from(error: io::Error) -> Self {
        tanto_sys::error::text(&error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}
