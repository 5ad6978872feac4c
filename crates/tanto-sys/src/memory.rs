//! Large blocks of memory.

pub mod map;
pub mod prefetch;
mod sigbus;

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Size of a huge page in bytes, on x86-64 and on aarch64 with pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// Blocks of this many bytes use huge pages. Smaller: a small build would clear 2 MiB where it needs some KiB. Larger:
/// medium arrays would have pages of 4 KiB with a fault each. Filling a new vector of 64 MiB took 36 ms of processor
/// time and 16,385 faults without huge pages, 22 ms and 544 faults with them; filling 2 MiB of `SharedWords` without
/// them took 0.6 ms, 4 MiB with them 0.3 ms.
const LARGE: usize = 2 * HUGE;

/// Returns the size of a page in bytes.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: touches no memory of ours.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    })
}

/// Asks for huge pages for the capacity of a vector; call it before filling the vector. Does nothing for small vectors.
pub fn advise_huge_pages<T>(vec: &Vec<T>) {
    let length = vec.capacity() * size_of::<T>();
    if length >= LARGE {
        advise(vec.as_ptr().cast::<u8>().cast_mut(), length);
    }
}

/// Asks for huge pages in all whole ones within a block.
fn advise(start: *mut u8, length: usize) {
    let skipped = start.addr().next_multiple_of(HUGE) - start.addr();
    let whole = length.saturating_sub(skipped) / HUGE * HUGE;
    if whole > 0 {
        // SAFETY: this advice changes no content, whatever lies there.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

/// Words shared between threads, initially 0. Pages are allocated on first use.
#[derive(Debug)]
pub struct SharedWords(Area);

/// Words that no longer change.
#[derive(Debug)]
pub struct FrozenWords(Area);

impl SharedWords {
    /// Allocates words. Fails if there is not enough memory.
    pub fn new(count: usize) -> io::Result<SharedWords> {
        Area::new(count).map(SharedWords)
    }

    pub fn freeze(self) -> FrozenWords {
        FrozenWords(self.0)
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the area is aligned, has room for `count` words, for which every bit pattern is valid, and lives as
        // long as `self`. All changes go through atomics.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.count) }
    }
}

impl Deref for FrozenWords {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: as for `SharedWords`, which was consumed, so that nothing changes the words.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.count) }
    }
}

impl FrozenWords {
    /// Returns the words as bytes, in native order.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the same memory as that of the words; bytes need no alignment.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.count * size_of::<u64>()) }
    }
}

/// Memory mapped directly from the kernel.
#[derive(Debug)]
struct Area {
    start: NonNull<u64>,
    count: usize,
    /// Bytes skipped before `start`, and the length of the mapping (0: none).
    mapped: (usize, usize),
}

// SAFETY: the memory has no other owner, and `SharedWords` and `FrozenWords` share it safely.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    fn new(count: usize) -> io::Result<Area> {
        if count == 0 {
            return Ok(Area { start: NonNull::dangling(), count, mapped: (0, 0) });
        }
        let length = count.checked_mul(size_of::<u64>()).filter(|&length| length < isize::MAX as usize - HUGE);
        let length = length.ok_or(io::ErrorKind::OutOfMemory)?;
        // Older kernels do not align it to huge pages.
        let spare = if length >= LARGE { HUGE } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel replaces no other memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), length + spare, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let skipped = if spare > 0 { base.addr().next_multiple_of(HUGE) - base.addr() } else { 0 };
        let start = base.cast::<u8>().wrapping_add(skipped);
        if spare > 0 {
            advise(start, length.next_multiple_of(HUGE).min(length + spare - skipped));
        }
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unless asked to");
        Ok(Area { start, count, mapped: (skipped, length + spare) })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let (skipped, length) = self.mapped;
        if length > 0 {
            // SAFETY: `new` mapped this block, and nothing refers to it any more.
            unsafe { libc::munmap(self.start.as_ptr().byte_sub(skipped).cast(), length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::thread;

    #[test]
    fn words_are_shared_and_then_frozen() {
        for count in [1, 511, 513, 3 * HUGE / 8 + 5] {
            let words = SharedWords::new(count).unwrap();
            assert_eq!(words.len(), count);
            thread::scope(|scope| {
                for first in [0, 1] {
                    let words = &words;
                    scope.spawn(move || {
                        words.iter().enumerate().skip(first).step_by(2).for_each(|(number, word)| {
                            word.fetch_add(number as u64 + 1, Ordering::Relaxed);
                        });
                    });
                }
            });
            let frozen = words.freeze();
            assert!(frozen.iter().enumerate().all(|(number, &word)| word == number as u64 + 1));
            assert_eq!(frozen.bytes().len(), count * 8);
            assert_eq!(frozen.bytes()[..8], 1_u64.to_ne_bytes());
        }
    }

    #[test]
    fn zero_words_work_and_too_many_are_an_error() {
        let none = SharedWords::new(0).unwrap();
        assert!(none.is_empty() && none.freeze().bytes().is_empty());
        assert_eq!(SharedWords::new(usize::MAX / 2).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert!(SharedWords::new(isize::MAX as usize / 8 - HUGE).is_err());
    }

    #[test]
    fn large_blocks_are_aligned_to_huge_pages() {
        for count in [LARGE / 8, LARGE / 8 + 1, 5 * HUGE / 8] {
            assert_eq!(SharedWords::new(count).unwrap().as_ptr().addr() % HUGE, 0);
        }
    }

    #[test]
    fn advice_changes_no_content() {
        for length in [0, 10, LARGE, LARGE + 4097] {
            let mut vec = vec![7_u8; length];
            vec.reserve(LARGE);
            advise_huge_pages(&vec);
            assert!(vec.iter().all(|&byte| byte == 7));
        }
        advise_huge_pages(&vec![(); 5]);
    }
}
