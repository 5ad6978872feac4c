//! Distfiles of leases: downloads those that the coordinator has, and finds those that it lacks. The stage `checksum` verifies
//! all of them, and fetches the others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tanto_cas::Store;
use tanto_cas::store::StoreLimits;
use tanto_protocol::{Digest, Distfile};
use tanto_sys::fs::dir_tree;

use super::session::ClientSession;
use super::transport::TransportError;
use crate::attempt::distfiles::atomic_move;

/// Shared by the threads of all slots.
pub struct ClientDistfiles {
    /// DISTDIR.
    dir: PathBuf,
    /// Contains files that are not whole. One thread at a time uses it: several packages may need the same files.
    temp: Mutex<PathBuf>,
}

/// A distfile that the coordinator takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedDistfile {
    pub name: String,
    pub path: PathBuf,
}

impl ClientDistfiles {
    pub fn new(dir: &Path, temp: &Path) -> ClientDistfiles {
        ClientDistfiles { dir: dir.to_owned(), temp: Mutex::new(temp.to_owned()) }
    }

    /// Downloads the files that the coordinator has to their places, unless a file is there.
    pub fn provide(&self, session: &ClientSession, distfiles: &[Distfile]) -> Result<(), TransportError> {
        let temp = self.temp.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<(&str, Digest)> = distfiles
            .iter()
            .filter(|file| !self.dir.join(&file.name).exists())
            .filter_map(|file| Some((&*file.name, file.digest?)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| TransportError::Failed(error.to_string());
        let store = Store::open(&temp.join("store"), StoreLimits::default()).map_err(|error| failed(&error))?;
        let digests: Vec<Digest> = missing.iter().map(|(_, digest)| *digest).collect();
        let came = session.transport().fetch_blobs(&digests, &store, &temp.join("blob"));
        for (name, digest) in missing {
            let blob = store.blob_path(&tanto_cas::Digest(digest.0));
            match atomic_move::publish(&blob, &self.dir.join(name)) {
                // It did not come, or another file has the same content.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                published => published.map_err(|error| failed(&error))?,
            }
        }
        came?;
        dir_tree::remove(&temp).map_err(|error| failed(&error))
    }
}

/// Returns the files in DISTDIR that the coordinator lacks. Only verified files are there.
pub fn fetched(dir: &Path, distfiles: &[Distfile]) -> Vec<FetchedDistfile> {
    let lacking = distfiles.iter().filter(|file| file.digest.is_none());
    let files = lacking.map(|file| FetchedDistfile { name: file.name.clone(), path: dir.join(&file.name) });
    files.filter(|file| file.path.is_file()).collect()
}
