//! Errors of the store.

use std::io;

use crate::Digest;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("blob {0} is not in the store")]
    Missing(Digest),
    #[error("blob {expected} was announced, but its content has the digest {found}")]
    Mismatch { expected: Digest, found: Digest },
    #[error("blob {0} was damaged in the store, and is moved away")]
    Corrupt(Digest),
    #[error("the blob is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the store would be larger than {limit} bytes")]
    Quota { limit: u64 },
    #[error("the upload has {length} bytes so far, and continues there")]
    Offset { length: u64 },
    #[error("the upload has {length} of {size} bytes")]
    Incomplete { length: u64, size: u64 },
    #[error("blob {0} is being uploaded by another request")]
    Busy(Digest),
    #[error("too many unfinished uploads: at most {limit}")]
    Uploads { limit: usize },
    #[error("the unfinished uploads would be larger than {limit} bytes")]
    UploadQuota { limit: u64 },
    /// The source of the content failed, not the store.
    #[error("cannot read the blob: {0}")]
    Source(#[source] io::Error),
    #[error("no space for blobs: {0}")]
    NoSpace(#[source] io::Error),
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::NoSpace(error)
            }
            _ => StoreError::Io(error),
        }
    }
}
