//! Child processes that run a shell's line. Does not know what the line is for.

use std::ffi::{CString, OsString};
use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr::null;

use crate::error::refused;
use crate::signals;

/// What children find in their environment.
#[derive(Debug)]
pub struct Environment {
    /// `NAME=value` each.
    strings: Vec<CString>,
}

impl Environment {
    /// This process's, as it is now, with these names set. A name or value with a NUL byte is left out.
    pub fn ours_and(extra: &[(OsString, OsString)]) -> Environment {
        let is_extra = |name: &OsString| extra.iter().any(|(n, _)| n == name);
        let ours = std::env::vars_os().filter(|(name, _)| !is_extra(name));
        let strings = ours.chain(extra.iter().cloned()).filter_map(|(name, value)| {
            let mut string = name.into_vec();
            string.push(b'=');
            string.extend_from_slice(&value.into_vec());
            CString::new(string).ok()
        });
        Environment { strings: strings.collect() }
    }

    /// As `posix_spawn` wants it; lives no longer than the strings.
    fn pointers(&self) -> Vec<*mut libc::c_char> {
        self.strings.iter().map(|s| s.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
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

/// A process that is gone, and what it and those that it waited for used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: Status,
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
    output: Option<PipeReader>,
    exit: Option<OwnedFd>,
    ended: Option<Ended>,
}

/// Runs `/bin/sh -c line` in a process group of its own, with nothing to read and its output into one pipe.
pub fn spawn_piped(line: &[u8], environment: &Environment) -> io::Result<Child> {
    let (reader, writer) = io::pipe().map_err(|e| refused("pipe", None, e))?;
    let mut plan = SpawnPlan::new()?;
    plan.pipe_output(writer.as_raw_fd())?;
    let pid = plan.spawn(line, environment, libc::POSIX_SPAWN_SETPGROUP)?;
    Ok(Child { pid, grouped: true, output: Some(reader), exit: None, ended: None })
}

/// Runs `/bin/sh -c line` with our own input, output and process group: what is typed at the terminal, Ctrl-C
/// included, reaches it too.
pub fn spawn_console(line: &[u8], environment: &Environment) -> io::Result<Child> {
    let pid = SpawnPlan::new()?.spawn(line, environment, 0)?;
    Ok(Child { pid, grouped: false, output: None, exit: None, ended: None })
}

impl Child {
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
                done => break done.map_err(|e| refused("read", None, e))?,
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
        // SAFETY: the child was not waited for (or the call fails), so that `pid` is its; no memory is touched.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        let Ok(fd @ 0..) = RawFd::try_from(fd) else { return Err(io::Error::last_os_error()) };
        // SAFETY: the call succeeded, so `fd` is open and ours alone.
        self.exit = Some(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(fd)
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        self.wait4(libc::WNOHANG)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.wait4(0)? {
                return Ok(ended);
            }
        }
    }

    /// Sends a signal to its process group, if it has its own and has not ended.
    pub fn signal_group(&self, signal: i32) {
        if self.grouped && self.ended.is_none() {
            // It may be a zombie, whose group is gone: then there is nobody to tell.
            // SAFETY: the child was not waited for, so that the group's number is its; no memory is touched.
            unsafe { libc::kill(-self.pid, signal) };
        }
    }

    fn wait4(&mut self, flags: libc::c_int) -> io::Result<Option<Ended>> {
        if self.ended.is_some() {
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
                        return Err(refused("waitpid", Some(self.pid.to_string().as_bytes()), error));
                    }
                }
                _ => break,
            }
        }
        self.ended = Some(Ended::from_raw(status, &usage));
        self.exit = None;
        Ok(self.ended)
    }
}

impl Ended {
    fn from_raw(status: libc::c_int, usage: &libc::rusage) -> Ended {
        let status = if libc::WIFEXITED(status) {
            Status::Code(libc::WEXITSTATUS(status))
        } else {
            Status::Killed { signal: libc::WTERMSIG(status), dumped: libc::WCOREDUMP(status) }
        };
        Ended {
            status,
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

/// What the child does before it becomes the shell.
struct SpawnPlan {
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
}

/// `posix_spawn` and its kin return their error.
fn checked(call: &'static str, code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(refused(call, None, io::Error::from_raw_os_error(code))),
    }
}

impl SpawnPlan {
    fn new() -> io::Result<SpawnPlan> {
        let mut actions = MaybeUninit::uninit();
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: each `init` gets a place for its kind of object.
        unsafe {
            checked("posix_spawn_file_actions_init", libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            let code = libc::posix_spawnattr_init(attributes.as_mut_ptr());
            if code != 0 {
                libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
            }
            checked("posix_spawnattr_init", code)?;
            Ok(SpawnPlan { actions: actions.assume_init(), attributes: attributes.assume_init() })
        }
    }

    /// Input from nowhere; output and errors into this descriptor, which closes itself at `exec`.
    fn pipe_output(&mut self, writer: RawFd) -> io::Result<()> {
        let actions = &raw mut self.actions;
        let null_device = c"/dev/null".as_ptr();
        // SAFETY: `actions` was initialised; the path is copied.
        let code = unsafe { libc::posix_spawn_file_actions_addopen(actions, 0, null_device, libc::O_RDONLY, 0) };
        checked("posix_spawn_file_actions_addopen", code)?;
        for fd in [1, 2] {
            // SAFETY: `actions` was initialised.
            let code = unsafe { libc::posix_spawn_file_actions_adddup2(actions, writer, fd) };
            checked("posix_spawn_file_actions_adddup2", code)?;
        }
        Ok(())
    }

    fn spawn(&mut self, line: &[u8], environment: &Environment, flags: libc::c_int) -> io::Result<libc::pid_t> {
        let line = CString::new(line)?;
        let shell = c"/bin/sh".as_ptr();
        let arguments = [shell, c"-c".as_ptr(), line.as_ptr(), null()];
        let environment = environment.pointers();
        self.set_attributes(flags)?;
        let mut pid = 0;
        // SAFETY: plan and attributes were initialised; both arrays end with a null pointer, and they and what they
        // point to outlive the call, which copies them into the new program and changes nothing here.
        let code = unsafe {
            let arguments = arguments.as_ptr().cast::<*mut libc::c_char>();
            libc::posix_spawn(&raw mut pid, shell, &self.actions, &self.attributes, arguments, environment.as_ptr())
        };
        checked("posix_spawn", code)?;
        Ok(pid)
    }

    /// The default action on a broken pipe goes to the child, unless we were started without it: Rust's runtime
    /// ignores the signal, and `exec` would hand that on.
    fn set_attributes(&mut self, mut flags: libc::c_int) -> io::Result<()> {
        let mut defaults = MaybeUninit::uninit();
        if !signals::pipe_ignored_at_start() {
            flags |= libc::POSIX_SPAWN_SETSIGDEF;
        }
        let flags = libc::c_short::try_from(flags).expect("the flags are small");
        // SAFETY: `sigemptyset` initialises the set; the attributes were initialised by `new`.
        unsafe {
            libc::sigemptyset(defaults.as_mut_ptr());
            libc::sigaddset(defaults.as_mut_ptr(), libc::SIGPIPE);
            checked(
                "posix_spawnattr_setsigdefault",
                libc::posix_spawnattr_setsigdefault(&raw mut self.attributes, defaults.as_ptr()),
            )?;
            checked("posix_spawnattr_setflags", libc::posix_spawnattr_setflags(&raw mut self.attributes, flags))
        }
    }
}

impl Drop for SpawnPlan {
    fn drop(&mut self) {
        // SAFETY: both were initialised by `new` and are not used again.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&raw mut self.actions);
            libc::posix_spawnattr_destroy(&raw mut self.attributes);
        }
    }
}

#[cfg(test)]
mod tests;
