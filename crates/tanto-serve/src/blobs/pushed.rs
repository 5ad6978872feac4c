//! The package trees that were pushed: a file for each build names the last one. Its blobs stay in the store.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tanto_cas::manifest::{ManifestError, ManifestLimits, TreeMode};
use tanto_cas::{Digest, Manifest, Store, StoreError};
use tanto_protocol::{MAX_LIST, Message, PushedTree};
use tanto_sys::fs::private_files;

use crate::files::replace_private;

/// How long the blobs of a tree stay that is not complete yet.
const PINNED: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, thiserror::Error)]
pub(crate) enum PushedTreeError {
    #[error("the manifest: {0}")]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    File(#[from] io::Error),
}

pub(super) struct PushedTrees {
    dir: PathBuf,
    /// Held while a file is replaced.
    writing: Mutex<()>,
}

impl PushedTrees {
    pub(super) fn open(dir: &Path) -> io::Result<PushedTrees> {
        private_files::create_dir(dir)?;
        Ok(PushedTrees { dir: dir.to_owned(), writing: Mutex::default() })
    }

    /// Replaces the tree of a build, if the store has all of it. Returns blobs that it lacks.
    pub(super) fn set(&self, store: &Store, build: &str, tree: &PushedTree) -> Result<Vec<Digest>, PushedTreeError> {
        let digest = Digest(tree.manifest.0);
        let Some(manifest) = manifest(store, &digest)? else { return Ok(vec![digest]) };
        let blobs: BTreeSet<Digest> = blobs(&manifest).chain([digest]).collect();
        let blobs: Vec<Digest> = blobs.into_iter().collect();
        let mut missing = store.pin(&blobs, SystemTime::now() + PINNED)?;
        missing.truncate(MAX_LIST);
        if missing.is_empty() {
            let text = tree.encode().map_err(io::Error::other)?;
            let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            replace_private(&self.dir.join(build), &text)?;
        }
        Ok(missing)
    }

    /// Adds the blobs of the trees of these builds. Forgets those of other builds.
    pub(super) fn add_roots(
        &self,
        store: &Store,
        builds: &HashSet<String>,
        roots: &mut HashSet<Digest>,
    ) -> Result<(), StoreError> {
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !builds.contains(name) {
                fs::remove_file(&path)?;
                continue;
            }
            let damaged = |why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
            let tree = PushedTree::decode(&fs::read(&path)?).map_err(|error| damaged(&error))?;
            let digest = Digest(tree.manifest.0);
            // If somebody has removed its manifest, its other blobs are of no use.
            match manifest(store, &digest) {
                Ok(Some(manifest)) => roots.extend(blobs(&manifest).chain([digest])),
                Ok(None) => {}
                Err(PushedTreeError::Store(error)) => return Err(error),
                Err(error) => return Err(damaged(&error).into()),
            }
        }
        Ok(())
    }
}

/// Reads a manifest; `None` if the store does not have it.
fn manifest(store: &Store, digest: &Digest) -> Result<Option<Manifest>, PushedTreeError> {
    let limits = ManifestLimits::default();
    match store.read_to_vec(digest, limits.text_bytes as u64) {
        Ok(text) => Ok(Some(Manifest::parse(&text, &limits)?)),
        Err(StoreError::Missing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn blobs(manifest: &Manifest) -> impl Iterator<Item = Digest> + '_ {
    manifest.entries().iter().filter(|entry| entry.mode != TreeMode::EmptyDir).map(|entry| entry.digest)
}
