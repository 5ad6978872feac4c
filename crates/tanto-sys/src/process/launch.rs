//! The start of a process. Does not know what becomes of it.
//!
//! A child shares our memory, and we stand still, until it has become another program (`vfork`): what it costs does not
//! depend on how much memory we have. It is what `posix_spawn` does; but that asks for a stack each time, and for the
//! action of each signal and sets it, which took 35 of the 850 us that it takes to run `/bin/true`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null;

use rustix::process::{Resource, getrlimit};

use super::{Child, Environment, clone_into};
use crate::error::call_error;
use crate::process::namespaces::{Door, NamespaceEntry};
use crate::signals;

/// What a child becomes.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// `/bin/sh -c` with this line.
    Shell(&'a [u8]),
    /// The program that the first word names, with all of them as its arguments. Where the name has no slash, it is
    /// looked for in the `PATH` of the child's environment.
    Argv(&'a Argv),
}

/// A command in words.
#[derive(Default, Debug)]
pub struct Argv {
    /// Each with a NUL behind it, but for the last until it is ended.
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Argv {
    /// Forgets them all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Begins a word.
    pub fn begin(&mut self) {
        self.starts.push(self.bytes.len());
    }

    /// Adds to the word that was begun; not a NUL.
    pub fn push(&mut self, byte: u8) {
        assert!(byte != 0 && !self.starts.is_empty(), "a word is begun, and a NUL would end it");
        self.bytes.push(byte);
    }

    /// Ends the word that was begun.
    pub fn end(&mut self) {
        self.bytes.push(0);
    }

    /// The ended words.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.iter().map(|&start| self.word(start).to_bytes())
    }

    fn word(&self, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes[start..]).expect("the word was ended")
    }
}

/// Starts processes; holds what all of them need.
#[derive(Debug)]
pub struct Launcher {
    environment: Environment,
    /// The directories of `PATH`, each with a slash behind it; nothing for the one that we are in.
    directories: Vec<Vec<u8>>,
    stack: Box<[u128]>,
    /// Of control groups.
    entrances: Vec<RawFd>,
    /// The directory of a control group in which children are made; below 0: none.
    group: RawFd,
    /// What children get of our descriptors; below 0: nothing.
    handed_on: [RawFd; 2],
    /// To the namespaces that children live in.
    door: Option<Door>,
}

/// For a child, until it is another program: it calls a handful of functions, and a signal may come. Of such units as
/// a stack is aligned to.
const STACK: usize = (64 << 10) / size_of::<u128>();

impl Launcher {
    /// For children with this environment.
    pub fn new(environment: Environment) -> Launcher {
        let directory = |directory: &[u8]| match directory {
            b"" => Vec::new(),
            other => [other, b"/"].concat(),
        };
        let directories =
            environment.get(b"PATH").map_or(Vec::new(), |path| path.split(|&b| b == b':').map(directory).collect());
        let entrances = Vec::new();
        let stack = vec![0; STACK].into();
        Launcher { environment, directories, stack, entrances, group: -1, handed_on: [-1; 2], door: None }
    }

    /// What the children find in their environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Gives a name in it another value; not `PATH`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.set(name, value);
    }

    /// From now on children are in these control groups before they become other programs: in one of version 2, of which
    /// this is the directory, from the beginning; others, of which these are the files for it, they enter. One that they may
    /// not enter they leave alone. The files have to stay open until another call.
    pub fn enter(&mut self, entrances: &[File]) {
        let is_dir = |file: &&File| file.metadata().is_ok_and(|data| data.is_dir());
        let (dirs, files): (Vec<&File>, Vec<&File>) = entrances.iter().partition(is_dir);
        self.group = dirs.first().map_or(-1, |dir| dir.as_raw_fd());
        self.entrances = files.iter().map(|file| file.as_raw_fd()).collect();
    }

    /// From now on children keep these descriptors, which nobody else gets. They must stay open.
    pub fn hand_on(&mut self, descriptors: [RawFd; 2]) {
        self.handed_on = descriptors;
    }

    /// From now on children live in these namespaces, in the directory that is the root there; without any, in ours.
    /// They have to stay open until another call.
    pub fn shut_in(&mut self, entrance: Option<&NamespaceEntry>) {
        self.door = entrance.map(NamespaceEntry::door);
    }

    /// Starts a program in a process group of its own, with nothing to read and its output into one pipe.
    pub fn piped(&mut self, program: Program<'_>) -> io::Result<Child> {
        let (reader, writer) = io::pipe().map_err(|e| call_error("pipe", None, e))?;
        let pid = self.launch(program, Some(writer.as_raw_fd()))?;
        Ok(Child { pid, grouped: true, is_told: false, output: Some(reader), exit: None, ended: None })
    }

    /// Starts a program with our own input, output and process group: what is typed at the terminal, Ctrl-C included,
    /// reaches it too.
    pub fn console(&mut self, program: Program<'_>) -> io::Result<Child> {
        let pid = self.launch(program, None)?;
        Ok(Child { pid, grouped: false, is_told: false, output: None, exit: None, ended: None })
    }

    fn launch(&mut self, program: Program<'_>, output: Option<RawFd>) -> io::Result<libc::pid_t> {
        match program {
            Program::Shell(line) => {
                let (shell, line) = (c"/bin/sh", CString::new(line)?);
                let arguments = [shell.as_ptr(), c"-c".as_ptr(), line.as_ptr(), null()];
                self.become_one_of(&[shell.as_ptr(), null()], &arguments, output)
            }
            Program::Argv(words) => {
                let name = words.iter().next().ok_or(io::ErrorKind::InvalidInput)?;
                let paths = self.paths_of(name);
                let pointers: Vec<_> = paths.iter().map(|path| path.as_ptr()).chain([null()]).collect();
                let words = words.starts.iter().map(|&start| words.word(start).as_ptr());
                let arguments: Vec<_> = words.chain([null()]).collect();
                self.become_one_of(&pointers, &arguments, output)
            }
        }
    }

    /// Where a program of this name may be.
    fn paths_of(&self, name: &[u8]) -> Vec<CString> {
        let nowhere = [Vec::new()];
        let directories = if name.contains(&b'/') { &nowhere[..] } else { &self.directories[..] };
        // There is no NUL in what was in an environment, nor in a word.
        directories.iter().filter_map(|directory| CString::new([directory, name].concat()).ok()).collect()
    }

    /// A child becomes the first of these programs that is there. Both lists end with a null pointer.
    fn become_one_of(
        &mut self,
        paths: &[*const c_char],
        arguments: &[*const c_char],
        output: Option<RawFd>,
    ) -> io::Result<libc::pid_t> {
        let mut orders = Orders {
            paths: paths.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: self.environment.pointers(),
            output: output.unwrap_or(-1),
            entrances: self.entrances.as_ptr_range(),
            group: -1,
            handed_on: self.handed_on,
            door: self.door,
            inner: Inner { stack: self.stack[..STACK / 2].as_mut_ptr_range().end.cast(), pid: 0 },
            pipe_action: if signals::sigpipe_ignored_at_start() { libc::SIG_IGN } else { libc::SIG_DFL },
            signals: no_signals(),
            error: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        // SAFETY: the child runs on a stack that nobody else uses, and reads `orders` and what it points to, all of
        // which outlive the call: we stand still until the child is another program or gone. Meanwhile no handler of
        // ours runs in it: signals wait. Not that of a child's end, which nobody handles: where it waits, the kernel wakes
        // another thread for it, and else it does nothing at all.
        let pid = unsafe {
            let mut handled = no_signals();
            libc::sigfillset(&raw mut handled);
            libc::sigdelset(&raw mut handled, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const handled, &raw mut orders.signals);
            let mut pid = clone_into::clone(child, &mut self.stack, flags, self.group, (&raw mut orders).cast());
            if pid < 0 {
                orders.group = self.group;
                pid = libc::clone(child, top, flags, (&raw mut orders).cast());
            }
            let error = if pid < 0 { *libc::__errno_location() } else { (&raw const orders.error).read_volatile() };
            if pid > 0 && self.door.is_some() {
                libc::waitpid(pid, std::ptr::null_mut(), 0);
                pid = (&raw const orders.inner.pid).read_volatile();
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const orders.signals, std::ptr::null_mut());
            if error == 0 { Ok(pid) } else { Err((pid, error)) }
        };
        pid.map_err(|(pid, error)| {
            if pid > 0 {
                // SAFETY: it is our child, and ends without doing anything; null asks for no status.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            }
            call_error("posix_spawn", None, io::Error::from_raw_os_error(error))
        })
    }
}

/// The number of descriptors that children may take: some are left for whoever opens files meanwhile.
pub fn max_child_descriptors() -> RawFd {
    const OTHERS: u64 = 32;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    RawFd::try_from(limit - OTHERS.min(limit / 4)).unwrap_or(RawFd::MAX)
}

/// What a child is to do, and why it could not.
struct Orders {
    paths: *const *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Where its output goes; below 0: where ours does.
    output: RawFd,
    /// From the first to behind the last.
    entrances: Range<*const RawFd>,
    /// The directory of a control group that it is not in yet; below 0: none.
    group: RawFd,
    /// What is not to be closed at `exec`; below 0: nothing.
    handed_on: [RawFd; 2],
    /// To where it lives.
    door: Option<Door>,
    inner: Inner,
    /// What a broken pipe does to it. Rust's runtime ignores the signal, and `exec` would hand that on.
    pipe_action: libc::sighandler_t,
    /// Those that are blocked in it.
    signals: libc::sigset_t,
    error: c_int,
}

/// Whoever is to live elsewhere has numbers there from a process that was there before: a child makes it, as its own
/// sibling, and is gone.
struct Inner {
    /// Where its stack begins.
    stack: *mut c_void,
    /// Its number, once it was made.
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

/// The child, in our memory: it only makes calls to the system.
extern "C" fn child(orders: *mut c_void) -> c_int {
    let orders = orders.cast::<Orders>();
    // SAFETY: whoever made us waits, and all that the orders point to is there; `_exit` runs nothing of the parent's.
    unsafe {
        let error = if (*orders).door.is_some() { send_in(orders) } else { obey(&*orders) };
        if error != 0 {
            (&raw mut (*orders).error).write_volatile(error);
        }
        libc::_exit(127)
    }
}

/// Makes the process that does what is to be done, where it is to live; 0 if it was made.
///
/// # Safety
/// To be called in a child, with a stack that nobody else uses.
unsafe fn send_in(orders: *mut Orders) -> c_int {
    // SAFETY: as in `child`; the other one has a stack of its own, and we stand still until it is another program.
    unsafe {
        let error = (*orders).door.map_or(0, Door::number_children);
        if error != 0 {
            return error;
        }
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
        match libc::clone(inner, (*orders).inner.stack, flags, orders.cast()) {
            pid @ 0.. => {
                (&raw mut (*orders).inner.pid).write_volatile(pid);
                0
            }
            _ => *libc::__errno_location(),
        }
    }
}

/// The child that lives elsewhere.
extern "C" fn inner(orders: *mut c_void) -> c_int {
    let orders = orders.cast::<Orders>();
    // SAFETY: as in `child`.
    unsafe {
        let error = obey(&*orders);
        (&raw mut (*orders).error).write_volatile(error);
        libc::_exit(127)
    }
}

/// Comes back only with an error.
///
/// # Safety
/// To be called in a child, with lists that end with a null pointer.
unsafe fn obey(orders: &Orders) -> c_int {
    // SAFETY: calls to the system, with pointers that are valid by what the caller promises.
    unsafe {
        if orders.output >= 0 && !redirect(orders.output) {
            return *libc::__errno_location();
        }
        let mut entrance = orders.entrances.start;
        while entrance != orders.entrances.end {
            libc::write(*entrance, c"0".as_ptr().cast(), 1);
            entrance = entrance.add(1);
        }
        if orders.group >= 0 {
            let members = libc::openat(orders.group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            libc::write(members, c"0".as_ptr().cast(), 1);
            libc::close(members);
        }
        for kept in orders.handed_on {
            if kept >= 0 && libc::fcntl(kept, libc::F_SETFD, 0) < 0 {
                return *libc::__errno_location();
            }
        }
        if let Some(door) = orders.door {
            let error = door.pass();
            if error != 0 {
                return error;
            }
        }
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = orders.pipe_action;
        libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const orders.signals, std::ptr::null_mut());
        let mut path = orders.paths;
        while !(*path).is_null() {
            libc::execve(*path, orders.arguments, orders.environment);
            let error = *libc::__errno_location();
            if error != libc::ENOENT && error != libc::ENOTDIR {
                return error;
            }
            path = path.add(1);
        }
    }
    libc::ENOENT
}

/// A group of its own, input from nowhere, output and errors into this descriptor, which closes itself at `exec`.
///
/// # Safety
/// To be called in a child.
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
