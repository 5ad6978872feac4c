//! The directory of a cache: blobs, the files of actions, the table of names, and counters.
//!
//! Files of actions get their name when they are complete. Everything that is damaged counts as missing.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tanto_cas::store::{Durability, StoreLimits};
use tanto_cas::{BlobInfo, ContentDigest, ContentHasher, Digest, Store, StoreError};
use tanto_sys::fs::dir::clone_content;
use tanto_sys::fs::file::write_atomically;
use tanto_sys::user;

use crate::entry::{self, ActionFile, StoredOutput};
use crate::plain_files::{make_room, open_file, read_file};

/// Longest output that is stored, in bytes.
pub(crate) const MAX_BLOB_BYTES: u64 = 1 << 30;

/// Directories that are created at most: `~/.cache/tanto/cache`.
const MADE_LEVELS: usize = 3;

/// Bytes that are copied at a time.
const CHUNK: u64 = 64 << 10;

/// The use of a file is noted once in this time.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("the cache directory {}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
    #[error("the cache directory {} belongs to another user, or others can write to it", .0.display())]
    NotPrivate(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether results are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheAccess {
    ReadOnly,
    ReadWrite,
}

#[derive(Debug)]
pub(crate) struct CacheDir {
    path: PathBuf,
    /// `None`: read only.
    store: Option<Store>,
    /// Files that were damaged.
    damaged: AtomicU64,
}

impl CacheDir {
    /// Opens the directory. Creates it unless it is only read.
    pub(crate) fn open(path: &Path, access: CacheAccess) -> Result<CacheDir, CacheError> {
        let failed = |error| CacheError::Io(path.to_path_buf(), error);
        if access == CacheAccess::ReadWrite {
            // A home that does not exist is not created.
            let base = path.ancestors().nth(MADE_LEVELS).unwrap_or(path);
            fs::metadata(base).map_err(failed)?;
            DirBuilder::new().recursive(true).mode(0o700).create(path.join("actions")).map_err(failed)?;
        }
        let data = fs::metadata(path).map_err(failed)?;
        if !user::is_trusted(data.uid()) || data.mode() & 0o022 != 0 || !data.is_dir() {
            return Err(CacheError::NotPrivate(path.to_path_buf()));
        }
        let store = match access {
            CacheAccess::ReadOnly => None,
            CacheAccess::ReadWrite => Some(Store::open(&path.join("blobs"), limits())?),
        };
        Ok(CacheDir { path: path.to_path_buf(), store, damaged: AtomicU64::new(0) })
    }

    pub(crate) fn access(&self) -> CacheAccess {
        if self.store.is_some() { CacheAccess::ReadWrite } else { CacheAccess::ReadOnly }
    }

    /// The number of damaged files so far.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn names(&self) -> PathBuf {
        self.path.join("names")
    }

    pub(crate) fn known_files(&self) -> PathBuf {
        self.path.join("files")
    }

    pub(crate) fn actions(&self) -> PathBuf {
        self.path.join("actions")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(crate) fn counters(&self) -> PathBuf {
        self.path.join("counters")
    }

    fn action(&self, key: &Digest) -> PathBuf {
        let text = key.to_string();
        self.actions().join(&text[..2]).join(&text[2..])
    }

    /// Reads the file of an action; a damaged one is removed.
    pub(crate) fn read_action(&self, key: &Digest) -> ActionFile {
        let path = self.action(key);
        let read = match read_file(&path, entry::MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
                return ActionFile::default();
            }
            read => read.ok(),
        };
        match read.and_then(|read| ActionFile::decode(&read.content, key).map(|found| (read, found))) {
            Some((read, found)) => {
                self.note_use(&read.file, &read.metadata);
                found
            }
            None => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                if self.store.is_some() {
                    let _ = make_room(&path).and_then(|()| fs::remove_file(&path));
                }
                ActionFile::default()
            }
        }
    }

    pub(crate) fn write_action(&self, key: &Digest, file: &ActionFile) -> io::Result<()> {
        let path = self.action(key);
        let write = || write_atomically(&path, |to| to.write_all(&file.encode(key)));
        match write() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                write()
            }
            written => written,
        }
    }

    /// Notes that a file was used today.
    fn note_use(&self, file: &File, metadata: &Metadata) {
        let age = metadata.modified().map(|time| SystemTime::now().duration_since(time));
        let is_noted = age.is_ok_and(|age| age.is_ok_and(|age| age < DAY));
        if self.store.is_some() && !is_noted {
            // Otherwise, it goes earlier.
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// Reads a blob and verifies it. A damaged one is moved away.
    pub(crate) fn read_blob(&self, digest: &Digest) -> Option<Vec<u8>> {
        let read = self.if_present(digest, |path| read_file(path, MAX_BLOB_BYTES))?;
        let Some(read) = read.filter(|read| Digest::of(&read.content) == *digest) else {
            self.note_damage(digest);
            return None;
        };
        self.note_use(&read.file, &read.metadata);
        Some(read.content)
    }

    /// Copies an output to a new file and verifies it. A damaged one is moved away. Returns `None` if that fails.
    pub(crate) fn copy_output(&self, output: &StoredOutput, to: &mut File) -> Option<()> {
        let opened = self.if_present(&output.blob, |path| open_file(path, MAX_BLOB_BYTES))?;
        let copied = match &opened {
            Some((file, metadata)) => copy(file, metadata.len(), to).ok()?,
            None => None,
        };
        let Some((file, metadata)) = opened.filter(|_| copied == Some(output.content)) else {
            self.note_damage(&output.blob);
            return None;
        };
        self.note_use(&file, &metadata);
        Some(())
    }

    /// Opens a blob. Returns `None` if it is missing, and `Some(None)` if it cannot be opened.
    fn if_present<T>(&self, digest: &Digest, open: impl FnOnce(&Path) -> io::Result<T>) -> Option<Option<T>> {
        let path = self.blob_path(digest);
        match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => None,
            opened => Some(opened.ok()),
        }
    }

    fn note_damage(&self, digest: &Digest) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        // The store moves it away.
        self.store.iter().for_each(|store| drop(store.read_to_vec(digest, MAX_BLOB_BYTES)));
    }

    pub(crate) fn has_blob(&self, digest: &Digest) -> bool {
        fs::symlink_metadata(self.blob_path(digest)).is_ok_and(|data| data.is_file())
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        let text = digest.to_string();
        self.blobs().join(&text[..2]).join(&text[2..])
    }

    /// Stores a small blob.
    pub(crate) fn put(&self, content: &[u8]) -> Result<Digest, StoreError> {
        let Some(store) = &self.store else { return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into()) };
        let digest = Digest::of(content);
        if !store.contains(&digest)? {
            store.put(&mut &content[..], &digest, MAX_BLOB_BYTES, Durability::Process)?;
        }
        Ok(digest)
    }

    /// Stores a file.
    pub(crate) fn put_file(&self, path: &Path) -> Result<BlobInfo, StoreError> {
        let Some(store) = &self.store else { return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into()) };
        store.put_file(path, None, MAX_BLOB_BYTES, Durability::Process)
    }
}

/// Copies a file and determines its digest. Returns `Ok(None)` if it cannot be read.
fn copy(mut from: &File, size: u64, to: &mut File) -> io::Result<Option<ContentDigest>> {
    let is_cloned = clone_content(from, to).is_ok();
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; size.min(CHUNK) as usize];
    while hasher.size() < size {
        let part = (size - hasher.size()).min(CHUNK) as usize;
        let bytes = &mut buffer[..part];
        if from.read_exact(bytes).is_err() {
            return Ok(None);
        }
        hasher.update(bytes);
        if !is_cloned {
            to.write_all(bytes)?;
        }
    }
    Ok(Some(hasher.finish()))
}

fn limits() -> StoreLimits {
    // If a blob is removed before its action is written, that is a miss.
    StoreLimits { keep_used: Duration::ZERO, ..StoreLimits::default() }
}
