//! The signer's client.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use sha2::{Digest, Sha512};

use super::frames::{SignReply, SignRequest};

pub struct Client<S> {
    stream: S,
}

#[derive(Debug)]
pub enum SignError {
    /// The signer refused.
    Refused(String),
    /// The package cannot be read, or the signer is gone.
    Io(io::Error),
}

impl From<io::Error> for SignError {
    fn from(error: io::Error) -> SignError {
        SignError::Io(error)
    }
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignError::Refused(why) => f.write_str(why),
            SignError::Io(error) => f.write_str(&String::from_utf8_lossy(&tanto_sys::error::text(error))),
        }
    }
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client { stream }
    }

    /// Has a package of this name and digest signed. Returns the signed text and the signature.
    pub fn sign(&mut self, name: &str, digest: [u8; 64], package: &mut File) -> Result<(Vec<u8>, Vec<u8>), SignError> {
        let bytes = package.metadata()?.len();
        package.rewind()?;
        SignRequest { name: name.into(), digest, bytes }.write(&mut self.stream)?;
        let sent = io::copy(&mut (&mut *package).take(bytes), &mut self.stream)?;
        if sent < bytes {
            return Err(SignError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.stream.flush()?;
        match SignReply::read(&mut self.stream)? {
            SignReply::Signed { text, signature } => Ok((text, signature)),
            SignReply::Refused(why) => Err(SignError::Refused(why)),
        }
    }
}

pub fn digest(file: &mut File) -> io::Result<[u8; 64]> {
    file.rewind()?;
    let mut digest = Sha512::new();
    io::copy(file, &mut Hashing(&mut digest))?;
    Ok(digest.finalize().into())
}

/// A writer into a digest.
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
