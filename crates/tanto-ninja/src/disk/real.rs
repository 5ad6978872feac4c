//! The real file system.

use std::fs::File;
use std::io;

use tanto_cas::FileDigest;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint};
use tanto_sys::fs::{file, stat};
use tanto_sys::threads::ThreadLimit;

use super::{Disk, Mtime, PathByIndex, Source};

#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        stat::mtime(path)
    }

    fn observe(&mut self, path: &[u8], systems: &FileSystems) -> io::Result<FileState> {
        systems.observe(path)
    }

    fn observe_all(
        &mut self,
        path: &PathByIndex<'_>,
        systems: &FileSystems,
        found: &mut [FileState],
        threads: ThreadLimit,
    ) {
        stat::observe(path, systems, found, threads);
    }

    fn size(&self, path: &[u8]) -> io::Result<u64> {
        Ok(stat::stat(path)?.map_or(0, |found| found.size))
    }

    fn digest(&self, path: &[u8], systems: &FileSystems) -> io::Result<Option<FileDigest>> {
        FileDigest::of(file::path(path), systems)
    }

    fn may_renew(&self, path: &[u8]) -> bool {
        FileSystems::may_renew(file::path(path))
    }

    fn renew(&self, path: &[u8], expected: Fingerprint, mtime: Mtime, systems: &FileSystems) -> io::Result<FileState> {
        systems.renew(path, expected, mtime)
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        file::read(path)
    }

    fn open(&self, path: &[u8], limit: u64) -> io::Result<Source> {
        Source::open(path, limit)
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        file::write(path, content)
    }

    fn now(&mut self, path: &[u8], open: &mut Option<File>) -> io::Result<Mtime> {
        if let Some(now) = open.as_ref().and_then(|file| stat::touch(file).ok()) {
            return Ok(now);
        }
        let file = open.insert(File::create(file::path(path))?);
        let now = stat::touch(file);
        // Removed at once, so that no file is left even if a signal ends the build. If the removal fails, the file is
        // empty and the next build uses it again.
        let _ = file::remove(path);
        now
    }

    fn make_parents(&mut self, path: &[u8]) -> io::Result<()> {
        file::create_parents(path)
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        file::remove(path)
    }
}
