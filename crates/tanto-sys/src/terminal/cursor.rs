//! Restores the cursor when a signal ends the program while it is hidden.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};

/// Ends the synchronized update, enables line wrapping, shows the cursor, and erases everything after it.
const RESTORE: &[u8] = b"\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[J";

/// Signals that end the program at once: `abort` (also in a panic) and Ctrl-\.
const SIGNALS: [i32; 2] = [libc::SIGABRT, libc::SIGQUIT];

/// The terminal's descriptor; -1: none.
static TERMINAL: AtomicI32 = AtomicI32::new(-1);

/// While it exists, signals that end the program restore the cursor first. At most one may exist.
pub struct CursorGuard {
    /// The previous actions, where they were replaced.
    before: [Option<libc::sigaction>; 2],
    _terminal: File,
}

impl CursorGuard {
    /// Installs handlers, except for signals that are ignored or handled already.
    pub fn begin(terminal: File) -> CursorGuard {
        TERMINAL.store(terminal.as_raw_fd(), Ordering::Release);
        // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER;
        action.sa_sigaction = received as extern "C" fn(libc::c_int) as libc::sighandler_t;
        let take = |signal| {
            let before = change(signal, None).filter(|before| before.sa_sigaction == libc::SIG_DFL)?;
            change(signal, Some(&action)).map(|_| before)
        };
        CursorGuard { before: SIGNALS.map(take), _terminal: terminal }
    }
}

impl Drop for CursorGuard {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.into_iter().zip(&self.before) {
            if let Some(before) = before {
                change(signal, Some(before));
            }
        }
        TERMINAL.store(-1, Ordering::Release);
    }
}

/// The action is already reset when this is called.
extern "C" fn received(signal: libc::c_int) {
    // SAFETY: both calls may be made in a handler; `RESTORE` is valid for its length.
    unsafe {
        libc::write(TERMINAL.load(Ordering::Acquire), RESTORE.as_ptr().cast(), RESTORE.len());
        libc::raise(signal);
    }
}

/// Returns the current action and sets a new one, if given.
fn change(signal: i32, action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let action = action.map_or(null(), std::ptr::from_ref);
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` is null or valid, and its handler makes only calls that a handler may make; `before` is a place for
    // the answer.
    let rc = unsafe { libc::sigaction(signal, action, before.as_mut_ptr()) };
    // SAFETY: the call succeeded and so has filled `before`.
    (rc == 0).then(|| unsafe { before.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_shows_the_cursor_and_still_ends_the_program() {
        use std::io::{Read, Seek};
        let mut file = crate::fs::file::unnamed_temp_file(&std::env::temp_dir()).unwrap();
        let rescue = CursorGuard::begin(file.try_clone().unwrap());
        // SAFETY: the child only makes calls that may follow a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::raise(libc::SIGQUIT);
                libc::_exit(0);
            }
        }
        let mut status = 0;
        // SAFETY: `status` is a place for the answer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGQUIT);
        drop(rescue);
        let mut written = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut written).unwrap();
        assert_eq!(written, RESTORE);
        let now = change(libc::SIGQUIT, None).unwrap();
        assert_eq!(now.sa_sigaction, libc::SIG_DFL);
    }
}
