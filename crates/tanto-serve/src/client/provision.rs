//! Downloads package trees and single files.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tanto_cas::manifest::{Manifest, ManifestError, ManifestLimits, TreeMode};
use tanto_cas::store::{Durability, StoreError, StoreLimits};
use tanto_cas::tree::{Applied, DigestCache, ScanOptions, TreeError, apply, link, scan, sync};
use tanto_cas::{BlobInfo, Digest as BlobDigest, Store};
use tanto_protocol::{Backoff, Digest, MAX_DIGESTS, RefusalCode};
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

impl FetchedTree {
    fn new(applied: Applied, wanted: &Manifest) -> FetchedTree {
        let files = wanted.entries().iter().filter(|entry| entry.mode.is_file()).count();
        FetchedTree { fetched: applied.written, bytes: applied.written_bytes, files }
    }
}

impl ProvisionError {
    /// The server does not have what it should: the package tree has changed since its manifest was made.
    pub fn is_missing_blob(&self) -> bool {
        match self {
            ProvisionError::Client(error) => {
                matches!(error, ClientError::Mismatch(_)) || error.refusal() == Some(RefusalCode::NotFound)
            }
            _ => false,
        }
    }
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

/// Where a blob is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobSource {
    Server,
    /// The cache if one works, otherwise the server.
    Cache,
}

/// Downloads a blob to a file, unless the file has its content. Returns its size.
pub fn fetch_file(
    connection: &Connection,
    source: BlobSource,
    digest: &Digest,
    path: &Path,
) -> Result<u64, ProvisionError> {
    if let Some(known) = BlobInfo::of_file(path).ok().filter(|it| it.digest.0 == digest.0) {
        return Ok(known.size);
    }
    let part = path.with_extension("part");
    let get = || match source {
        BlobSource::Server => connection.get(digest, &part),
        BlobSource::Cache => connection.get_cached(digest, None, &part),
    };
    let size = match persist(get) {
        // A part of another blob was there.
        Err(ClientError::Mismatch(_)) => persist(get)?,
        result => result?,
    };
    std::fs::rename(&part, path).map_err(failed(path))?;
    Ok(size)
}

/// Files in the directory of a tree: the tree itself, its manifest, digests of its files, and temporary ones.
pub const TREE: &str = "tree";
const MANIFEST: &str = "tree.manifest";
const DIGESTS: &str = "tree.digests";
const STORE: &str = "store";
const BLOB: &str = "blob";

/// Makes the directory `tree` in `dir` equal to a manifest. Downloads only files that are missing or different.
pub fn fetch_tree(connection: &Connection, manifest: &Digest, dir: &Path) -> Result<FetchedTree, ProvisionError> {
    let options = ScanOptions::default();
    let (tree, cache_path) = (dir.join(TREE), dir.join(DIGESTS));
    std::fs::create_dir_all(&tree).map_err(failed(&tree))?;
    let wanted = fetch_manifest(connection, manifest, dir, &options.limits)?;
    let mut cache = DigestCache::load(&cache_path);
    let before = match scan(&tree, &options, &mut cache) {
        // `sync` removes such files.
        Err(TreeError::Special(_)) => Manifest::new(Vec::new(), &options.limits)?,
        before => before?,
    };
    let store = fetch_blobs(connection, &different(&before, &wanted), dir)?;
    let applied = sync(&store, &wanted, &tree, &options, &mut cache)?;
    // The next start calculates digests again.
    let _ = cache.save(&cache_path);
    remove_store(dir)?;
    Ok(FetchedTree::new(applied, &wanted))
}

/// Makes the directory `tree` in `dir` anew, equal to a manifest. It shares files with the tree in `base`, which this
/// process has made from the manifest `known`, and to which nothing writes.
pub fn fetch_similar_tree(
    connection: &Connection,
    manifest: &Digest,
    dir: &Path,
    (known, base): (&Digest, &Path),
) -> Result<FetchedTree, ProvisionError> {
    let options = ScanOptions::default();
    let tree = dir.join(TREE);
    dir_tree::remove(&tree).map_err(failed(&tree))?;
    std::fs::create_dir_all(dir).map_err(failed(dir))?;
    let wanted = fetch_manifest(connection, manifest, dir, &options.limits)?;
    let before = fetch_manifest(connection, known, base, &options.limits)?;
    let linked = link(&base.join(TREE), &before, &tree, &wanted, &options)?;
    let store = fetch_blobs(connection, &different(&linked, &wanted), dir)?;
    let applied = apply(&store, &linked, &wanted, &tree, &options)?;
    remove_store(dir)?;
    Ok(FetchedTree::new(applied, &wanted))
}

/// Downloads a manifest, unless it is there.
fn fetch_manifest(
    connection: &Connection,
    digest: &Digest,
    dir: &Path,
    limits: &ManifestLimits,
) -> Result<Manifest, ProvisionError> {
    let path = dir.join(MANIFEST);
    fetch_file(connection, BlobSource::Cache, digest, &path)?;
    Ok(Manifest::parse(&std::fs::read(&path).map_err(failed(&path))?, limits)?)
}

/// Returns the blobs of entries that `before` has not or has otherwise.
fn different(before: &Manifest, wanted: &Manifest) -> Vec<BlobDigest> {
    let before: HashMap<_, _> = before.entries().iter().map(|entry| (&entry.path, entry)).collect();
    let new = wanted.entries().iter().filter(|entry| before.get(&entry.path) != Some(entry));
    let blobs: BTreeSet<_> = new.filter(|entry| entry.mode != TreeMode::EmptyDir).map(|entry| entry.digest).collect();
    blobs.into_iter().collect()
}

/// Downloads blobs to the store in `dir`: small ones in packs, the others one by one.
fn fetch_blobs(connection: &Connection, digests: &[BlobDigest], dir: &Path) -> Result<Store, ProvisionError> {
    let store = Store::open(&dir.join(STORE), StoreLimits::default())?;
    fetch_into(connection, digests, &store, &dir.join(BLOB))?;
    Ok(store)
}

/// Downloads blobs to a store. `part`: a file for one that is not whole.
pub fn fetch_into(
    connection: &Connection,
    digests: &[BlobDigest],
    store: &Store,
    part: &Path,
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
            fetch_file(connection, BlobSource::Cache, &Digest(digest.0), part)?;
            store.put_file(part, Some(&digest), u64::MAX, Durability::Process)?;
            std::fs::remove_file(part).map_err(failed(part))?;
        }
    }
    Ok(())
}

/// Removes the blobs of a tree that is made: it has them all.
fn remove_store(dir: &Path) -> Result<(), ProvisionError> {
    let path = dir.join(STORE);
    dir_tree::remove(&path).map_err(failed(&path))
}
