//! The machine's file system. Does not know what the files mean.

use std::io;

use tanto_sys::file;

use super::{Disk, Mtime};

/// The files below the current directory, and elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        file::mtime(path)
    }

    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        file::read(path)
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
