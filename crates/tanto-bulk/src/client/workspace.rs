//! The files of a client: the package tree and the binary packages that its attempts need, each at one version at a time.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tanto_protocol::{Digest, Lease, PackageBlob, RefusalCode};

use super::session::ClientSession;
use super::transport::{Backoff, TransportError};
use crate::package::ALL;

/// See the module. Shared by the threads of all slots.
pub struct Workspace {
    /// Contains `All`.
    packages: PathBuf,
    suffix: String,
    /// Downloaded packages, by their digests.
    blobs: PathBuf,
    state: Mutex<State>,
    /// Signaled when a file is there or no longer used.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Packages that running attempts use: digests, and the number of attempts.
    used: BTreeMap<String, (Digest, usize)>,
    downloading: HashSet<Digest>,
}

impl Workspace {
    pub fn open(packages: &Path, suffix: &str, blobs: &Path) -> io::Result<Workspace> {
        fs::create_dir_all(packages.join(ALL))?;
        fs::create_dir_all(blobs)?;
        Ok(Workspace {
            packages: packages.to_owned(),
            suffix: suffix.to_owned(),
            blobs: blobs.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Provides the packages of a lease, until `release`.
    pub fn provide(&self, session: &ClientSession, lease: &Lease) -> Result<(), TransportError> {
        for (at, package) in lease.packages.iter().enumerate() {
            if let Err(error) = self.provide_package(session, package) {
                self.release(&lease.packages[..at]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The attempt that used these packages has ended.
    pub fn release(&self, packages: &[PackageBlob]) {
        let mut state = self.lock();
        for package in packages {
            if let Some((_, count)) = state.used.get_mut(&package.name) {
                *count -= 1;
                if *count == 0 {
                    state.used.remove(&package.name);
                }
            }
        }
        self.changed.notify_all();
    }

    fn provide_package(&self, session: &ClientSession, package: &PackageBlob) -> Result<(), TransportError> {
        self.use_version(package);
        let provided = self.download(session, package).and_then(|blob| {
            let to = self.packages.join(ALL).join(format!("{}{}", package.name, self.suffix));
            let _one_at_a_time = self.lock();
            link(&blob, &to).map_err(|error| TransportError::Failed(format!("{}: {error}", to.display())))
        });
        if provided.is_err() {
            self.release(std::slice::from_ref(package));
        }
        provided
    }

    /// Waits until no attempt uses another version of the package.
    fn use_version(&self, package: &PackageBlob) {
        let mut state = self.lock();
        loop {
            let (digest, count) = state.used.entry(package.name.clone()).or_insert((package.digest, 0));
            if *digest == package.digest {
                *count += 1;
                return;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Downloads a package, unless it is there or another thread does. Returns its path.
    fn download(&self, session: &ClientSession, package: &PackageBlob) -> Result<PathBuf, TransportError> {
        let blob = self.blobs.join(package.digest.to_string());
        let mut state = self.lock();
        while state.downloading.contains(&package.digest) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if blob.exists() {
            return Ok(blob);
        }
        state.downloading.insert(package.digest);
        drop(state);
        let part = blob.with_extension("part");
        let downloaded = repeat(session, || session.transport().download(package.digest, package.size, &part))
            .and_then(|()| fs::rename(&part, &blob).map_err(|error| TransportError::Failed(error.to_string())));
        self.lock().downloading.remove(&package.digest);
        self.changed.notify_all();
        downloaded.map(|()| blob)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes `to` the same file as `from`.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let inode = |path| fs::symlink_metadata(path).map(|it| (it.dev(), it.ino()));
    if inode(to).is_ok_and(|to| inode(from).is_ok_and(|from| from == to)) {
        return Ok(());
    }
    let new = to.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(from, &new)?;
    fs::rename(&new, to)
}

/// Repeats a transfer while that may help and the client lives.
pub(super) fn repeat(
    session: &ClientSession,
    transfer: impl Fn() -> Result<(), TransportError>,
) -> Result<(), TransportError> {
    let mut backoff = Backoff::default();
    loop {
        let error = match transfer() {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let is_temporary = match &error {
            TransportError::Unreachable(_) => true,
            TransportError::Refused(refusal) => {
                matches!(refusal.code, RefusalCode::Unavailable | RefusalCode::Busy | RefusalCode::DiskFull)
            }
            TransportError::Failed(_) => false,
        };
        if !is_temporary || session.is_stopping() {
            return Err(error);
        }
        session.sleep(backoff.next(session.salt()));
    }
}
