//! Encoding of requests and answers.
//!
//! Both sides first send a line with the protocol and its version. Then there is one request and one answer. Each is a length and
//! as many bytes of words, which have a length each. Lengths have 32 bits, little endian.

use super::{Request, Response};

/// The greeting before the version.
pub(super) const PROTOCOL: &[u8] = b"tanto bulk ";
/// Changes with the meaning of requests or answers.
pub(super) const VERSION: u32 = 1;
/// The maximum length of a greeting, in bytes.
pub(super) const MAX_GREETING: usize = 32;
/// The maximum length of a message, in bytes: the records of some thousand packages.
pub(super) const MAX_MESSAGE: usize = 32 << 20;
/// The size of a length, in bytes.
pub(super) const LENGTH: usize = 4;

/// Why bytes are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FrameError {
    /// They do not begin with a greeting.
    NoGreeting,
    /// The greeting has this version.
    Version(Vec<u8>),
    TooLong,
    /// They are no request or answer.
    Malformed,
}

pub(super) fn greeting() -> Vec<u8> {
    [PROTOCOL, VERSION.to_string().as_bytes(), b"\n"].concat()
}

/// Returns the end of the greeting; `None` if it is incomplete.
pub(super) fn greeting_end(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let begin = &bytes[..bytes.len().min(PROTOCOL.len())];
    if !PROTOCOL.starts_with(begin) {
        return Err(FrameError::NoGreeting);
    }
    match memchr::memchr(b'\n', &bytes[..bytes.len().min(MAX_GREETING)]) {
        Some(end) if bytes[PROTOCOL.len()..end] == *VERSION.to_string().as_bytes() => Ok(Some(end + 1)),
        Some(end) => Err(FrameError::Version(bytes[PROTOCOL.len()..end].to_vec())),
        None if bytes.len() >= MAX_GREETING => Err(FrameError::NoGreeting),
        None => Ok(None),
    }
}

/// Returns the words of a message; `None` if it is incomplete.
pub(super) fn frame(bytes: &[u8]) -> Result<Option<Vec<&[u8]>>, FrameError> {
    let Some(length) = length(bytes) else { return Ok(None) };
    if length > MAX_MESSAGE {
        return Err(FrameError::TooLong);
    }
    let Some(mut rest) = bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
    let mut words = Vec::new();
    while !rest.is_empty() {
        let length = self::length(rest).ok_or(FrameError::Malformed)?;
        let word = rest[LENGTH..].get(..length).ok_or(FrameError::Malformed)?;
        words.push(word);
        rest = &rest[LENGTH + length..];
    }
    Ok(Some(words))
}

fn length(bytes: &[u8]) -> Option<usize> {
    let (first, _) = bytes.split_first_chunk::<LENGTH>()?;
    usize::try_from(u32::from_le_bytes(*first)).ok()
}

/// Encodes words. A message over the limit is truncated.
fn framed(words: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; LENGTH];
    for word in words {
        let room = (MAX_MESSAGE + LENGTH).saturating_sub(out.len() + LENGTH);
        let word = &word[..word.len().min(room)];
        out.extend_from_slice(&(word.len() as u32).to_le_bytes());
        out.extend_from_slice(word);
    }
    let length = (out.len() - LENGTH) as u32;
    out[..LENGTH].copy_from_slice(&length.to_le_bytes());
    out
}

impl Request {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut words: Vec<&[u8]> = Vec::new();
        let names = |names: &'_ [String]| names.iter().map(|name| name.clone().into_bytes()).collect::<Vec<_>>();
        let all: Vec<Vec<u8>> = match self {
            Request::Status => vec![b"status".to_vec()],
            Request::Why(package) => vec![b"why".to_vec(), package.clone().into_bytes()],
            Request::Log { package, stage } => {
                let stage = stage.clone().map(String::into_bytes);
                [b"log".to_vec(), package.clone().into_bytes()].into_iter().chain(stage).collect()
            }
            Request::Follow { package, position } => {
                vec![b"follow".to_vec(), package.clone().into_bytes(), position.to_le_bytes().to_vec()]
            }
            Request::Retry { packages, records } => {
                [vec![b"retry".to_vec(), records.clone()], names(packages)].concat()
            }
            Request::Skip(packages) => [vec![b"skip".to_vec()], names(packages)].concat(),
            Request::Kill(packages) => [vec![b"kill".to_vec()], names(packages)].concat(),
            Request::Clients => vec![b"clients".to_vec()],
            Request::Drain(client) => vec![b"drain".to_vec(), client.clone().into_bytes()],
            Request::Distrust { client, packages } => {
                [vec![b"distrust".to_vec(), client.clone().into_bytes()], names(packages)].concat()
            }
            Request::Link => vec![b"link".to_vec()],
        };
        words.extend(all.iter().map(Vec::as_slice));
        framed(&words)
    }

    pub(super) fn of(words: &[&[u8]]) -> Result<Request, FrameError> {
        let text = |word: &&[u8]| std::str::from_utf8(word).map(str::to_owned).map_err(|_| FrameError::Malformed);
        let all = |words: &[&[u8]]| words.iter().map(text).collect::<Result<Vec<String>, FrameError>>();
        Ok(match words {
            [b"status"] => Request::Status,
            [b"why", package] => Request::Why(text(package)?),
            [b"log", package] => Request::Log { package: text(package)?, stage: None },
            [b"log", package, stage] => Request::Log { package: text(package)?, stage: Some(text(stage)?) },
            [b"follow", package, position] => Request::Follow {
                package: text(package)?,
                position: u64::from_le_bytes((*position).try_into().map_err(|_| FrameError::Malformed)?),
            },
            [b"retry", records, packages @ ..] => {
                Request::Retry { packages: all(packages)?, records: records.to_vec() }
            }
            [b"skip", packages @ ..] => Request::Skip(all(packages)?),
            [b"kill", packages @ ..] => Request::Kill(all(packages)?),
            [b"clients"] => Request::Clients,
            [b"drain", client] => Request::Drain(text(client)?),
            [b"distrust", client, packages @ ..] => {
                Request::Distrust { client: text(client)?, packages: all(packages)? }
            }
            [b"link"] => Request::Link,
            _ => return Err(FrameError::Malformed),
        })
    }
}

impl Response {
    pub(super) fn bytes(&self) -> Vec<u8> {
        framed(&[&[self.code], &self.err, &self.out])
    }

    pub(super) fn of(words: &[&[u8]]) -> Result<Response, FrameError> {
        match words {
            [[code], err, out] => Ok(Response { code: *code, out: out.to_vec(), err: err.to_vec() }),
            _ => Err(FrameError::Malformed),
        }
    }
}
