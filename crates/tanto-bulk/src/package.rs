//! Packages by themselves: names, versions, patterns, options and binary archives.

pub mod archive;
pub mod digest;
pub mod distinfo;
pub mod input_file;
pub mod name;
pub mod options;
pub mod pattern;
pub mod records;
pub mod version;

/// The directory of binary packages below `packages`.
pub const ALL: &str = "All";
