//! Forking, and the signals, children and end of a forked process.

use std::fs::{self, File};
use std::io;

use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal};

use super::ExitStatus;
use crate::error::call_error;
use crate::signals::TERMINATION_SIGNALS;

/// This process is in that directory from then on, wherever that lies.
pub fn change_dir(dir: &File) -> io::Result<()> {
    rustix::process::fchdir(dir).map_err(|error| call_error("fchdir", None, error.into()))
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
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| call_error("prctl", None, error.into()))
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
        std::thread::park();
    }
}

/// Waits for the end of this child, and takes note of those of others.
pub fn wait_and_reap(child: u32) -> io::Result<ExitStatus> {
    loop {
        let ended = retry_on_intr(|| rustix::process::wait(WaitOptions::empty()));
        let ended = ended.map_err(|error| call_error("waitpid", None, error.into()))?;
        if let Some((pid, status)) = ended
            && pid.as_raw_pid().cast_unsigned() == child
        {
            return Ok(ExitStatus::of(status.as_raw()));
        }
    }
}
