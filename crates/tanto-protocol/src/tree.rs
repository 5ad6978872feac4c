//! Package trees that are pushed to a server.

use serde::{Deserialize, Serialize};

use crate::{Digest, MAX_LIST, Message, MessageError, client_name, limit};

/// The directory in a server's directory with a file for each build: its [`PushedTree`].
pub const PUSHED_TREES: &str = "trees";

/// Makes a tree that of the build. Its manifest and its files have been uploaded as blobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreeRequest {
    pub manifest: Digest,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TreeAnswer {
    /// The build gets it.
    Accepted,
    /// These blobs are not there, or more.
    Missing { digests: Vec<Digest> },
}

/// The tree that was pushed last for a build.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PushedTree {
    pub manifest: Digest,
    /// The name of the token.
    pub name: String,
}

impl Message for TreeRequest {
    const MAX_BYTES: usize = 4_096;

    fn check(&self) -> Result<(), MessageError> {
        Ok(())
    }
}

impl Message for TreeAnswer {
    const MAX_BYTES: usize = MAX_LIST * 72;

    fn check(&self) -> Result<(), MessageError> {
        match self {
            TreeAnswer::Accepted => Ok(()),
            TreeAnswer::Missing { digests } => limit("digests", digests.len(), MAX_LIST),
        }
    }
}

impl Message for PushedTree {
    const MAX_BYTES: usize = 4_096;

    fn check(&self) -> Result<(), MessageError> {
        client_name("name", &self.name)
    }
}
