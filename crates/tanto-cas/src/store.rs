//! A store of blobs on disk, each named by its SHA-256 digest.
//!
//! A blob is a file `ab/cdef...` that never changes. It gets this name after it was received in full and verified, so a
//! killed process leaves only temporary files, which `Store::open` removes. The mtime of a blob is the time of its last
//! use, by a clock that never goes back (`use_clock`). Several threads and processes may use a store.

mod collect;
mod error;
mod pins;
mod read;
mod receive;
mod temp;
#[cfg(test)]
mod tests;
mod upload;
mod use_clock;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tanto_sys::error::call_error;
use tanto_sys::fs::dir::{Dir, EntryKind, EntryStat};

use crate::{BlobInfo, Digest};

pub use self::collect::Collected;
pub use self::error::StoreError;
pub use self::read::VerifiedReader;
pub(crate) use self::read::is_corrupt;
pub use self::upload::{Upload, UploadOwner};
pub use self::use_clock::Epoch;

use self::temp::TempFile;
use self::use_clock::UseClock;

/// The limits of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreLimits {
    /// Size of all blobs, in bytes.
    pub max_bytes: u64,
    /// Blobs are kept for this time after their last use.
    pub keep_used: Duration,
    /// Unfinished uploads of one owner.
    pub uploads_per_owner: usize,
    /// Size of the unfinished uploads of one owner, in bytes.
    pub upload_bytes_per_owner: u64,
    /// Unfinished uploads of all owners.
    pub uploads: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits {
            max_bytes: u64::MAX,
            keep_used: Duration::from_secs(60 * 60),
            uploads_per_owner: 64,
            upload_bytes_per_owner: 64 << 30,
            uploads: 10_000,
        }
    }
}

/// The damage that a new blob survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The end of this process. After a power loss, the blob may be missing or damaged.
    Process,
    /// A power loss.
    PowerLoss,
}

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    limits: StoreLimits,
    root: Dir,
    /// Files that are being received.
    temp: Dir,
    uploads: Dir,
    pins: Dir,
    /// Damaged blobs.
    bad: Dir,
    /// Size of all blobs in bytes, as far as this process has seen; maintained if there is a limit.
    used: AtomicU64,
}

impl Store {
    /// Opens the store in `path`; creates it if it does not exist. Removes what killed processes left behind.
    pub fn open(path: &Path, limits: StoreLimits) -> Result<Store, StoreError> {
        let called =
            |error| StoreError::from(call_error("open store", Some(path.as_os_str().as_encoded_bytes()), error));
        std::fs::create_dir_all(path).map_err(called)?;
        let root = Dir::open(path).map_err(called)?;
        let sub = |name: &str| root.open_or_create_dir(name.as_bytes(), 0o700).map_err(called);
        let [temp, uploads, pins, bad] = [sub("temp")?, sub("uploads")?, sub("pins")?, sub("bad")?];
        let used = AtomicU64::new(0);
        let store = Store { path: path.to_owned(), limits, root, temp, uploads, pins, bad, used };
        temp::remove_abandoned(&store.temp)?;
        if limits.max_bytes < u64::MAX {
            let bytes = store.list()?.iter().map(|blob| blob.info.size).sum();
            store.used.store(bytes, Ordering::Relaxed);
        }
        Ok(store)
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a blob, which may be linked to but not written.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.path.join(OsStr::from_bytes(&blob_path(digest)))
    }

    /// Returns whether the blob is present. If it is, it was used now.
    pub fn contains(&self, digest: &Digest) -> Result<bool, StoreError> {
        Ok(self.missing([digest])?.is_empty())
    }

    /// Returns those that are not present. The others were used now.
    pub fn missing<'a>(&self, digests: impl IntoIterator<Item = &'a Digest>) -> Result<Vec<Digest>, StoreError> {
        let used = UseClock::shared(&self.root)?;
        let mut missing = Vec::new();
        for digest in digests {
            if !self.touch(digest, &used)? {
                missing.push(*digest);
            }
        }
        Ok(missing)
    }

    /// Notes the use of a blob; returns false if it is not present.
    fn touch(&self, digest: &Digest, used: &UseClock) -> Result<bool, StoreError> {
        let path = blob_path(digest);
        if self.stat_blob(&path, digest)?.is_none() {
            return Ok(false);
        }
        match self.root.set_time(&path, used.now_ns()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            set => set.map(|()| true).map_err(|error| self.failed("set the time of", &path, error)),
        }
    }

    /// Returns the metadata of a blob; `None` if it is not present. An empty file in the place of another blob is what a
    /// power loss leaves of it; anything but a file was put there by someone else. Neither is a blob.
    fn stat_blob(&self, path: &[u8], digest: &Digest) -> Result<Option<EntryStat>, StoreError> {
        // A shard that is a symbolic link would be followed by `stat`.
        let shard = &path[..SHARD_DIGITS];
        match self.root.stat(shard) {
            Ok(stat) if stat.kind == EntryKind::Dir => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("stat", shard, error)),
        }
        match self.root.stat(path) {
            Ok(stat) if stat.kind != EntryKind::File => Ok(None),
            Ok(stat) if stat.stamp.size == 0 && *digest != Digest::of(b"") => Ok(None),
            Ok(stat) => Ok(Some(stat)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.failed("stat", path, error)),
        }
    }

    /// Receives a blob of at most `limit` bytes. Fails with `Mismatch` if its digest is another one.
    pub fn put(
        &self,
        source: &mut dyn Read,
        digest: &Digest,
        limit: u64,
        durability: Durability,
    ) -> Result<BlobInfo, StoreError> {
        let mut temp = TempFile::create(&self.temp)?;
        let info = self.receive(source, temp.file_mut(), 0, limit)?;
        check_digest(digest, &info.digest)?;
        self.publish(&mut temp, info, durability)
    }

    /// Receives a blob of at most `limit` bytes and determines its digest.
    pub fn add(&self, source: &mut dyn Read, limit: u64, durability: Durability) -> Result<BlobInfo, StoreError> {
        let mut temp = TempFile::create(&self.temp)?;
        let info = self.receive(source, temp.file_mut(), 0, limit)?;
        self.publish(&mut temp, info, durability)
    }

    /// Like `put` or, without a digest, `add`, from a regular file. It shares the blocks of that file where the file
    /// system can.
    pub fn put_file(
        &self,
        path: &Path,
        digest: Option<&Digest>,
        limit: u64,
        durability: Durability,
    ) -> Result<BlobInfo, StoreError> {
        let failed = |error| StoreError::Source(call_error("open", Some(path.as_os_str().as_encoded_bytes()), error));
        let source = tanto_sys::fs::file::open_no_follow(path).map_err(failed)?;
        if !source.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
        }
        let mut temp = TempFile::create(&self.temp)?;
        let info = self.receive_file(source, temp.file_mut(), limit)?;
        if let Some(digest) = digest {
            check_digest(digest, &info.digest)?;
        }
        self.publish(&mut temp, info, durability)
    }

    /// Gives a verified file its name.
    fn publish(&self, temp: &mut TempFile<'_>, info: BlobInfo, durability: Durability) -> Result<BlobInfo, StoreError> {
        temp.seal(durability)?;
        let path = blob_path(&info.digest);
        let (shard_name, name) = (&path[..SHARD_DIGITS], &path[SHARD_DIGITS + 1..]);
        let shard = self.shard(shard_name)?;
        let used = UseClock::shared(&self.root)?;
        let replaced = shard.stat(name).ok();
        if replaced.is_some_and(|stat| stat.kind == EntryKind::Dir) {
            shard.remove_tree(name).map_err(|error| self.failed("remove", &path, error))?;
        }
        let replaced = replaced.filter(|stat| stat.kind == EntryKind::File).map_or(0, |stat| stat.stamp.size);
        self.reserve(info.size, replaced)?;
        temp.rename_to(&shard, name, used.now_ns()).inspect_err(|_| self.release(info.size))?;
        self.release(replaced);
        if durability == Durability::PowerLoss {
            let synced = shard.sync().and_then(|()| self.root.sync());
            synced.map_err(|error| self.failed("sync", shard_name, error))?;
        }
        Ok(info)
    }

    /// Opens a shard. Replaces anything that is not a directory.
    fn shard(&self, name: &[u8]) -> Result<Dir, StoreError> {
        match self.root.open_or_create_dir(name, 0o755) {
            Err(error) if self.root.stat(name).is_ok_and(|stat| stat.kind != EntryKind::Dir) => {
                let replaced = self.root.remove_file(name).and_then(|()| self.root.open_or_create_dir(name, 0o755));
                replaced.map_err(|_| self.failed("open", name, error))
            }
            opened => opened.map_err(|error| self.failed("open", name, error)),
        }
    }

    /// Counts a new blob against the limit.
    fn reserve(&self, bytes: u64, replaced: u64) -> Result<(), StoreError> {
        let limit = self.limits.max_bytes;
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if limit < u64::MAX && before.saturating_add(bytes).saturating_sub(replaced) > limit {
            self.release(bytes);
            return Err(StoreError::Quota { limit });
        }
        Ok(())
    }

    /// Whether less than an eighth of the permitted size is left.
    pub fn is_nearly_full(&self) -> bool {
        let limit = self.limits.max_bytes;
        limit < u64::MAX && self.used.load(Ordering::Relaxed) >= limit - limit / 8
    }

    fn release(&self, bytes: u64) {
        // Other processes may have removed blobs that this one added.
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }

    /// Opens a blob for reading; returns its size. The content is not verified: see `read_verified`.
    pub fn open_blob(&self, digest: &Digest) -> Result<(File, u64), StoreError> {
        let path = blob_path(digest);
        if !self.contains(digest)? {
            return Err(StoreError::Missing(*digest));
        }
        let opened = self.root.open_file(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((size, file)) => Ok((file, size)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(*digest)),
            Err(error) => Err(self.failed("open", &path, error)),
        }
    }

    fn failed(&self, call: &'static str, name: &[u8], error: io::Error) -> StoreError {
        let path = [self.path.as_os_str().as_encoded_bytes(), b"/", name].concat();
        StoreError::from(call_error(call, Some(&path), error))
    }
}

/// Hexadecimal digits of a digest that name its directory.
const SHARD_DIGITS: usize = 2;

/// The path of a blob in the store: `ab/cdef...`.
fn blob_path(digest: &Digest) -> Vec<u8> {
    let mut path = digest.to_string().into_bytes();
    path.insert(SHARD_DIGITS, b'/');
    path
}

fn check_digest(expected: &Digest, found: &Digest) -> Result<(), StoreError> {
    if expected == found {
        return Ok(());
    }
    Err(StoreError::Mismatch { expected: *expected, found: *found })
}
