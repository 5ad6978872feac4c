//! Namespaces: what a process and those below it see of the machine. Does not know why they should not see the rest.

use std::fs;
use std::io;

use crate::error::refused;
use crate::process::Status;
use crate::signals::ENDINGS;
use crate::user;

/// What a process can have for itself and those below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
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

impl Space {
    fn flag(self) -> libc::c_int {
        match self {
            Space::Mounts => libc::CLONE_NEWNS,
            Space::Processes => libc::CLONE_NEWPID,
            Space::Network => libc::CLONE_NEWNET,
            Space::Ipc => libc::CLONE_NEWIPC,
            Space::Names => libc::CLONE_NEWUTS,
        }
    }
}

/// This process gets these for itself.
pub fn leave(spaces: &[Space]) -> io::Result<()> {
    unshare(spaces.iter().fold(0, |flags, space| flags | space.flag()))
}

/// This process may do in its own namespaces what root may: it gets one of users, in which only its own user is, as
/// root, and those of `spaces`. To be called while it has one thread.
pub fn leave_as_root(spaces: &[Space]) -> io::Result<()> {
    // SAFETY: touches no memory, and cannot fail.
    let (user, group) = (user::own(), unsafe { libc::getegid() });
    unshare(spaces.iter().fold(libc::CLONE_NEWUSER, |flags, space| flags | space.flag()))?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|error| refused("write", Some(path.as_bytes()), error))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: touches no memory.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(refused("unshare", None, io::Error::last_os_error())),
    }
}

/// The loopback works in the network that this process has for itself.
pub fn raise_loopback() -> io::Result<()> {
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
    if rc == 0 { Ok(()) } else { Err(refused("ioctl", Some(b"lo"), io::Error::last_os_error())) }
}

/// Of what root may do, what no build has any business with is lost to this process and all that it becomes: mounts,
/// devices, modules, the clock, the network, others' processes.
pub fn drop_powers() -> io::Result<()> {
    for power in 0..=MOST_POWERS {
        if KEPT.contains(&power) {
            continue;
        }
        // SAFETY: takes a number only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            // A power that this kernel does not know.
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(refused("prctl", None, error));
            }
        }
    }
    Ok(())
}

const MOST_POWERS: libc::c_ulong = 63;
/// By their numbers in the kernel: to give files away (0), to read and write all of them (1, 2), to change them (3, 4),
/// to end processes (5), to become another group and user (6, 7, 8), ports below 1024 (10), chroot (18), to give files
/// powers (31). Whoever may do so changes only what is in the sandbox.
const KEPT: [libc::c_ulong; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 18, 31];

/// Makes a copy of this process: its number, or nothing in the copy. Only for a process with one thread: another could
/// hold a lock that nobody would ever open in the copy.
pub fn fork() -> io::Result<Option<u32>> {
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(refused("fork", None, io::Error::from_raw_os_error(libc::EBUSY)));
    }
    // SAFETY: there is no other thread.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        pid => u32::try_from(pid).map(Some).map_err(|_| refused("fork", None, io::Error::last_os_error())),
    }
}

/// When the process that has made this one ends, so does this one. A parent that had ended before is not noticed.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: takes a number only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(refused("prctl", None, io::Error::last_os_error())),
    }
}

/// The endings do nothing to this process from now on, or what they usually do.
pub fn hear_endings(hear: bool) {
    let action = if hear { libc::SIG_DFL } else { libc::SIG_IGN };
    for signal in ENDINGS {
        // SAFETY: neither of the two is code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Waits for the end of this child, and takes note of those of others.
pub fn wait(child: u32) -> io::Result<Status> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a place for the answer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(refused("waitpid", None, error));
            }
        } else if u32::try_from(pid) == Ok(child) {
            return Ok(Status::of(status));
        }
    }
}
