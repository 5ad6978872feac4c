//! Finds in what a failed stage printed the lines that say why. Does not know which package it was, nor where the text
//! lies.
//!
//! What ended the stage stands near the first line in which make, ninja or the like say that a command has failed. Before
//! that line a compiler, a linker or a script has said why; lines that say it for certain go before those that may be
//! harmless, such as a file that was looked for in vain, and those before warnings.

mod signs;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use tanto_record::views::process_list;

pub use signs::Kind;
use signs::{Sign, sign};

/// What went wrong, as far as a log tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What sort of thing.
    pub kind: Kind,
    /// Lines of the log, the first error first.
    pub lines: Vec<String>,
}

/// So much of the end of a log is looked at.
pub const LOOKED_AT: usize = 1 << 20;
/// So many lines before and behind the failure.
const AROUND: usize = 400;
/// So many lines are told.
const MOST: usize = 5;
/// Of a line that ends in a colon, so many of the next are told too.
const ATTACHED: usize = 2;
/// So many lines are told where none looks like an error.
const LAST: usize = 3;
/// So much of a line.
const LONGEST: usize = 400;

/// What the log says; nothing if it is empty.
pub fn find(log: &[u8]) -> Option<Found> {
    let tail = &log[log.len().saturating_sub(LOOKED_AT)..];
    let lines: Vec<Cow<'_, [u8]>> = tail.split(|&byte| byte == b'\n').map(plain).collect();
    let lines = printed(&lines);
    let failure = lines.iter().position(|line| sign(line) == Some(Sign::Failure));
    let end = failure.unwrap_or(lines.len());
    let before = &lines[end.saturating_sub(AROUND)..end];
    let behind = &lines[end..lines.len().min(end.saturating_add(AROUND))];
    certain(before)
        .or_else(|| certain(behind))
        .or_else(|| last(before, likely))
        .or_else(|| last(behind, likely))
        .or_else(|| last(before, warning))
        .or_else(|| last(behind, warning))
        .or_else(|| unknown(before))
        .or_else(|| unknown(lines))
}

/// Without what a log ends with if the stage was ended: that it hung, say, is known, and which processes there were is no
/// error.
fn printed<'a, 'b>(lines: &'a [Cow<'b, [u8]>]) -> &'a [Cow<'b, [u8]>] {
    let is_told =
        |pair: &[Cow<'_, [u8]>]| pair[0].starts_with(b"tanto: ") && pair[1].ends_with(process_list::PROCESSES_SUFFIX);
    lines.windows(2).rposition(is_told).map_or(lines, |at| &lines[..at])
}

/// The first line that says for certain what is wrong, and those that belong to it.
fn certain(lines: &[Cow<'_, [u8]>]) -> Option<Found> {
    let (at, kind) = lines.iter().enumerate().find_map(|(at, line)| match sign(line)? {
        Sign::Certain(kind) => Some((at, kind)),
        _ => None,
    })?;
    let mut told: Vec<String> = Vec::new();
    let mut attached = 0;
    for line in lines[at..].iter().filter(|line| !line.trim_ascii().is_empty()) {
        let is_error = matches!(sign(line), Some(Sign::Certain(_)));
        if !is_error && attached == 0 {
            continue;
        }
        attached = if line.ends_with(b":") { ATTACHED } else { attached.saturating_sub(1) };
        let line = shown(line);
        if !told.contains(&line) {
            told.push(line);
        }
        if told.len() == MOST {
            break;
        }
    }
    Some(Found { kind, lines: told })
}

/// The last line with a sign that counts.
fn last(lines: &[Cow<'_, [u8]>], counts: fn(Sign) -> Option<Kind>) -> Option<Found> {
    lines.iter().rev().find_map(|line| Some(Found { kind: counts(sign(line)?)?, lines: vec![shown(line)] }))
}

fn likely(sign: Sign) -> Option<Kind> {
    if let Sign::Likely(kind) = sign { Some(kind) } else { None }
}

fn warning(sign: Sign) -> Option<Kind> {
    if let Sign::Warning(kind) = sign { Some(kind) } else { None }
}

fn unknown(lines: &[Cow<'_, [u8]>]) -> Option<Found> {
    let some = lines.iter().rev().filter(|line| !line.trim_ascii().is_empty()).take(LAST);
    let mut told: Vec<String> = some.map(|line| shown(line)).collect();
    told.reverse();
    (!told.is_empty()).then_some(Found { kind: Kind::Unknown, lines: told })
}

/// Without what colours it, and what a terminal would have written over.
fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = memchr::memrchr(b'\r', line).map_or(line, |at| &line[at + 1..]);
    if memchr::memchr(ESCAPE, line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = behind_sequence(&rest[at + 1..]);
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

const ESCAPE: u8 = 0x1b;

/// What follows an escape: for `[`, all up to a letter belongs to it.
fn behind_sequence(text: &[u8]) -> &[u8] {
    match text.split_first() {
        Some((b'[', rest)) => {
            rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(&[], |at| &rest[at + 1..])
        }
        Some((_, rest)) => rest,
        None => text,
    }
}

/// For a reader.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]);
    let text: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if line.len() > LONGEST { text + "..." } else { text.trim_end().to_owned() }
}
