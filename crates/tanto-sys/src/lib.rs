//! The machine, as Tanto asks it: files, memory, processes, signals, terminals, locks, clock.
//!
//! The only crate with `unsafe`. It does not know what a build is.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Tanto runs on Linux on x86-64 and aarch64; see \"Where it runs\" in README.md");

pub mod affinity;
pub mod bytes;
pub mod cgroup;
pub mod clock;
pub mod cpu;
pub mod cursor;
pub mod detach;
pub mod disk;
pub mod entry;
pub mod epoll;
pub mod error;
pub mod file;
pub(crate) mod groups;
pub mod halt;
pub mod headroom;
pub mod identity;
pub mod inotify;
pub mod local;
pub mod lock;
pub mod machine;
pub mod map;
pub mod memory;
pub mod mounts;
pub mod own;
pub mod packets;
pub mod plain;
pub mod poll;
pub mod prefetch;
pub mod process;
pub mod procs;
pub mod reaper;
pub mod signals;
pub mod spaces;
pub mod spool;
pub mod stat;
pub mod state;
pub mod sum;
pub mod terminal;
pub mod threads;
pub mod times;
pub mod tokens;
pub mod tree;
pub mod user;
pub mod version;
