//! The signer: reads packages, and signs those that are what they should be. Does not know how a signature is made, nor
//! who asks.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha512};

use super::frames::{Answer, LONGEST_SIGNATURE, Question};
use crate::package::archive::{ArchiveError, Package};
use crate::package::digest::hex;

/// Answers until nobody asks any more. `sign` makes a signature of a text. An error means that who asks makes no sense.
pub fn serve(mut stream: impl Read + Write, mut sign: impl FnMut(&[u8]) -> Result<Vec<u8>, String>) -> io::Result<()> {
    while let Some(question) = Question::read(&mut stream)? {
        let mut witness = Witness::new((&mut stream).take(question.bytes), block_length(question.bytes));
        let told = Package::read(&mut witness).map(|package| {
            let metadata = package.metadata();
            (metadata.name().to_vec(), metadata.signed().is_some())
        });
        // What is read next has to begin behind the package, and its end counts too.
        io::copy(&mut witness, &mut io::sink())?;
        let answer = match judge(&question, told, witness) {
            Err(why) => Answer::Refused(why),
            Ok(text) => match sign(text.as_bytes()) {
                Ok(signature) if signature.is_empty() => Answer::Refused("the signature is empty".into()),
                Ok(signature) if signature.len() > LONGEST_SIGNATURE as usize => {
                    Answer::Refused("the signature is longer than any".into())
                }
                Ok(signature) => Answer::Signed { text: text.into_bytes(), signature },
                Err(why) => Answer::Refused(why),
            },
        };
        answer.write(&mut stream)?;
        stream.flush()?;
    }
    Ok(())
}

/// The text that is to be signed, if the package is what it should be.
fn judge<R>(
    question: &Question,
    told: Result<(Vec<u8>, bool), ArchiveError>,
    seen: Witness<R>,
) -> Result<String, String>
where
    R: Read,
{
    let wanted = String::from_utf8_lossy(&question.name);
    let (name, is_signed) = told.map_err(|bad| bad.to_string())?;
    if is_signed {
        return Err("it is signed already".into());
    }
    if name != question.name {
        return Err(format!("it says that it is {}", String::from_utf8_lossy(&name)));
    }
    if wanted.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("no package has such a name".into());
    }
    seen.text(&wanted, question)
}

const BLOCK: u64 = 1 << 16;

/// How long blocks are. Of a package that is so many whole blocks, pkg_add takes the last one to be empty: then they are a
/// byte shorter.
fn block_length(bytes: u64) -> u64 {
    if bytes.is_multiple_of(BLOCK) { BLOCK - 1 } else { BLOCK }
}

/// Reads, and takes digests of all that was read: of it all, and of each block.
struct Witness<R> {
    from: R,
    whole: Sha512,
    block: Sha512,
    length: u64,
    /// So much of the block was read.
    filled: u64,
    read: u64,
    blocks: Vec<String>,
}

impl<R: Read> Witness<R> {
    fn new(from: R, length: u64) -> Witness<R> {
        Witness { from, whole: Sha512::new(), block: Sha512::new(), length, filled: 0, read: 0, blocks: Vec::new() }
    }

    /// What `+PKG_HASH` says.
    fn text(mut self, name: &str, question: &Question) -> Result<String, String> {
        if self.read != question.bytes || self.whole.finalize()[..] != question.digest[..] {
            return Err("it is not the package that may be signed: its digest is another".into());
        }
        if self.filled > 0 {
            self.blocks.push(hex(&self.block.finalize()));
        }
        Ok(format!(
            "pkgsrc signature\n\nversion: 1\npkgname: {name}\nalgorithm: SHA512\nblock size: {}\nfile size: {}\n\n{}\nend \
             pkgsrc signature\n",
            self.length,
            question.bytes,
            self.blocks.join("\n")
        ))
    }
}

impl<R: Read> Read for Witness<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(room)?;
        self.whole.update(&room[..length]);
        self.read += length as u64;
        let mut rest = &room[..length];
        while !rest.is_empty() {
            let more = rest.len().min((self.length - self.filled) as usize);
            self.block.update(&rest[..more]);
            self.filled += more as u64;
            rest = &rest[more..];
            if self.filled == self.length {
                self.blocks.push(hex(&self.block.finalize_reset()));
                self.filled = 0;
            }
        }
        Ok(length)
    }
}
