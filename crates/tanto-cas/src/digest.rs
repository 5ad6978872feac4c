//! SHA-256 digests of blobs.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use sha2::Digest as _;
use sha2::Sha256;

/// The SHA-256 digest of a blob. Its text is 64 lowercase hexadecimal digits.
///
/// `tanto-protocol` has a type of the same name for messages: neither crate depends on the other, and both convert to
/// an array of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// The digest and size of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobInfo {
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// A text is not 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a digest of 64 lowercase hexadecimal digits")]
pub struct DigestTextError;

impl BlobInfo {
    /// The digest and size of a file.
    pub fn of_file(path: &Path) -> io::Result<BlobInfo> {
        copy_hashed(&mut File::open(path)?, &mut io::sink())
    }
}

impl Digest {
    /// Digits of the text.
    pub const DIGITS: usize = 64;

    /// The digest of these bytes.
    pub fn of(content: &[u8]) -> Digest {
        Digest(Sha256::digest(content).into())
    }

    /// Parses the text.
    pub fn parse(text: &[u8]) -> Result<Digest, DigestTextError> {
        let mut bytes = [0; 32];
        parse_hex(text, &mut bytes).map(|()| Digest(bytes))
    }
}

/// Parses lowercase hexadecimal digits, two for each byte.
pub(crate) fn parse_hex(text: &[u8], bytes: &mut [u8]) -> Result<(), DigestTextError> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestTextError),
    };
    if text.len() != 2 * bytes.len() {
        return Err(DigestTextError);
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(())
}

/// Displays bytes as lowercase hexadecimal digits.
pub(crate) struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0), to)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0), to)
    }
}

impl FromStr for Digest {
    type Err = DigestTextError;

    fn from_str(text: &str) -> Result<Digest, DigestTextError> {
        Digest::parse(text.as_bytes())
    }
}

/// Determines the digest and size of the bytes that it is given.
#[derive(Clone, Default)]
pub struct Hasher {
    state: Sha256,
    size: u64,
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.size += bytes.len() as u64;
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn finish(self) -> BlobInfo {
        BlobInfo { digest: Digest(self.state.finalize().into()), size: self.size }
    }
}

/// Bytes that are read at a time.
pub(crate) const CHUNK: usize = 64 << 10;

/// Reads some bytes; repeats an interrupted call.
pub(crate) fn read_some(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Determines the digest of everything that `source` yields, and writes it to `to`.
pub(crate) fn copy_hashed(source: &mut dyn Read, to: &mut dyn Write) -> io::Result<BlobInfo> {
    let mut hasher = Hasher::default();
    let mut buffer = [0; CHUNK];
    loop {
        match read_some(source, &mut buffer)? {
            0 => return Ok(hasher.finish()),
            length => {
                hasher.update(&buffer[..length]);
                to.write_all(&buffer[..length])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_convert() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for bad in ["", "e3", &empty[1..], &empty.to_uppercase(), &format!("{empty}0"), &empty.replace('e', "g")] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestTextError), "{bad}");
        }
    }

    #[test]
    fn copies_are_hashed() {
        let content = vec![7; 3 * CHUNK + 5];
        let mut copy = Vec::new();
        let info = copy_hashed(&mut &content[..], &mut copy).unwrap();
        assert_eq!((info.digest, info.size), (Digest::of(&content), content.len() as u64));
        assert!(copy == content);
    }
}
