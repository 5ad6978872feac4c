//! Messages between the coordinator of a bulk build and the programs that run its attempts: types, JSON, limits, version.
//! No I/O.

mod attempt;
mod backoff;
mod body;
mod client;
mod ids;
mod relay;
mod scan;
#[cfg(test)]
mod tests;
mod token;
mod tree;

pub use self::attempt::{
    AttemptOutcome, AttemptResult, AttemptSpec, BuiltPackage, MAX_PACKAGES, StageResult, StageWaits,
};
pub use self::backoff::Backoff;
pub use self::client::{
    BuildDescription, Bye, ClientAnswer, ClientRequest, Distfile, Environment, Heartbeat, HeartbeatAnswer, Hello,
    HelloAnswer, Lease, LeaseAction, LeaseInstruction, LeaseProgress, LogBlob, MAX_LEASES, MAX_URL, PackageBlob,
    Refusal, RefusalCode, ResultAnswer, ResultReport, WorkAnswer, WorkRequest,
};
pub use self::ids::{ConnectionId, Digest, HexError, InstanceId, LeaseId};
pub use self::relay::{Gauge, GaugeKind, ProvidedFile, ToCoordinator, ToServer, TokenIdentity};
pub use self::scan::{
    MAX_BATCH, MAX_SCAN_RESULTS, ScanAnswer, ScanRequest, ScannedDirectory, decode_results, encode_results,
};
pub use self::token::{JoinAnswer, JoinFile, JoinRequest, Role, Roles};
pub use self::tree::{PUSHED_TREES, PushedTree, TreeAnswer, TreeRequest};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the messages. A change that an older reader would misunderstand gets another one; fields that may be
/// ignored do not.
pub const VERSION: u32 = 1;

/// Longest name or path of a package, in bytes.
pub const MAX_NAME: usize = 255;
/// Longest text of any other kind, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Most elements of a list.
pub const MAX_LIST: usize = 50_000;
/// Most digests of a request for blobs, and most blobs of a pack.
pub const MAX_DIGESTS: usize = 3_000;
/// Size of a blob in a pack, in bytes. Larger ones are sent alone.
pub const MAX_PACKED: u64 = 1 << 20;
/// Size of all blobs of a pack, in bytes.
pub const MAX_PACK: u64 = 16 << 20;
/// Bytes of a blob in a compressed part of its upload.
pub const MAX_PART: u64 = 8 << 20;

/// Why a message is refused.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    #[error("the message has {bytes} bytes, more than {max}")]
    TooLong { bytes: usize, max: usize },
    #[error("the message has protocol version {0}, not {VERSION}")]
    Version(u32),
    #[error("malformed message: {0}")]
    Malformed(String),
    #[error("malformed message: {field} is not a plain name")]
    Name { field: &'static str },
    #[error("malformed message: a built attempt lists each package that it made once, and others list none")]
    Packages,
    #[error("malformed message: {field} is too long")]
    Limit { field: &'static str },
}

impl From<serde_json::Error> for MessageError {
    fn from(error: serde_json::Error) -> MessageError {
        MessageError::Malformed(error.to_string())
    }
}

/// The version of a message, which is read before its body.
#[derive(Deserialize)]
struct Header {
    protocol: u32,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    protocol: u32,
    body: T,
}

/// Something that is sent as JSON.
pub trait Message: Serialize + DeserializeOwned {
    /// Longest encoded message, in bytes.
    const MAX_BYTES: usize;

    /// Checks the limits of the fields, and names that become parts of paths and command lines.
    fn check(&self) -> Result<(), MessageError>;

    /// Encodes the message, with the version of the protocol.
    fn encode(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let bytes = serde_json::to_vec(&Envelope { protocol: VERSION, body: self })?;
        within(bytes.len(), Self::MAX_BYTES).map(|()| bytes)
    }

    /// Decodes and checks a message. Unknown fields are ignored.
    fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        within(bytes.len(), Self::MAX_BYTES)?;
        let Header { protocol } = serde_json::from_slice(bytes)?;
        if protocol != VERSION {
            return Err(MessageError::Version(protocol));
        }
        let Envelope { body, .. } = serde_json::from_slice::<Envelope<Self>>(bytes)?;
        body.check().map(|()| body)
    }
}

/// Whether a PKGNAME or, with slashes, a PKGPATH is safe as a part of paths and command lines.
pub fn is_safe_name(text: &[u8], slashes: bool) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._~,@=:".contains(byte) || slashes && *byte == b'/';
    let parts = text.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."));
    parts && text.iter().all(plain) && !text.starts_with(b"-")
}

/// Whether a text is a name of a client, a build or a label: 1 to 63 of `[a-z0-9._-]`, beginning with a letter or digit.
pub fn is_client_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=63).contains(&text.len()) && text.bytes().all(plain) && text.as_bytes()[0].is_ascii_alphanumeric()
}

fn client_name(field: &'static str, text: &str) -> Result<(), MessageError> {
    if is_client_name(text) { Ok(()) } else { Err(MessageError::Name { field }) }
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
