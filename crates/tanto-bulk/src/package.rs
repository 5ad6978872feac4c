//! Packages by themselves: names, versions, patterns, options and binary archives.

pub mod archive;
pub mod name;
pub mod options;
pub mod pattern;
pub mod version;
