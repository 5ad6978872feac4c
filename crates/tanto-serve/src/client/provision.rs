//! Downloads the files that a client needs before its first lease: the package tree and single files.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tanto_cas::manifest::{Manifest, ManifestError, ManifestLimits, TreeMode};
use tanto_cas::store::{Durability, StoreError, StoreLimits};
use tanto_cas::tree::{DigestCache, ScanOptions, TreeError, scan, sync};
use tanto_cas::{BlobInfo, Digest as BlobDigest, Store};
use tanto_protocol::{Backoff, Digest, MAX_DIGESTS};
use tanto_sys::fs::dir_tree;
use tanto_sys::random;

use super::{ClientError, Connection};

/// How long requests are repeated while the server cannot be reached.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the manifest of the package tree: {0}")]
    Manifest(#[from] ManifestError),
    #[error("the package tree: {0}")]
    Tree(#[from] TreeError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ProvisionError {
    let path = path.to_owned();
    move |source| ProvisionError::File { path, source }
}

/// What was downloaded of a tree.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FetchedTree {
    /// Files that were missing or different.
    pub fetched: usize,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Files of the tree.
    pub files: usize,
}

/// Repeats a request while it may succeed later.
pub fn persist<T>(request: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let (mut backoff, mut waited) = (Backoff::default(), Duration::ZERO);
    loop {
        match request() {
            Err(error) if error.is_transient() && waited < PATIENCE => {
                // Without random numbers, the delay is the longest.
                let delay = backoff.delay(random::bytes().map_or(u16::MAX, u16::from_le_bytes));
                waited += delay;
                thread::sleep(delay);
            }
            result => return result,
        }
    }
}

/// Downloads a blob to a file, unless the file has its content. Returns its size.
pub fn fetch_file(connection: &Connection, digest: &Digest, path: &Path) -> Result<u64, ProvisionError> {
    if let Some(known) = BlobInfo::of_file(path).ok().filter(|it| it.digest.0 == digest.0) {
        return Ok(known.size);
    }
    let part = path.with_extension("part");
    let size = match persist(|| connection.get(digest, &part)) {
        // A part of another blob was there.
        Err(ClientError::Mismatch(_)) => persist(|| connection.get(digest, &part))?,
        result => result?,
    };
    std::fs::rename(&part, path).map_err(failed(path))?;
    Ok(size)
}

/// Makes the directory `tree` in `dir` equal to a manifest. Downloads only files that are missing or different.
pub fn fetch_tree(connection: &Connection, manifest: &Digest, dir: &Path) -> Result<FetchedTree, ProvisionError> {
    let limits = ManifestLimits::default();
    let path = dir.join("tree.manifest");
    fetch_file(connection, manifest, &path)?;
    let wanted = Manifest::parse(&std::fs::read(&path).map_err(failed(&path))?, &limits)?;
    let (tree, cache_path, store_path) = (dir.join("tree"), dir.join("tree.digests"), dir.join("store"));
    let mut cache = DigestCache::load(&cache_path);
    let options = ScanOptions { limits, ..ScanOptions::default() };
    std::fs::create_dir_all(&tree).map_err(failed(&tree))?;
    let different = different(&wanted, &tree, &options, &mut cache)?;
    let store = Store::open(&store_path, StoreLimits::default())?;
    fetch_blobs(connection, &different, &store, dir)?;
    let applied = sync(&store, &wanted, &tree, &options, &mut cache)?;
    // The next start calculates digests again.
    let _ = cache.save(&cache_path);
    // The tree has them all.
    dir_tree::remove(&store_path).map_err(failed(&store_path))?;
    let files = wanted.entries().iter().filter(|entry| entry.mode.is_file()).count();
    Ok(FetchedTree { fetched: applied.written, bytes: applied.written_bytes, files })
}

/// Returns the blobs of entries that the directory has not or has otherwise.
fn different(
    wanted: &Manifest,
    tree: &Path,
    options: &ScanOptions,
    cache: &mut DigestCache,
) -> Result<Vec<BlobDigest>, ProvisionError> {
    let before = match scan(tree, options, cache) {
        // `sync` removes such files.
        Err(TreeError::Special(_)) => Manifest::new(Vec::new(), &options.limits)?,
        before => before?,
    };
    let before: HashMap<_, _> = before.entries().iter().map(|entry| (&entry.path, entry)).collect();
    let new = wanted.entries().iter().filter(|entry| before.get(&entry.path) != Some(entry));
    let blobs: BTreeSet<_> = new.filter(|entry| entry.mode != TreeMode::EmptyDir).map(|entry| entry.digest).collect();
    Ok(blobs.into_iter().collect())
}

/// Adds blobs to a store: small ones in packs, the others one by one.
fn fetch_blobs(
    connection: &Connection,
    digests: &[BlobDigest],
    store: &Store,
    dir: &Path,
) -> Result<(), ProvisionError> {
    for digests in store.missing(digests)?.chunks(MAX_DIGESTS) {
        let mut missing = digests.to_vec();
        loop {
            let asked: Vec<Digest> = missing.iter().map(|digest| Digest(digest.0)).collect();
            let came = persist(|| connection.get_pack(&asked, store))?;
            missing = store.missing(&missing)?;
            if came == 0 || missing.is_empty() {
                break;
            }
        }
        for digest in missing {
            let path = dir.join("blob");
            fetch_file(connection, &Digest(digest.0), &path)?;
            store.put_file(&path, Some(&digest), u64::MAX, Durability::Process)?;
            std::fs::remove_file(&path).map_err(failed(&path))?;
        }
    }
    Ok(())
}
