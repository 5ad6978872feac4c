//! What who publishes and the signer say to each other: a question with its package, an answer. Each has a limit. Does
//! not know what is signed.
//!
//! A question is a byte `P`, the length of the name (a byte) and the name, SHA512 of the package (64 bytes), its length
//! (8 bytes), and the package. An answer is `S`, the text that was signed and the signature, or `R` and why not; each with
//! its length (4 bytes) before it. Numbers have their highest byte first.

use std::io::{self, Read, Write};

/// What may be signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) name: Vec<u8>,
    pub(super) digest: [u8; 64],
    pub(super) bytes: u64,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Signed { text: Vec<u8>, signature: Vec<u8> },
    Refused(String),
}

const PACKAGE: u8 = b'P';
const SIGNED: u8 = b'S';
const REFUSED: u8 = b'R';
/// A digest in hex stands for a block of 64 KiB: that is a package of 32 GiB.
pub(super) const LONGEST_PACKAGE: u64 = 32 << 30;
const LONGEST_TEXT: u32 = 68 << 20;
/// In bytes; those of RSA keys with 4,096 bits have 833.
pub(super) const LONGEST_SIGNATURE: u32 = 64 << 10;
const LONGEST_REASON: u32 = 4 << 10;

impl Question {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = u8::try_from(self.name.len()).map_err(|_| refused("the name is too long"))?;
        let head = [&[PACKAGE, length], &self.name[..], &self.digest, &self.bytes.to_be_bytes()].concat();
        to.write_all(&head)
    }

    /// The next one; nothing if there is none.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Question>> {
        let mut kind = [0];
        if from.read(&mut kind)? == 0 {
            return Ok(None);
        }
        if kind != [PACKAGE] {
            return Err(refused("this is no question"));
        }
        let mut length = [0];
        from.read_exact(&mut length)?;
        let mut name = vec![0; length[0].into()];
        from.read_exact(&mut name)?;
        let (mut digest, mut bytes) = ([0; 64], [0; 8]);
        from.read_exact(&mut digest)?;
        from.read_exact(&mut bytes)?;
        match u64::from_be_bytes(bytes) {
            bytes @ 1..=LONGEST_PACKAGE => Ok(Some(Question { name, digest, bytes })),
            _ => Err(refused("no package is so long")),
        }
    }
}

impl Answer {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Answer::Signed { text, signature } => {
                to.write_all(&[SIGNED])?;
                part(to, text)?;
                part(to, signature)
            }
            Answer::Refused(why) => {
                to.write_all(&[REFUSED])?;
                part(to, &why.as_bytes()[..why.len().min(LONGEST_REASON as usize)])
            }
        }
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Answer> {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        match kind[0] {
            SIGNED => {
                let text = limited(from, LONGEST_TEXT)?;
                Ok(Answer::Signed { text, signature: limited(from, LONGEST_SIGNATURE)? })
            }
            REFUSED => {
                let why = limited(from, LONGEST_REASON)?;
                Ok(Answer::Refused(String::from_utf8_lossy(&why).into_owned()))
            }
            _ => Err(refused("this is no answer")),
        }
    }
}

fn part(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| refused("that is too long"))?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(bytes)
}

fn limited(from: &mut impl Read, longest: u32) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > longest {
        return Err(refused("that is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() == length as usize { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
