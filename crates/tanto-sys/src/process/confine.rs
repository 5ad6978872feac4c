//! Confines a process to its open descriptors (seccomp).

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::namespaces::{self, Namespace};
use super::seccomp::{self, Filter};
use crate::error::call_error;

/// System calls that a confined process may make: I/O on open descriptors, memory, and its own end.
const PERMITTED: [libc::c_long; 25] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Takes from this process, which must have one thread, all but its open descriptors and `memory` bytes of address space:
/// every other system call fails with EPERM. It cannot be undone.
pub fn confine(memory: u64) -> io::Result<()> {
    // Where namespaces are not permitted, the filter alone keeps files and the network away.
    let _ = namespaces::unshare_as_root(&[Namespace::Mounts, Namespace::Network, Namespace::Ipc]);
    for (resource, most) in [(Resource::As, memory), (Resource::Core, 0), (Resource::Fsize, 0)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| call_error("setrlimit", None, error.into()))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| call_error("prctl", None, error.into()))?;
    install(&filter())
}

fn filter() -> Vec<libc::sock_filter> {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = Filter::new(libc::SECCOMP_RET_KILL_PROCESS, refused);
    for number in PERMITTED {
        filter.answer(number, libc::SECCOMP_RET_ALLOW);
    }
    filter.end(refused)
}

fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = seccomp::program(program);
    // SAFETY: the program outlives the call, which only reads it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
        0 => Ok(()),
        _ => Err(call_error("prctl", None, io::Error::last_os_error())),
    }
}
