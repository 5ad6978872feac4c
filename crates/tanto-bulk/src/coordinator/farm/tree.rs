//! Scans the package tree again while packages are built, and gives leases the new one.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use tanto_cas::Store;
use tanto_cas::store::StoreLimits;
use tanto_exec::event::{Event, Level, View};
use tanto_protocol::{Digest, ToServer};

use super::prepare::{pin, put, scanned};
use crate::coordinator::frontend::Coordinator;
use crate::coordinator::pushed_tree::check_pin;
use crate::error::BulkError;
use crate::resolve::PackageId;

/// The package tree of leases.
pub struct FarmTree {
    source: TreeSource,
    /// Manifests of this run that leases may have, the newest last.
    manifests: Vec<Digest>,
    /// Packages whose directories may have changed since the newest manifest was made. Clients do not get them.
    changed: HashSet<PackageId>,
    rescan: Rescan,
}

/// Whether the tree is scanned again.
enum Rescan {
    No,
    Wanted,
    Running(TreeScan),
}

/// A scan in another thread.
struct TreeScan {
    /// Packages that clients get with its manifest.
    packages: HashSet<PackageId>,
    result: Receiver<Result<Digest, BulkError>>,
}

/// So many packages keep waiting.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot scan the package tree for clients, which get no packages to retry ({packages}) until the next retry: {error}"
)]
struct ScanFailed {
    error: BulkError,
    packages: usize,
}

/// Where the tree is, and the files that a scan writes.
#[derive(Clone, Debug)]
pub(in crate::coordinator) struct TreeSource {
    pub root: PathBuf,
    /// Digests of its files.
    pub cache: PathBuf,
    /// The store for the manifest.
    pub blobs: PathBuf,
    /// The only digest that the manifest may have.
    pub pinned: Option<Digest>,
}

/// Most manifests of a run that are provided. The server keeps as many.
const MAX_TREES: usize = 8;
/// Between two looks whether a scan has ended.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

impl TreeSource {
    /// Hashes the files that have changed, and stores the manifest.
    pub(super) fn scan(&self, store: &Store) -> Result<Digest, BulkError> {
        let manifest = scanned(&self.root, &self.cache)?;
        check_pin(self.pinned, Digest(manifest.digest().0))?;
        let digest = put(store, &self.root, &manifest.text())?;
        pin(store, &self.blobs, &[digest])?;
        Ok(digest)
    }

    fn scan_in_thread(self) -> Receiver<Result<Digest, BulkError>> {
        let (to_loop, result) = sync_channel(1);
        let scan = move || {
            let store = Store::open(&self.blobs, StoreLimits::default());
            let store = store.map_err(|error| BulkError::Invalid(format!("{}: {error}", self.blobs.display())));
            // Without a receiver, the build has ended.
            let _ = to_loop.send(store.and_then(|store| self.scan(&store)));
        };
        // If there is no thread, the receiver has no sender.
        let _ = thread::Builder::new().name("tree-scan".into()).spawn(scan);
        result
    }
}

impl FarmTree {
    pub(super) fn new(source: TreeSource, manifest: Digest) -> FarmTree {
        FarmTree { source, manifests: vec![manifest], changed: HashSet::new(), rescan: Rescan::No }
    }

    /// The tree of new leases.
    pub(super) fn manifest(&self) -> Option<Digest> {
        self.manifests.last().copied()
    }

    /// Whether clients have to wait for the next manifest.
    pub(super) fn is_changed(&self, package: PackageId) -> bool {
        let is_scanned = matches!(&self.rescan, Rescan::Running(scan) if scan.packages.contains(&package));
        is_scanned || self.changed.contains(&package)
    }

    /// The manifests that leases may have.
    pub(super) fn manifests(&self) -> &[Digest] {
        &self.manifests
    }

    fn provided(&self, manifest: Digest) -> ToServer {
        ToServer::ProvideTree { manifest, root: self.source.root.clone() }
    }

    /// Names all trees, for a server that has just started.
    pub(super) fn all_provided(&self) -> Vec<ToServer> {
        self.manifests.iter().map(|&manifest| self.provided(manifest)).collect()
    }

    fn add(&mut self, manifest: Digest) {
        self.manifests.retain(|it| *it != manifest);
        self.manifests.push(manifest);
        let surplus = self.manifests.len().saturating_sub(MAX_TREES);
        self.manifests.drain(..surplus);
    }

    fn change(&mut self, packages: &[PackageId]) {
        self.changed.extend(packages);
        if let Rescan::No = self.rescan {
            self.rescan = Rescan::Wanted;
        }
    }

    /// Starts a scan if one is wanted. Returns the result of one that has ended.
    fn poll(&mut self) -> Option<Result<Digest, ScanFailed>> {
        let result = match &self.rescan {
            Rescan::No => return None,
            Rescan::Wanted => {
                let packages = std::mem::take(&mut self.changed);
                self.rescan = Rescan::Running(TreeScan { packages, result: self.source.clone().scan_in_thread() });
                return None;
            }
            Rescan::Running(scan) => match scan.result.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err("a thread could not be started".into()),
                Ok(result) => result,
            },
        };
        // Packages that changed during the scan need another one.
        let next = if self.changed.is_empty() { Rescan::No } else { Rescan::Wanted };
        let ended = std::mem::replace(&mut self.rescan, next);
        Some(match (result, ended) {
            (Err(error), Rescan::Running(scan)) => {
                let packages = scan.packages.len();
                self.changed.extend(scan.packages);
                Err(ScanFailed { error, packages })
            }
            (result, _) => {
                result.inspect(|&manifest| self.add(manifest)).map_err(|error| ScanFailed { error, packages: 0 })
            }
        })
    }

    pub(super) fn poll_interval(&self) -> Option<Duration> {
        matches!(self.rescan, Rescan::Wanted | Rescan::Running(_)).then_some(SCAN_INTERVAL)
    }
}

impl Coordinator<'_> {
    /// The directories of packages may have changed: clients get them when the tree has been scanned again.
    pub(in crate::coordinator) fn tree_changed(&mut self, packages: &[PackageId]) {
        if let Some(farm) = &mut self.farm {
            farm.tree.change(packages);
        }
    }

    /// Scans the tree again if that is wanted. Gives new leases the tree of a scan that has ended.
    pub(super) fn poll_tree(&mut self, view: &mut dyn View) {
        let Some(farm) = &mut self.farm else { return };
        match farm.tree.poll() {
            None => {}
            Some(Ok(manifest)) => {
                farm.description.tree = Some(manifest);
                self.control.send_to_server(&farm.tree.provided(manifest));
            }
            Some(Err(failed)) => {
                view.event(Event::Notice { level: Level::Warning, text: failed.to_string().as_bytes() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use tanto_testing::Scratch;

    fn wait(tree: &mut FarmTree) -> Result<Digest, String> {
        loop {
            if let Some(result) = tree.poll() {
                return result.map_err(|failed| failed.to_string());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn farm_tree(place: &Scratch) -> FarmTree {
        place.write("tree/cat/pkg/Makefile", "one\n");
        let source =
            TreeSource { root: place.at("tree"), cache: place.at("cache"), blobs: place.at("blobs"), pinned: None };
        let store = Store::open(&source.blobs, StoreLimits::default()).unwrap();
        let manifest = source.scan(&store).unwrap();
        FarmTree::new(source, manifest)
    }

    #[test]
    fn changed_packages_wait_for_a_scan_that_began_later() {
        let place = Scratch::new("farm-tree");
        let mut tree = farm_tree(&place);
        let first = tree.manifest();
        assert!(tree.poll().is_none() && tree.poll_interval().is_none(), "nothing has changed");
        place.write("tree/cat/pkg/Makefile", "two\n");
        tree.change(&[1]);
        assert!(tree.is_changed(1) && !tree.is_changed(2));
        assert!(tree.poll().is_none(), "the scan begins");
        tree.change(&[2]);
        let second = wait(&mut tree).unwrap();
        assert!(!tree.is_changed(1) && tree.is_changed(2), "the scan may have missed the second");
        place.write("tree/cat/pkg/Makefile", "three\n");
        let third = wait(&mut tree).unwrap();
        assert!(!tree.is_changed(2) && tree.poll_interval().is_none());
        assert_eq!(tree.manifests, [first.unwrap(), second, third]);
        assert_eq!((tree.manifest(), tree.all_provided().len()), (Some(third), 3));
    }

    #[test]
    fn packages_wait_after_a_scan_that_failed() {
        let place = Scratch::new("farm-tree-failed");
        let mut tree = farm_tree(&place);
        let first = tree.manifest();
        fs::rename(place.at("tree"), place.at("gone")).unwrap();
        tree.change(&[1]);
        let why = wait(&mut tree).unwrap_err();
        assert!(why.contains("retry (1)") && why.contains("open"), "{why}");
        assert!(tree.is_changed(1) && tree.poll().is_none() && tree.manifest() == first, "no other scan is wanted");
        fs::rename(place.at("gone"), place.at("tree")).unwrap();
        tree.change(&[2]);
        assert_eq!(Some(wait(&mut tree).unwrap()), first, "the same tree");
        assert!(!tree.is_changed(1) && !tree.is_changed(2));
    }
}
