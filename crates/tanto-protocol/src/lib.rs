//! Messages between the coordinator of a bulk build and those who run its attempts: types, JSON, limits, version. No I/O.

mod attempt;
mod json;
#[cfg(test)]
mod tests;

pub use self::attempt::{AttemptOutcome, AttemptResult, AttemptSpec, StageResult, StageWaits};

use std::fmt;

use serde_json::{Value, json};

use self::json::{Json, field};

/// The version of the messages. A change that an older reader would misunderstand gets another one; fields that may be
/// ignored do not.
pub const VERSION: u32 = 1;

/// Longest name or path of a package, in bytes.
pub const MAX_NAME: usize = 255;
/// Longest text of any other kind, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Most elements of a list.
pub const MAX_LIST: usize = 50_000;

/// Why a message is refused.
#[derive(PartialEq, Eq, Debug)]
pub enum MessageError {
    TooLong { bytes: usize, max: usize },
    Version(u32),
    Malformed(String),
    Name { field: &'static str },
    Limit { field: &'static str },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::TooLong { bytes, max } => write!(f, "the message has {bytes} bytes, more than {max}"),
            MessageError::Version(version) => write!(f, "the message has protocol version {version}, not {VERSION}"),
            MessageError::Malformed(why) => write!(f, "malformed message: {why}"),
            MessageError::Name { field } => write!(f, "malformed message: {field} is not a plain name"),
            MessageError::Limit { field } => write!(f, "malformed message: {field} is too long"),
        }
    }
}

impl std::error::Error for MessageError {}

/// Something that is sent as JSON.
pub trait Message: Json {
    /// Longest encoded message, in bytes.
    const MAX_BYTES: usize;

    /// Checks the limits of the fields, and names that become parts of paths and command lines.
    fn check(&self) -> Result<(), MessageError>;

    /// Encodes the message, with the version of the protocol.
    fn encode(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let bytes = json!({ "protocol": VERSION, "body": self.to_json() }).to_string().into_bytes();
        within(bytes.len(), Self::MAX_BYTES).map(|()| bytes)
    }

    /// Decodes and checks a message. Unknown fields are ignored.
    fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        within(bytes.len(), Self::MAX_BYTES)?;
        let mut message: Value =
            serde_json::from_slice(bytes).map_err(|error| MessageError::Malformed(error.to_string()))?;
        let protocol = field(&mut message, "protocol").map_err(MessageError::Malformed)?;
        if protocol != VERSION {
            return Err(MessageError::Version(protocol));
        }
        let body: Self = field(&mut message, "body").map_err(MessageError::Malformed)?;
        body.check().map(|()| body)
    }
}

/// Whether a PKGNAME or, with slashes, a PKGPATH is safe as a part of paths and command lines.
pub fn is_safe_name(text: &[u8], slashes: bool) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._~,@=:".contains(byte) || slashes && *byte == b'/';
    let parts = text.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."));
    parts && text.iter().all(plain) && !text.starts_with(b"-")
}

fn within(bytes: usize, max: usize) -> Result<(), MessageError> {
    if bytes <= max { Ok(()) } else { Err(MessageError::TooLong { bytes, max }) }
}

fn name(field: &'static str, text: &str, slashes: bool) -> Result<(), MessageError> {
    limit(field, text.len(), MAX_NAME)?;
    if is_safe_name(text.as_bytes(), slashes) { Ok(()) } else { Err(MessageError::Name { field }) }
}

fn texts(field: &'static str, all: &[String]) -> Result<(), MessageError> {
    limit(field, all.len(), MAX_LIST)?;
    all.iter().try_for_each(|text| limit(field, text.len(), MAX_TEXT))
}

fn limit(field: &'static str, length: usize, max: usize) -> Result<(), MessageError> {
    if length <= max { Ok(()) } else { Err(MessageError::Limit { field }) }
}
