//! Messages between publisher and signer, with limits.
//!
//! A request is a byte `P`, the length of the name (a byte), the name, the SHA512 of the package (64 bytes), its length
//! (8 bytes), and the package. A reply is `S`, the signed text and the signature, or `R` and the reason; each preceded
//! by its length (4 bytes). Numbers are big-endian.

use std::io::{self, Read, Write};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SignRequest {
    pub(super) name: Vec<u8>,
    pub(super) digest: [u8; 64],
    pub(super) bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SignReply {
    Signed { text: Vec<u8>, signature: Vec<u8> },
    Refused(String),
}

const PACKAGE: u8 = b'P';
const SIGNED: u8 = b'S';
const REFUSED: u8 = b'R';
/// In bytes. A package has a digest in hex for each block of 64 KiB.
pub(super) const MAX_PACKAGE: u64 = 32 << 30;
const MAX_TEXT: u32 = 68 << 20;
/// In bytes. Signatures of RSA keys with 4,096 bits have 833.
pub(super) const MAX_SIGNATURE: u32 = 64 << 10;
const MAX_REASON: u32 = 4 << 10;

impl SignRequest {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = u8::try_from(self.name.len()).map_err(|_| refused("the name is too long"))?;
        let head = [&[PACKAGE, length], &self.name[..], &self.digest, &self.bytes.to_be_bytes()].concat();
        to.write_all(&head)
    }

    /// Returns `None` at the end of the stream.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<SignRequest>> {
        let mut kind = [0];
        if from.read(&mut kind)? == 0 {
            return Ok(None);
        }
        if kind != [PACKAGE] {
            return Err(refused("not a request"));
        }
        let mut length = [0];
        from.read_exact(&mut length)?;
        let mut name = vec![0; length[0].into()];
        from.read_exact(&mut name)?;
        let (mut digest, mut bytes) = ([0; 64], [0; 8]);
        from.read_exact(&mut digest)?;
        from.read_exact(&mut bytes)?;
        match u64::from_be_bytes(bytes) {
            bytes @ 1..=MAX_PACKAGE => Ok(Some(SignRequest { name, digest, bytes })),
            _ => Err(refused("the package is larger than 32 GiB")),
        }
    }
}

impl SignReply {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            SignReply::Signed { text, signature } => {
                to.write_all(&[SIGNED])?;
                part(to, text)?;
                part(to, signature)
            }
            SignReply::Refused(why) => {
                to.write_all(&[REFUSED])?;
                part(to, &why.as_bytes()[..why.len().min(MAX_REASON as usize)])
            }
        }
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<SignReply> {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        match kind[0] {
            SIGNED => {
                let text = limited(from, MAX_TEXT)?;
                Ok(SignReply::Signed { text, signature: limited(from, MAX_SIGNATURE)? })
            }
            REFUSED => {
                let why = limited(from, MAX_REASON)?;
                Ok(SignReply::Refused(String::from_utf8_lossy(&why).into_owned()))
            }
            _ => Err(refused("malformed reply")),
        }
    }
}

fn part(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| refused("the message is too long"))?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(bytes)
}

fn limited(from: &mut impl Read, longest: u32) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > longest {
        return Err(refused("the message is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() == length as usize { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
