//! In-memory files with a manual clock, for tests. There are no directories: any path can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tanto_cas::{ContentDigest, FileDigest};
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint, Trust};
use tanto_sys::fs::stat::{FileKind, Stat};

use super::{Disk, Mtime};

struct File {
    mtime: Mtime,
    content: Vec<u8>,
    /// Differs after each change.
    version: u64,
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<Vec<u8>, File>,
    read_only: BTreeSet<Vec<u8>>,
    now: Mtime,
    versions: u64,
}

impl Inner {
    fn file(&mut self, content: &[u8]) -> File {
        self.versions += 1;
        File { mtime: self.now, content: content.into(), version: self.versions }
    }
}

impl File {
    fn state(&self) -> FileState {
        FileState { mtime: self.mtime, fingerprint: Fingerprint(self.version) }
    }
}

/// A handle; its clones share the files, so that a test's commands can change files of a build.
#[derive(Clone)]
pub struct VirtualDisk(Arc<Mutex<Inner>>);

impl Default for VirtualDisk {
    fn default() -> Self {
        let disk = VirtualDisk(Arc::default());
        disk.tick();
        disk
    }
}

impl VirtualDisk {
    /// An empty disk; the clock shows 1.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock by 1 ns and returns it.
    pub fn tick(&self) -> Mtime {
        let mut inner = self.lock();
        inner.now += 1;
        inner.now
    }

    /// Creates or replaces a file, with the clock's time.
    pub fn put(&self, path: &str, content: &str) {
        let mut inner = self.lock();
        let file = inner.file(content.as_bytes());
        inner.files.insert(path.into(), file);
    }

    /// Sets a file's mtime to the clock's time; creates the file if needed.
    pub fn touch(&self, path: &str) {
        let mut inner = self.lock();
        let content = inner.files.get(path.as_bytes()).map_or(Vec::new(), |file| file.content.clone());
        let file = inner.file(&content);
        inner.files.insert(path.into(), file);
    }

    /// Deletes a file if it exists.
    pub fn delete(&self, path: &str) {
        self.lock().files.remove(path.as_bytes());
    }

    /// Makes later writes of this file fail.
    pub fn deny_write(&self, path: &str) {
        self.lock().read_only.insert(path.into());
    }

    pub fn has(&self, path: &str) -> bool {
        self.lock().files.contains_key(path.as_bytes())
    }

    /// Returns the names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().files.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

impl Disk for VirtualDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        Ok(self.lock().files.get(path).map_or(0, |file| file.mtime))
    }

    fn observe(&mut self, path: &[u8], _: &FileSystems) -> io::Result<FileState> {
        Ok(self.lock().files.get(path).map_or(FileState::default(), File::state))
    }

    fn size(&self, path: &[u8]) -> io::Result<u64> {
        Ok(self.lock().files.get(path).map_or(0, |file| file.content.len() as u64))
    }

    fn digest(&self, path: &[u8], _: &FileSystems) -> io::Result<Option<FileDigest>> {
        let of = |file: &File| FileDigest {
            digest: ContentDigest::of(&file.content),
            state: file.state(),
            stat: Stat {
                kind: FileKind::File,
                size: file.content.len() as u64,
                mtime: file.mtime,
                ctime: file.mtime,
                device: 0,
                inode: 0,
                is_executable: false,
            },
            trust: Trust::Known,
        };
        Ok(self.lock().files.get(path).map(of))
    }

    fn may_renew(&self, path: &[u8]) -> bool {
        self.lock().files.contains_key(path)
    }

    fn renew(&self, path: &[u8], expected: Fingerprint, mtime: Mtime, _: &FileSystems) -> io::Result<FileState> {
        let mut inner = self.lock();
        inner.versions += 1;
        let version = inner.versions;
        let found = inner
            .files
            .get_mut(path)
            .filter(|file| file.state().fingerprint == expected)
            .ok_or(io::ErrorKind::NotFound)?;
        (found.mtime, found.version) = (mtime, version);
        Ok(found.state())
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let inner = self.lock();
        // The system's own error, so that messages are the same as on a real disk.
        inner.files.get(path).map(|file| file.content.clone()).ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.read_only.contains(path) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let file = inner.file(content);
        inner.files.insert(path.into(), file);
        Ok(())
    }

    fn make_parents(&mut self, _path: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        Ok(self.lock().files.remove(path).is_some())
    }
}
