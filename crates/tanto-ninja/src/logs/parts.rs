//! What is found in the logs, as flat arrays: to be kept, and put back when the files still begin as they did. Does not
//! know where they are kept.

use crate::disk::Mtime;
use crate::flat::Slab;
use crate::ids::NodeId;

use super::seal::Seal;

/// The index of a `.ninja_log`.
#[derive(Debug)]
pub struct BuildParts {
    /// Of which bytes of which file it is, and what they are: words that only the log understands.
    pub facts: [u64; 3 + Seal::WORDS],
    /// For each node where its last line begins; 0 for none.
    pub last: Slab<u64>,
    /// Where the lines of outputs begin that are no nodes, in the order of the file.
    pub side: Slab<u64>,
    /// For each node what its last line says that decides whether it is dirty.
    pub made: Slab<Made>,
}

tanto_sys::pod! {
    /// What the log says of how an output was made, without the times.
    #[derive(PartialEq, Eq, Debug)]
    pub struct Made {
        /// The hash of the command, by the log's version.
        pub command_hash: u64,
        /// What the output was up to date with; see `BuildLog::records_output_mtime`.
        pub mtime: Mtime,
    }
}

impl Made {
    /// Nothing is known, or a line says just this: it has to be looked at.
    pub(super) const UNKNOWN: Made = Made { command_hash: u64::MAX, mtime: Mtime::MIN };
}

/// The index of a `.ninja_deps`.
#[derive(Debug)]
pub struct DepsParts {
    /// As for a `.ninja_log`.
    pub facts: [u64; 2 + Seal::WORDS],
    /// By a file's number in the log: its node.
    pub nodes: Slab<NodeId>,
    /// By node: its number in the log; `u32::MAX` for none.
    pub ids: Slab<u32>,
    /// By number in the log: where the output's record begins; 0 for none.
    pub deps: Slab<u64>,
}
