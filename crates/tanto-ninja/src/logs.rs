//! Ninja's two logs, byte-compatible: `.ninja_log` (what ran, and when) and `.ninja_deps` (which headers a compiler
//! read). They know paths and nodes, not what is dirty.
//!
//! Both are pictures of a file: what is in memory is a function of the file's sound bytes, which are walked where they
//! lie. Loading never writes; several threads may share it, and what they find does not depend on how many they are.
//! Writing goes through `file`: under a lock, after a look at what others appended, all of a record or none of it.

mod build_log;
mod chain;
mod deps_log;
mod entries;
mod file;
mod image;
mod line;
mod parts;
mod pieces;
mod record;
mod records;
mod row;
mod seal;
mod seen;
mod side;
#[cfg(test)]
mod tests;

pub use build_log::BuildLog;
pub use deps_log::{Deps, DepsLog, is_deps_entry_live};
pub use line::Entry;
pub use parts::{BuildParts, DepsParts, Made};
pub use seen::{SeenBuild, SeenDeps};
