//! Forking, and the signals, children and end of a forked process.

use std::fs::{self, File};
use std::io;

use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal};

use super::ExitStatus;
use crate::error::call_error;
use crate::signals::TERMINATION_SIGNALS;

/// Changes the current directory.
pub fn change_dir(dir: &File) -> io::Result<()> {
    rustix::process::fchdir(dir).map_err(|error| call_error("fchdir", None, error.into()))
}

/// Forks; returns the child's process id, or `None` in the child. Fails if this process has several threads: a lock
/// held by another one would stay locked in the child.
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

/// Kills this process when its parent ends. A parent that has ended already goes unnoticed.
pub fn exit_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| call_error("prctl", None, error.into()))
}

/// Restores the default action of termination signals, or ignores them.
pub fn obey_termination_signals(obey: bool) {
    let action = if obey { libc::SIG_DFL } else { libc::SIG_IGN };
    for signal in TERMINATION_SIGNALS {
        // SAFETY: neither of the two is code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Lets children that end disappear without being waited for.
pub fn auto_reap_children() {
    // SAFETY: this is no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Sleeps until a signal ends this process.
pub fn pause_forever() -> ! {
    loop {
        std::thread::park();
    }
}

/// Waits for the end of a child, and reaps all other children that end meanwhile.
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
