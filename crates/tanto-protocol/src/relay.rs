//! Messages between the server and the coordinator, over the coordinator's control socket: the server relays the requests
//! of clients, and the coordinator names the files that the server may hand out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{ClientAnswer, ClientRequest, Digest, MAX_LIST, Message, MessageError, Roles, client_name, limit};

/// From the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ToCoordinator {
    /// A client asks. The answer has the same number.
    Request { number: u64, token: TokenIdentity, request: Box<ClientRequest> },
    /// The client has closed its connection to the server and gets no answer.
    Gone { number: u64 },
    /// The server is about to remove blobs. The answer is `ToServer::Roots`.
    Roots { epoch: u64 },
}

/// The token of a request, which the server has verified.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenIdentity {
    /// The token's public identifier.
    pub id: String,
    pub roles: Roles,
}

/// From the coordinator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ToServer {
    /// The first message: the build's name.
    Build {
        name: String,
    },
    Answer {
        number: u64,
        answer: ClientAnswer,
    },
    /// Files that clients may read as blobs.
    Provide {
        files: Vec<ProvidedFile>,
    },
    /// A manifest in the store, whose files below `root` clients may read as blobs.
    ProvideTree {
        manifest: Digest,
        root: PathBuf,
    },
    /// What the build has now, for the server's metrics. Replaces the numbers before.
    Gauges {
        gauges: Vec<Gauge>,
    },
    /// Blobs that the build needs, determined after the question with the same epoch; 0 without a question. Others may be
    /// removed.
    Roots {
        epoch: u64,
        digests: Vec<Digest>,
    },
}

/// Most blobs that a build may need besides provided files.
pub const MAX_ROOTS: usize = 500_000;

/// Most gauges of a build.
const MAX_GAUGES: usize = 256;

/// How many things are in a state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gauge {
    pub of: GaugeKind,
    pub state: String,
    pub value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaugeKind {
    Packages,
    Clients,
    Leases,
}

/// A file that is a blob.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProvidedFile {
    pub digest: Digest,
    pub size: u64,
    pub path: PathBuf,
}

impl Message for ToCoordinator {
    const MAX_BYTES: usize = ClientRequest::MAX_BYTES + 4_096;

    fn check(&self) -> Result<(), MessageError> {
        match self {
            ToCoordinator::Gone { .. } | ToCoordinator::Roots { .. } => Ok(()),
            ToCoordinator::Request { token, request, .. } => {
                client_name("token", &token.id)?;
                request.check()
            }
        }
    }
}

impl Message for ToServer {
    const MAX_BYTES: usize = ClientAnswer::MAX_BYTES + 4_096;

    fn check(&self) -> Result<(), MessageError> {
        match self {
            ToServer::Build { name } => client_name("name", name),
            ToServer::Answer { answer, .. } => answer.check(),
            ToServer::Gauges { gauges } => {
                limit("gauges", gauges.len(), MAX_GAUGES)?;
                gauges.iter().try_for_each(|gauge| client_name("state", &gauge.state))
            }
            ToServer::Provide { files } => limit("files", files.len(), MAX_LIST),
            ToServer::ProvideTree { .. } => Ok(()),
            ToServer::Roots { digests, .. } => limit("digests", digests.len(), MAX_ROOTS),
        }
    }
}
