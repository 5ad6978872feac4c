//! The crate's error type. Its text is bytes, since it quotes paths, which need not be UTF-8.

use std::{fmt, io};

/// An error with ninja's wording.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// The message without the prefix `ninja: error: `. An error with a place in a manifest ends with a newline if it
    /// shows no source line.
    pub text: Vec<u8>,
    /// Reported as `ninja: fatal: ` with exit status 1, as ninja does for some errors.
    pub fatal: bool,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Concatenates the parts of a message.
    pub fn new(parts: &[&[u8]]) -> Self {
        parts.concat().into()
    }

    /// `stat` failed for another reason than a missing file.
    pub fn stat(path: &[u8], why: &io::Error) -> Self {
        Self::new(&[b"stat(", path, b"): ", &tanto_sys::error::text(why)])
    }

    /// A fatal error; concatenates the parts of a message.
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
    /// Formats the reason alone, as C's `strerror` does.
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
