//! Memory-mapped files.
//!
//! The content changes when the file does: values that were checked must not be read again. Reading beyond the end of a
//! truncated file, or from a failing disk, raises SIGBUS. A handler then maps zeros there and marks the mapping as
//! torn.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use super::sigbus::Guard;
use crate::memory::page_size;

/// Files of this size or larger are mapped instead of read. On ext4 and Linux 6.18, with a warm cache, a GB took this many
/// milliseconds on one thread and on two:
///
/// | in files of | read | mapped |
/// |---|---|---|
/// | 64 KiB | 84, 70 | 180, 420 |
/// | 256 KiB | 72, 66 | 76, 139 |
/// | 1 MiB | 106, 118 | 79, 91 |
/// | 16 MiB | 223, 232 | 115, 79 |
/// | 98 MB | 296, 317 | 100, 55 |
///
/// Smaller: threads contend when they unmap small files. Larger: medium files cost memory and time to copy.
pub const MIN_MAPPED_SIZE: u64 = 1 << 20;

/// A read-only mapping of the beginning of a file. The file may be closed before.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    length: usize,
    /// `None` if nothing is mapped.
    guard: Option<Guard>,
}

// SAFETY: the memory has no other owner and is never written through `Map`. Changes by other programs are documented,
// and not worse on another thread.
unsafe impl Send for Map {}
// SAFETY: as for `Send`; `release` changes nothing that a reader sees, except the time.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `length` bytes. Fails if the file cannot be mapped (a pipe, a directory), and with `StorageFull`
    /// if there are too many mappings for the handler's table; such a file can still be read.
    pub fn new(file: &File, length: u64) -> io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        if length == 0 {
            return Ok(Map { start: NonNull::dangling(), length, guard: None });
        }
        let guard = Guard::new()?;
        // SAFETY: a new mapping at an address chosen by the kernel replaces no other memory.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at 0 unless asked to");
        guard.watch(start.addr().get()..start.addr().get() + length);
        Ok(Map { start, length, guard: Some(guard) })
    }

    /// Returns the content; zeros from some page on if the mapping is torn.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes from `start` are mapped as long as `self` lives (or the length is 0 and the pointer
        // not null). Missing parts of the file are read as zeros, and every byte is a valid value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Returns whether a part of the file was missing when it was read. Check it after the last read: if true, none of
    /// the content can be trusted.
    pub fn is_torn(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_torn)
    }

    /// Frees the memory of the whole pages in this range. They can be read again at the initial cost.
    pub fn release(&self, range: Range<usize>) {
        let page = page_size();
        let start = range.start.min(self.length).next_multiple_of(page);
        // The last page contains nothing else.
        let end = if range.end >= self.length { self.length } else { range.end / page * page };
        if start < end {
            // SAFETY: the pages belong to this mapping, which is private and was never written to. They are read from
            // the file again. A failure leaves them as they are.
            unsafe { libc::madvise(self.start.as_ptr().add(start).cast(), end - start, libc::MADV_DONTNEED) };
        }
    }
}

impl Deref for Map {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // Before another mapping can get the same addresses.
        if self.guard.take().is_some() {
            // SAFETY: `new` mapped this block, and nothing refers to it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests;
