//! Namespaces of processes.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::error::call_error;
use crate::process::procs;
use crate::user;

/// A kind of namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespace {
    /// Mount points.
    Mounts,
    /// Process ids; applies to children, not to the process itself.
    Processes,
    /// Network devices, initially only the loopback.
    Network,
    /// Shared memory and semaphores.
    Ipc,
    /// Host name.
    Names,
}

impl Namespace {
    fn flag(self) -> libc::c_int {
        match self {
            Namespace::Mounts => libc::CLONE_NEWNS,
            Namespace::Processes => libc::CLONE_NEWPID,
            Namespace::Network => libc::CLONE_NEWNET,
            Namespace::Ipc => libc::CLONE_NEWIPC,
            Namespace::Names => libc::CLONE_NEWUTS,
        }
    }
}

/// Moves this process to new namespaces.
pub fn unshare(namespaces: &[Namespace]) -> io::Result<()> {
    unshare_flags(namespaces.iter().fold(0, |flags, namespace| flags | namespace.flag()))
}

/// Moves this process to new namespaces and a new user namespace, in which only its own user exists, as root. Call it
/// while there is one thread.
pub fn unshare_as_root(namespaces: &[Namespace]) -> io::Result<()> {
    let (user, group) = (user::effective(), rustix::process::getegid().as_raw());
    unshare_flags(namespaces.iter().fold(libc::CLONE_NEWUSER, |flags, namespace| flags | namespace.flag()))?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|error| call_error("write", Some(path.as_bytes()), error))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

fn unshare_flags(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: touches no memory.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(call_error("unshare", None, io::Error::last_os_error())),
    }
}

/// Brings up the loopback device in this process's network namespace.
pub fn bring_up_loopback() -> io::Result<()> {
    // SAFETY: all-zero is a valid request; its name ends with a NUL, and it outlives the calls. The descriptor is ours.
    let rc = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let rc = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        rc
    };
    if rc == 0 { Ok(()) } else { Err(call_error("ioctl", Some(b"lo"), io::Error::last_os_error())) }
}

/// Drops capabilities that no build needs, for this process and its descendants: mounts, devices, modules, the clock,
/// network administration, other processes.
pub fn drop_capabilities() -> io::Result<()> {
    match drop_all() {
        0 => Ok(()),
        error => Err(call_error("prctl", None, io::Error::from_raw_os_error(error))),
    }
}

/// Async-signal-safe; returns an error number, or 0.
fn drop_all() -> libc::c_int {
    for capability in (0..=LAST_CAPABILITY).filter(|capability| !KEPT.contains(capability)) {
        // SAFETY: takes a number only, and what is read of the error is this thread's.
        let error = unsafe {
            match libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) {
                0 => 0,
                _ => *libc::__errno_location(),
            }
        };
        // Unknown to this kernel.
        if error != 0 && error != libc::EINVAL {
            return error;
        }
    }
    0
}

/// A handle to enter the namespaces of another process.
#[derive(Debug)]
pub struct NamespaceEntry(OwnedFd);

/// Namespaces that a process enters itself; its PID namespace is set by its parent.
const ENTERED_DIRECTLY: libc::c_int = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl NamespaceEntry {
    /// Opens the namespaces of a process. They exist as long as it does.
    pub fn open(pid: u32) -> io::Result<NamespaceEntry> {
        let handle = procs::pidfd(pid).ok_or_else(|| call_error("pidfd_open", None, io::Error::last_os_error()))?;
        Ok(NamespaceEntry(handle))
    }

    pub(crate) fn borrow(&self) -> BorrowedEntry {
        BorrowedEntry(self.0.as_raw_fd())
    }
}

/// A borrowed entry. Its methods are async-signal-safe and return an error number, or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BorrowedEntry(RawFd);

impl BorrowedEntry {
    /// Sets the PID namespace of future children.
    pub(crate) fn set_children_pid_namespace(self) -> libc::c_int {
        set(self.0, libc::CLONE_NEWPID)
    }

    /// Enters the namespaces and drops capabilities.
    pub(crate) fn enter(self) -> libc::c_int {
        match set(self.0, ENTERED_DIRECTLY) {
            0 => drop_all(),
            error => error,
        }
    }
}

fn set(handle: RawFd, namespaces: libc::c_int) -> libc::c_int {
    // SAFETY: touches no memory; what is read of the error is this thread's.
    unsafe {
        match libc::setns(handle, namespaces) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

const LAST_CAPABILITY: libc::c_ulong = 63;
/// Capabilities that affect only the sandbox, by their numbers: chown (0), dac_override and dac_read_search (1, 2),
/// fowner and fsetid (3, 4), kill (5), setgid, setuid and setpcap (6, 7, 8), net_bind_service (10), sys_chroot (18),
/// setfcap (31).
const KEPT: [libc::c_ulong; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 18, 31];
