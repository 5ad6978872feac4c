//! The signals by which a user or a supervisor asks for an end, received as something to poll. Does not know what is
//! ended.
//!
//! A handler that writes to an event descriptor, not a blocked mask with `signalfd`: a mask is each thread's own, and
//! a thread that nobody thought of would take the signal and end the program. Handlers belong to the process, and
//! `exec` resets them, so that a child has the default action even where ours was told to ignore it (`nohup`).

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

/// The signals that end a build.
pub const TERMINATION_SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first ending that came and nobody has taken; 0: none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// Where the handler says that something came. Once made it stays open: a handler may run at any time.
static BELL: AtomicI32 = AtomicI32::new(-1);
/// How many listen, and what was set before the first of them.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { count: 0, before: None });

struct Listeners {
    count: usize,
    before: Option<[libc::sigaction; 4]>,
}

/// While one of these lives, the endings are received here and don't end the process. An ending that nobody took
/// takes effect when the last listener goes, so that none is lost between two.
#[derive(Debug)]
pub struct TerminationSignals {
    _private: (),
}

impl TerminationSignals {
    /// Begins to listen.
    pub fn listen() -> io::Result<TerminationSignals> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        if BELL.load(Ordering::Relaxed) < 0 {
            BELL.store(bell()?, Ordering::Release);
        }
        if listeners.before.is_none() {
            listeners.before = Some(install()?);
        }
        listeners.count += 1;
        Ok(TerminationSignals { _private: () })
    }

    /// Has an ending come that nobody has taken? True as soon as the handler has run, when a wait that it broke off may
    /// have found other things and not yet the bell.
    pub fn came(&self) -> bool {
        RECEIVED.load(Ordering::Acquire) != 0
    }

    /// The ending that came first since the last call, if one did.
    pub fn take(&self) -> Option<i32> {
        let mut count = [0_u8; 8];
        // In this order: what comes in between rings again, and is found by the next call or by this one.
        // SAFETY: the descriptor stays open and does not block; eight bytes are asked for, `count` holds them.
        unsafe { libc::read(BELL.load(Ordering::Acquire), count.as_mut_ptr().cast(), count.len()) };
        match RECEIVED.swap(0, Ordering::AcqRel) {
            0 => None,
            signal => Some(signal),
        }
    }
}

impl AsRawFd for TerminationSignals {
    /// Readable when something may have come.
    fn as_raw_fd(&self) -> RawFd {
        BELL.load(Ordering::Acquire)
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
            // SAFETY: sends a signal to this thread; touches no memory of ours.
            unsafe { libc::raise(signal) };
        }
    }
}

/// Runs in the midst of anything: only atomics and `write`, and `errno` is left as it was.
extern "C" fn received(signal: libc::c_int) {
    let _ = RECEIVED.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Relaxed);
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `errno` is this thread's; `write` may be called in a handler and reads the eight bytes of `one`.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        libc::write(BELL.load(Ordering::Acquire), one.as_ptr().cast(), one.len());
        *errno = kept;
    }
}

fn bell() -> io::Result<RawFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into_raw_fd())
}

/// The endings, and the news of a child's end: where that is ignored, a child leaves no exit status.
const CHANGED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD];

/// Sets our actions; returns those before, in the order of `CHANGED`.
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

/// Whether SIGPIPE was ignored when the program began. In programs with Rust's runtime, such as tests, it always is later.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Called by the dynamic loader before the runtime begins.
extern "C" fn remember_pipe() {
    let mut now = empty_action();
    // SAFETY: a null action only asks; `now` is a place for the answer.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut now) };
    PIPE_IGNORED.store(now.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that are called without need of arguments before `main`, and this
// one uses nothing that is not there yet.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = remember_pipe;

/// Whether the program was started with broken pipes ignored, as services often are. Children are given the same.
pub fn sigpipe_ignored_at_start() -> bool {
    PIPE_IGNORED.load(Ordering::Relaxed)
}

/// What the system calls a signal: `Segmentation fault`.
pub fn description(signal: i32) -> Vec<u8> {
    // SAFETY: the answer is a C string that stays as it is until this thread asks again.
    unsafe { CStr::from_ptr(libc::strsignal(signal)) }.to_bytes().to_vec()
}

/// Is it one of which shells say nothing when it ends a command: the user's Ctrl-C, or a reader who has gone?
pub fn is_silent(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGPIPE)
}

/// Sends a signal to a process of ours.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    Ok(kill_process(pid, signal)?)
}
