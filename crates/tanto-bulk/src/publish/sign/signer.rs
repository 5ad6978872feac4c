//! The signer: checks packages and signs them.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha512};

use super::frames::{MAX_SIGNATURE, SignReply, SignRequest};
use crate::package::archive::{ArchiveError, Package};
use crate::package::digest::hex;

/// Serves requests until the stream ends. `sign` signs a text. An error is a malformed request.
pub fn serve(mut stream: impl Read + Write, mut sign: impl FnMut(&[u8]) -> Result<Vec<u8>, String>) -> io::Result<()> {
    while let Some(request) = SignRequest::read(&mut stream)? {
        let mut reader = VerifyingReader::new((&mut stream).take(request.bytes), block_length(request.bytes));
        let found = Package::read(&mut reader).map(|package| {
            let metadata = package.metadata();
            (metadata.name().to_vec(), metadata.signed().is_some())
        });
        // The next request follows the package, and its end is checked too.
        io::copy(&mut reader, &mut io::sink())?;
        let reply = match check(&request, found, reader) {
            Err(why) => SignReply::Refused(why),
            Ok(text) => match sign(text.as_bytes()) {
                Ok(signature) if signature.is_empty() => SignReply::Refused("the signature is empty".into()),
                Ok(signature) if signature.len() > MAX_SIGNATURE as usize => {
                    SignReply::Refused("the signature is too long".into())
                }
                Ok(signature) => SignReply::Signed { text: text.into_bytes(), signature },
                Err(why) => SignReply::Refused(why),
            },
        };
        reply.write(&mut stream)?;
        stream.flush()?;
    }
    Ok(())
}

/// Returns the text to sign if the package matches the request.
fn check<R>(
    request: &SignRequest,
    found: Result<(Vec<u8>, bool), ArchiveError>,
    seen: VerifyingReader<R>,
) -> Result<String, String>
where
    R: Read,
{
    let wanted = String::from_utf8_lossy(&request.name);
    let (name, is_signed) = found.map_err(|bad| bad.to_string())?;
    if is_signed {
        return Err("it is already signed".into());
    }
    if name != request.name {
        return Err(format!("it contains {}", String::from_utf8_lossy(&name)));
    }
    if wanted.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("invalid package name".into());
    }
    seen.text(&wanted, request)
}

const BLOCK: u64 = 1 << 16;

/// The block size. pkg_add takes the last block of a package of whole blocks to be empty, so its blocks are a byte
/// shorter.
fn block_length(bytes: u64) -> u64 {
    if bytes.is_multiple_of(BLOCK) { BLOCK - 1 } else { BLOCK }
}

/// A reader that computes the digest of the whole and of each block.
struct VerifyingReader<R> {
    from: R,
    whole: Sha512,
    block: Sha512,
    length: u64,
    /// Bytes of the current block.
    filled: u64,
    read: u64,
    blocks: Vec<String>,
}

impl<R: Read> VerifyingReader<R> {
    fn new(from: R, length: u64) -> VerifyingReader<R> {
        VerifyingReader {
            from,
            whole: Sha512::new(),
            block: Sha512::new(),
            length,
            filled: 0,
            read: 0,
            blocks: Vec::new(),
        }
    }

    /// The content of `+PKG_HASH`.
    fn text(mut self, name: &str, request: &SignRequest) -> Result<String, String> {
        if self.read != request.bytes || self.whole.finalize()[..] != request.digest[..] {
            return Err("its digest is not that of the package to sign".into());
        }
        if self.filled > 0 {
            self.blocks.push(hex(&self.block.finalize()));
        }
        Ok(format!(
            "pkgsrc signature\n\nversion: 1\npkgname: {name}\nalgorithm: SHA512\nblock size: {}\nfile size: {}\n\n{}\nend \
             pkgsrc signature\n",
            self.length,
            request.bytes,
            self.blocks.join("\n")
        ))
    }
}

impl<R: Read> Read for VerifyingReader<R> {
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
