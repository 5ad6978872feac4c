//! Starts a child directly in a control group.
//!
//! Moving a process into a group of version 2 later synchronizes all processors of the machine: 5 to 12 ms, measured
//! here, for which the parent would wait.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

/// The child's function.
pub(super) type Main = extern "C" fn(*mut c_void) -> c_int;

/// Like `libc::clone`, with all of `stack`, in the control group of this directory. Negative if that fails.
///
/// # Safety
///
/// As for `libc::clone`: nothing else may use the stack, and `main` must not return.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn clone(
    main: Main,
    stack: &mut [u128],
    flags: c_int,
    group: RawFd,
    argument: *mut c_void,
) -> libc::pid_t {
    let (Ok(cgroup), signal) = (u64::try_from(group), libc::SIGCHLD) else { return -1 };
    let order = Order {
        flags: u64::from((flags & !signal).cast_unsigned()) | CLONE_INTO_CGROUP,
        exit_signal: u64::from(signal.cast_unsigned()),
        stack: stack.as_mut_ptr() as u64,
        stack_size: size_of_val(stack) as u64,
        cgroup,
        ..Order::default()
    };
    let mut answer = libc::SYS_clone3;
    // SAFETY: the child has its own stack, aligned as the ABI requires, and only calls `main`, which does not return
    // and touches only memory that the caller permits.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") answer,
            in("rdi") &raw const order,
            in("rsi") size_of::<Order>(),
            in("r12") argument,
            in("r13") main,
            out("rcx") _,
            out("r11") _,
        );
    }
    libc::pid_t::try_from(answer).unwrap_or(-1)
}

/// Not tested on other architectures yet.
///
/// # Safety
///
/// Does nothing.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn clone(_: Main, _: &mut [u128], _: c_int, _: RawFd, _: *mut c_void) -> libc::pid_t {
    -1
}

#[cfg(target_arch = "x86_64")]
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The kernel's `clone_args`.
#[cfg(target_arch = "x86_64")]
#[derive(Default)]
#[repr(C)]
struct Order {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}
