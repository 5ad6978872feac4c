//! Starts processes.
//!
//! The child shares the parent's memory, and the parent is suspended, until the child calls `exec` (`vfork`), so the
//! cost does not depend on the size of the parent. `posix_spawn` does the same, but allocates a stack each time and
//! resets the action of each signal, which took 35 of the 850 us of running `/bin/true`.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null;

use rustix::process::{Resource, getrlimit};

use super::{Child, Environment, clone_into};
use crate::error::call_error;
use crate::process::namespaces::{BorrowedEntry, NamespaceEntry};
use crate::signals;

#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// `/bin/sh -c` with this line.
    Shell(&'a [u8]),
    /// The program named by the first argument. A name without a slash is searched in the `PATH` of the child's
    /// environment.
    Argv(&'a Argv),
}

/// The arguments of a command.
#[derive(Default, Debug)]
pub struct Argv {
    /// Each ends with a NUL, the last one once `end` was called.
    bytes: Vec<u8>,
    /// The offset of each argument.
    starts: Vec<usize>,
}

impl Argv {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Begins an argument.
    pub fn begin(&mut self) {
        self.starts.push(self.bytes.len());
    }

    /// Appends a byte, not a NUL, to the last argument.
    pub fn push(&mut self, byte: u8) {
        assert!(byte != 0 && !self.starts.is_empty(), "a word is begun, and a NUL would end it");
        self.bytes.push(byte);
    }

    /// Ends the last argument.
    pub fn end(&mut self) {
        self.bytes.push(0);
    }

    /// Iterates over the arguments.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.iter().map(|&start| self.word(start).to_bytes())
    }

    fn word(&self, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes[start..]).expect("the word was ended")
    }
}

/// Starts processes with common settings.
#[derive(Debug)]
pub struct Launcher {
    environment: Environment,
    /// The directories of `PATH`, each with a trailing slash; empty for the current directory.
    directories: Vec<Vec<u8>>,
    stack: Box<[u128]>,
    /// The `tasks` files of control groups.
    tasks_files: Vec<RawFd>,
    /// The directory of the control group of children; negative: none.
    group: RawFd,
    /// Descriptors that children inherit; negative: none.
    inherited: [RawFd; 2],
    /// The namespaces of children.
    namespaces: Option<BorrowedEntry>,
}

/// The child's stack until `exec`, in units of its alignment.
const STACK: usize = (64 << 10) / size_of::<u128>();

impl Launcher {
    pub fn new(environment: Environment) -> Launcher {
        let directory = |directory: &[u8]| match directory {
            b"" => Vec::new(),
            other => [other, b"/"].concat(),
        };
        let directories =
            environment.get(b"PATH").map_or(Vec::new(), |path| path.split(|&b| b == b':').map(directory).collect());
        let tasks_files = Vec::new();
        let stack = vec![0; STACK].into();
        Launcher { environment, directories, stack, tasks_files, group: -1, inherited: [-1; 2], namespaces: None }
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Sets a variable for children; not `PATH`.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.environment.set(name, value);
    }

    /// Removes a variable for children; not `PATH`.
    pub fn remove(&mut self, name: &str) {
        self.environment.remove(name);
    }

    /// Places future children in control groups: in the one whose directory is given from the start, in others by their
    /// `tasks` files. Groups that a child may not enter are skipped. The files must stay open until the next call.
    pub fn set_cgroups(&mut self, tasks_files: &[File]) {
        let is_dir = |file: &&File| file.metadata().is_ok_and(|data| data.is_dir());
        let (dirs, files): (Vec<&File>, Vec<&File>) = tasks_files.iter().partition(is_dir);
        self.group = dirs.first().map_or(-1, |dir| dir.as_raw_fd());
        self.tasks_files = files.iter().map(|file| file.as_raw_fd()).collect();
    }

    /// Lets future children inherit these descriptors, which must stay open.
    pub fn set_inherited_descriptors(&mut self, descriptors: [RawFd; 2]) {
        self.inherited = descriptors;
    }

    /// Places future children in these namespaces, in their root directory; `None`: in the namespaces of this process.
    /// They must exist until the next call.
    pub fn set_namespaces(&mut self, entrance: Option<&NamespaceEntry>) {
        self.namespaces = entrance.map(NamespaceEntry::borrow);
    }

    /// Starts a program in its own process group, with empty input and its output and errors in one pipe.
    pub fn spawn_piped(&mut self, program: Program<'_>) -> io::Result<Child> {
        let (reader, writer) = io::pipe().map_err(|e| call_error("pipe", None, e))?;
        let pid = self.launch(program, Some(writer.as_raw_fd()))?;
        Ok(Child { pid, grouped: true, has_other_parent: false, output: Some(reader), exit: None, ended: None })
    }

    /// Starts a program with the input, output and process group of this process, so that it gets terminal input and
    /// Ctrl-C.
    pub fn spawn_console(&mut self, program: Program<'_>) -> io::Result<Child> {
        let pid = self.launch(program, None)?;
        Ok(Child { pid, grouped: false, has_other_parent: false, output: None, exit: None, ended: None })
    }

    fn launch(&mut self, program: Program<'_>, output: Option<RawFd>) -> io::Result<libc::pid_t> {
        match program {
            Program::Shell(line) => {
                let (shell, line) = (c"/bin/sh", CString::new(line)?);
                let arguments = [shell.as_ptr(), c"-c".as_ptr(), line.as_ptr(), null()];
                self.spawn_first(&[shell.as_ptr(), null()], &arguments, output)
            }
            Program::Argv(words) => {
                let name = words.iter().next().ok_or(io::ErrorKind::InvalidInput)?;
                let paths = self.paths_of(name);
                let pointers: Vec<_> = paths.iter().map(|path| path.as_ptr()).chain([null()]).collect();
                let words = words.starts.iter().map(|&start| words.word(start).as_ptr());
                let arguments: Vec<_> = words.chain([null()]).collect();
                self.spawn_first(&pointers, &arguments, output)
            }
        }
    }

    /// Returns the candidate paths of a program.
    fn paths_of(&self, name: &[u8]) -> Vec<CString> {
        let nowhere = [Vec::new()];
        let directories = if name.contains(&b'/') { &nowhere[..] } else { &self.directories[..] };
        // Neither the environment nor arguments contain NULs.
        directories.iter().filter_map(|directory| CString::new([directory, name].concat()).ok()).collect()
    }

    /// Starts the first of these programs that exists. Both lists end with a null pointer.
    fn spawn_first(
        &mut self,
        paths: &[*const c_char],
        arguments: &[*const c_char],
        output: Option<RawFd>,
    ) -> io::Result<libc::pid_t> {
        let mut instructions = Instructions {
            paths: paths.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: self.environment.pointers(),
            output: output.unwrap_or(-1),
            tasks_files: self.tasks_files.as_ptr_range(),
            group: -1,
            inherited: self.inherited,
            namespaces: self.namespaces,
            inner: Inner { stack: self.stack[..STACK / 2].as_mut_ptr_range().end.cast(), pid: 0 },
            pipe_action: if signals::sigpipe_ignored_at_start() { libc::SIG_IGN } else { libc::SIG_DFL },
            signals: no_signals(),
            error: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        // SAFETY: nothing else uses the child's stack, and `instructions` and everything it points to outlive the call: this
        // thread is suspended until the child has called `exec` or ended. All handled signals are blocked meanwhile, so
        // no handler runs in the child. SIGCHLD is not blocked, since nothing handles it, and blocking it would make
        // the kernel wake another thread.
        let pid = unsafe {
            let mut handled = no_signals();
            libc::sigfillset(&raw mut handled);
            libc::sigdelset(&raw mut handled, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const handled, &raw mut instructions.signals);
            let mut pid = clone_into::clone(child, &mut self.stack, flags, self.group, (&raw mut instructions).cast());
            if pid < 0 {
                instructions.group = self.group;
                pid = libc::clone(child, top, flags, (&raw mut instructions).cast());
            }
            let error =
                if pid < 0 { *libc::__errno_location() } else { (&raw const instructions.error).read_volatile() };
            if pid > 0 && self.namespaces.is_some() {
                libc::waitpid(pid, std::ptr::null_mut(), 0);
                pid = (&raw const instructions.inner.pid).read_volatile();
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const instructions.signals, std::ptr::null_mut());
            if error == 0 { Ok(pid) } else { Err((pid, error)) }
        };
        pid.map_err(|(pid, error)| {
            if pid > 0 {
                // SAFETY: it is our child and exits without doing anything; null asks for no status.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            }
            call_error("posix_spawn", None, io::Error::from_raw_os_error(error))
        })
    }
}

/// Returns how many descriptors besides the standard ones every child inherits, because whoever started this process left
/// them open.
pub fn count_inheritable_descriptors() -> io::Result<usize> {
    let numbers =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_inheritable = |number: &RawFd| {
        // SAFETY: the call only reads a flag; a closed descriptor is an error.
        let flags = unsafe { libc::fcntl(*number, libc::F_GETFD) };
        *number > libc::STDERR_FILENO && flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    Ok(numbers.filter(is_inheritable).count())
}

/// Returns the number of descriptors that children may use up; some are left for other files.
pub fn max_child_descriptors() -> RawFd {
    const OTHERS: u64 = 32;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    RawFd::try_from(limit - OTHERS.min(limit / 4)).unwrap_or(RawFd::MAX)
}

/// Instructions for a child, and its error.
struct Instructions {
    paths: *const *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Descriptor for output and errors; negative: inherited.
    output: RawFd,
    /// The range of `tasks` files.
    tasks_files: Range<*const RawFd>,
    /// The directory of a control group that the child still has to enter; negative: none.
    group: RawFd,
    /// Descriptors without close-on-exec; negative: none.
    inherited: [RawFd; 2],
    /// The namespaces to enter.
    namespaces: Option<BorrowedEntry>,
    inner: Inner,
    /// The action for SIGPIPE. Rust's runtime ignores the signal, and `exec` would preserve that.
    pipe_action: libc::sighandler_t,
    /// The signal mask.
    signals: libc::sigset_t,
    error: c_int,
}

/// A process gets its ids in a PID namespace only from a parent that is already set to it: an intermediate child
/// creates it as its own sibling and exits.
struct Inner {
    /// The start of its stack.
    stack: *mut c_void,
    /// Its process id, once it exists.
    pid: libc::pid_t,
}

fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// The child, in the parent's memory. Makes only system calls.
extern "C" fn child(instructions: *mut c_void) -> c_int {
    let instructions = instructions.cast::<Instructions>();
    // SAFETY: the parent is suspended, and everything that `instructions` points to exists; `_exit` runs no code of the
    // parent.
    unsafe {
        let error =
            if (*instructions).namespaces.is_some() { spawn_inner(instructions) } else { carry_out(&*instructions) };
        if error != 0 {
            (&raw mut (*instructions).error).write_volatile(error);
        }
        libc::_exit(127)
    }
}

/// Creates the process in the PID namespace; returns 0 or an error number.
///
/// # Safety
///
/// Only for a child, with a stack that nothing else uses.
unsafe fn spawn_inner(instructions: *mut Instructions) -> c_int {
    // SAFETY: as in `child`; the other process has its own stack, and this one is suspended until its `exec`.
    unsafe {
        let error = (*instructions).namespaces.map_or(0, BorrowedEntry::set_children_pid_namespace);
        if error != 0 {
            return error;
        }
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
        match libc::clone(inner, (*instructions).inner.stack, flags, instructions.cast()) {
            pid @ 0.. => {
                (&raw mut (*instructions).inner.pid).write_volatile(pid);
                0
            }
            _ => *libc::__errno_location(),
        }
    }
}

/// The child inside the namespaces.
extern "C" fn inner(instructions: *mut c_void) -> c_int {
    let instructions = instructions.cast::<Instructions>();
    // SAFETY: as in `child`.
    unsafe {
        let error = carry_out(&*instructions);
        (&raw mut (*instructions).error).write_volatile(error);
        libc::_exit(127)
    }
}

/// Carries out the instructions; returns only with an error number.
///
/// # Safety
///
/// Only for a child, with null-terminated lists.
unsafe fn carry_out(instructions: &Instructions) -> c_int {
    // SAFETY: system calls with pointers that the caller guarantees to be valid.
    unsafe {
        if instructions.output >= 0 && !redirect(instructions.output) {
            return *libc::__errno_location();
        }
        let mut entrance = instructions.tasks_files.start;
        while entrance != instructions.tasks_files.end {
            libc::write(*entrance, c"0".as_ptr().cast(), 1);
            entrance = entrance.add(1);
        }
        if instructions.group >= 0 {
            let members = libc::openat(instructions.group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            libc::write(members, c"0".as_ptr().cast(), 1);
            libc::close(members);
        }
        for kept in instructions.inherited {
            if kept >= 0 && libc::fcntl(kept, libc::F_SETFD, 0) < 0 {
                return *libc::__errno_location();
            }
        }
        if let Some(namespaces) = instructions.namespaces {
            let error = namespaces.enter();
            if error != 0 {
                return error;
            }
        }
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = instructions.pipe_action;
        libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const instructions.signals, std::ptr::null_mut());
        let mut path = instructions.paths;
        while !(*path).is_null() {
            libc::execve(*path, instructions.arguments, instructions.environment);
            let error = *libc::__errno_location();
            if error != libc::ENOENT && error != libc::ENOTDIR {
                return error;
            }
            path = path.add(1);
        }
    }
    libc::ENOENT
}

/// Creates a process group and redirects input from `/dev/null` and output and errors to `output`, which closes at
/// `exec`.
///
/// # Safety
///
/// Only for a child.
unsafe fn redirect(output: RawFd) -> bool {
    // SAFETY: calls to the system; the path ends with a NUL.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::setpgid(0, 0) == 0
            && nothing >= 0
            && libc::dup2(nothing, 0) >= 0
            && libc::dup2(output, 1) >= 0
            && libc::dup2(output, 2) >= 0
    }
}
