//! Ninja's language: manifest to graph to plan, `.ninja_log` and `.ninja_deps`, and the `-t` tools. Commands are run
//! by `tanto-exec`.

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
pub(crate) mod paths;
pub mod plan;
pub mod scan;
pub mod snapshot;
pub mod sources;
pub mod suggest;
pub(crate) mod syntax;
pub mod targets;
pub mod tools;
