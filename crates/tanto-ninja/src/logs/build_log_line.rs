//! The format of `.ninja_log`: a header, and a line for each output.
//!
//! ```text
//! # ninja log v7
//! START \t END \t MTIME \t OUTPUT \t HASH \n
//! ```
//!
//! START and END are in milliseconds since that build began, MTIME is in nanoseconds since 1970, HASH is hexadecimal.

mod fast_path;

use std::io::Write;

use super::saved_index::LoggedCommand;
use crate::disk::Mtime;

/// The oldest supported version.
pub(super) const OLDEST: u32 = 5;
/// The newest supported version.
pub(super) const NEWEST: u32 = 7;

const SIGNATURE: &[u8] = b"# ninja log v";

/// The length in bytes from which lines are skipped, as in ninja.
pub(super) const TOO_LONG: usize = 256 << 10;

/// The entry of one output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The hash depends on the log's version.
    pub command_hash: u64,
    /// The start of the command, in milliseconds since its build began.
    pub start_ms: i32,
    /// The end of the command, in milliseconds since its build began.
    pub end_ms: i32,
    /// See `BuildLog::records_output_mtime`.
    pub mtime: Mtime,
}

impl Entry {
    pub(super) fn logged_command(self) -> LoggedCommand {
        LoggedCommand { command_hash: self.command_hash, mtime: self.mtime }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    Supported,
    TooOld,
    TooNew,
}

/// Parses the header of a log that is not empty.
pub(super) fn read_header(text: &[u8]) -> (Header, u32) {
    let version = text.strip_prefix(SIGNATURE).map_or(0, decimal);
    match u32::try_from(version) {
        Ok(version @ OLDEST..=NEWEST) => (Header::Supported, version),
        _ if version > i64::from(NEWEST) => (Header::TooNew, 0),
        _ => (Header::TooOld, 0),
    }
}

pub(super) fn header(version: u32) -> Vec<u8> {
    [SIGNATURE, version.to_string().as_bytes(), b"\n"].concat()
}

pub(super) fn write(text: &mut Vec<u8>, output: &[u8], entry: &Entry) {
    let ok = "writing to memory";
    write!(text, "{}\t{}\t{}\t", entry.start_ms, entry.end_ms, entry.mtime).expect(ok);
    text.extend_from_slice(output);
    writeln!(text, "\t{:x}", entry.command_hash).expect(ok);
}

/// Returns the output in a line without its end, or `None` if the line is malformed.
#[inline]
pub(super) fn output(line: &[u8]) -> Option<&[u8]> {
    Some(split(line)?[3])
}

/// Returns the first line without its end.
#[inline]
pub(super) fn first(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())]
}

/// Parses the first line.
#[inline]
pub(super) fn entry(text: &[u8]) -> Option<Entry> {
    let text = &text[..text.len().min(TOO_LONG)];
    fast_path::entry(text).or_else(|| parse_entry(first(text)))
}

fn parse_entry(line: &[u8]) -> Option<Entry> {
    let [start, end, mtime, _, hash] = split(line)?;
    // Truncates like a conversion to C's `int`.
    let (start_ms, end_ms) = (decimal(start) as i32, decimal(end) as i32);
    Some(Entry { command_hash: hexadecimal(hash), start_ms, end_ms, mtime: decimal(mtime) })
}

/// The fields of a line; the last one may contain tabs.
#[inline]
fn split(line: &[u8]) -> Option<[&[u8]; 5]> {
    if line.len() >= TOO_LONG {
        return None;
    }
    let mut rest = line;
    let mut field = || {
        let end = memchr::memchr(b'\t', rest)?;
        let field = &rest[..end];
        rest = &rest[end + 1..];
        Some(field)
    };
    let fields = [field()?, field()?, field()?, field()?];
    let [start, end, mtime, output] = fields;
    Some([start, end, mtime, output, rest])
}

/// Parses like `strtoll`: 0 without digits, the nearest value on overflow.
fn decimal(text: &[u8]) -> i64 {
    let (negative, digits) = sign(text);
    let digits = digits.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|&digit| digit < 10).map(u64::from);
    let (mut number, mut length) = (0_u64, 0);
    for digit in digits {
        number = number.wrapping_mul(10).wrapping_add(digit);
        // Leading zeros do not count as digits.
        length += usize::from(number != 0);
    }
    // Any number of 19 digits fits into a `u64`.
    let number = if length <= 19 { number } else { u64::MAX };
    match (i64::try_from(number), negative) {
        (Ok(number), true) => -number,
        (Ok(number), false) => number,
        (Err(_), true) => i64::MIN,
        (Err(_), false) => i64::MAX,
    }
}

/// Parses like `strtoull` with base 16.
fn hexadecimal(text: &[u8]) -> u64 {
    let (negative, digits) = sign(text);
    let digits = match digits {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => digits,
        digits => digits,
    };
    let mut number = 0_u64;
    for digit in digits.iter().map_while(|&byte| (byte as char).to_digit(16)) {
        if number >> 60 != 0 {
            return u64::MAX;
        }
        number = number << 4 | u64::from(digit);
    }
    if negative { number.wrapping_neg() } else { number }
}

/// Skips white space and a sign; returns true for a minus.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_lines_are_read_back() {
        let entry = Entry { command_hash: 0xfeed, start_ms: -1, end_ms: 2, mtime: i64::MIN };
        let mut text = Vec::new();
        write(&mut text, b"a b", &entry);
        let line = text.strip_suffix(b"\n").expect("a line");
        assert_eq!((output(line), super::entry(line)), (Some(b"a b".as_slice()), Some(entry)));
        assert_eq!(output(&line[..line.len() - b"\tfeed".len()]), None);
    }

    #[test]
    fn numbers_are_parsed_like_in_c() {
        let cases: &[(&[u8], i64)] = &[
            (b"12", 12),
            (b" +7x", 7),
            (b"-5", -5),
            (b"", 0),
            (b"x", 0),
            (b"99999999999999999999", i64::MAX),
            (b"-99999999999999999999", i64::MIN),
            (b"-9223372036854775808", i64::MIN),
            (b"-9223372036854775807", -i64::MAX),
            (b"9223372036854775807", i64::MAX),
            (b"9223372036854775808", i64::MAX),
            (b"18446744073709551617", i64::MAX),
            (b"00000000000000000000012", 12),
            (b"-100000000000000000000000000000000000000000000", i64::MIN),
            (
                b"6553600000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
                i64::MAX,
            ),
        ];
        for (text, number) in cases {
            assert_eq!(decimal(text), *number, "{text:?}");
        }
        let cases: &[(&[u8], u64)] = &[
            (b"deadBEEF", 0xdead_beef),
            (b"0x1f", 0x1f),
            (b"0xg", 0),
            (b"\t2\r", 2),
            (b"-1", u64::MAX),
            (b"10000000000000000", u64::MAX),
            (b"fedcba9876543210", 0xfedc_ba98_7654_3210),
            (b"-00000000000000000000000000ff", 0_u64.wrapping_sub(0xff)),
            (b"", 0),
        ];
        for (text, number) in cases {
            assert_eq!(hexadecimal(text), *number, "{text:?}");
        }
    }

    #[test]
    fn unsupported_versions_are_distinguished() {
        let cases: &[(&[u8], Header)] = &[
            (b"# ninja log v4\n", Header::TooOld),
            (b"# ninja log v8\n", Header::TooNew),
            (b"# ninja log v99999999999999999999\n", Header::TooNew),
            (b"# ninja log v-1\n", Header::TooOld),
            (b"# ninja", Header::TooOld),
            (b"\n", Header::TooOld),
            (b"\0", Header::TooOld),
            (b"# ninja log v5", Header::Supported),
        ];
        for (text, header) in cases {
            assert_eq!(read_header(text).0, *header, "{text:?}");
        }
    }
}
