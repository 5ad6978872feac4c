//! Reads binary packages of pkg_install: tar archives, plain or with gzip, signed or not. The metadata comes first, so
//! that reading it needs only the beginning of the file.

pub mod plist;
mod signed;
mod tar;
mod verify;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

use self::plist::Plist;
pub use self::signed::Signed;
pub use self::tar::{Member, MemberKind};
pub use self::verify::{FileDigests, verify};
use crate::error::cause;

/// A package reader, positioned at its files.
pub struct Package<'r> {
    metadata: Metadata,
    members: tar::Members<LimitedReader<Box<dyn Read + 'r>>>,
    /// The first file, which ends the metadata.
    next: Option<Member>,
}

/// The members before the files, by name (`+CONTENTS`, `+BUILD_INFO`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata {
    members: Vec<(Vec<u8>, Vec<u8>)>,
    signed: Option<Signed>,
}

/// Why a file is not a usable package. `Display` follows the name of the file.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// It cannot be read, or its compression is damaged.
    #[error("{}", cause(.0))]
    Io(io::Error),
    #[error("the package is truncated")]
    Torn,
    #[error("not a binary package")]
    NoPackage,
    #[error("the package is compressed with {0}; only gzip is supported")]
    Packed(&'static str),
    #[error("the package's archive is damaged: {0}")]
    Member(&'static str),
    #[error("package metadata exceeds the limit of 128 MiB")]
    TooLong,
    #[error("the package unpacks to more than {0} bytes, the limit for its size")]
    TooLarge(u64),
    #[error("the package has two {0}")]
    Twice(String),
    #[error("the package has no +CONTENTS with a @name")]
    NoContents,
    #[error("the package does not match its signature: {0}")]
    Signature(&'static str),
    /// A file differs from its record in `+CONTENTS`.
    #[error("the package is damaged: {0}")]
    Damaged(String),
}

/// The size limit of the metadata, in bytes. A list of a million files is smaller.
const MAX_METADATA: u64 = 128 << 20;

/// Names of metadata. Another name starts the files.
const NAMES: [&[u8]; 14] = [
    b"+CONTENTS",
    b"+COMMENT",
    b"+DESC",
    b"+INSTALL",
    b"+DEINSTALL",
    b"+DISPLAY",
    b"+MTREE_DIRS",
    b"+BUILD_VERSION",
    b"+BUILD_INFO",
    b"+SIZE_PKG",
    b"+SIZE_ALL",
    b"+PRESERVE",
    b"+REQUIRED_BY",
    b"+INSTALLED_INFO",
];

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> ArchiveError {
        // Signatures, and archives in archives, are checked by readers.
        match error.downcast::<ArchiveError>() {
            Ok(bad) => bad,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ArchiveError::Torn,
            Err(error) => ArchiveError::Io(error),
        }
    }
}

impl Metadata {
    /// Reads the metadata of a file.
    pub fn of(path: &Path) -> Result<Metadata, ArchiveError> {
        Package::open(path).map(|package| package.metadata)
    }

    /// Returns the content of a member such as `+CONTENTS`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.members.iter().find(|(it, _)| it == name.as_bytes()).map(|(_, content)| &content[..])
    }

    pub fn members(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.members.iter().map(|(name, content)| (&name[..], &content[..]))
    }

    pub fn contents(&self) -> Plist<'_> {
        Plist::new(self.get("+CONTENTS").unwrap_or_default())
    }

    /// PKGNAME.
    pub fn name(&self) -> &[u8] {
        self.contents().name().unwrap_or_default()
    }

    /// Returns a variable of `+BUILD_INFO`.
    pub fn build_info(&self, variable: &str) -> Option<&[u8]> {
        let mut lines = self.get("+BUILD_INFO")?.split(|&byte| byte == b'\n');
        lines.find_map(|line| line.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
    }

    pub fn signed(&self) -> Option<&Signed> {
        self.signed.as_ref()
    }
}

impl<'r> Package<'r> {
    pub fn open(path: &Path) -> Result<Package<'static>, ArchiveError> {
        Package::read(File::open(path)?)
    }

    /// Reads a package from its first byte.
    pub fn read(from: impl Read + 'r) -> Result<Package<'r>, ArchiveError> {
        Package::read_limited(from, u64::MAX)
    }

    /// Reads a package that may unpack to this many bytes.
    pub fn read_limited(from: impl Read + 'r, limit: u64) -> Result<Package<'r>, ArchiveError> {
        let mut head = [0; signed::MAGIC.len()];
        let (head, from) = peeked(&mut head, from)?;
        let (signed, inner): (_, Box<dyn Read + 'r>) = match head == signed::MAGIC {
            true => {
                let (signed, inner) = signed::open(from)?;
                (Some(signed), unpacked(inner)?)
            }
            false => (None, unpacked(from)?),
        };
        let mut members = tar::Members::new(LimitedReader { from: inner, limit, left: limit });
        let (metadata, next) = Metadata::read(&mut members, signed)?;
        Ok(Package { metadata, members, next })
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Moves to the next file.
    pub fn next_file(&mut self) -> Result<Option<Member>, ArchiveError> {
        match self.next.take() {
            Some(first) => Ok(Some(first)),
            None => self.members.next_member(),
        }
    }

    /// A reader of the rest of the current file.
    pub fn content(&mut self) -> impl Read {
        &mut self.members
    }
}

impl Metadata {
    fn read(
        from: &mut tar::Members<impl Read>,
        signed: Option<Signed>,
    ) -> Result<(Metadata, Option<Member>), ArchiveError> {
        let mut metadata = Metadata { members: Vec::new(), signed };
        let mut room = MAX_METADATA;
        let next = loop {
            let Some(member) = from.next_member()? else { break None };
            if !NAMES.contains(&&member.path[..]) || member.kind != MemberKind::File {
                break Some(member);
            }
            room = room.checked_sub(member.size).ok_or(ArchiveError::TooLong)?;
            if metadata.members.iter().any(|(name, _)| *name == member.path) {
                return Err(ArchiveError::Twice(String::from_utf8_lossy(&member.path).into_owned()));
            }
            let mut content = Vec::new();
            from.read_to_end(&mut content)?;
            metadata.members.push((member.path, content));
        };
        let name = metadata.contents().name().ok_or(ArchiveError::NoContents)?;
        match &metadata.signed {
            Some(signed) if signed.name != name => Err(ArchiveError::Signature("it has another name")),
            _ => Ok((metadata, next)),
        }
    }
}

/// A reader that fails after a number of bytes.
struct LimitedReader<R> {
    from: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(room)?;
        self.left =
            self.left.checked_sub(length as u64).ok_or_else(|| io::Error::other(ArchiveError::TooLarge(self.limit)))?;
        Ok(length)
    }
}

/// A reader with bytes put back.
type Again<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// Peeks at the first bytes.
fn peeked<R: Read>(head: &mut [u8], mut from: R) -> io::Result<(&[u8], Again<R>)> {
    let mut length = 0;
    while length < head.len() {
        match from.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let head = &head[..length];
    Ok((head, io::Cursor::new(head.to_vec()).chain(from)))
}

/// Detects compression, and returns the tar archive.
fn unpacked<'r>(from: impl Read + 'r) -> Result<Box<dyn Read + 'r>, ArchiveError> {
    const BUFFER: usize = 1 << 16;
    let mut head = [0; 4];
    let (head, from) = peeked(&mut head, from)?;
    match head {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, from)))),
        b"\xfd7zX" => Err(ArchiveError::Packed("xz")),
        [b'B', b'Z', b'h', _] => Err(ArchiveError::Packed("bzip2")),
        b"\x28\xb5\x2f\xfd" => Err(ArchiveError::Packed("zstd")),
        _ => Ok(Box::new(BufReader::with_capacity(BUFFER, from))),
    }
}

#[cfg(test)]
pub(crate) mod tests;
