//! Receives content into a file of the store.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use tanto_sys::fs::dir::clone_content;
use tanto_sys::fs::file::{max_file_size, too_large};

use super::{Store, StoreError};
use crate::BlobInfo;
use crate::digest::{CHUNK, Hasher, copy_hashed, read_some};

impl Store {
    /// Copies `source` to a file that has `length` bytes so far. Fails with `TooLarge` if it would exceed `limit`.
    /// Returns the digest and size of the copied bytes.
    pub(super) fn receive(
        &self,
        source: &mut dyn Read,
        to: &mut File,
        length: u64,
        limit: u64,
    ) -> Result<BlobInfo, StoreError> {
        let mut hasher = Hasher::default();
        let mut buffer = [0; CHUNK];
        loop {
            let read = read_some(source, &mut buffer).map_err(StoreError::Source)?;
            if read == 0 {
                return Ok(hasher.finish());
            }
            hasher.update(&buffer[..read]);
            let size = length.saturating_add(hasher.size());
            if size > limit {
                return Err(StoreError::TooLarge { limit });
            }
            // A larger file would raise SIGXFSZ.
            if size > max_file_size() {
                return Err(too_large().into());
            }
            to.write_all(&buffer[..read])?;
        }
    }

    /// Copies a file, or shares its blocks. Hashes the copy, which no other process changes.
    pub(super) fn receive_file(&self, mut source: File, to: &mut File, limit: u64) -> Result<BlobInfo, StoreError> {
        if clone_content(&source, to).is_err() {
            return self.receive(&mut source, to, 0, limit);
        }
        if to.metadata()?.len() > limit {
            return Err(StoreError::TooLarge { limit });
        }
        to.seek(SeekFrom::Start(0))?;
        Ok(copy_hashed(to, &mut std::io::sink())?)
    }
}
