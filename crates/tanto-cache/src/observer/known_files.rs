//! Digests of large files, such as compilers, from earlier builds.

use tanto_cas::Digest;
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint, Trust};
use tanto_sys::fs::stat::Stat;

use super::{Map, SeenFile};

/// Smaller files are read again.
const MIN_BYTES: u64 = 64 << 10;
/// Maximum number of files.
const MAX_FILES: usize = 4096;
const MAGIC: &[u8; 4] = b"TCF1";

/// By path.
type Files = Map<Box<[u8]>, (FileState, Digest)>;

#[derive(Default)]
pub(crate) struct KnownFiles {
    files: Files,
    has_new: bool,
}

impl KnownFiles {
    /// A longer file is damaged.
    pub(crate) const MAX_BYTES: u64 = 32 << 20;

    /// Reads a file that `encode` has written. Anything else gives an empty table.
    pub(crate) fn decode(bytes: &[u8]) -> KnownFiles {
        KnownFiles { files: decode(bytes).unwrap_or_default(), has_new: false }
    }

    /// Returns the content of the file; `None` if nothing is new.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if !self.has_new {
            return None;
        }
        let mut body = Vec::new();
        for (path, (state, digest)) in self.files.iter().take(MAX_FILES) {
            body.extend_from_slice(&u32::try_from(path.len()).ok()?.to_le_bytes());
            body.extend_from_slice(path);
            body.extend_from_slice(&state.mtime.to_le_bytes());
            body.extend_from_slice(&state.fingerprint.0.to_le_bytes());
            body.extend_from_slice(&digest.0);
        }
        Some([&MAGIC[..], &Digest::of(&body).0, &body].concat())
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the file if it is as it was when it was read.
    pub(super) fn find(&self, path: &[u8], stat: &Stat, systems: &FileSystems) -> Option<SeenFile> {
        let &(known, digest) = self.files.get(path)?;
        let state = systems.observe(path).ok()?;
        let is_same = state == known && state.fingerprint != Fingerprint::NONE && stat.ctime < coarse_now();
        is_same.then_some(SeenFile { digest, state, trust: Trust::Known, stat: *stat })
    }

    pub(super) fn note(&mut self, path: &[u8], seen: &SeenFile) {
        if seen.stat.size < MIN_BYTES || seen.trust != Trust::Known {
            return;
        }
        if self.files.len() >= MAX_FILES {
            self.files.clear();
        }
        self.files.insert(path.into(), (seen.state, seen.digest));
        self.has_new = true;
    }
}

fn decode(bytes: &[u8]) -> Option<Files> {
    let (digest, mut rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
    if Digest::of(rest).0 != *digest {
        return None;
    }
    let mut files = Files::default();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (path, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (mtime, after) = after.split_first_chunk::<8>()?;
        let (fingerprint, after) = after.split_first_chunk::<8>()?;
        let (digest, after) = after.split_first_chunk::<32>()?;
        let fingerprint = Fingerprint(u64::from_le_bytes(*fingerprint));
        let state = FileState { mtime: i64::from_le_bytes(*mtime), fingerprint };
        files.insert(path.into(), (state, Digest(*digest)));
        rest = after;
    }
    Some(files)
}
