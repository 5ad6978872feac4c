//! Ninja's language: `.ninja` text to graph to plan, the two logs, the `-t` tools.
//!
//! It does not know how a command is run.

pub mod builddir;
pub mod canon;
pub mod depfile;
pub mod disk;
pub mod dyndep;
pub mod error;
pub mod explain;
pub mod flat;
pub mod frontend;
pub mod getopt;
pub mod graph;
pub mod hash;
pub mod ids;
pub mod load;
pub mod logs;
pub mod msvc;
pub mod paths;
pub mod plan;
pub mod scan;
pub mod snapshot;
pub mod sources;
pub mod suggest;
pub mod syntax;
pub mod targets;
pub mod tools;
