//! Content by its digest: a store of blobs on disk, manifests of directory trees, packs of small blobs, digests of files.

mod content_digest;
mod digest;
mod file_digest;
pub mod manifest;
pub mod pack;
mod recent_digests;
pub mod store;
pub mod tree;

pub use self::content_digest::{ContentDigest, ContentHasher};
pub use self::digest::{BlobInfo, Digest, DigestTextError, Hasher};
pub use self::file_digest::FileDigest;
pub use self::manifest::Manifest;
pub use self::recent_digests::RecentDigests;
pub use self::store::{Store, StoreError};
