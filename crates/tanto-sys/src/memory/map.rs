//! Files as memory. Does not know what is in them, nor when a mapping is worth its cost.
//!
//! Two things set such memory apart from other memory. It changes when the file is changed: whoever reads it twice may
//! read two things, and must not trust the second for what was checked in the first. And if the file is cut short, or
//! its disk fails, there is nothing to read, and the kernel says so with SIGBUS, which would end the program. Here a
//! handler puts zeros in the place of what is missing, and the mapping says that it is torn.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use super::sigbus::Guard;
use crate::memory::page_size;

/// Files of so many bytes or more are better mapped than read, and `tanto bench read` measures whether that is so. On
/// ext4 and Linux 6.18, with all in memory, a GB took so many milliseconds on one thread, and on two:
///
/// | in files of | read | mapped |
/// |---|---|---|
/// | 64 KiB | 84, 70 | 180, 420 |
/// | 256 KiB | 72, 66 | 76, 139 |
/// | 1 MiB | 106, 118 | 79, 91 |
/// | 16 MiB | 223, 232 | 115, 79 |
/// | 98 MB | 296, 317 | 100, 55 |
///
/// Smaller, threads wait for each other when they unmap small files; larger, middling files take fresh memory, and time
/// to copy.
pub const MIN_MAPPED_SIZE: u64 = 1 << 20;

/// The first bytes of a file, to be read only, mapped until this is dropped. The file may be closed before.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    length: usize,
    /// None where nothing is mapped.
    guard: Option<Guard>,
}

// SAFETY: the memory is nobody else's and is never written through `Map`; that other programs may change the file is
// told to the caller, and no worse on another thread.
unsafe impl Send for Map {}
// SAFETY: as for `Send`; `release` changes nothing that a reader sees, but for what it has to wait for.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `length` bytes. An error where the file cannot be mapped (a pipe, a directory), and where as
    /// many mappings live as the handler can know (`StorageFull`): such a file can still be read.
    pub fn new(file: &File, length: u64) -> io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        if length == 0 {
            return Ok(Map { start: NonNull::dangling(), length, guard: None });
        }
        let guard = Guard::new()?;
        // SAFETY: a new mapping at a place of the kernel's choice replaces no other memory.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at 0 unless asked to");
        guard.watch(start.addr().get()..start.addr().get() + length);
        Ok(Map { start, length, guard: Some(guard) })
    }

    /// The content; zeros from some page on if the mapping is torn.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes from `start` are mapped as long as `self` lives (or the length is 0 and the pointer
        // not null), and reading what the file has lost gives zeros. The bytes have no invalid values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Was something of the file not there when it was read? Then nothing that was read is to be trusted: ask after
    /// the last read.
    pub fn is_torn(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_torn)
    }

    /// Gives back the memory of the whole pages in this range of the content. It may be read again, which then costs
    /// as much as the first time.
    pub fn release(&self, range: Range<usize>) {
        let page = page_size();
        let start = range.start.min(self.length).next_multiple_of(page);
        // The last page is ours to its end.
        let end = if range.end >= self.length { self.length } else { range.end / page * page };
        if start < end {
            // SAFETY: the pages lie in this mapping, which is private, was never written to, and starts at a page.
            // Their content comes from the file again. A refusal leaves them as they are.
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
        // The handler has to forget the place before another mapping can get it.
        if self.guard.take().is_some() {
            // SAFETY: `new` has mapped so much here, and nobody can read it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests;
