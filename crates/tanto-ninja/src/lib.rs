//! Ninja's language: `.ninja` text to graph to plan, the two logs, the `-t` tools.
//!
//! It does not know how a command is run.

pub mod bindings;
pub mod builddir;
pub mod canon;
pub mod depfile;
pub(crate) mod digest;
pub mod disk;
pub mod dyndep;
pub mod error;
pub mod explain;
pub mod flat;
pub mod front;
pub mod getopt;
pub mod glob;
pub mod graph;
pub mod load;
pub mod log;
pub mod msvc;
pub mod paths;
pub mod plan;
pub mod replay;
pub mod scan;
pub mod snapshot;
pub mod sources;
pub mod spell;
pub mod targets;
pub mod tools;
