//! Handles SIGBUS for mapped files.
//!
//! The handler can run at any time, so the mappings are in a table of fixed size without locks.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::page_size;

/// Limit of live mappings, 24 bytes each. With fewer, some files of large trees are read instead; with more, each fault
/// searches longer.
const SLOTS: usize = 1024;

static TABLE: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];
/// The slot at which the next search begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The size of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// `start` of a free slot, and of one without a mapping yet. Nothing is ever mapped at these addresses.
const FREE: usize = 0;
const TAKEN: usize = 1;

/// The address range of a mapping.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    torn: AtomicBool,
}

impl Slot {
    const fn free() -> Slot {
        Slot { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0), torn: AtomicBool::new(false) }
    }

    fn take(&self) -> bool {
        self.start.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Returns the end of this mapping if it contains the address. The slot of the address does not change, since the
    /// mapping is being read, but others may. If `start` is the same before and after, `end` belonged to it or to
    /// another mapping with the same start; neither overlaps with a mapping that lived all the time.
    fn end_around(&self, address: usize) -> Option<usize> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        let is_here = start > TAKEN && (start..end).contains(&address);
        (is_here && self.start.load(Ordering::Acquire) == start).then_some(end)
    }
}

/// Occupies a slot until it is dropped.
#[derive(Debug)]
pub struct Guard(&'static Slot);

impl Guard {
    /// Occupies a free slot. Fails with `StorageFull` if there is none.
    pub fn new() -> io::Result<Guard> {
        install()?;
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        let slot = (0..SLOTS).map(|step| &TABLE[first.wrapping_add(step) % SLOTS]).find(|slot| slot.take());
        let slot = slot.ok_or(io::ErrorKind::StorageFull)?;
        slot.torn.store(false, Ordering::Relaxed);
        Ok(Guard(slot))
    }

    /// Starts handling faults in this range.
    pub fn watch(&self, range: Range<usize>) {
        self.0.end.store(range.end, Ordering::Release);
        self.0.start.store(range.start, Ordering::Release);
    }

    /// Returns whether there was a fault.
    pub fn is_torn(&self) -> bool {
        self.0.torn.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler once.
fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let result = DONE.get_or_init(|| {
        PAGE.store(page_size(), Ordering::Relaxed);
        let mut action = default_action();
        action.sa_sigaction = bus as extern "C" fn(_, _, _) as libc::sighandler_t;
        // On Rust's alternate signal stack, like its own handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `action` is valid and its handler async-signal-safe; null asks for no result.
        match unsafe { libc::sigaction(libc::SIGBUS, &action, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    });
    result.map_err(io::Error::from_raw_os_error)
}

fn default_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The handler. Uses only atomics and system calls, and preserves `errno`.
extern "C" fn bus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `info`, which has an address where the signal is a fault.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr().addr()) };
    // SAFETY: `errno` is this thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nothing here returns to what set it before it is set back.
    let kept = unsafe { *errno };
    if !is_fault || !map_zeros(address) {
        restore_default(signal, is_fault);
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Maps zeros from the page of the address to the end of its mapping. Returns false if the address belongs to no
/// mapping, or on failure.
fn map_zeros(address: usize) -> bool {
    for slot in &TABLE {
        let Some(end) = slot.end_around(address) else { continue };
        slot.torn.store(true, Ordering::Release);
        let page = address / PAGE.load(Ordering::Relaxed) * PAGE.load(Ordering::Relaxed);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = with_exposed_provenance_mut(page);
        // SAFETY: all these pages belong to the slot's mapping, which is alive since it is being read, and were never
        // written to.
        return unsafe { libc::mmap(place, end - page, libc::PROT_READ, flags, -1, 0) } != libc::MAP_FAILED;
    }
    false
}

/// Restores the default action. A fault recurs when the handler returns; a sent signal is raised again.
fn restore_default(signal: libc::c_int, is_fault: bool) {
    // SAFETY: both calls are async-signal-safe. The action is valid; the signal is delivered when the handler returns.
    unsafe {
        libc::sigaction(signal, &default_action(), null_mut());
        if !is_fault {
            libc::raise(signal);
        }
    }
}
