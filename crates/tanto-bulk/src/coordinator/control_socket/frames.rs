//! Requests and answers as bytes. Does not know where they go.
//!
//! Who connects and who is connected to both send a line first: what they speak, in which version. Then there is one
//! request and one answer: a length, and as many bytes of words, each with its length before it. Lengths have 32 bits, the
//! lowest byte first.

use super::{Answer, Request};

/// What both begin with, before the version.
pub(super) const SPEECH: &[u8] = b"tanto bulk ";
/// Another one means that requests or answers have another meaning.
pub(super) const VERSION: u32 = 1;
/// A greeting is no longer than this.
pub(super) const LONGEST_GREETING: usize = 32;
/// What the greatest request may have: the records of some thousand packages.
pub(super) const MOST: usize = 32 << 20;
/// The bytes of a length.
pub(super) const LENGTH: usize = 4;

/// Why what somebody sent is no good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// It begins with something else than Tanto does.
    Stranger,
    /// It is another Tanto.
    Version(Vec<u8>),
    /// It is longer than anything may be.
    TooLong,
    /// It is none of the requests or answers.
    Nonsense,
}

pub(super) fn greeting() -> Vec<u8> {
    [SPEECH, VERSION.to_string().as_bytes(), b"\n"].concat()
}

/// Where what comes behind a greeting begins; none if that is not whole yet.
pub(super) fn greeted(bytes: &[u8]) -> Result<Option<usize>, Wrong> {
    let begin = &bytes[..bytes.len().min(SPEECH.len())];
    if !SPEECH.starts_with(begin) {
        return Err(Wrong::Stranger);
    }
    match memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_GREETING)]) {
        Some(end) if bytes[SPEECH.len()..end] == *VERSION.to_string().as_bytes() => Ok(Some(end + 1)),
        Some(end) => Err(Wrong::Version(bytes[SPEECH.len()..end].to_vec())),
        None if bytes.len() >= LONGEST_GREETING => Err(Wrong::Stranger),
        None => Ok(None),
    }
}

/// The words behind the length at the beginning of these bytes; none if they are not whole yet.
pub(super) fn frame(bytes: &[u8]) -> Result<Option<Vec<&[u8]>>, Wrong> {
    let Some(length) = length(bytes) else { return Ok(None) };
    if length > MOST {
        return Err(Wrong::TooLong);
    }
    let Some(mut rest) = bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
    let mut words = Vec::new();
    while !rest.is_empty() {
        let length = self::length(rest).ok_or(Wrong::Nonsense)?;
        let word = rest[LENGTH..].get(..length).ok_or(Wrong::Nonsense)?;
        words.push(word);
        rest = &rest[LENGTH + length..];
    }
    Ok(Some(words))
}

fn length(bytes: &[u8]) -> Option<usize> {
    let (first, _) = bytes.split_first_chunk::<LENGTH>()?;
    usize::try_from(u32::from_le_bytes(*first)).ok()
}

/// Words, with their length before them. What is longer than anything may be is cut at its end.
fn framed(words: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; LENGTH];
    for word in words {
        let room = (MOST + LENGTH).saturating_sub(out.len() + LENGTH);
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
            Request::Log { package, stage } => {
                let stage = stage.clone().map(String::into_bytes);
                [b"log".to_vec(), package.clone().into_bytes()].into_iter().chain(stage).collect()
            }
            Request::Retry { packages, records } => {
                [vec![b"retry".to_vec(), records.clone()], names(packages)].concat()
            }
            Request::Skip(packages) => [vec![b"skip".to_vec()], names(packages)].concat(),
            Request::Kill(packages) => [vec![b"kill".to_vec()], names(packages)].concat(),
        };
        words.extend(all.iter().map(Vec::as_slice));
        framed(&words)
    }

    pub(super) fn of(words: &[&[u8]]) -> Result<Request, Wrong> {
        let text = |word: &&[u8]| std::str::from_utf8(word).map(str::to_owned).map_err(|_| Wrong::Nonsense);
        let all = |words: &[&[u8]]| words.iter().map(text).collect::<Result<Vec<String>, Wrong>>();
        Ok(match words {
            [b"status"] => Request::Status,
            [b"log", package] => Request::Log { package: text(package)?, stage: None },
            [b"log", package, stage] => Request::Log { package: text(package)?, stage: Some(text(stage)?) },
            [b"retry", records, packages @ ..] => {
                Request::Retry { packages: all(packages)?, records: records.to_vec() }
            }
            [b"skip", packages @ ..] => Request::Skip(all(packages)?),
            [b"kill", packages @ ..] => Request::Kill(all(packages)?),
            _ => return Err(Wrong::Nonsense),
        })
    }
}

impl Answer {
    pub(super) fn bytes(&self) -> Vec<u8> {
        framed(&[&[self.code], &self.err, &self.out])
    }

    pub(super) fn of(words: &[&[u8]]) -> Result<Answer, Wrong> {
        match words {
            [[code], err, out] => Ok(Answer { code: *code, out: out.to_vec(), err: err.to_vec() }),
            _ => Err(Wrong::Nonsense),
        }
    }
}
