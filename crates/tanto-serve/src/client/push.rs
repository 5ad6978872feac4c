//! Uploads package trees.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_cas::tree::{DigestCache, ScanOptions, TreeBlobs, TreeContent, TreeError, scan};
use tanto_cas::{BlobInfo, Digest as BlobDigest, Manifest};
use tanto_protocol::{Digest, MAX_DIGESTS, MAX_PACK, MAX_PACKED, TreeAnswer, TreeRequest};

use super::provision::persist;
use super::{ClientError, Connection};

/// Directories of version control, which are no part of a package tree.
const IGNORED: [&str; 4] = ["CVS", ".git", ".hg", ".svn"];
/// Files in the directory of the client.
const DIGESTS: &str = "tree-digests";
const MANIFEST: &str = "tree-manifest";
/// So often, a blob is missing after its upload.
const MAX_FRUITLESS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the package tree: {0}")]
    Tree(#[from] TreeError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the server does not keep what is uploaded: {0} files are missing")]
    Lost(usize),
    #[error("the server asks for blob {0}, which is not in the tree")]
    Unknown(Digest),
}

/// A tree that was pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Push {
    pub manifest: Digest,
    /// Files of the tree.
    pub files: usize,
    /// Those that were uploaded, and links.
    pub uploaded: usize,
    /// Their size, in bytes.
    pub bytes: u64,
}

/// Makes a tree that of the build. Uploads only what the server lacks. Keeps digests of its files in `state`.
pub fn push_tree(connection: &Connection, tree: &Path, state: &Path) -> Result<Push, PushError> {
    let options = ScanOptions { ignored_dirs: IGNORED.map(|name| name.into()).to_vec(), ..ScanOptions::default() };
    let (digests, text) = (state.join(DIGESTS), state.join(MANIFEST));
    let mut cache = DigestCache::load(&digests);
    let manifest = scan(tree, &options, &mut cache)?;
    cache.save(&digests).map_err(failed(&digests))?;
    std::fs::write(&text, manifest.text()).map_err(failed(&text))?;
    persist(|| connection.put(&Digest(manifest.digest().0), &text))?;
    let upload = TreeUpload::new(connection, tree, &manifest)?;
    upload.run(&manifest)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> PushError {
    let path = path.to_owned();
    move |source| PushError::File { path, source }
}

/// A tree whose files are uploaded.
struct TreeUpload<'a> {
    connection: &'a Connection,
    tree: &'a Path,
    blobs: TreeBlobs,
    /// A file for each blob.
    paths: HashMap<BlobDigest, &'a [u8]>,
}

impl<'a> TreeUpload<'a> {
    fn new(connection: &'a Connection, tree: &'a Path, manifest: &'a Manifest) -> Result<TreeUpload<'a>, PushError> {
        let files = manifest.entries().iter().filter(|entry| entry.mode.is_file());
        let paths = files.map(|entry| (entry.digest, &entry.path[..])).collect();
        Ok(TreeUpload { connection, tree, blobs: TreeBlobs::new(tree, manifest)?, paths })
    }

    /// Uploads blobs until the server has all.
    fn run(&self, manifest: &Manifest) -> Result<Push, PushError> {
        let digest = Digest(manifest.digest().0);
        let files = manifest.entries().iter().filter(|entry| entry.mode.is_file()).count();
        let mut push = Push { manifest: digest, files, uploaded: 0, bytes: 0 };
        let (mut first, mut fruitless) = (None, 0);
        loop {
            let TreeAnswer::Missing { digests } = persist(|| self.connection.tree(TreeRequest { manifest: digest }))?
            else {
                return Ok(push);
            };
            // They are sorted, and an answer has only some of many.
            fruitless = if first == digests.first().copied() { fruitless + 1 } else { 0 };
            first = digests.first().copied();
            if fruitless >= MAX_FRUITLESS {
                return Err(PushError::Lost(digests.len()));
            }
            let blobs = digests.iter().map(|digest| self.blob(digest)).collect::<Result<Vec<_>, _>>()?;
            self.upload(&blobs)?;
            push.uploaded += blobs.len();
            push.bytes += blobs.iter().map(|blob| blob.size).sum::<u64>();
        }
    }

    fn blob(&self, digest: &Digest) -> Result<BlobInfo, PushError> {
        self.blobs.get(&BlobDigest(digest.0)).ok_or(PushError::Unknown(*digest))
    }

    /// Uploads blobs: small ones in packs, the others one by one.
    fn upload(&self, blobs: &[BlobInfo]) -> Result<(), PushError> {
        let (small, large): (Vec<BlobInfo>, Vec<BlobInfo>) = blobs.iter().partition(|blob| blob.size <= MAX_PACKED);
        for pack in packs(&small) {
            persist(|| self.connection.put_blobs(pack.iter().map(|blob| self.open(blob)), &|_| ()))?;
        }
        for blob in large {
            let path = self.paths.get(&blob.digest).map(|path| self.tree.join(OsStr::from_bytes(path)));
            let path = path.ok_or(PushError::Unknown(Digest(blob.digest.0)))?;
            persist(|| self.connection.put(&Digest(blob.digest.0), &path))?;
        }
        Ok(())
    }

    fn open(&self, blob: &BlobInfo) -> io::Result<(BlobInfo, TreeContent)> {
        let content = self.blobs.open(&blob.digest).map_err(io::Error::other)?;
        content.map(|content| (*blob, content)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Splits blobs into packs within the limits.
fn packs(blobs: &[BlobInfo]) -> Vec<&[BlobInfo]> {
    let (mut packs, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, blob) in blobs.iter().enumerate() {
        if at > begin && (at - begin == MAX_DIGESTS || bytes + blob.size > MAX_PACK) {
            packs.push(&blobs[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += blob.size;
    }
    packs.extend((begin < blobs.len()).then(|| &blobs[begin..]));
    packs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_keep_the_limits() {
        let blob = |size| BlobInfo { digest: BlobDigest::of(b""), size };
        let lengths = |sizes: &[u64]| {
            let blobs: Vec<BlobInfo> = sizes.iter().copied().map(blob).collect();
            packs(&blobs).iter().map(|pack| pack.len()).collect::<Vec<_>>()
        };
        assert!(lengths(&[]).is_empty());
        assert_eq!(lengths(&[MAX_PACKED; 40]), [16, 16, 8]);
        assert_eq!(lengths(&vec![0; MAX_DIGESTS + 1]), [MAX_DIGESTS, 1]);
    }
}
