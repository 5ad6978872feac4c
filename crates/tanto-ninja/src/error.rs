//! The crate's error type.

use std::borrow::Cow;
use std::{fmt, io};

/// An error with ninja's wording, without the prefix `ninja: error: `. Texts are bytes, since they quote paths, which
/// need not be UTF-8.
#[derive(Clone, PartialEq, Eq)]
pub enum Error {
    /// Any other error. One with a place in a manifest ends with a newline if it shows no source line.
    Message(Vec<u8>),
    /// Reported as `ninja: fatal: ` with exit status 1, as ninja does for some errors.
    Fatal(Vec<u8>),
    /// A manifest has changed since it was loaded, so that commands in it cannot be read.
    ManifestChanged { path: Vec<u8> },
    /// Data read from the snapshot is invalid. The graph must be loaded from the manifests.
    SnapshotDamaged,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Concatenates the parts of a message.
    pub fn new(parts: &[&[u8]]) -> Self {
        Error::Message(parts.concat())
    }

    /// A fatal error; concatenates the parts of a message.
    pub fn fatal(parts: &[&[u8]]) -> Self {
        Error::Fatal(parts.concat())
    }

    /// `stat` failed for another reason than a missing file.
    pub fn stat(path: &[u8], why: &io::Error) -> Self {
        Self::new(&[b"stat(", path, b"): ", &tanto_sys::error::text(why)])
    }

    /// Renders the message.
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Error::Message(text) | Error::Fatal(text) => text.into(),
            Error::ManifestChanged { path } => [path, &b": manifest changed during the build"[..]].concat().into(),
            Error::SnapshotDamaged => b"the snapshot is damaged"[..].into(),
        }
    }

    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Fatal(_))
    }
}

impl From<Vec<u8>> for Error {
    fn from(text: Vec<u8>) -> Self {
        Error::Message(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Error::Message(text.into())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Error::Message(text.into())
    }
}

impl From<io::Error> for Error {
    /// Formats the reason alone, as C's `strerror` does.
    fn from(error: io::Error) -> Self {
        Error::Message(tanto_sys::error::text(&error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}
