//! Files in memory with a clock that moves only when told, for tests. Does not know directories: any path can be
//! written.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use super::{Disk, Mtime};

struct File {
    mtime: Mtime,
    content: Vec<u8>,
}

#[derive(Default)]
struct Inner {
    files: RefCell<BTreeMap<Vec<u8>, File>>,
    refused: RefCell<BTreeSet<Vec<u8>>>,
    now: Cell<Mtime>,
}

/// A handle; its clones see the same files, so that a test's commands can change what a build is looking at.
#[derive(Clone)]
pub struct VirtualDisk(Rc<Inner>);

impl Default for VirtualDisk {
    fn default() -> Self {
        let disk = VirtualDisk(Rc::default());
        disk.tick();
        disk
    }
}

impl VirtualDisk {
    /// No files; the clock stands at 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock by 1 ns and says what it shows now.
    pub fn tick(&self) -> Mtime {
        self.0.now.set(self.0.now.get() + 1);
        self.0.now.get()
    }

    /// Creates or replaces a file, with the clock's time.
    pub fn put(&self, path: &str, content: &str) {
        let file = File { mtime: self.0.now.get(), content: content.into() };
        self.0.files.borrow_mut().insert(path.into(), file);
    }

    /// Sets a file's time to the clock's; makes it if need be.
    pub fn touch(&self, path: &str) {
        let mut files = self.0.files.borrow_mut();
        let fresh = || File { mtime: 0, content: Vec::new() };
        files.entry(path.into()).or_insert_with(fresh).mtime = self.0.now.get();
    }

    /// Deletes a file, if it is there.
    pub fn delete(&self, path: &str) {
        self.0.files.borrow_mut().remove(path.as_bytes());
    }

    /// From now on a build cannot write this file.
    pub fn refuse(&self, path: &str) {
        self.0.refused.borrow_mut().insert(path.into());
    }

    /// Is the file there?
    pub fn has(&self, path: &str) -> bool {
        self.0.files.borrow().contains_key(path.as_bytes())
    }

    /// The names of all files, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.files.borrow().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

impl Disk for VirtualDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        Ok(self.0.files.borrow().get(path).map_or(0, |file| file.mtime))
    }

    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        let files = self.0.files.borrow();
        // The machine's own error, so that messages read as they do on a real disk.
        files.get(path).map(|file| file.content.clone()).ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        if self.0.refused.borrow().contains(path) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let file = File { mtime: self.0.now.get(), content: content.into() };
        self.0.files.borrow_mut().insert(path.into(), file);
        Ok(())
    }

    fn make_parents(&mut self, _path: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        Ok(self.0.files.borrow_mut().remove(path).is_some())
    }
}
