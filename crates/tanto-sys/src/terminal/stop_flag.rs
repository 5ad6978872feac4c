//! Ctrl-Z: the signal by which a terminal asks for a halt, received as something to ask for, so that what stands on the
//! screen can be taken away first. Does not know what that is.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn received(_signal: libc::c_int) {
    CAME.store(true, Ordering::Release);
}

/// While one lives, the signal does not halt us; whoever has it must ask now and then, and halt. At most one lives.
pub struct StopFlag {
    before: libc::sigaction,
}

impl StopFlag {
    /// Begins to listen. None where the signal is ignored, or has another handler: then it is not ours to take.
    pub fn listen() -> Option<StopFlag> {
        let before = change(None)?;
        if before.sa_sigaction != libc::SIG_DFL {
            return None;
        }
        CAME.store(false, Ordering::Release);
        take_it();
        Some(StopFlag { before })
    }

    /// Has a halt been asked for?
    pub fn came(&self) -> bool {
        CAME.load(Ordering::Acquire)
    }

    /// Halts the process as the signal would have, and returns when it goes on.
    pub fn halt(&self) {
        change(Some(&self.before));
        // SAFETY: sends a signal to this thread, whose default action stops the process; touches no memory of ours.
        unsafe { libc::raise(libc::SIGTSTP) };
        CAME.store(false, Ordering::Release);
        take_it();
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        change(Some(&self.before));
        if self.came() {
            // SAFETY: as in `halt`.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
    }
}

fn take_it() {
    // SAFETY: all-zero is a valid `sigaction`: SIG_DFL and an empty set.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_flags = libc::SA_RESTART;
    action.sa_sigaction = received as extern "C" fn(libc::c_int) as libc::sighandler_t;
    change(Some(&action));
}

/// Sets the action, if there is one to set; returns that before.
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
    fn a_halt_is_asked_for_and_what_was_before_comes_back() {
        let action = || change(None).map(|action| action.sa_sigaction);
        let before = action();
        let halts = StopFlag::listen().expect("tests do not ignore it");
        assert!(!halts.came());
        // SAFETY: the handler is ours.
        unsafe { libc::raise(libc::SIGTSTP) };
        assert!(halts.came());
        // Nobody may halt the tests.
        CAME.store(false, Ordering::Release);
        drop(halts);
        assert_eq!(action(), before);
    }
}
