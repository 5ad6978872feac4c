//! How a client reaches the coordinator and its blobs.

use std::path::Path;

use tanto_cas::Store;
use tanto_protocol::{ClientAnswer, ClientRequest, Digest, Refusal, RefusalCode};
use thiserror::Error;

use super::trees::NewTree;

/// Sends requests and moves blobs. The threads of a client share it.
pub trait Transport: Send + Sync {
    /// Sends a request. The answer is the one of the same name.
    fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError>;

    /// Returns those of the digests that the server lacks.
    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError>;

    /// Downloads a blob to a file, which may have its begin, and verifies it.
    fn download(&self, digest: Digest, size: u64, to: &Path) -> Result<(), TransportError>;

    /// Returns what the user has to know of the downloads since the last call.
    fn take_warning(&self) -> Option<String>;

    /// Downloads blobs to a store. Those that came before a failure stay. `part`: a file for one that is not whole.
    fn fetch_blobs(&self, digests: &[Digest], store: &Store, part: &Path) -> Result<(), TransportError>;

    /// Makes a package tree.
    fn fetch_tree(&self, tree: &NewTree) -> Result<(), TransportError>;

    /// Uploads a file as a blob. Calls `sent` with the number of bytes of each piece that is sent.
    fn upload(&self, digest: Digest, from: &Path, sent: &dyn Fn(u64)) -> Result<(), TransportError>;

    /// Uploads small files in one request, like `upload`. `MAX_DIGESTS`, `MAX_PACKED` and `MAX_PACK` limit them.
    fn upload_pack(&self, files: &[(Digest, &Path)], sent: &dyn Fn(u64)) -> Result<(), TransportError>;
}

/// Why a request failed.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The server refuses the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Trying again may help.
    #[error("{0}")]
    Unreachable(String),
    /// Trying again does not help.
    #[error("{0}")]
    Failed(String),
}

impl TransportError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            TransportError::Unreachable(_) => true,
            TransportError::Refused(refusal) => {
                matches!(refusal.code, RefusalCode::Unavailable | RefusalCode::Busy | RefusalCode::DiskFull)
            }
            TransportError::Failed(_) => false,
        }
    }

    /// The server lacks a blob that the coordinator has named.
    pub fn is_missing_blob(&self) -> bool {
        matches!(self, TransportError::Refused(refusal) if refusal.code == RefusalCode::NotFound)
    }
}
