//! What the tests of runners share: a directory for one test, gone with it.

use std::fs;
use std::path::PathBuf;

pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("tanto-exec-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A named pipe in it: who reads it waits until somebody writes.
    pub(super) fn fifo(&self, name: &str) -> PathBuf {
        tanto_sys::tokens::make_fifo(&self.at(name)).unwrap();
        self.at(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
