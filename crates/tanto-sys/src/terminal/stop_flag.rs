//! Ctrl-Z as a flag, so that the live display can be erased before the process stops.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

static RECEIVED: AtomicBool = AtomicBool::new(false);

extern "C" fn received(_signal: libc::c_int) {
    RECEIVED.store(true, Ordering::Release);
}

/// While it exists, SIGTSTP sets a flag instead of stopping the process. The owner polls the flag and calls `halt`. At
/// most one may exist.
pub struct StopFlag {
    before: libc::sigaction,
}

impl StopFlag {
    /// Installs the handler. `None` if the signal is ignored or handled already.
    pub fn listen() -> Option<StopFlag> {
        let before = change(None)?;
        if before.sa_sigaction != libc::SIG_DFL {
            return None;
        }
        RECEIVED.store(false, Ordering::Release);
        install();
        Some(StopFlag { before })
    }

    /// Returns whether SIGTSTP was received.
    pub fn is_set(&self) -> bool {
        RECEIVED.load(Ordering::Acquire)
    }

    /// Stops the process and returns when it continues.
    pub fn stop(&self) {
        change(Some(&self.before));
        // SAFETY: sends a signal to this thread, whose default action stops the process; touches no memory of ours.
        unsafe { libc::raise(libc::SIGTSTP) };
        RECEIVED.store(false, Ordering::Release);
        install();
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        change(Some(&self.before));
        if self.is_set() {
            // SAFETY: as in `halt`.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
    }
}

fn install() {
    // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_flags = libc::SA_RESTART;
    action.sa_sigaction = received as extern "C" fn(libc::c_int) as libc::sighandler_t;
    change(Some(&action));
}

/// Returns the current action and sets a new one, if given.
fn change(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let action = action.map_or(null_mut::<libc::sigaction>().cast_const(), std::ptr::from_ref);
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` is null or valid, and its handler only sets an atomic; `before` is a place for the answer.
    let rc = unsafe { libc::sigaction(libc::SIGTSTP, action, before.as_mut_ptr()) };
    // SAFETY: the call succeeded and so has filled `before`.
    (rc == 0).then(|| unsafe { before.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigtstp_sets_the_flag_and_the_old_action_is_restored() {
        let action = || change(None).map(|action| action.sa_sigaction);
        let before = action();
        let flag = StopFlag::listen().expect("tests do not ignore it");
        assert!(!flag.is_set());
        // SAFETY: the handler is ours.
        unsafe { libc::raise(libc::SIGTSTP) };
        assert!(flag.is_set());
        // Do not stop the tests.
        RECEIVED.store(false, Ordering::Release);
        drop(flag);
        assert_eq!(action(), before);
    }
}
