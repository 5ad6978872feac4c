//! Confines a process to its open descriptors (seccomp).

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::namespaces::{self, Namespace};
use crate::error::call_error;

/// The architecture as the kernel tells it to filters.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;
#[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
const ARCHITECTURE: u32 = 0xc000_0015;
#[cfg(target_arch = "s390x")]
const ARCHITECTURE: u32 = 0x8000_0016;
#[cfg(target_arch = "loongarch64")]
const ARCHITECTURE: u32 = 0xc000_0102;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    all(target_arch = "powerpc64", target_endian = "little"),
    target_arch = "s390x",
    target_arch = "loongarch64",
)))]
compile_error!("the filter of system calls needs the number of this architecture");

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

/// The offset of the system call's number in `seccomp_data`.
const NUMBER: u32 = 0;
/// The offset of the architecture.
const ARCH: u32 = 4;
/// Numbers from here on are those of another ABI of x86_64.
const FIRST_X32: u32 = 0x4000_0000;

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

/// The program that the kernel runs for each system call.
fn filter() -> Vec<libc::sock_filter> {
    let (load, equal, greater, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = vec![
        step(load, ARCH, 0, 0),
        step(equal, ARCHITECTURE, 1, 0),
        step(end, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(load, NUMBER, 0, 0),
        step(greater, FIRST_X32, 0, 1),
        step(end, refused, 0, 0),
    ];
    for number in PERMITTED {
        program.push(step(equal, number as u32, 0, 1));
        program.push(step(end, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    program.push(step(end, refused, 0, 0));
    program
}

fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program outlives the call, which only reads it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
        0 => Ok(()),
        _ => Err(call_error("prctl", None, io::Error::last_os_error())),
    }
}
