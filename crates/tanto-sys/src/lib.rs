//! The operating system: files, memory, processes, signals, terminals, locks, clock. The only crate with `unsafe`.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Tanto runs on Linux on x86-64 and aarch64; see \"Platforms\" in docs/install.md");

pub mod bytes;
pub mod cgroup;
pub(crate) mod cgroup_paths;
pub mod clock;
pub mod error;
pub mod fs;
pub mod ipc;
pub mod machine;
pub mod memory;
pub mod process;
pub mod random;
pub mod signals;
pub mod terminal;
pub mod threads;
pub mod user;
