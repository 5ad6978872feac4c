//! Errors of trees.

use std::io;

use tanto_sys::error::call_error;

use crate::StoreError;
use crate::manifest::ManifestError;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{} changes while it is read", String::from_utf8_lossy(.0))]
    Changing(Vec<u8>),
    #[error("{} is neither a file, a directory nor a symbolic link", String::from_utf8_lossy(.0))]
    Special(Vec<u8>),
    #[error("{}: the name is reserved", String::from_utf8_lossy(.0))]
    Reserved(Vec<u8>),
    #[error("{}: the blob is no target of a symbolic link", String::from_utf8_lossy(.0))]
    Target(Vec<u8>),
    #[error("{}: the blob has another size than in the manifest", String::from_utf8_lossy(.0))]
    Size(Vec<u8>),
}

/// Adds the call and the path to an error.
pub(super) fn called<T>(call: &'static str, path: &[u8], result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| call_error(call, Some(path), error))
}
