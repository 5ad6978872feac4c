//! Tests of the logs with real files: golden bytes, damaged files, concurrent writers, full disks.

mod build_log;
mod deps_log;
mod hashes;
mod large;
mod real_ninja;
mod resume;
mod threads;

use std::fs;
use std::io;

use tanto_sys::threads::ThreadLimit;
use tanto_testing::Scratch;

use crate::disk::{Disk, Mtime};
use crate::graph::{Arena, Graph};
use crate::logs::{BYTES_PER_THREAD, ReadPlan};

/// A temporary directory with a log.
struct LogDir(Scratch);

impl LogDir {
    fn new() -> Self {
        LogDir(Scratch::new("log"))
    }

    fn log(&self) -> Vec<u8> {
        self.0.bytes("log")
    }

    fn write(&self, bytes: &[u8]) {
        self.0.write("log", bytes);
    }

    /// Replaces the log by a new file.
    fn replace(&self, bytes: &[u8]) {
        self.0.write("new", bytes);
        fs::rename(self.0.at("new"), self.0.at("log")).expect("renaming it");
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        fs::read(self.0.at("log")).ok()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("listing");
        let mut names: Vec<_> = entries.map(|e| e.expect("entry").file_name().into_string().expect("name")).collect();
        names.sort();
        names
    }
}

fn graph_with(paths: &[&str]) -> Graph<'static> {
    let mut graph = Box::leak(Box::new(Arena::new())).empty();
    for path in paths {
        graph.intern(path.as_bytes());
    }
    graph
}

/// A deterministic random number generator.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}

fn text(warning: Option<Vec<u8>>) -> Option<String> {
    warning.map(|bytes| String::from_utf8(bytes).expect("plain text"))
}

/// A disk on which all files have the same mtime, or fail to be checked, and the same content.
struct Stub {
    mtime: Option<Mtime>,
    content: &'static [u8],
}

impl Stub {
    fn of_mtime(mtime: Option<Mtime>) -> Self {
        Stub { mtime, content: b"" }
    }
}

impl Disk for Stub {
    fn mtime(&mut self, _path: &[u8]) -> io::Result<Mtime> {
        self.mtime.ok_or_else(|| io::Error::from_raw_os_error(13))
    }
    fn read(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(self.content.to_vec())
    }
    fn write(&mut self, _path: &[u8], _content: &[u8]) -> io::Result<()> {
        unreachable!("a log is not written through a disk")
    }
    fn make_parents(&mut self, _path: &[u8]) -> io::Result<()> {
        unreachable!("a log makes no directories")
    }
    fn remove(&mut self, _path: &[u8]) -> io::Result<bool> {
        unreachable!("a log removes no outputs")
    }
}

#[test]
fn small_log_is_read_by_one_thread() {
    assert_eq!(ReadPlan::of(2 * BYTES_PER_THREAD - 1, ThreadLimit::Auto), ReadPlan::ONE);
    assert_eq!(ReadPlan::of(1 << 40, ThreadLimit::ONE), ReadPlan::ONE);
    assert!((1..=2).contains(&ReadPlan::of(2 * BYTES_PER_THREAD, ThreadLimit::Auto).threads));
}
