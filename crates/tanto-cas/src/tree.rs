//! Directory trees: their manifests, and directories that are made equal to a manifest.

mod apply;
mod blobs;
mod cache;
mod error;
mod link;
mod scan;
#[cfg(test)]
mod tests;

pub use self::apply::{Applied, apply, sync};
pub use self::blobs::{TreeBlobs, TreeContent};
pub use self::cache::DigestCache;
pub use self::error::TreeError;
pub use self::link::link;
pub use self::scan::{ScanOptions, scan};

/// A directory at the top of a tree in which files are written before they are renamed. It is no part of the tree.
const TEMP_DIR: &[u8] = b".tanto-temp";
