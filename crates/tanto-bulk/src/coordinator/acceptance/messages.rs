//! The messages to the processes that accept results: each a length of 32 bits, little endian, and JSON.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tanto_protocol::Digest;

/// A request to the process that accepts results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AcceptorRequest {
    Accept(Box<AcceptRequest>),
    Compare(CompareRequest),
}

impl AcceptorRequest {
    /// The number of the answer.
    pub fn number(&self) -> u64 {
        match self {
            AcceptorRequest::Accept(request) => request.number,
            AcceptorRequest::Compare(request) => request.number,
        }
    }
}

/// Compares a package with others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompareRequest {
    /// Of the answer too.
    pub number: u64,
    pub package: StoredPackage,
    pub others: Vec<StoredPackage>,
}

/// The file of a package.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredPackage {
    pub path: PathBuf,
    pub digest: Digest,
    pub size: u64,
}

/// The files of a result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptRequest {
    /// Of the answer too.
    pub number: u64,
    /// The directory of the attempt. It is created anew, unless a package is installed and nothing else is in it.
    pub dir: PathBuf,
    pub logs: Vec<IncomingFile>,
    pub package: Option<IncomingPackage>,
}

impl AcceptRequest {
    /// Whether files go to the attempt's directory.
    pub(super) fn needs_dir(&self) -> bool {
        let is_installed = |it: &IncomingPackage| matches!(it.destination, Destination::Packages { .. });
        !self.logs.is_empty() || !self.package.as_ref().is_some_and(is_installed)
    }
}

/// A blob and the name of its copy in the attempt's directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IncomingFile {
    pub name: String,
    pub blob: PathBuf,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IncomingPackage {
    pub blob: PathBuf,
    pub digest: Digest,
    pub size: u64,
    /// PKGNAME.
    pub name: String,
    /// The PKGNAMEs of all direct and indirect dependencies.
    pub dependencies: Vec<String>,
    pub destination: Destination,
}

/// Where a package goes that is accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Destination {
    /// To a file in the attempt's directory, for the hook that installs it.
    Attempt(String),
    /// To the directory of packages: `new` is the temporary name there.
    Packages { new: PathBuf, place: PathBuf },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptAnswer {
    pub number: u64,
    /// Remarks for the user, such as that a log was shortened.
    pub notes: Vec<String>,
    /// An error is the reason why the request failed.
    pub result: Result<Taken, String>,
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Taken {
    /// A result without a package.
    Logs,
    Package(AcceptedPackage),
    /// The members that differ from those of each other package, for people.
    Differences(Vec<Vec<String>>),
}

/// A package that was opened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptedPackage {
    pub digest: Digest,
    /// The SHA512 of a package that was installed, in hex.
    pub installed: Option<String>,
}

/// A request to the inspector. The packages follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum InspectorRequest {
    Inspect(InspectRequest),
    /// Compares two packages of these sizes, in bytes.
    Compare([u64; 2]),
}

/// Tells the inspector what a package of `size` bytes has to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct InspectRequest {
    pub name: String,
    pub size: u64,
    pub dependencies: Vec<String>,
}

/// The inspector's first message, and its answer to each request to inspect a package: why not.
pub(super) type InspectAnswer = Result<(), String>;
/// The inspector's answer to a request to compare packages: the members that differ, for people.
pub(super) type CompareAnswer = Vec<String>;

/// The size limit of a message, in bytes.
pub(super) const MAX_MESSAGE: usize = 64 << 20;

/// Encodes a message with its length.
pub(super) fn encoded(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size_of::<u32>()];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - size_of::<u32>();
    if length > MAX_MESSAGE {
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    bytes[..size_of::<u32>()].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Takes the first complete message from received bytes.
pub(super) fn take<T: DeserializeOwned>(received: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((length, rest)) = received.split_first_chunk() else { return Ok(None) };
    let length = checked_length(*length)?;
    let Some(bytes) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(bytes)?;
    received.drain(..size_of::<u32>() + length);
    Ok(Some(message))
}

/// Reads a message; `None` at the end of the stream.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; size_of::<u32>()];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let mut bytes = vec![0; checked_length(length)?];
    from.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

pub(super) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&encoded(message)?)
}

fn checked_length(length: [u8; size_of::<u32>()]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length) as usize;
    match length <= MAX_MESSAGE {
        true => Ok(length),
        false => Err(io::Error::other(format!("a message of {length} bytes is too long"))),
    }
}
