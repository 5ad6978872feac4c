//! Verified reading of blobs. A damaged blob is moved away.

use std::fs::File;
use std::io::{self, Read};

use tanto_sys::fs::dir::EntryKind;
use tanto_sys::fs::file_stamp::FileStamp;

use super::use_clock::UseClock;
use super::{Store, StoreError, blob_path};
use crate::Digest;
use crate::digest::{Hasher, read_some};

/// Damaged blobs that are kept for examination.
const MAX_BAD: usize = 8;

/// Reads a blob. Its end is reported only if the digest of everything read is right; otherwise, the last call fails with
/// `InvalidData`, which contains `StoreError::Corrupt`.
pub struct VerifiedReader<'a> {
    store: &'a Store,
    file: File,
    size: u64,
    digest: Digest,
    /// `None` after the end.
    hasher: Option<Hasher>,
}

impl Store {
    /// Opens a blob for reading that is verified.
    pub fn read_verified(&self, digest: &Digest) -> Result<VerifiedReader<'_>, StoreError> {
        let (file, size) = self.open_blob(digest)?;
        Ok(VerifiedReader { store: self, file, size, digest: *digest, hasher: Some(Hasher::default()) })
    }

    /// Reads a whole blob of at most `limit` bytes, verified.
    pub fn read_to_vec(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, StoreError> {
        let mut reader = self.read_verified(digest)?;
        if reader.size > limit {
            return Err(StoreError::TooLarge { limit });
        }
        let mut content = Vec::with_capacity(usize::try_from(reader.size).unwrap_or(0));
        match reader.read_to_end(&mut content) {
            Err(error) if is_corrupt(&error) => Err(StoreError::Corrupt(*digest)),
            Err(error) => Err(self.failed("read", &blob_path(digest), error)),
            Ok(_) => Ok(content),
        }
    }

    /// Moves a damaged blob away, unless another file has replaced it.
    fn move_away(&self, digest: &Digest, damaged: &File) -> Result<(), StoreError> {
        let _clock = UseClock::exclusive(&self.root)?;
        let path = blob_path(digest);
        let Some(stat) = self.stat_blob(&path, digest)?.filter(|stat| stat.kind == EntryKind::File) else {
            return Ok(());
        };
        let open = FileStamp::of(damaged)?;
        if (stat.stamp.device, stat.stamp.inode) != (open.device, open.inode) {
            return Ok(());
        }
        let moved = if self.bad.names()?.len() < MAX_BAD {
            self.root.rename(&path, &self.bad, digest.to_string().as_bytes())
        } else {
            self.root.remove_file(&path)
        };
        moved.map_err(|error| self.failed("move away", &path, error))?;
        self.release(stat.stamp.size);
        Ok(())
    }
}

pub(crate) fn is_corrupt(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>());
    matches!(inner, Some(StoreError::Corrupt(_)))
}

impl VerifiedReader<'_> {
    /// The size of the blob, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(hasher) = self.hasher.take() else { return Ok(()) };
        if hasher.finish().digest == self.digest {
            return Ok(());
        }
        self.store.move_away(&self.digest, &self.file).map_err(io::Error::other)?;
        Err(io::Error::new(io::ErrorKind::InvalidData, StoreError::Corrupt(self.digest)))
    }
}

impl Read for VerifiedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = read_some(&mut self.file, buffer)?;
        match &mut self.hasher {
            Some(hasher) if length > 0 => hasher.update(&buffer[..length]),
            _ => self.finish()?,
        }
        Ok(length)
    }
}
