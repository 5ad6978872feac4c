//! The machine's file system. Does not know what the files mean.

use std::io;

use bumpalo::Bump;
use tanto_sys::threads::Threads;
use tanto_sys::{file, stat};

use super::{Disk, Mtime};

/// The files below the current directory, and elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        stat::mtime(path)
    }

    fn mtimes(&mut self, paths: &[&[u8]], threads: Threads) -> Vec<Option<Mtime>> {
        stat::mtimes(paths, threads)
    }

    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        file::read(path)
    }

    fn read_into<'t>(&mut self, path: &[u8], arena: &'t Bump, limit: u64) -> io::Result<&'t [u8]> {
        Ok(file::read_into(path, limit, |length| arena.alloc_slice_fill_copy(length, 0))?)
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        file::write(path, content)
    }

    fn make_parents(&mut self, path: &[u8]) -> io::Result<()> {
        file::make_parents(path)
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        file::remove(path)
    }
}
