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
const CONTEXT_LINES: usize = 400;
/// The limit of reported lines.
const MAX_LINES: usize = 5;
/// Lines added after a line that ends in a colon.
const LINES_AFTER_COLON: usize = 2;
/// Lines reported if none looks like an error.
const FALLBACK_LINES: usize = 3;
/// Bytes shown of a line.
const MAX_LINE_BYTES: usize = 400;

/// Searches a log; `None` if it is empty.
pub fn find(log: &[u8]) -> Option<ErrorLines> {
    let tail = &log[log.len().saturating_sub(TAIL_BYTES)..];
    let lines: Vec<Cow<'_, [u8]>> = tail.split(|&byte| byte == b'\n').map(plain).collect();
    let lines = without_process_list(&lines);
    let failure = lines.iter().position(|line| sign(line) == Some(LineMeaning::Failure));
    let end = failure.unwrap_or(lines.len());
    let before = &lines[end.saturating_sub(CONTEXT_LINES)..end];
    let after = &lines[end..lines.len().min(end.saturating_add(CONTEXT_LINES))];
    certain(before)
        .or_else(|| certain(after))
        .or_else(|| last(before, likely))
        .or_else(|| last(after, likely))
        .or_else(|| last(before, warning))
        .or_else(|| last(after, warning))
        .or_else(|| unknown(before))
        .or_else(|| unknown(lines))
}

/// Removes the process list at the end of the log of a killed stage.
fn without_process_list<'a, 'b>(lines: &'a [Cow<'b, [u8]>]) -> &'a [Cow<'b, [u8]>] {
    let is_process_list =
        |pair: &[Cow<'_, [u8]>]| pair[0].starts_with(b"tanto: ") && pair[1].ends_with(process_list::PROCESSES_SUFFIX);
    lines.windows(2).rposition(is_process_list).map_or(lines, |at| &lines[..at])
}

/// Returns the first certain error with its lines.
fn certain(lines: &[Cow<'_, [u8]>]) -> Option<ErrorLines> {
    let (at, kind) = lines.iter().enumerate().find_map(|(at, line)| match sign(line)? {
        LineMeaning::Certain(kind) => Some((at, kind)),
        _ => None,
    })?;
    let mut found: Vec<String> = Vec::new();
    let mut attached = 0;
    for line in lines[at..].iter().filter(|line| !line.trim_ascii().is_empty()) {
        let is_error = matches!(sign(line), Some(LineMeaning::Certain(_)));
        if !is_error && attached == 0 {
            continue;
        }
        attached = if line.ends_with(b":") { LINES_AFTER_COLON } else { attached.saturating_sub(1) };
        let line = shown(line);
        if !found.contains(&line) {
            found.push(line);
        }
        if found.len() == MAX_LINES {
            break;
        }
    }
    Some(ErrorLines { kind, lines: found })
}

/// Returns the last line with a matching pattern.
fn last(lines: &[Cow<'_, [u8]>], matches: fn(LineMeaning) -> Option<ErrorKind>) -> Option<ErrorLines> {
    lines.iter().rev().find_map(|line| Some(ErrorLines { kind: matches(sign(line)?)?, lines: vec![shown(line)] }))
}

fn likely(sign: LineMeaning) -> Option<ErrorKind> {
    if let LineMeaning::Likely(kind) = sign { Some(kind) } else { None }
}

fn warning(sign: LineMeaning) -> Option<ErrorKind> {
    if let LineMeaning::Warning(kind) = sign { Some(kind) } else { None }
}

fn unknown(lines: &[Cow<'_, [u8]>]) -> Option<ErrorLines> {
    let some = lines.iter().rev().filter(|line| !line.trim_ascii().is_empty()).take(FALLBACK_LINES);
    let mut last: Vec<String> = some.map(|line| shown(line)).collect();
    last.reverse();
    (!last.is_empty()).then_some(ErrorLines { kind: ErrorKind::Unknown, lines: last })
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
        rest = skip_escape_sequence(&rest[at + 1..]);
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

const ESCAPE: u8 = 0x1b;

/// Skips an escape sequence; after `[`, it ends with a letter.
fn skip_escape_sequence(text: &[u8]) -> &[u8] {
    match text.split_first() {
        Some((b'[', rest)) => {
            rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(&[], |at| &rest[at + 1..])
        }
        Some((_, rest)) => rest,
        None => text,
    }
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]);
    let text: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if line.len() > MAX_LINE_BYTES { text + "..." } else { text.trim_end().to_owned() }
}
