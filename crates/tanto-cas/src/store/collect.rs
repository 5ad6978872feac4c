//! Removes blobs that are not needed.

use std::io;
use std::sync::atomic::Ordering;

use tanto_sys::fs::dir::EntryKind;

use super::pins::DigestSet;
use super::use_clock::{Epoch, UseClock};
use super::{SHARD_DIGITS, Store, StoreError, blob_path};
use crate::{BlobInfo, Digest};

/// Blobs that are removed while uses wait.
const BATCH: usize = 64;

/// A blob in the store.
pub(super) struct StoredBlob {
    pub(super) info: BlobInfo,
    /// By the store's clock.
    pub(super) used_ns: i64,
}

/// The effect of a collection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Collected {
    pub removed_blobs: usize,
    pub removed_bytes: u64,
    pub kept_blobs: usize,
    pub kept_bytes: u64,
}

impl Store {
    /// Begins a collection: the roots must be determined after this call. A blob that becomes a root later is safe,
    /// because it was added or reported present in the epoch.
    pub fn begin_epoch(&self) -> Result<Epoch, StoreError> {
        Ok(UseClock::begin_epoch(&self.root)?)
    }

    /// Removes blobs until those that remain have at most `keep_bytes`; 0 removes all that may be removed. Keeps the
    /// roots, pinned blobs, and those that were used since the epoch or within `StoreLimits::keep_used`. Of the others,
    /// the one whose last use is the longest ago goes first.
    pub fn collect(
        &self,
        epoch: Epoch,
        roots: impl IntoIterator<Item = Digest>,
        keep_bytes: u64,
    ) -> Result<Collected, StoreError> {
        let before = self.used.load(Ordering::Relaxed);
        let mut blobs = self.list()?;
        let mut kept: DigestSet = self.pinned()?;
        kept.extend(roots);
        let total: u64 = blobs.iter().map(|blob| blob.info.size).sum();
        // Corrects the count by blobs of other processes.
        if total > before {
            self.used.fetch_add(total - before, Ordering::Relaxed);
        } else {
            self.release(before - total);
        }
        let oldest_kept = self.oldest_kept(epoch)?;
        let mut collected = Collected { kept_blobs: blobs.len(), kept_bytes: total, ..Collected::default() };
        blobs.retain(|blob| blob.used_ns < oldest_kept && !kept.contains(&blob.info.digest));
        blobs.sort_unstable_by_key(|blob| (blob.used_ns, blob.info.digest));
        for batch in blobs.chunks(BATCH) {
            let _clock = UseClock::exclusive(&self.root)?;
            for blob in batch {
                if collected.kept_bytes <= keep_bytes && keep_bytes > 0 {
                    return Ok(collected);
                }
                if self.remove_unused(&blob.info.digest, oldest_kept)? {
                    collected.removed_blobs += 1;
                    collected.removed_bytes += blob.info.size;
                    collected.kept_blobs -= 1;
                    collected.kept_bytes -= blob.info.size;
                }
            }
        }
        Ok(collected)
    }

    /// The moment after which a used blob is kept.
    fn oldest_kept(&self, epoch: Epoch) -> Result<i64, StoreError> {
        let keep_ns = i64::try_from(self.limits.keep_used.as_nanos()).unwrap_or(i64::MAX);
        let now_ns = UseClock::shared(&self.root)?.now_ns();
        // Without a time to keep, uses at this very moment count as earlier.
        let recently = if keep_ns == 0 { i64::MAX } else { now_ns.saturating_sub(keep_ns) };
        Ok(epoch.0.min(recently))
    }

    /// Removes a blob that was not used meanwhile. The clock is locked.
    fn remove_unused(&self, digest: &Digest, oldest_kept: i64) -> Result<bool, StoreError> {
        let path = blob_path(digest);
        match self.root.stat(&path) {
            Ok(stat) if stat.stamp.mtime_ns < oldest_kept => {
                self.root.remove_file(&path).map_err(|error| self.failed("remove", &path, error))?;
                self.release(stat.stamp.size);
                Ok(true)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("stat", &path, error)),
            _ => Ok(false),
        }
    }

    /// Lists all blobs. Ignores other files.
    pub(super) fn list(&self) -> Result<Vec<StoredBlob>, StoreError> {
        let mut blobs = Vec::new();
        for shard_name in self.root.names()?.into_iter().filter(|name| name.len() == SHARD_DIGITS) {
            // It may be something else than a directory.
            let Ok(shard) = self.root.open_dir(&shard_name) else { continue };
            for name in shard.names()? {
                let Ok(digest) = Digest::parse(&[&shard_name[..], &name].concat()) else { continue };
                match shard.stat(&name) {
                    Ok(stat) if stat.kind == EntryKind::File => blobs.push(StoredBlob {
                        info: BlobInfo { digest, size: stat.stamp.size },
                        used_ns: stat.stamp.mtime_ns,
                    }),
                    _ => {}
                }
            }
        }
        Ok(blobs)
    }
}
