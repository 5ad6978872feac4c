//! Digests of files by path and stamp, kept in a file between scans.
//!
//! A file that is not older than the moment before it was read is not in the cache: it might change again without
//! another stamp. If the machine's clock was set back, files could get the stamps of earlier content once more, so a cache
//! from the future is not used.

use std::io::{self, Write};
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_sys::fs::file::write_atomically;
use tanto_sys::fs::file_stamp::{FileStamp, coarse_now};
use tanto_sys::fs::private_files;

use crate::Digest;

const HEAD: &[u8] = b"tanto digests 1\n";
/// Longest file, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A file whose digest is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CacheEntry {
    pub(super) stamp: FileStamp,
    pub(super) digest: Digest,
}

/// The digests of the files of one tree.
#[derive(Clone, Default, Debug)]
pub struct DigestCache {
    entries: HashMap<Vec<u8>, CacheEntry, RandomState>,
}

impl DigestCache {
    /// Reads a cache. One that is missing, damaged, writable by other users, or from the future is empty.
    pub fn load(path: &Path) -> DigestCache {
        let read = || {
            let mut content = Vec::new();
            let file = private_files::open(path)?;
            io::Read::read_to_end(&mut io::Read::take(file, MAX_BYTES), &mut content)?;
            Ok::<_, io::Error>(content)
        };
        read().ok().and_then(|content| DigestCache::parse(&content, coarse_now())).unwrap_or_default()
    }

    /// Writes the cache, atomically.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let content = self.content(coarse_now());
        write_atomically(path, |file| file.write_all(&content))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, path: &[u8], stamp: &FileStamp) -> Option<Digest> {
        self.entries.get(path).filter(|entry| entry.stamp == *stamp).map(|entry| entry.digest)
    }

    pub(super) fn replace(&mut self, entries: impl IntoIterator<Item = (Vec<u8>, CacheEntry)>) {
        self.entries.clear();
        self.entries.extend(entries);
    }

    /// Replaces the digest of a file by a wrong one.
    #[cfg(test)]
    pub(super) fn falsify(&mut self, path: &[u8]) {
        self.entries.get_mut(path).into_iter().for_each(|entry| entry.digest = Digest::of(b"wrong"));
    }

    fn content(&self, now_ns: i64) -> Vec<u8> {
        let mut content = HEAD.to_vec();
        content.extend_from_slice(&now_ns.to_le_bytes());
        for (path, CacheEntry { stamp, digest }) in &self.entries {
            // Paths are shorter than 64 KiB.
            content.extend_from_slice(&(path.len() as u16).to_le_bytes());
            content.extend_from_slice(path);
            for number in [stamp.device, stamp.inode, stamp.size] {
                content.extend_from_slice(&number.to_le_bytes());
            }
            for time in [stamp.mtime_ns, stamp.ctime_ns] {
                content.extend_from_slice(&time.to_le_bytes());
            }
            content.extend_from_slice(&digest.0);
        }
        let sum = Digest::of(&content);
        content.extend_from_slice(&sum.0);
        content
    }

    /// Parses the content of a file at this time.
    fn parse(content: &[u8], now_ns: i64) -> Option<DigestCache> {
        let (content, sum) = content.split_last_chunk()?;
        if Digest::of(content) != Digest(*sum) {
            return None;
        }
        let mut fields = Fields(content.strip_prefix(HEAD)?);
        if fields.time()? > now_ns {
            return None;
        }
        let mut cache = DigestCache::default();
        while !fields.0.is_empty() {
            let length = u16::from_le_bytes(fields.take()?);
            let path = fields.slice(length.into())?.to_vec();
            let [device, inode, size] = [fields.number()?, fields.number()?, fields.number()?];
            let (mtime_ns, ctime_ns) = (fields.time()?, fields.time()?);
            let stamp = FileStamp { device, inode, size, mtime_ns, ctime_ns, is_regular: true };
            cache.entries.insert(path, CacheEntry { stamp, digest: Digest(fields.take()?) });
        }
        Some(cache)
    }
}

/// Bytes that are not yet read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn slice(&mut self, length: usize) -> Option<&[u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use tanto_testing::Scratch;

    fn sample() -> DigestCache {
        let stamp = FileStamp { device: 1, inode: 2, size: 3, mtime_ns: -4, ctime_ns: 5, is_regular: true };
        let mut cache = DigestCache::default();
        let entry = |name: &str| (name.into(), CacheEntry { stamp, digest: Digest::of(name.as_bytes()) });
        cache.replace(["a", "b/\n", ""].map(entry));
        cache
    }

    #[test]
    fn entries_survive_a_file() {
        let place = Scratch::new("cas-cache");
        let path = place.at("cache");
        assert!(DigestCache::load(&path).is_empty());
        sample().save(&path).unwrap();
        assert_eq!(DigestCache::load(&path).entries, sample().entries);
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(DigestCache::load(&path).is_empty(), "other users can write it");
    }

    #[test]
    fn a_cache_from_the_future_is_not_used() {
        let content = sample().content(1_000);
        assert_eq!(DigestCache::parse(&content, 1_000).unwrap().len(), 3);
        assert!(DigestCache::parse(&content, 999).is_none());
    }

    #[test]
    fn a_damaged_cache_is_not_used() {
        let content = sample().content(0);
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1;
            assert!(DigestCache::parse(&damaged, 1).is_none(), "{at}");
            assert!(DigestCache::parse(&content[..at], 1).is_none(), "{at}");
        }
        // With a matching sum, but cut off.
        for at in HEAD.len()..content.len() - 33 {
            let cut = [&content[..at], &Digest::of(&content[..at]).0].concat();
            assert!(DigestCache::parse(&cut, 1).is_none_or(|cache| cache.len() < 3), "{at}");
        }
    }
}
