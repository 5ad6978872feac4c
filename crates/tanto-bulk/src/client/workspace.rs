//! The files of a client: package trees, and the binary packages that its attempts need, each at one version at a time.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tanto_cas::BlobInfo;
use tanto_protocol::{Backoff, Digest, PackageBlob};
use tanto_sys::fs::page_cache::free_kib;

use super::package_cache::{PART, PackageCache};
use super::session::{ClientSession, next_delay};
use super::transport::TransportError;
use super::trees::{NewTree, TreePlace, Trees};
use crate::package::ALL;

/// Packages that no attempt uses are removed while the disk has fewer bytes free.
const RESERVE: u64 = 1 << 30;

/// See the module. Shared by the threads of all slots, and by all builds that the client takes part in.
pub struct Workspace {
    /// Contains `All`.
    packages: PathBuf,
    pub trees: Trees,
    state: Mutex<State>,
    /// Signaled when a file is there or no longer used.
    changed: Condvar,
}

struct State {
    /// Downloaded packages.
    cache: PackageCache,
    /// Packages that running attempts use: digests, and the number of attempts.
    used: BTreeMap<String, (Digest, usize)>,
    downloading: HashSet<Digest>,
    /// Packages of the cache whose content this process has verified.
    verified: HashSet<Digest>,
}

impl State {
    /// Removes packages that no attempt uses while all are too large, or the disk has not so many bytes free.
    fn make_room(&mut self, place: &Path, needed: u64) {
        let free = free_kib(place).map_or(u64::MAX, |kib| kib.saturating_mul(1_024));
        let bytes = self.cache.excess().max(needed.saturating_sub(free));
        let used: HashSet<Digest> = self.used.values().map(|(digest, _)| *digest).collect();
        for digest in self.cache.remove(bytes, |digest| used.contains(digest)) {
            self.verified.remove(&digest);
        }
    }
}

/// The files of a lease: its package tree, and the packages that it needs. They are there until this is dropped.
pub struct LeaseFiles {
    workspace: Arc<Workspace>,
    tree: Digest,
    packages: Vec<PackageBlob>,
}

/// Why a lease has no files.
#[derive(Debug)]
pub enum ProvideError {
    Tree(TransportError),
    Packages(TransportError),
}

impl LeaseFiles {
    /// The directory of the package tree.
    pub fn tree(&self) -> PathBuf {
        self.workspace.trees.path(self.tree)
    }
}

impl Drop for LeaseFiles {
    fn drop(&mut self) {
        self.workspace.trees.release(self.tree);
        self.workspace.release(&self.packages);
    }
}

impl Workspace {
    /// `max_bytes`: of downloaded packages that no attempt uses, together with the used ones.
    pub fn open(packages: &Path, blobs: &Path, max_bytes: u64, trees: TreePlace) -> io::Result<Workspace> {
        fs::create_dir_all(packages.join(ALL))?;
        fs::create_dir_all(blobs)?;
        let cache = PackageCache::open(blobs, &packages.join(ALL), max_bytes)?;
        let (used, downloading, verified) = Default::default();
        let state = Mutex::new(State { cache, used, downloading, verified });
        let (packages, trees) = (packages.to_owned(), Trees::new(trees));
        Ok(Workspace { packages, trees, state, changed: Condvar::new() })
    }

    /// Disk space for packages and attempts, in KiB: what is free, and what unused packages have. Removes these if little is
    /// free.
    pub fn free_kib(&self) -> u64 {
        let mut state = self.lock();
        state.make_room(&self.packages, RESERVE);
        let removable = state.cache.removable(|digest| state.used.values().any(|(used, _)| used == digest));
        free_kib(&self.packages).unwrap_or(0).saturating_add(removable >> 10)
    }

    /// Provides the tree and the packages of a lease. `suffix`: of package files.
    pub fn provide(
        self: &Arc<Self>,
        session: &ClientSession,
        (tree, packages): (Digest, &[PackageBlob]),
        suffix: &str,
    ) -> Result<LeaseFiles, ProvideError> {
        let make = |new: &NewTree| repeat(session, || session.transport().fetch_tree(new));
        self.trees.provide(tree, make).map_err(ProvideError::Tree)?;
        let mut files = LeaseFiles { workspace: Arc::clone(self), tree, packages: Vec::new() };
        for package in packages {
            self.provide_package(session, package, suffix).map_err(ProvideError::Packages)?;
            files.packages.push(package.clone());
        }
        Ok(files)
    }

    /// Links to the file of a package that was built here. If that fails, it is downloaded when it is needed.
    pub fn keep(&self, package: &PackageBlob, file: &Path) {
        let mut state = self.lock();
        let is_there = state.verified.contains(&package.digest) || state.downloading.contains(&package.digest);
        if is_there || link(file, &state.cache.path(&package.digest)).is_err() {
            return;
        }
        state.cache.use_package(package);
        state.verified.insert(package.digest);
        state.make_room(&self.packages, RESERVE);
    }

    /// The attempt that used these packages has ended.
    fn release(&self, packages: &[PackageBlob]) {
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

    fn provide_package(
        &self,
        session: &ClientSession,
        package: &PackageBlob,
        suffix: &str,
    ) -> Result<(), TransportError> {
        self.use_version(package);
        let provided = self.download(session, package).and_then(|blob| {
            let name = format!("{}{}", package.name, suffix);
            let to = self.packages.join(ALL).join(&name);
            let mut state = self.lock();
            link(&blob, &to).map_err(|error| TransportError::Failed(format!("{}: {error}", to.display())))?;
            state.cache.linked(package.digest, name);
            Ok(())
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

    /// Downloads a package, unless it is there or another thread does. Returns its path. The name of a file that an earlier
    /// process left proves nothing: its content is verified once.
    fn download(&self, session: &ClientSession, package: &PackageBlob) -> Result<PathBuf, TransportError> {
        let mut state = self.lock();
        let blob = state.cache.path(&package.digest);
        while state.downloading.contains(&package.digest) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.cache.use_package(package);
        if state.verified.contains(&package.digest) {
            return Ok(blob);
        }
        state.make_room(&self.packages, RESERVE.saturating_add(package.size));
        state.downloading.insert(package.digest);
        drop(state);
        let obtained = obtain(session, package, &blob);
        let mut state = self.lock();
        state.downloading.remove(&package.digest);
        if obtained.is_ok() {
            state.verified.insert(package.digest);
        }
        self.changed.notify_all();
        obtained.map(|()| blob)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes sure that a file has the content of a package.
fn obtain(session: &ClientSession, package: &PackageBlob, blob: &Path) -> Result<(), TransportError> {
    if BlobInfo::of_file(blob).is_ok_and(|it| it.digest.0 == package.digest.0) {
        return Ok(());
    }
    let part = blob.with_extension(PART);
    repeat(session, || session.transport().download(package.digest, package.size, &part))?;
    fs::rename(&part, blob).map_err(|error| TransportError::Failed(format!("{}: {error}", blob.display())))
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
        match transfer() {
            Err(error) if error.is_temporary() && !session.is_stopping() => session.sleep(next_delay(&mut backoff)),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use tanto_protocol::{ClientAnswer, ClientRequest};
    use tanto_testing::Scratch;

    use crate::client::session::tests::hello;
    use crate::client::transport::Transport;

    const CONTENT: &str = "the package";

    /// Every blob has the same content.
    #[derive(Default)]
    struct OneBlob {
        downloads: AtomicUsize,
    }

    impl Transport for OneBlob {
        fn request(&self, _: ClientRequest) -> Result<ClientAnswer, TransportError> {
            Err(TransportError::Failed("it only has blobs".into()))
        }

        fn missing(&self, _: &[Digest]) -> Result<Vec<Digest>, TransportError> {
            Ok(Vec::new())
        }

        fn fetch_blobs(&self, _: &[Digest], _: &tanto_cas::Store, _: &Path) -> Result<(), TransportError> {
            Ok(())
        }

        fn take_warning(&self) -> Option<String> {
            None
        }

        fn download(&self, _: Digest, _: u64, to: &Path) -> Result<(), TransportError> {
            self.downloads.fetch_add(1, Ordering::Relaxed);
            fs::write(to, CONTENT).map_err(|error| TransportError::Failed(error.to_string()))
        }

        fn upload(&self, _: Digest, _: &Path, _: &dyn Fn(u64)) -> Result<(), TransportError> {
            Ok(())
        }

        fn upload_pack(&self, _: &[(Digest, &Path)], _: &dyn Fn(u64)) -> Result<(), TransportError> {
            Ok(())
        }

        fn fetch_tree(&self, _: &NewTree) -> Result<(), TransportError> {
            Ok(())
        }
    }

    fn session(transport: Arc<OneBlob>) -> ClientSession {
        ClientSession::new(transport, hello(), [], Box::new(|| (1, 1)))
    }

    fn package() -> PackageBlob {
        let digest = Digest(tanto_cas::Digest::of(CONTENT.as_bytes()).0);
        PackageBlob { name: "a-1".into(), digest, size: CONTENT.len() as u64 }
    }

    fn workspace(place: &Scratch, max_bytes: u64) -> Arc<Workspace> {
        let trees = TreePlace::Many(place.at("trees"));
        Arc::new(Workspace::open(&place.at("packages"), &place.at("blobs"), max_bytes, trees).unwrap())
    }

    #[test]
    fn a_file_of_an_earlier_process_is_used_only_if_its_content_is_right() {
        let (place, package) = (Scratch::new("client-workspace"), package());
        let blob = format!("blobs/{}", package.digest);
        let provide = || {
            let transport = Arc::new(OneBlob::default());
            let session = session(Arc::clone(&transport));
            let workspace = workspace(&place, u64::MAX);
            for _ in 0..2 {
                workspace.provide(&session, (Digest([1; 32]), std::slice::from_ref(&package)), ".tgz").unwrap();
            }
            assert_eq!(fs::read_to_string(place.at("packages/All/a-1.tgz")).unwrap(), CONTENT);
            transport.downloads.load(Ordering::Relaxed)
        };
        assert_eq!(provide(), 1, "it was not there");
        assert_eq!(provide(), 0, "it was there");
        fs::remove_file(place.at(&blob)).unwrap();
        place.write(&blob, "the pickage");
        assert_eq!(provide(), 1, "it has the size and the name, but not the content");
    }

    #[test]
    fn a_package_that_was_built_here_is_not_downloaded() {
        let (place, package) = (Scratch::new("client-workspace-built"), package());
        let transport = Arc::new(OneBlob::default());
        let (session, workspace) = (session(Arc::clone(&transport)), workspace(&place, u64::MAX));
        workspace.keep(&package, &place.at("missing.tgz"));
        place.write("built.tgz", CONTENT);
        workspace.keep(&package, &place.at("built.tgz"));
        workspace.provide(&session, (Digest([1; 32]), std::slice::from_ref(&package)), ".tgz").unwrap();
        assert_eq!(fs::read_to_string(place.at("packages/All/a-1.tgz")).unwrap(), CONTENT);
        assert_eq!(transport.downloads.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn packages_of_running_attempts_are_kept_beyond_the_quota() {
        let (place, package) = (Scratch::new("client-workspace-quota"), package());
        let transport = Arc::new(OneBlob::default());
        let workspace = workspace(&place, 0);
        let session = session(Arc::clone(&transport));
        let is_there = || place.at("packages/All/a-1.tgz").exists();
        for downloads in [1, 2] {
            let provide = || workspace.provide(&session, (Digest([1; 32]), std::slice::from_ref(&package)), ".tgz");
            let (first, second) = (provide().unwrap(), provide().unwrap());
            drop(first);
            assert!(workspace.free_kib() > 0 && is_there(), "an attempt uses it");
            drop(second);
            workspace.free_kib();
            assert!(!is_there());
            assert_eq!(transport.downloads.load(Ordering::Relaxed), downloads);
        }
        assert_eq!(fs::read_dir(place.at("blobs")).unwrap().count(), 0);
    }

    #[test]
    fn another_version_waits_until_the_files_are_dropped() {
        let place = Scratch::new("client-workspace-versions");
        let (workspace, session) = (workspace(&place, u64::MAX), session(Arc::default()));
        let other = PackageBlob { digest: Digest([7; 32]), ..package() };
        let files = workspace.provide(&session, (Digest([1; 32]), &[package()]), ".tgz").unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| workspace.provide(&session, (Digest([1; 32]), &[other]), ".tgz").is_ok());
            assert!(!second.is_finished());
            drop(files);
            assert!(second.join().unwrap());
        });
    }
}
