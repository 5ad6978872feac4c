//! Asks the signer. Does not know where signed packages go.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use sha2::{Digest, Sha512};

use super::frames::{Answer, Question};

/// Who asks.
pub struct Client<S> {
    stream: S,
}

/// Why a package was not signed.
#[derive(Debug)]
pub enum Failed {
    /// The signer does not want to, or cannot.
    Refused(String),
    /// It cannot be read, or the signer is gone.
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Refused(why) => f.write_str(why),
            Failed::Io(error) => f.write_str(&String::from_utf8_lossy(&tanto_sys::error::text(error))),
        }
    }
}

impl<S: Read + Write> Client<S> {
    /// Over this stream.
    pub fn new(stream: S) -> Client<S> {
        Client { stream }
    }

    /// Has a package signed, of which this name and digest are known: what was signed, and the signature.
    pub fn sign(&mut self, name: &str, digest: [u8; 64], package: &mut File) -> Result<(Vec<u8>, Vec<u8>), Failed> {
        let bytes = package.metadata()?.len();
        package.rewind()?;
        Question { name: name.into(), digest, bytes }.write(&mut self.stream)?;
        let sent = io::copy(&mut (&mut *package).take(bytes), &mut self.stream)?;
        if sent < bytes {
            return Err(Failed::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.stream.flush()?;
        match Answer::read(&mut self.stream)? {
            Answer::Signed { text, signature } => Ok((text, signature)),
            Answer::Refused(why) => Err(Failed::Refused(why)),
        }
    }
}

/// SHA512 of a file.
pub fn digest(file: &mut File) -> io::Result<[u8; 64]> {
    file.rewind()?;
    let mut digest = Sha512::new();
    io::copy(file, &mut Hashing(&mut digest))?;
    Ok(digest.finalize().into())
}

/// Writes into a digest.
pub(super) struct Hashing<'d>(pub(super) &'d mut Sha512);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
