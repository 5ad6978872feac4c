//! Short names for paths and content.

use tanto_cas::{ContentDigest, Digest};

use crate::hash;

/// A path, as a key of the table. 128 bits: two paths of a tree never have the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PathKey(pub u128);

impl PathKey {
    pub fn of(path: &[u8]) -> PathKey {
        PathKey(u128::from(hash::rapidhash(path)) << 64 | u128::from(hash::murmur64a(path)))
    }
}

/// The first half of a SHA-256 digest: of a file with its path, or of a list of such files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// Not determined.
    pub const UNKNOWN: ContentId = ContentId([0; 16]);

    /// Returns the id of a file with this path and content.
    pub fn of_file(path: &[u8], digest: &ContentDigest) -> ContentId {
        ContentId::of(&[&digest.0, path].concat())
    }

    /// Returns the id of these bytes.
    pub fn of(bytes: &[u8]) -> ContentId {
        let mut id = [0; 16];
        id.copy_from_slice(&Digest::of(bytes).0[..16]);
        ContentId(id)
    }
}
