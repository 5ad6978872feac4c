//! Finds the lines of a log that explain a failure.
//!
//! The failure is near the first line in which make, ninja or the like report a failed command. The error of a
//! compiler, linker or script comes before it. Certain errors go before possible ones, such as a missing file, and
//! those before warnings.

mod error_patterns;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use tanto_record::views::process_list;

pub use error_patterns::ErrorKind;
use error_patterns::{LineMeaning, sign};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorLines {
    pub kind: ErrorKind,
    /// Lines of the log, the first error first.
    pub lines: Vec<String>,
}

/// Bytes at the end of a log that are searched.
pub const TAIL_BYTES: usize = 1 << 20;
/// Lines searched before and after the failure.
const AROUND: usize = 400;
/// The limit of reported lines.
const MOST: usize = 5;
/// Lines that are added after a line that ends in a colon.
const ATTACHED: usize = 2;
/// Lines reported if none looks like an error.
const LAST: usize = 3;
/// Bytes of a line.
const LONGEST: usize = 400;

/// Searches a log; `None` if it is empty.
pub fn find(log: &[u8]) -> Option<ErrorLines> {
    let tail = &log[log.len().saturating_sub(TAIL_BYTES)..];
    let lines: Vec<Cow<'_, [u8]>> = tail.split(|&byte| byte == b'\n').map(plain).collect();
    let lines = printed(&lines);
    let failure = lines.iter().position(|line| sign(line) == Some(LineMeaning::Failure));
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

/// Removes the text that is added to the log of a killed stage, such as its processes.
fn printed<'a, 'b>(lines: &'a [Cow<'b, [u8]>]) -> &'a [Cow<'b, [u8]>] {
    let is_told =
        |pair: &[Cow<'_, [u8]>]| pair[0].starts_with(b"tanto: ") && pair[1].ends_with(process_list::PROCESSES_SUFFIX);
    lines.windows(2).rposition(is_told).map_or(lines, |at| &lines[..at])
}

/// The first certain error and the lines that belong to it.
fn certain(lines: &[Cow<'_, [u8]>]) -> Option<ErrorLines> {
    let (at, kind) = lines.iter().enumerate().find_map(|(at, line)| match sign(line)? {
        LineMeaning::Certain(kind) => Some((at, kind)),
        _ => None,
    })?;
    let mut told: Vec<String> = Vec::new();
    let mut attached = 0;
    for line in lines[at..].iter().filter(|line| !line.trim_ascii().is_empty()) {
        let is_error = matches!(sign(line), Some(LineMeaning::Certain(_)));
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
    Some(ErrorLines { kind, lines: told })
}

/// The last line with a relevant pattern.
fn last(lines: &[Cow<'_, [u8]>], counts: fn(LineMeaning) -> Option<ErrorKind>) -> Option<ErrorLines> {
    lines.iter().rev().find_map(|line| Some(ErrorLines { kind: counts(sign(line)?)?, lines: vec![shown(line)] }))
}

fn likely(sign: LineMeaning) -> Option<ErrorKind> {
    if let LineMeaning::Likely(kind) = sign { Some(kind) } else { None }
}

fn warning(sign: LineMeaning) -> Option<ErrorKind> {
    if let LineMeaning::Warning(kind) = sign { Some(kind) } else { None }
}

fn unknown(lines: &[Cow<'_, [u8]>]) -> Option<ErrorLines> {
    let some = lines.iter().rev().filter(|line| !line.trim_ascii().is_empty()).take(LAST);
    let mut told: Vec<String> = some.map(|line| shown(line)).collect();
    told.reverse();
    (!told.is_empty()).then_some(ErrorLines { kind: ErrorKind::Unknown, lines: told })
}

/// Removes colors and overwritten text.
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

/// Skips an escape sequence; after `[`, it ends with a letter.
fn behind_sequence(text: &[u8]) -> &[u8] {
    match text.split_first() {
        Some((b'[', rest)) => {
            rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(&[], |at| &rest[at + 1..])
        }
        Some((_, rest)) => rest,
        None => text,
    }
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]);
    let text: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if line.len() > LONGEST { text + "..." } else { text.trim_end().to_owned() }
}
