//! Child processes: their output, their ends, what they used. Does not know what they are for.

use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::call_error;
use crate::process::procs::raw_pid;

mod clone_into;
pub mod detach;
pub mod entry;
mod environment;
mod launch;
pub mod lifecycle;
pub mod namespaces;
pub mod pid_identity;
pub mod procs;
pub mod reaper;

pub use environment::Environment;
pub use launch::{Argv, Launcher, Program, max_child_descriptors};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    /// It exited with this code (0..=255).
    Code(i32),
    /// This signal killed it.
    Killed {
        /// Which.
        signal: i32,
        /// It left a core file, or would have.
        dumped: bool,
    },
}

impl ExitStatus {
    /// From what the kernel says of a process that has ended.
    pub(crate) fn of(status: libc::c_int) -> ExitStatus {
        if libc::WIFEXITED(status) {
            ExitStatus::Code(libc::WEXITSTATUS(status))
        } else {
            ExitStatus::Killed { signal: libc::WTERMSIG(status), dumped: libc::WCOREDUMP(status) }
        }
    }
}

/// A process that is gone, and what it and those that it waited for used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitReport {
    /// How it ended.
    pub status: ExitStatus,
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one of them in KiB.
    pub max_rss_kib: u64,
    /// Read from disks, in bytes: what the page cache had does not count.
    pub read_bytes: u64,
    /// Written to files, in bytes, whether it has reached a disk or not.
    pub written_bytes: u64,
}

/// A child. Dropped before its end was seen it becomes nobody's: its owner waits for it.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    grouped: bool,
    /// Somebody else is its parent, and will tell how it ended.
    is_told: bool,
    output: Option<PipeReader>,
    exit: Option<OwnedFd>,
    ended: Option<ExitReport>,
}

impl Child {
    /// One that another process has made for us, in a process group of its own. How it ends has to be told (`end`).
    pub fn of_another(pid: u32, output: PipeReader) -> Child {
        let pid = libc::pid_t::try_from(pid).expect("the kernel's numbers of processes fit");
        Child { pid, grouped: true, is_told: true, output: Some(output), exit: None, ended: None }
    }

    /// It has ended so.
    pub fn end(&mut self, ended: ExitReport) {
        self.ended = Some(ended);
    }

    /// Its process id; free for others to have once its end was seen.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// The pipe with its output, until that has ended.
    pub fn output(&self) -> Option<&PipeReader> {
        self.output.as_ref()
    }

    /// Reads once from its output into `buffer`; 0 when the last process that had the other end is gone. Then the
    /// pipe is closed here too. Blocks if there is nothing yet.
    pub fn read_output(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = &mut self.output else { return Ok(0) };
        let length = loop {
            match pipe.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done.map_err(|e| call_error("read", None, e))?,
            }
        };
        if length == 0 {
            self.output = None;
        }
        Ok(length)
    }

    /// Closes our end of its output: what it writes from now on kills it, unless it minds.
    pub fn close_output(&mut self) {
        self.output = None;
    }

    /// A descriptor that is ready once the process has ended. Made at the first call: most children are waited for
    /// by the end of their output.
    pub fn exit_fd(&mut self) -> io::Result<RawFd> {
        if let Some(fd) = &self.exit {
            return Ok(fd.as_raw_fd());
        }
        // The child was not waited for, so that `pid` is its own (or the call fails).
        let fd = pidfd_open(raw_pid(self.pid()), PidfdFlags::empty())?;
        Ok(self.exit.insert(fd).as_raw_fd())
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitReport>> {
        self.wait4(libc::WNOHANG)
    }

    /// Waits for its end. Not for another's child.
    pub fn wait(&mut self) -> io::Result<ExitReport> {
        assert!(!self.is_told, "its own parent waits for it");
        loop {
            if let Some(ended) = self.wait4(0)? {
                return Ok(ended);
            }
        }
    }

    /// Sends a signal to its process group, if it has its own and has not ended.
    pub fn signal_group(&self, signal: i32) {
        if self.grouped
            && self.ended.is_none()
            && let Some(signal) = Signal::from_named_raw(signal)
        {
            // Fails for a zombie, whose group is gone.
            let _ = kill_process_group(raw_pid(self.pid()), signal);
        }
    }

    fn wait4(&mut self, flags: libc::c_int) -> io::Result<Option<ExitReport>> {
        if self.ended.is_some() || self.is_told {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: all-zero is a valid `rusage`: numbers only.
        let mut usage: libc::rusage = unsafe { MaybeUninit::zeroed().assume_init() };
        loop {
            // SAFETY: `pid` is our child and was not waited for; both places for the answer are valid.
            match unsafe { libc::wait4(self.pid, &raw mut status, flags, &raw mut usage) } {
                0 => return Ok(None),
                -1 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(call_error("waitpid", Some(self.pid.to_string().as_bytes()), error));
                    }
                }
                _ => break,
            }
        }
        self.ended = Some(ExitReport::from_raw(status, &usage));
        self.exit = None;
        Ok(self.ended)
    }
}

impl ExitReport {
    fn from_raw(status: libc::c_int, usage: &libc::rusage) -> ExitReport {
        ExitReport {
            status: ExitStatus::of(status),
            user_us: microseconds(&usage.ru_utime),
            system_us: microseconds(&usage.ru_stime),
            max_rss_kib: usage.ru_maxrss.unsigned_abs(),
            read_bytes: usage.ru_inblock.unsigned_abs() * BLOCK,
            written_bytes: usage.ru_oublock.unsigned_abs() * BLOCK,
        }
    }
}

/// What the kernel counts a process's reads and writes in, whatever the disk's blocks.
const BLOCK: u64 = 512;

fn microseconds(time: &libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs()
}

#[cfg(test)]
mod tests;
