//! Roles of tokens, and the file with which a client joins.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{MAX_TEXT, Message, MessageError, client_name, limit};

/// Permits a kind of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Builds packages.
    Build,
    /// Scans the tree.
    Scan,
    /// Supplies the tree.
    Tree,
    /// Reads blobs.
    Read,
    /// Reads the state of the build.
    Watch,
    /// Everything, and tokens.
    Admin,
}

impl Role {
    pub const ALL: [Role; 6] = [Role::Build, Role::Scan, Role::Tree, Role::Read, Role::Watch, Role::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Role::Build => "build",
            Role::Scan => "scan",
            Role::Tree => "tree",
            Role::Read => "read",
            Role::Watch => "watch",
            Role::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The roles of a token.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(pub Vec<Role>);

impl Roles {
    /// Whether the token may act in a role. An administrator may act in each.
    pub fn permit(&self, role: Role) -> bool {
        self.0.contains(&role) || self.0.contains(&Role::Admin)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name()).collect();
        to.write_str(&names.join(","))
    }
}

/// The file with which a client joins a build: `tanto bulk token add` writes it. The secret works once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JoinFile {
    /// The URL of the server, such as `https://master:8443`.
    pub url: String,
    pub build: String,
    /// The name that the client gets.
    pub name: String,
    pub secret: String,
    /// The certificate of the only authority that the client trusts, as PEM; empty: those of the system.
    pub authority: String,
}

/// Exchanges the secret of a join file, which is sent like a token, for a token. The client chooses the secret part of its
/// token and keeps it before it asks, so that a repeat after a lost answer gets the same token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JoinRequest {
    /// 32 random bytes, as lowercase hexadecimal digits.
    pub key: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// The client's name.
    pub name: String,
    /// The client's own token. Only its hash is kept by the server.
    pub token: String,
}

impl Message for JoinFile {
    const MAX_BYTES: usize = 256 << 10;

    fn check(&self) -> Result<(), MessageError> {
        limit("url", self.url.len(), 4_096)?;
        client_name("build", &self.build)?;
        client_name("name", &self.name)?;
        limit("secret", self.secret.len(), 256)?;
        limit("authority", self.authority.len(), MAX_TEXT)
    }
}

impl Message for JoinRequest {
    const MAX_BYTES: usize = 4_096;

    fn check(&self) -> Result<(), MessageError> {
        let is_key = self.key.parse::<crate::Digest>().is_ok();
        if is_key { Ok(()) } else { Err(MessageError::Malformed("key is not 64 lowercase hexadecimal digits".into())) }
    }
}

impl Message for JoinAnswer {
    const MAX_BYTES: usize = 4_096;

    fn check(&self) -> Result<(), MessageError> {
        client_name("name", &self.name)?;
        limit("token", self.token.len(), 256)
    }
}
