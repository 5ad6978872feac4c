//! BLAKE3 digests, which tell whether a file has changed. BLAKE3 is several times as fast as SHA-256 for files of many
//! kilobytes.

use std::fmt;

use crate::digest::Hex;

/// The BLAKE3 digest of a file's content. Blobs have SHA-256 digests as names (`Digest`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub [u8; 32]);

impl ContentDigest {
    /// The digest of these bytes.
    pub fn of(content: &[u8]) -> ContentDigest {
        ContentDigest(blake3::hash(content).into())
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0), to)
    }
}

/// Determines the digest of the bytes that it is given.
#[derive(Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The number of bytes so far.
    pub fn size(&self) -> u64 {
        self.0.count()
    }

    pub fn finish(self) -> ContentDigest {
        ContentDigest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_blake3() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(format!("{:?}", ContentDigest::of(b"")), empty);
    }

    #[test]
    fn parts_have_the_digest_of_the_whole() {
        let content: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        for part in [1, 7, 1024, 4096, 65_536, 100_000] {
            let mut hasher = ContentHasher::default();
            content.chunks(part).for_each(|bytes| hasher.update(bytes));
            assert_eq!((hasher.size(), hasher.finish()), (100_000, ContentDigest::of(&content)), "{part}");
        }
    }
}
