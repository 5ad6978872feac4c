//! Tokens and join secrets of clients, in the file `tokens.json` of the server's directory.
//!
//! The command line changes the file while a server runs; the server notices. Writers exclude each other with
//! `tokens.lock`. Only hashes are stored.

mod table;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tanto_protocol::{Digest, JoinAnswer, JoinFile, Message, Role, Roles, is_client_name};
use tanto_sys::fs::{file, lock, private_files};

use crate::files::replace_private;
use crate::secret::{Hash, Secret};

pub(crate) use self::table::{Identity, TokenTable};

/// Most entries of the file.
pub const MAX_TOKENS: usize = 100_000;
/// Longest file, in bytes.
const MAX_FILE: u64 = 64 << 20;
const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not a list of tokens: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("'{0}' is no name: use 1 to 63 of a-z, 0-9, '.', '_' and '-'")]
    Name(String),
    #[error("build '{build}' has a client '{name}' already; revoke it first, or choose another name")]
    Taken { build: String, name: String },
    #[error("no token has the identifier or the name '{0}'")]
    Unknown(String),
    #[error("there are {MAX_TOKENS} tokens already")]
    Full,
    /// The secret is unknown, expired or revoked.
    #[error("the secret is unknown, expired or revoked")]
    Secret,
    /// The secret was exchanged as often as it may be.
    #[error("the secret of '{0}' has been used; add another one with 'tanto bulk token add'")]
    Used(String),
}

/// A secret to be added.
#[derive(Clone, Debug)]
pub struct NewSecret {
    pub build: String,
    /// The client's name, or the begin of the names of a pool's clients.
    pub name: String,
    pub roles: Roles,
    /// So many clients share the join file and get numbered names. `None`: one client with the name itself.
    pub pool: Option<u32>,
    /// How long the secret can be exchanged.
    pub joinable: Duration,
    /// How long tokens that it is exchanged for are valid. `None`: until they are revoked.
    pub lifetime: Option<Duration>,
}

/// A token or a join secret, as shown to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenInfo {
    pub id: String,
    pub build: String,
    pub name: String,
    pub roles: Roles,
    pub created: SystemTime,
    pub expires: Option<SystemTime>,
    pub kind: TokenKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A client's token.
    Client,
    /// A secret of a join file.
    Join { joined: u32, max_clients: u32 },
}

#[derive(Default, Debug, Serialize, Deserialize)]
struct TokenFile {
    version: u32,
    tokens: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    id: String,
    build: String,
    name: String,
    roles: Roles,
    hash: Hash,
    /// Seconds since 1970.
    created: u64,
    expires: Option<u64>,
    /// Of a secret.
    #[serde(default)]
    join: Option<Join>,
    /// The secret that a token was exchanged for.
    #[serde(default)]
    secret: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Join {
    pool: bool,
    max_clients: u32,
    joined: u32,
    /// Seconds that a token is valid.
    lifetime: Option<u64>,
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

fn now() -> u64 {
    seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Entry {
    fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn info(&self) -> TokenInfo {
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        TokenInfo {
            id: self.id.clone(),
            build: self.build.clone(),
            name: self.name.clone(),
            roles: self.roles.clone(),
            created: time(self.created),
            expires: self.expires.map(time),
            kind: match &self.join {
                None => TokenKind::Client,
                Some(join) => TokenKind::Join { joined: join.joined, max_clients: join.max_clients },
            },
        }
    }
}

fn token_path(dir: &Path) -> PathBuf {
    dir.join("tokens.json")
}

/// Reads the file; one that is not there is empty.
fn read(dir: &Path) -> Result<Vec<Entry>, TokenError> {
    let path = token_path(dir);
    let failed = |source| TokenError::File { path: path.clone(), source };
    let text = match private_files::open(&path).and_then(|file| read_limited(&file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    let damaged = |reason| TokenError::Damaged { path: path.clone(), reason };
    let file: TokenFile = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if file.version != VERSION {
        return Err(damaged(format!("version {}, not {VERSION}", file.version)));
    }
    Ok(file.tokens)
}

fn read_limited(from: &fs::File) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut text = Vec::new();
    from.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE { Err(file::too_large()) } else { Ok(text) }
}

/// Changes the file, alone. Tokens and secrets that expired more than a month ago are removed.
fn change<T>(dir: &Path, change: impl FnOnce(&mut Vec<Entry>) -> Result<T, TokenError>) -> Result<T, TokenError> {
    const KEPT: u64 = 30 * 24 * 3_600;
    let lock_path = dir.join("tokens.lock");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TokenError::File { path, source }
    };
    let lock = lock::open_lock_file(&lock_path).map_err(failed(&lock_path))?;
    lock::lock_exclusive(&lock, Duration::MAX, || ()).map_err(failed(&lock_path))?;
    let mut tokens = read(dir)?;
    tokens.retain(|entry| entry.is_valid(now().saturating_sub(KEPT)));
    let result = change(&mut tokens)?;
    if tokens.len() > MAX_TOKENS {
        return Err(TokenError::Full);
    }
    let path = token_path(dir);
    let text = serde_json::to_vec_pretty(&TokenFile { version: VERSION, tokens });
    let text = text.map_err(|error| TokenError::Damaged { path: path.clone(), reason: error.to_string() })?;
    replace_private(&path, &text).map_err(failed(&path))?;
    Ok(result)
}

/// Adds the secret of a join file and returns it. It is stored nowhere else.
pub fn add(dir: &Path, new: &NewSecret) -> Result<String, TokenError> {
    let join = Join {
        pool: new.pool.is_some(),
        max_clients: new.pool.unwrap_or(1),
        joined: 0,
        lifetime: new.lifetime.map(seconds),
    };
    add_entry(dir, new, Some(new.joinable), Some(join))
}

/// Adds a token that needs no join file, and returns it. It is stored nowhere else.
pub fn add_token(dir: &Path, new: &NewSecret) -> Result<String, TokenError> {
    add_entry(dir, new, new.lifetime, None)
}

fn add_entry(
    dir: &Path,
    new: &NewSecret,
    lifetime: Option<Duration>,
    join: Option<Join>,
) -> Result<String, TokenError> {
    for name in [&new.build, &new.name] {
        if !is_client_name(name) {
            return Err(TokenError::Name(name.clone()));
        }
    }
    let secret = random_secret(dir)?;
    change(dir, |tokens| {
        check_free(tokens, &new.build, &new.name)?;
        tokens.push(Entry {
            id: secret.id.clone(),
            build: new.build.clone(),
            name: new.name.clone(),
            roles: new.roles.clone(),
            hash: secret.hash(),
            created: now(),
            expires: lifetime.map(|lifetime| now().saturating_add(seconds(lifetime))),
            join,
            secret: None,
        });
        Ok(secret.text())
    })
}

fn random_secret(dir: &Path) -> Result<Secret, TokenError> {
    Secret::new().map_err(|source| TokenError::File { path: dir.to_owned(), source })
}

/// Fails if a valid token, or a secret that can be exchanged, has the name.
fn check_free(tokens: &[Entry], build: &str, name: &str) -> Result<(), TokenError> {
    let is_open = |entry: &&Entry| entry.join.as_ref().is_none_or(|join| join.pool || join.joined < join.max_clients);
    let mut same = tokens.iter().filter(|entry| entry.build == build && entry.name == name);
    match same.any(|entry| entry.is_valid(now()) && is_open(&entry)) {
        true => Err(TokenError::Taken { build: build.into(), name: name.into() }),
        false => Ok(()),
    }
}

/// Returns all tokens and secrets, also expired ones.
pub fn list(dir: &Path) -> Result<Vec<TokenInfo>, TokenError> {
    Ok(read(dir)?.iter().map(Entry::info).collect())
}

/// Removes all tokens and secrets of a build with this identifier or name, and the tokens that a removed secret was
/// exchanged for. Returns the removed ones.
pub fn revoke(dir: &Path, build: &str, word: &str) -> Result<Vec<TokenInfo>, TokenError> {
    change(dir, |tokens| {
        let is_named = |entry: &Entry| entry.build == build && (entry.id == word || entry.name == word);
        let named: Vec<String> = tokens.iter().filter(|entry| is_named(entry)).map(|entry| entry.id.clone()).collect();
        let is_gone = |entry: &mut Entry| {
            named.contains(&entry.id) || entry.secret.as_ref().is_some_and(|secret| named.contains(secret))
        };
        let removed: Vec<TokenInfo> = tokens.extract_if(.., is_gone).map(|entry| entry.info()).collect();
        if removed.is_empty() { Err(TokenError::Unknown(word.to_owned())) } else { Ok(removed) }
    })
}

/// Exchanges a secret for a token whose key the client has chosen. A repeat with the same key gets the same token.
pub(crate) fn join(dir: &Path, build: &str, secret: &str, key: Digest) -> Result<JoinAnswer, TokenError> {
    let secret = Secret::parse(secret).ok_or(TokenError::Secret)?;
    let fresh = Secret::with_key(key).map_err(|source| TokenError::File { path: dir.to_owned(), source })?;
    change(dir, |tokens| {
        let is_it = |entry: &&mut Entry| entry.id == secret.id && entry.build == build && entry.join.is_some();
        let entry = tokens.iter_mut().find(is_it).ok_or(TokenError::Secret)?;
        if !entry.hash.matches(&secret.hash()) || !entry.is_valid(now()) {
            return Err(TokenError::Secret);
        }
        let mut template = entry.clone();
        if let Some(answer) = joined_before(tokens, &secret.id, key) {
            return Ok(answer);
        }
        let Some(join) = template.join.take().filter(|join| join.joined < join.max_clients) else {
            return Err(TokenError::Used(template.name));
        };
        let name = if join.pool { numbered_name(tokens, &template) } else { template.name.clone() };
        let token = Entry {
            id: fresh.id.clone(),
            name: name.clone(),
            hash: fresh.hash(),
            created: now(),
            expires: join.lifetime.map(|lifetime| now().saturating_add(lifetime)),
            secret: Some(secret.id.clone()),
            ..template
        };
        tokens.push(token);
        let counted = tokens.iter_mut().find(|entry| entry.id == secret.id).and_then(|entry| entry.join.as_mut());
        if let Some(join) = counted {
            join.joined += 1;
        }
        Ok(JoinAnswer { name, token: fresh.text() })
    })
}

fn joined_before(tokens: &[Entry], secret: &str, key: Digest) -> Option<JoinAnswer> {
    let mut own = tokens.iter().filter(|entry| entry.secret.as_deref() == Some(secret));
    own.find_map(|entry| {
        let token = Secret::of(&entry.id, key);
        entry.hash.matches(&token.hash()).then(|| JoinAnswer { name: entry.name.clone(), token: token.text() })
    })
}

/// The first free name of a pool.
fn numbered_name(tokens: &[Entry], pool: &Entry) -> String {
    let own = tokens.iter().filter(|entry| entry.build == pool.build);
    let taken: HashSet<&str> = own.map(|entry| &entry.name[..]).collect();
    let mut names = (1..=tokens.len() + 1).map(|number| format!("{}-{number}", pool.name));
    names.find(|name| !taken.contains(&name[..])).unwrap_or_else(|| pool.id.clone())
}

/// Writes a join file, which only its owner can read. Fails if the file exists.
pub fn write_join_file(path: &Path, join: &JoinFile) -> io::Result<()> {
    write_private(path, &join.encode().map_err(io::Error::other)?)
}

/// Writes a token and a newline to a file, which only its owner can read. Fails if the file exists.
pub fn write_token_file(path: &Path, token: &str) -> io::Result<()> {
    write_private(path, format!("{token}\n").as_bytes())
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write;
    let mut file = private_files::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads a join file. Fails with `PermissionDenied` if other users can write it.
pub fn read_join_file(path: &Path) -> io::Result<JoinFile> {
    let bytes = private_files::open(path).and_then(|file| read_limited(&file))?;
    JoinFile::decode(&bytes).map_err(io::Error::other)
}

/// The roles of a client that builds packages.
pub fn default_roles() -> Roles {
    Roles(vec![Role::Build])
}
