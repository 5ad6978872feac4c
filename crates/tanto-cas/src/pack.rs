//! Packs: many small blobs in one stream.
//!
//! For each blob, a pack has a line `DIGEST SIZE` and then the content. It ends with the line `end`, so that a truncated
//! pack is noticed.

use std::io::{self, Read, Write};

use crate::digest::{CHUNK, Hasher, read_some};
use crate::manifest::parse_size;
use crate::store::Durability;
use crate::{BlobInfo, Digest, Store, StoreError};

const END: &[u8] = b"end";
/// Longest line without its newline: a digest, a space, and a number of 20 digits.
const MAX_LINE: usize = Digest::DIGITS + 21;

/// The limits of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackLimits {
    pub blobs: u64,
    /// Size of a blob, in bytes.
    pub blob_bytes: u64,
    /// Size of all blobs, in bytes.
    pub total_bytes: u64,
}

impl Default for PackLimits {
    fn default() -> PackLimits {
        PackLimits { blobs: 100_000, blob_bytes: 16 << 20, total_bytes: 1 << 30 }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("the pack has more than {0} blobs")]
    TooManyBlobs(u64),
    #[error("blob {digest} has {size} bytes, more than a pack may have")]
    BlobTooLarge { digest: Digest, size: u64 },
    #[error("the pack is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the pack is malformed before its blob {0}")]
    Malformed(u64),
    #[error("blob {0} of the pack has another content")]
    Mismatch(Digest),
    /// The content for a pack is not the announced one.
    #[error("blob {0} has changed")]
    Changed(Digest),
    #[error("the pack ends too early")]
    Truncated,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes a pack.
pub struct PackWriter<W> {
    to: W,
}

impl<W: Write> PackWriter<W> {
    pub fn new(to: W) -> PackWriter<W> {
        PackWriter { to }
    }

    /// Writes a blob. Fails with `Changed` if the content is another one; then the pack is broken.
    pub fn add(&mut self, blob: &BlobInfo, content: &mut dyn Read) -> Result<(), PackError> {
        writeln!(self.to, "{} {}", blob.digest, blob.size)?;
        // One byte more shows that the content has grown.
        let mut content = content.take(blob.size.saturating_add(1));
        if crate::digest::copy_hashed(&mut content, &mut self.to)? == *blob {
            return Ok(());
        }
        Err(PackError::Changed(blob.digest))
    }

    /// Ends the pack.
    pub fn finish(mut self) -> Result<W, PackError> {
        self.to.write_all(END)?;
        self.to.write_all(b"\n")?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Reads a pack.
pub struct PackReader<R> {
    from: R,
    buffer: Box<[u8]>,
    /// The part of the buffer that was not consumed.
    begin: usize,
    end: usize,
    limits: PackLimits,
    blobs: u64,
    bytes: u64,
    /// Bytes of the current blob that were not consumed.
    left: u64,
    is_over: bool,
}

impl<R: Read> PackReader<R> {
    pub fn new(from: R, limits: PackLimits) -> PackReader<R> {
        let buffer = vec![0; CHUNK].into_boxed_slice();
        PackReader { from, buffer, begin: 0, end: 0, limits, blobs: 0, bytes: 0, left: 0, is_over: false }
    }

    /// Goes to the next blob; returns `None` at the end of the pack. Skips and does not verify what was not read of the
    /// current blob.
    pub fn next_blob(&mut self) -> Result<Option<BlobInfo>, PackError> {
        io::copy(&mut Content { pack: self, verify: None }, &mut io::sink())?;
        if self.is_over {
            return Ok(None);
        }
        let line = self.line()?;
        if line == END {
            self.is_over = true;
            return if self.fill()? == 0 { Ok(None) } else { Err(PackError::Malformed(self.blobs + 1)) };
        }
        let blob = parse(&line).ok_or(PackError::Malformed(self.blobs + 1))?;
        self.blobs += 1;
        self.bytes = self.bytes.saturating_add(blob.size);
        if self.blobs > self.limits.blobs {
            return Err(PackError::TooManyBlobs(self.limits.blobs));
        }
        if blob.size > self.limits.blob_bytes {
            return Err(PackError::BlobTooLarge { digest: blob.digest, size: blob.size });
        }
        if self.bytes > self.limits.total_bytes {
            return Err(PackError::TooLarge(self.limits.total_bytes));
        }
        self.left = blob.size;
        Ok(Some(blob))
    }

    /// The content of the current blob. Its last call of `read` fails if the digest is not that of the line.
    pub fn content(&mut self, blob: &BlobInfo) -> impl Read + '_ {
        Content { pack: self, verify: Some((Hasher::default(), blob.digest)) }
    }

    fn line(&mut self) -> Result<Vec<u8>, PackError> {
        let mut line = Vec::with_capacity(MAX_LINE);
        loop {
            if self.fill()? == 0 {
                return Err(PackError::Truncated);
            }
            let byte = self.buffer[self.begin];
            self.begin += 1;
            match byte {
                b'\n' => return Ok(line),
                _ if line.len() == MAX_LINE => return Err(PackError::Malformed(self.blobs + 1)),
                _ => line.push(byte),
            }
        }
    }

    /// Returns the length of the buffer's content; 0 at the end of the stream.
    fn fill(&mut self) -> io::Result<usize> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, read_some(&mut self.from, &mut self.buffer)?);
        }
        Ok(self.end - self.begin)
    }
}

fn parse(line: &[u8]) -> Option<BlobInfo> {
    let (digest, size) = line.split_at_checked(Digest::DIGITS)?;
    let size = parse_size(size.strip_prefix(b" ")?)?;
    Some(BlobInfo { digest: Digest::parse(digest).ok()?, size })
}

/// Reads the current blob.
struct Content<'a, R> {
    pack: &'a mut PackReader<R>,
    verify: Option<(Hasher, Digest)>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        if self.pack.left == 0 {
            let Some((hasher, digest)) = self.verify.take() else { return Ok(0) };
            if hasher.finish().digest != digest {
                return Err(io::Error::new(io::ErrorKind::InvalidData, PackError::Mismatch(digest)));
            }
            return Ok(0);
        }
        let available = self.pack.fill()?;
        if available == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, PackError::Truncated));
        }
        let left = usize::try_from(self.pack.left).unwrap_or(usize::MAX);
        let length = available.min(room.len()).min(left);
        room[..length].copy_from_slice(&self.pack.buffer[self.pack.begin..][..length]);
        self.pack.begin += length;
        self.pack.left -= length as u64;
        if let Some((hasher, _)) = &mut self.verify {
            hasher.update(&room[..length]);
        }
        Ok(length)
    }
}

/// Adds the blobs of a pack to a store. Skips those for which `accept` returns false. Returns the number of blobs added.
/// After an error, the blobs before it stay in the store.
pub fn unpack(
    from: &mut dyn Read,
    limits: PackLimits,
    store: &Store,
    durability: Durability,
    mut accept: impl FnMut(&BlobInfo) -> bool,
) -> Result<u64, PackError> {
    let mut pack = PackReader::new(from, limits);
    let mut added = 0;
    while let Some(blob) = pack.next_blob()? {
        if accept(&blob) {
            // The store verifies it.
            let mut content = Content { pack: &mut pack, verify: None };
            store.put(&mut content, &blob.digest, blob.size, durability).map_err(pack_error)?;
            added += 1;
        }
    }
    Ok(added)
}

fn pack_error(error: StoreError) -> PackError {
    match error {
        StoreError::Mismatch { expected, .. } => PackError::Mismatch(expected),
        StoreError::Source(error) if error.kind() == io::ErrorKind::UnexpectedEof => PackError::Truncated,
        StoreError::Source(error) => PackError::Io(error),
        error => PackError::Store(error),
    }
}

#[cfg(test)]
mod tests;
