//! Termination signals as a pollable event.
//!
//! The handler writes to an eventfd. A blocked mask with `signalfd` would be per thread: a thread without it would take
//! the signal and end the program. Handlers belong to the process, and `exec` resets them, so children have the default
//! action even if this process ignores a signal (`nohup`).

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

pub const TERMINATION_SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first pending signal; 0: none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// The eventfd. It is never closed, since the handler can run at any time.
static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
/// The number of listeners and the actions before the first of them.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { count: 0, before: None });

struct Listeners {
    count: usize,
    before: Option<[libc::sigaction; 4]>,
}

/// While one exists, termination signals are recorded and do not end the process. A signal that was not taken takes
/// effect when the last listener is dropped, so none is lost.
#[derive(Debug)]
pub struct TerminationSignals {
    _private: (),
}

impl TerminationSignals {
    pub fn listen() -> io::Result<TerminationSignals> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        if EVENT_FD.load(Ordering::Relaxed) < 0 {
            EVENT_FD.store(event_fd()?, Ordering::Release);
        }
        if listeners.before.is_none() {
            listeners.before = Some(install()?);
        }
        listeners.count += 1;
        Ok(TerminationSignals { _private: () })
    }

    /// Returns whether a signal is pending. True as soon as the handler has run, possibly before a wait reports the
    /// eventfd as ready.
    pub fn is_pending(&self) -> bool {
        RECEIVED.load(Ordering::Acquire) != 0
    }

    /// Returns and clears the first pending signal.
    pub fn take(&self) -> Option<i32> {
        let mut count = [0_u8; 8];
        // The eventfd first: a signal in between makes it ready again. SAFETY: the descriptor stays open and does not
        // block; `count` has room for eight bytes.
        unsafe { libc::read(EVENT_FD.load(Ordering::Acquire), count.as_mut_ptr().cast(), count.len()) };
        match RECEIVED.swap(0, Ordering::AcqRel) {
            0 => None,
            signal => Some(signal),
        }
    }
}

impl AsRawFd for TerminationSignals {
    /// Readable when a signal may be pending.
    fn as_raw_fd(&self) -> RawFd {
        EVENT_FD.load(Ordering::Acquire)
    }
}

impl Drop for TerminationSignals {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.count -= 1;
        if listeners.count > 0 {
            return;
        }
        if let Some(before) = listeners.before.take() {
            restore(&before);
        }
        drop(listeners);
        if let Some(signal) = self.take() {
            // SAFETY: sends a signal to this thread; touches no memory.
            unsafe { libc::raise(signal) };
        }
    }
}

/// The handler. Uses only atomics and `write`, and preserves `errno`.
extern "C" fn received(signal: libc::c_int) {
    let _ = RECEIVED.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Relaxed);
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `errno` is this thread's; `write` may be called in a handler and reads the eight bytes of `one`.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        libc::write(EVENT_FD.load(Ordering::Acquire), one.as_ptr().cast(), one.len());
        *errno = kept;
    }
}

fn event_fd() -> io::Result<RawFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into_raw_fd())
}

/// Termination signals and SIGCHLD: if that is ignored, children leave no exit status.
const CHANGED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD];

/// Installs the actions; returns the previous ones in the order of `CHANGED`.
fn install() -> io::Result<[libc::sigaction; 4]> {
    let mut before = [empty_action(); 4];
    for (index, &signal) in CHANGED.iter().enumerate() {
        let mut action = empty_action();
        action.sa_flags = libc::SA_RESTART;
        if signal != libc::SIGCHLD {
            action.sa_sigaction = received as extern "C" fn(libc::c_int) as libc::sighandler_t;
        }
        if let Err(error) = set_action(signal, &action, &raw mut before[index]) {
            restore(&before[..index]);
            return Err(error);
        }
    }
    Ok(before)
}

fn restore(before: &[libc::sigaction]) {
    for (&signal, action) in CHANGED.iter().zip(before) {
        set_action(signal, action, null_mut()).expect("an action that was set before can be set again");
    }
}

/// The default action, no flags, an empty mask.
fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn set_action(signal: i32, action: &libc::sigaction, before: *mut libc::sigaction) -> io::Result<()> {
    // SAFETY: `action` is valid, its handler async-signal-safe; `before` is null or a place for the answer.
    match unsafe { libc::sigaction(signal, action, before) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether SIGPIPE was ignored when the program started. Rust's runtime, as in tests, ignores it later.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Called by the dynamic loader before the runtime starts.
extern "C" fn remember_pipe() {
    let mut now = empty_action();
    // SAFETY: a null action only asks; `now` is a place for the answer.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut now) };
    PIPE_IGNORED.store(now.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

// SAFETY: functions in this section are called without arguments before `main`, and this one needs nothing that is
// initialized later.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = remember_pipe;

/// Returns whether the program was started with SIGPIPE ignored, as services often are. Children inherit that.
pub fn sigpipe_ignored_at_start() -> bool {
    PIPE_IGNORED.load(Ordering::Relaxed)
}

/// Lets writes to closed connections fail, which otherwise end this process. Children that are launched have the action
/// that it had at its start.
pub fn ignore_sigpipe() -> io::Result<()> {
    let mut action = empty_action();
    action.sa_sigaction = libc::SIG_IGN;
    set_action(libc::SIGPIPE, &action, null_mut())
}

/// Returns the system's description of a signal: `Segmentation fault`.
pub fn description(signal: i32) -> Vec<u8> {
    // SAFETY: the answer is a C string that stays as it is until this thread asks again.
    unsafe { CStr::from_ptr(libc::strsignal(signal)) }.to_bytes().to_vec()
}

/// Returns whether shells print no message for a command killed by this signal: Ctrl-C and SIGPIPE.
pub fn is_silent(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGPIPE)
}

pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    Ok(kill_process(pid, signal)?)
}
