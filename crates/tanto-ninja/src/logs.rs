//! Ninja's two logs, byte-compatible with ninja 1.13: `.ninja_log` (past commands) and `.ninja_deps` (headers found by
//! compilers).
//!
//! In memory, each log is its valid bytes, mapped or copied, plus an index by node. Loading never writes, may use several
//! threads, and gives the same result for any number of them. Writing goes through [`file`]: under a lock, after reading
//! records appended by other processes, and all or nothing for each record.

mod build_log;
mod build_log_entries;
mod build_log_line;
mod deps_log;
mod deps_log_format;
mod deps_log_records;
mod file;
mod fingerprint;
mod log_buffer;
mod overlay_vec;
mod saved_index;
#[cfg(test)]
mod tests;
mod unindexed_lines;

use tanto_sys::machine::cpu;
use tanto_sys::threads::ThreadLimit;

pub use build_log::BuildLog;
pub use build_log_line::Entry;
pub use deps_log::{Deps, DepsLog, is_deps_entry_live};
pub use saved_index::{BuildLogIndex, BuildLogState, DepsLogIndex, DepsLogState, LoggedCommand};

/// The chunk size in bytes. A larger one balances the threads worse; a smaller one allocates more often.
const CHUNK: usize = 1 << 20;

/// Bytes per thread; reading them takes 0.7 ms (`.ninja_log`) or 0.3 ms (`.ninja_deps`). With fewer, starting the thread
/// costs more than it saves.
const BYTES_PER_THREAD: usize = 1 << 20;

/// The chunk size and number of threads for reading a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReadPlan {
    chunk: usize,
    /// Including the caller's thread.
    threads: usize,
}

impl ReadPlan {
    /// Reads on the caller's thread only.
    const ONE: ReadPlan = ReadPlan { chunk: CHUNK, threads: 1 };

    fn of(bytes: usize, threads: ThreadLimit) -> ReadPlan {
        match threads.limit(bytes / BYTES_PER_THREAD) {
            0 | 1 => ReadPlan::ONE,
            worth => ReadPlan { threads: worth.min(cpu::count()).max(1), ..ReadPlan::ONE },
        }
    }
}
