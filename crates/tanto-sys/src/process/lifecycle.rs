//! Forking, and the signals, children and end of a forked process.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use rustix::io::retry_on_intr;
use rustix::process::{Resource, Rlimit, Signal, WaitOptions, set_parent_process_death_signal, setrlimit};

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

/// Keeps all signals from this process. Returns the signal mask of before.
pub(super) fn block_signals() -> libc::sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises the set, and `pthread_sigmask` the other one.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Ends this process by a signal, without a core file. Returns if the signal does not end processes.
pub fn die_of(signal: i32) {
    let limit = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, limit);
    // SAFETY: the set is initialised, and the default action is no code of ours.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Leaves the session, and replaces the standard descriptors by `/dev/null`.
pub fn leave_session() -> io::Result<()> {
    let nothing = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for number in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: nothing owns the standard descriptors.
        if unsafe { libc::dup2(nothing.as_raw_fd(), number) } < 0 {
            return Err(call_error("dup2", None, io::Error::last_os_error()));
        }
    }
    // Fails only for the leader of a process group.
    let _ = rustix::process::setsid();
    Ok(())
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
