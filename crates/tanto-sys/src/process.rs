//! Child processes.

use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::call_error;
use crate::process::procs::raw_pid;

mod clone_into;
pub mod confine;
pub mod detach;
pub mod entry;
mod environment;
mod launch;
pub mod lifecycle;
pub mod namespaces;
pub mod pid_identity;
pub mod procs;
mod program_search;
pub mod reaper;
mod seccomp;
pub mod traced;

pub use environment::Environment;
pub use launch::{Argv, Launcher, Program, count_inheritable_descriptors, max_child_descriptors};
pub use program_search::find_program;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    /// Exited with this code (0..=255).
    Code(i32),
    /// Killed by a signal.
    Killed {
        signal: i32,
        /// It dumped core, or would have.
        dumped: bool,
    },
}

impl ExitStatus {
    /// Decodes the status of `wait`.
    pub fn of(status: libc::c_int) -> ExitStatus {
        if libc::WIFEXITED(status) {
            ExitStatus::Code(libc::WEXITSTATUS(status))
        } else {
            ExitStatus::Killed { signal: libc::WTERMSIG(status), dumped: libc::WCOREDUMP(status) }
        }
    }
}

/// Exit status and resource usage of a process and its waited-for descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitReport {
    pub status: ExitStatus,
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one of the processes, in KiB.
    pub max_rss_kib: u64,
    /// Bytes read from disks, without hits in the page cache.
    pub read_bytes: u64,
    /// Bytes written to files, whether they have reached a disk or not.
    pub written_bytes: u64,
}

/// A child process. Wait for it before dropping it, or it stays a zombie.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    grouped: bool,
    /// It has another parent, which waits for it.
    has_other_parent: bool,
    output: Option<PipeReader>,
    exit: Option<OwnedFd>,
    ended: Option<ExitReport>,
}

impl Child {
    /// A process with another parent, which waits for it, in its own process group.
    pub fn with_other_parent(pid: u32, output: PipeReader) -> Child {
        let pid = libc::pid_t::try_from(pid).expect("the kernel's numbers of processes fit");
        Child { pid, grouped: true, has_other_parent: true, output: Some(output), exit: None, ended: None }
    }

    /// Returns the process id, which can be reused after the end was observed.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Returns the pipe with its output, until the output ends.
    pub fn output(&self) -> Option<&PipeReader> {
        self.output.as_ref()
    }

    /// Reads once from its output; 0 when all processes have closed their end, and then closes the pipe. Blocks if
    /// there is no output yet.
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

    /// Closes the pipe. Processes that write to it get SIGPIPE.
    pub fn close_output(&mut self) {
        self.output = None;
    }

    /// Returns a pidfd, which is readable once the process has ended. Created by the first call: for most children, the
    /// end of the output suffices.
    pub fn exit_fd(&mut self) -> io::Result<RawFd> {
        if let Some(fd) = &self.exit {
            return Ok(fd.as_raw_fd());
        }
        // The child was not waited for, so `pid` was not reused.
        let fd = pidfd_open(raw_pid(self.pid()), PidfdFlags::empty())?;
        Ok(self.exit.insert(fd).as_raw_fd())
    }

    /// Returns the exit report if the process has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitReport>> {
        self.wait4(libc::WNOHANG)
    }

    /// Waits for the end. Not for a process with another parent.
    pub fn wait(&mut self) -> io::Result<ExitReport> {
        assert!(!self.has_other_parent, "its own parent waits for it");
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
            // Fails for a zombie without a group.
            let _ = kill_process_group(raw_pid(self.pid()), signal);
        }
    }

    fn wait4(&mut self, flags: libc::c_int) -> io::Result<Option<ExitReport>> {
        if self.ended.is_some() || self.has_other_parent {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: all-zero is a valid `rusage`: numbers only.
        let mut usage: libc::rusage = unsafe { MaybeUninit::zeroed().assume_init() };
        loop {
            // SAFETY: `pid` is a child that was not waited for, and both results have room.
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

/// The kernel counts reads and writes in blocks of this size, on every disk.
const BLOCK: u64 = 512;

fn microseconds(time: &libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs()
}

#[cfg(test)]
mod tests;
