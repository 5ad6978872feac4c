//! Filters of system calls (seccomp).

/// The architecture as the kernel tells it to filters.
#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00f3;
#[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
pub(super) const ARCHITECTURE: u32 = 0xc000_0015;
#[cfg(target_arch = "s390x")]
pub(super) const ARCHITECTURE: u32 = 0x8000_0016;
#[cfg(target_arch = "loongarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_0102;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    all(target_arch = "powerpc64", target_endian = "little"),
    target_arch = "s390x",
    target_arch = "loongarch64",
)))]
compile_error!("the filter of system calls needs the number of this architecture");

/// The offset of the system call's number in `seccomp_data`.
const NUMBER: u32 = 0;
/// The offset of the architecture.
const ARCH: u32 = 4;
/// The offset of the lower half of the first argument.
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
/// Numbers from here on are those of another ABI of x86_64.
const FIRST_X32: u32 = 0x4000_0000;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const GREATER_OR_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const END: u32 = libc::BPF_RET | libc::BPF_K;

/// A program that the kernel runs for each system call.
pub(super) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// Begins a program with the answers to calls of another architecture, and to those of another ABI.
    pub(super) fn new(other_architecture: u32, other_abi: u32) -> Filter {
        Filter(vec![
            step(LOAD, ARCH, 0, 0),
            step(EQUAL, ARCHITECTURE, 1, 0),
            step(END, other_architecture, 0, 0),
            step(LOAD, NUMBER, 0, 0),
            step(GREATER_OR_EQUAL, FIRST_X32, 0, 1),
            step(END, other_abi, 0, 0),
        ])
    }

    /// Adds the answer to a system call.
    pub(super) fn answer(&mut self, number: libc::c_long, answer: u32) {
        self.0.extend([step(EQUAL, number as u32, 0, 1), step(END, answer, 0, 0)]);
    }

    /// Adds the answer to a system call whose first argument has one of these bits.
    pub(super) fn answer_if_first_has(&mut self, number: libc::c_long, bits: u32, answer: u32) {
        self.0.extend([
            step(EQUAL, number as u32, 0, 4),
            step(LOAD, FIRST_ARGUMENT, 0, 0),
            step(ANY_BIT, bits, 0, 1),
            step(END, answer, 0, 0),
            step(LOAD, NUMBER, 0, 0),
        ]);
    }

    /// Ends the program with the answer to all other calls.
    pub(super) fn end(mut self, answer: u32) -> Vec<libc::sock_filter> {
        self.0.push(step(END, answer, 0, 0));
        self.0
    }
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Describes a program for the kernel. It points to the steps.
pub(super) fn program(steps: &[libc::sock_filter]) -> libc::sock_fprog {
    libc::sock_fprog { len: steps.len() as u16, filter: steps.as_ptr().cast_mut() }
}
