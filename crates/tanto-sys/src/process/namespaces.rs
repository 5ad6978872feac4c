//! Namespaces: what a process and those below it see of the machine. Does not know why they should not see the rest.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::error::call_error;
use crate::process::procs;
use crate::user;

/// What a process can have for itself and those below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespace {
    /// What is mounted where.
    Mounts,
    /// The numbers of processes: not for itself, but for those that it starts from then on.
    Processes,
    /// Network devices, of which there is only the loopback.
    Network,
    /// Shared memory and semaphores.
    Ipc,
    /// The machine's name.
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

/// This process gets these for itself.
pub fn unshare(spaces: &[Namespace]) -> io::Result<()> {
    unshare_flags(spaces.iter().fold(0, |flags, space| flags | space.flag()))
}

/// This process may do in its own namespaces what root may: it gets one of users, in which only its own user is, as
/// root, and those of `spaces`. To be called while it has one thread.
pub fn unshare_as_root(spaces: &[Namespace]) -> io::Result<()> {
    let (user, group) = (user::effective(), rustix::process::getegid().as_raw());
    unshare_flags(spaces.iter().fold(libc::CLONE_NEWUSER, |flags, space| flags | space.flag()))?;
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

/// The loopback works in the network that this process has for itself.
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

/// Of what root may do, what no build has any business with is lost to this process and all that it becomes: mounts,
/// devices, modules, the clock, the network, others' processes.
pub fn drop_capabilities() -> io::Result<()> {
    match drop_all() {
        0 => Ok(()),
        error => Err(call_error("prctl", None, io::Error::from_raw_os_error(error))),
    }
}

/// The same, by nothing but calls to the system; the number of the error, or 0.
fn drop_all() -> libc::c_int {
    for power in (0..=MOST_POWERS).filter(|power| !KEPT.contains(power)) {
        // SAFETY: takes a number only, and what is read of the error is this thread's.
        let error = unsafe {
            match libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0) {
                0 => 0,
                _ => *libc::__errno_location(),
            }
        };
        // A power that this kernel does not know.
        if error != 0 && error != libc::EINVAL {
            return error;
        }
    }
    0
}

/// A way into the namespaces of another process, for those that this one starts.
#[derive(Debug)]
pub struct NamespaceEntry(OwnedFd);

/// What a process enters by itself; the numbers of processes it has from the one that starts it.
const ENTERED: libc::c_int = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl NamespaceEntry {
    /// To those of this process. They are there as long as it is.
    pub fn to(pid: u32) -> io::Result<NamespaceEntry> {
        let handle = procs::pidfd(pid).ok_or_else(|| call_error("pidfd_open", None, io::Error::last_os_error()))?;
        Ok(NamespaceEntry(handle))
    }

    pub(crate) fn door(&self) -> Door {
        Door(self.0.as_raw_fd())
    }
}

/// An entrance that somebody else keeps open. All of it is nothing but calls to the system, and tells the number of the
/// error, or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door(RawFd);

impl Door {
    /// Those that this process starts from now on have their numbers there.
    pub(crate) fn number_children(self) -> libc::c_int {
        set(self.0, libc::CLONE_NEWPID)
    }

    /// This process sees what is seen there, and may do no more than a build.
    pub(crate) fn pass(self) -> libc::c_int {
        match set(self.0, ENTERED) {
            0 => drop_all(),
            error => error,
        }
    }
}

fn set(handle: RawFd, spaces: libc::c_int) -> libc::c_int {
    // SAFETY: touches no memory; what is read of the error is this thread's.
    unsafe {
        match libc::setns(handle, spaces) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

const MOST_POWERS: libc::c_ulong = 63;
/// By their numbers in the kernel: to give files away (0), to read and write all of them (1, 2), to change them (3, 4),
/// to end processes (5), to become another group and user (6, 7, 8), ports below 1024 (10), chroot (18), to give files
/// powers (31). Whoever may do so changes only what is in the sandbox.
const KEPT: [libc::c_ulong; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 18, 31];
