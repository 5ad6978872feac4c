//! Ninja's two logs, byte-compatible: `.ninja_log` (what ran, and when) and `.ninja_deps` (which headers a compiler
//! read). They know paths and nodes, not what is dirty.
//!
//! Both are pictures of a file: what is in memory is a function of the file's sound bytes. Loading never writes.
//! Writing goes through `file`: under a lock, after a look at what others appended, all of a record or none of it.

mod build_log;
mod deps_log;
mod entries;
mod file;
pub(crate) mod hash;
mod records;
#[cfg(test)]
mod tests;

pub use build_log::BuildLog;
pub use deps_log::{Deps, DepsLog, is_deps_entry_live};
pub use entries::Entry;
