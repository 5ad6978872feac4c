//! Joins a build once and keeps the client's token in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tanto_protocol::{Digest, JoinAnswer, JoinFile, Message};
use tanto_sys::fs::private_files;

use super::provision::persist;
use super::{ClientError, join, random_key};
use crate::files::replace_private;

#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// Returns the name and the token of the client. Joins with the secret of the join file if its token is not in `dir`.
pub fn member(file: &JoinFile, dir: &Path) -> Result<JoinAnswer, MembershipError> {
    let id = file_id(file);
    let (token_path, key_path) = (dir.join(format!("token-{id}.json")), dir.join(format!("key-{id}")));
    if let Some(answer) = read(&token_path)? {
        return JoinAnswer::decode(&answer).map_err(|error| failed(&token_path)(io::Error::other(error)));
    }
    let key = stored_key(&key_path)?;
    let answer = persist(|| join(file, key))?;
    let encoded = answer.encode().map_err(|error| failed(&token_path)(io::Error::other(error)))?;
    replace_private(&token_path, &encoded).map_err(failed(&token_path))?;
    fs::remove_file(&key_path).map_err(failed(&key_path))?;
    Ok(answer)
}

/// The part of the secret that is no secret tells join files apart.
pub(super) fn file_id(file: &JoinFile) -> &str {
    let id = file.secret.split('.').next().unwrap_or_default();
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { id } else { "other" }
}

/// The key is stored before the secret is used, so that a repeat gets the same token.
fn stored_key(path: &Path) -> Result<Digest, MembershipError> {
    if let Some(text) = read(path)? {
        let parsed = std::str::from_utf8(&text).ok().and_then(|text| text.trim_end().parse().ok());
        return parsed.ok_or_else(|| failed(path)(io::ErrorKind::InvalidData.into()));
    }
    let key = random_key().map_err(failed(path))?;
    replace_private(path, key.to_string().as_bytes()).map_err(failed(path))?;
    Ok(key)
}

pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, MembershipError> {
    let read = private_files::open(path).and_then(|mut file| {
        let mut text = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(&mut file, 64 << 10), &mut text)?;
        Ok(text)
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(failed(path)),
    }
}

pub(super) fn failed(path: &Path) -> impl FnOnce(io::Error) -> MembershipError {
    let path = path.to_owned();
    move |source| MembershipError::File { path, source }
}
