//! The tokens as the server uses them: read again when the file changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tanto_protocol::{Roles, TokenIdentity};

use super::{Entry, TokenError, now, read, token_path};
use crate::files::Stamp;
use crate::secret::Secret;

/// A client whose token was verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) build: String,
    pub(crate) roles: Roles,
}

impl Identity {
    pub(crate) fn token(&self) -> TokenIdentity {
        TokenIdentity { id: self.id.clone(), roles: self.roles.clone() }
    }
}

pub(crate) struct TokenTable {
    dir: PathBuf,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    stamp: Option<Stamp>,
    /// Tokens by identifier, without secrets.
    tokens: HashMap<String, Arc<Entry>>,
}

impl TokenTable {
    pub(crate) fn new(dir: &Path) -> Result<TokenTable, TokenError> {
        let table = TokenTable { dir: dir.to_owned(), current: Mutex::default() };
        table.find("").map(|_| table)
    }

    /// Returns the client of a valid token.
    pub(crate) fn verify(&self, token: &str) -> Result<Option<Identity>, TokenError> {
        let Some(secret) = Secret::parse(token) else { return Ok(None) };
        let entry = self.find(&secret.id)?;
        let valid = entry.filter(|entry| entry.hash.matches(&secret.hash()) && entry.is_valid(now()));
        Ok(valid.map(|entry| Identity {
            id: entry.id.clone(),
            name: entry.name.clone(),
            build: entry.build.clone(),
            roles: entry.roles.clone(),
        }))
    }

    fn find(&self, id: &str) -> Result<Option<Arc<Entry>>, TokenError> {
        let path = token_path(&self.dir);
        let stamp = Stamp::of(&path).map_err(|source| TokenError::File { path, source })?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp != current.stamp {
            let tokens = read(&self.dir)?.into_iter().filter(|entry| entry.join.is_none());
            let tokens = tokens.map(|entry| (entry.id.clone(), Arc::new(entry))).collect();
            *current = Current { stamp, tokens };
        }
        Ok(current.tokens.get(id).cloned())
    }
}
