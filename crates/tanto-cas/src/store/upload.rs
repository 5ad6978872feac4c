//! Blobs that arrive in parts, over several requests and restarts.
//!
//! The file of an upload is named `OWNER-DIGEST-SIZE`. Announced sizes count against the limits of its owner, so that
//! concurrent uploads cannot exceed them together.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime};

use tanto_sys::fs::lock::{open_lock_file, try_lock_exclusive};

use super::temp::TempFile;
use super::{Durability, Store, StoreError, check_digest};
use crate::digest::{Hex, copy_hashed, parse_hex};
use crate::{BlobInfo, Digest};

/// Identifies the connection that an upload belongs to.
pub type UploadOwner = [u8; 16];

/// An unfinished upload, locked against other requests.
pub struct Upload<'a> {
    store: &'a Store,
    name: UploadName,
    file: File,
    length: u64,
}

/// The name of an upload's file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct UploadName {
    owner: UploadOwner,
    digest: Digest,
    /// As announced, in bytes.
    size: u64,
}

impl UploadName {
    fn text(&self) -> Vec<u8> {
        format!("{}-{}-{}", Hex(&self.owner), self.digest, self.size).into_bytes()
    }

    fn parse(text: &[u8]) -> Option<UploadName> {
        let mut parts = text.splitn(3, |byte| *byte == b'-');
        let mut owner = UploadOwner::default();
        parse_hex(parts.next()?, &mut owner).ok()?;
        let digest = Digest::parse(parts.next()?).ok()?;
        let size = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let name = UploadName { owner, digest, size };
        (name.text() == text).then_some(name)
    }
}

impl Store {
    /// Begins or continues the upload of a blob with `size` bytes. Fails with `Busy` while another request writes it.
    pub fn upload(&self, owner: &UploadOwner, digest: &Digest, size: u64) -> Result<Upload<'_>, StoreError> {
        let name = UploadName { owner: *owner, digest: *digest, size };
        // Excludes other processes that count uploads.
        let _lock = self.lock_uploads()?;
        let text = name.text();
        let file = match self.uploads.open_to_append(&text) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check_upload_limits(&name)?;
                drop(self.uploads.create_file(&text, 0o600).map_err(|error| self.failed("create", &text, error))?);
                self.uploads.open_to_append(&text).map_err(|error| self.failed("open", &text, error))?
            }
            Err(error) => return Err(self.failed("open", &text, error)),
        };
        let length = file.metadata()?.len();
        if !try_lock_exclusive(&file)? {
            return Err(StoreError::Busy(*digest));
        }
        Ok(Upload { store: self, name, file, length })
    }

    fn check_upload_limits(&self, new: &UploadName) -> Result<(), StoreError> {
        let limits = &self.limits;
        let all: Vec<UploadName> = self.uploads.names()?.iter().filter_map(|name| UploadName::parse(name)).collect();
        let (mut count, mut bytes) = (1, new.size);
        for own in all.iter().filter(|it| it.owner == new.owner) {
            if own.digest == new.digest && self.remove_upload(own)? {
                // It was announced with another size.
                continue;
            }
            count += 1;
            bytes = bytes.saturating_add(own.size);
        }
        if count > limits.uploads_per_owner {
            return Err(StoreError::Uploads { limit: limits.uploads_per_owner });
        }
        if all.len() >= limits.uploads {
            return Err(StoreError::Uploads { limit: limits.uploads });
        }
        if bytes > limits.upload_bytes_per_owner {
            return Err(StoreError::UploadQuota { limit: limits.upload_bytes_per_owner });
        }
        Ok(())
    }

    /// Removes unfinished uploads to which nothing was added for `age`, and files that are no uploads. Returns their
    /// number. A time in the future counts as old: the clock was set back.
    pub fn remove_stale_uploads(&self, age: Duration) -> Result<usize, StoreError> {
        let _lock = self.lock_uploads()?;
        let now = SystemTime::now();
        let mut removed = 0;
        for text in self.uploads.names()? {
            let Some(name) = UploadName::parse(&text) else {
                if text != LOCK {
                    self.uploads.remove_tree(&text)?;
                }
                continue;
            };
            let Ok(file) = self.uploads.open_file(&text) else { continue };
            let written = file.metadata()?.modified()?;
            let is_stale = match now.duration_since(written) {
                Ok(since) => since >= age,
                Err(ahead) => ahead.duration() >= age,
            };
            drop(file);
            removed += usize::from(is_stale && self.remove_upload(&name)?);
        }
        Ok(removed)
    }

    /// Removes all unfinished uploads of an owner, except for those that a request writes now.
    pub fn remove_uploads(&self, owner: &UploadOwner) -> Result<usize, StoreError> {
        let _lock = self.lock_uploads()?;
        let mut removed = 0;
        for name in self.uploads.names()?.iter().filter_map(|name| UploadName::parse(name)) {
            removed += usize::from(name.owner == *owner && self.remove_upload(&name)?);
        }
        Ok(removed)
    }

    /// Removes an upload; returns false if a request writes it.
    fn remove_upload(&self, name: &UploadName) -> Result<bool, StoreError> {
        let text = name.text();
        let file = match self.uploads.open_file(&text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            opened => opened.map_err(|error| self.failed("open", &text, error))?,
        };
        if !try_lock_exclusive(&file)? {
            return Ok(false);
        }
        self.uploads.remove_file(&text).map_err(|error| self.failed("remove", &text, error))?;
        Ok(true)
    }

    fn lock_uploads(&self) -> Result<File, StoreError> {
        let file = open_lock_file(&self.path.join("uploads/lock"))?;
        loop {
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| file).map_err(StoreError::from),
            }
        }
    }
}

/// The lock file among the uploads.
const LOCK: &[u8] = b"lock";

impl Upload<'_> {
    /// Bytes received so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes, which begin at the offset `at` of the blob. Fails with `Offset` if bytes before it are missing or
    /// after it are present. If the source fails, the bytes received before that are kept.
    pub fn append(&mut self, at: u64, source: &mut dyn Read) -> Result<u64, StoreError> {
        if at != self.length {
            return Err(StoreError::Offset { length: self.length });
        }
        let received = self.store.receive(source, &mut self.file, self.length, self.name.size);
        self.length = self.file.metadata()?.len();
        received.map(|_| self.length)
    }

    /// Verifies the content and adds it to the store. If it has another digest, the upload is removed. After any other
    /// error, it can be finished again.
    pub fn finish(self, durability: Durability) -> Result<BlobInfo, StoreError> {
        let UploadName { size, digest, .. } = self.name;
        if self.length != size {
            return Err(StoreError::Incomplete { length: self.length, size });
        }
        let mut temp = TempFile::from_locked(&self.store.uploads, self.name.text(), self.file);
        let file = temp.file_mut();
        file.seek(SeekFrom::Start(0))?;
        let info = copy_hashed(file, &mut io::sink())?;
        check_digest(&digest, &info.digest)?;
        match self.store.publish(&mut temp, info, durability) {
            Err(error) => temp.keep().map_err(StoreError::from).and(Err(error)),
            published => published,
        }
    }
}
