//! What happens when memory has no file behind it any more. Does not know what was mapped there, only where.
//!
//! A handler may run in the midst of anything, so the places are in a table of fixed size, and without locks.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::page_size;

/// Mappings that can live at a time, 24 bytes each. Fewer, and a tree of many large files reads some of them instead;
/// more, and each fault of a torn file looks longer for its place.
const SLOTS: usize = 1024;

static TABLE: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];
/// Where the search for a free slot begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The size of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// `start` of a slot that nobody has, and of one whose place is not known yet. Nothing is ever mapped there.
const FREE: usize = 0;
const TAKEN: usize = 1;

/// Where something is mapped.
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

    /// The end of what is mapped here, if the address lies in it. Other slots may change meanwhile, that of the address
    /// does not: its mapping is being read. So where `start` is the same before and after, `end` belonged to it, or
    /// to another mapping with the same start; neither overlaps with one that lived all the time.
    fn end_around(&self, address: usize) -> Option<usize> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        let is_here = start > TAKEN && (start..end).contains(&address);
        (is_here && self.start.load(Ordering::Acquire) == start).then_some(end)
    }
}

/// A slot, given back when this is dropped.
#[derive(Debug)]
pub struct Guard(&'static Slot);

impl Guard {
    /// A free slot. `StorageFull` if there is none.
    pub fn new() -> io::Result<Guard> {
        install()?;
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        let slot = (0..SLOTS).map(|step| &TABLE[first.wrapping_add(step) % SLOTS]).find(|slot| slot.take());
        let slot = slot.ok_or(io::ErrorKind::StorageFull)?;
        slot.torn.store(false, Ordering::Relaxed);
        Ok(Guard(slot))
    }

    /// From now on faults in this range are seen to.
    pub fn watch(&self, range: Range<usize>) {
        self.0.end.store(range.end, Ordering::Release);
        self.0.start.store(range.start, Ordering::Release);
    }

    /// Was there one?
    pub fn is_torn(&self) -> bool {
        self.0.torn.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// Sets the handler, the first time.
fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let result = DONE.get_or_init(|| {
        PAGE.store(page_size(), Ordering::Relaxed);
        let mut action = default_action();
        action.sa_sigaction = bus as extern "C" fn(_, _, _) as libc::sighandler_t;
        // On the stack that Rust gives its threads for signals, as its own handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `action` is valid and its handler safe at any time; a null pointer asks for no answer.
        match unsafe { libc::sigaction(libc::SIGBUS, &action, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    });
    result.map_err(io::Error::from_raw_os_error)
}

/// The default action, no flags, an empty mask.
fn default_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Runs in the midst of anything: only atomics and system calls, and `errno` is left as it was.
extern "C" fn bus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `info`, which has an address where the signal is a fault.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr().addr()) };
    // SAFETY: `errno` is this thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nothing here returns to what set it before it is set back.
    let kept = unsafe { *errno };
    if !is_fault || !mend(address) {
        die(signal, is_fault);
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Puts zeros in the place of the page and all behind it in its mapping: of a file that was cut short, nothing of that
/// is left. False if the place is none of ours, or that cannot be done.
fn mend(address: usize) -> bool {
    for slot in &TABLE {
        let Some(end) = slot.end_around(address) else { continue };
        slot.torn.store(true, Ordering::Release);
        let page = address / PAGE.load(Ordering::Relaxed) * PAGE.load(Ordering::Relaxed);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = with_exposed_provenance_mut(page);
        // SAFETY: all of these pages belong to the slot's mapping, which lives: it is being read. What they held was
        // never written to.
        return unsafe { libc::mmap(place, end - page, libc::PROT_READ, flags, -1, 0) } != libc::MAP_FAILED;
    }
    false
}

/// As if there were no handler. A fault comes again as soon as it returns; a signal that was sent has to be sent again.
fn die(signal: libc::c_int, is_fault: bool) {
    // SAFETY: both may be called in a handler. The action is valid; the signal waits until the handler returns.
    unsafe {
        libc::sigaction(signal, &default_action(), null_mut());
        if !is_fault {
            libc::raise(signal);
        }
    }
}
