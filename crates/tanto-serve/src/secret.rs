//! Secrets: random identifiers and keys, their hashes, and comparison in constant time.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use tanto_protocol::Digest;
use tanto_sys::random;

/// A public identifier and a secret key, sent as `IDENTIFIER.KEY`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) id: String,
    key: Digest,
}

impl Secret {
    const ID_DIGITS: usize = 12;

    pub(crate) fn new() -> io::Result<Secret> {
        Secret::with_key(Digest(random::bytes()?))
    }

    /// A new identifier with a key that the client chose.
    pub(crate) fn with_key(key: Digest) -> io::Result<Secret> {
        let id = random::bytes::<{ Secret::ID_DIGITS / 2 }>()?;
        Ok(Secret { id: id.iter().map(|byte| format!("{byte:02x}")).collect(), key })
    }

    pub(crate) fn of(id: &str, key: Digest) -> Secret {
        Secret { id: id.to_owned(), key }
    }

    pub(crate) fn parse(text: &str) -> Option<Secret> {
        let (id, key) = text.split_once('.')?;
        let is_id = id.len() == Secret::ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then_some(Secret { id: id.to_owned(), key: key.parse().ok()? })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.id, self.key)
    }

    pub(crate) fn hash(&self) -> Hash {
        Hash(Digest(Sha256::digest(self.text()).into()))
    }
}

/// Hides the key, so that it cannot get into a log.
impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.(hidden)", self.id)
    }
}

/// The SHA-256 digest of a secret. Keys have 256 random bits, so that neither salt nor many rounds are necessary.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Hash(Digest);

impl Hash {
    /// Compares in constant time.
    pub(crate) fn matches(&self, other: &Hash) -> bool {
        self.0.0.ct_eq(&other.0.0).into()
    }
}
