//! Forking, and the signals, children and end of a forked process.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

use super::ExitStatus;
use crate::error::call_error;
use crate::signals::TERMINATION_SIGNALS;

/// This process is in that directory from then on, wherever that lies.
pub fn change_dir(dir: &File) -> io::Result<()> {
    // SAFETY: touches no memory; the descriptor is open.
    match unsafe { libc::fchdir(dir.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(call_error("fchdir", None, io::Error::last_os_error())),
    }
}

/// Makes a copy of this process: its number, or nothing in the copy. Only for a process with one thread: another could
/// hold a lock that nobody would ever open in the copy.
pub fn fork() -> io::Result<Option<u32>> {
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(call_error("fork", None, io::Error::from_raw_os_error(libc::EBUSY)));
    }
    // SAFETY: there is no other thread.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        pid => u32::try_from(pid).map(Some).map_err(|_| call_error("fork", None, io::Error::last_os_error())),
    }
}

/// When the process that has made this one ends, so does this one. A parent that had ended before is not noticed.
pub fn exit_with_parent() -> io::Result<()> {
    // SAFETY: takes a number only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(call_error("prctl", None, io::Error::last_os_error())),
    }
}

/// The endings do nothing to this process from now on, or what they usually do.
pub fn obey_termination_signals(obey: bool) {
    let action = if obey { libc::SIG_DFL } else { libc::SIG_IGN };
    for signal in TERMINATION_SIGNALS {
        // SAFETY: neither of the two is code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Children of this process that end are gone at once, and nobody waits for them.
pub fn auto_reap_children() {
    // SAFETY: this is no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Does nothing more, until a signal ends this process.
pub fn pause_forever() -> ! {
    loop {
        // SAFETY: touches no memory.
        unsafe { libc::pause() };
    }
}

/// Waits for the end of this child, and takes note of those of others.
pub fn wait_and_reap(child: u32) -> io::Result<ExitStatus> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a place for the answer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(call_error("waitpid", None, error));
            }
        } else if u32::try_from(pid) == Ok(child) {
            return Ok(ExitStatus::of(status));
        }
    }
}
