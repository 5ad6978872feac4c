//! Expansion of raw values: literal text and variables.

use memchr::memchr;

use super::lexer::simple_name_end;
use crate::error::{Error, Result};

/// The longest value that is evaluated, in bytes. No command line comes near it; without it, doubling variables (`a =
/// $a$a`) would fill the memory.
pub(crate) const MAX_VALUE_BYTES: usize = 1 << 26;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValuePart<'a> {
    Text(&'a [u8]),
    Variable(&'a [u8]),
}

/// Iterator over the parts of a raw value whose escapes the lexer has checked.
pub(crate) struct ValueParts<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for ValueParts<'a> {
    type Item = ValuePart<'a>;

    fn next(&mut self) -> Option<ValuePart<'a>> {
        loop {
            let rest = self.0;
            match memchr(b'$', rest) {
                _ if rest.is_empty() => return None,
                Some(0) => {}
                plain => {
                    let (text, after) = rest.split_at(plain.unwrap_or(rest.len()));
                    self.0 = after;
                    return Some(ValuePart::Text(text));
                }
            }
            if let Some(part) = self.escape(rest) {
                return Some(part);
            }
        }
    }
}

impl<'a> ValueParts<'a> {
    /// Consumes the escape at the start; returns `None` for a line continuation.
    fn escape(&mut self, rest: &'a [u8]) -> Option<ValuePart<'a>> {
        match rest {
            [_, b'\n', after @ ..] | [_, b'\r', b'\n', after @ ..] => {
                self.0 = skip_spaces(after);
                None
            }
            [_, b'{', after @ ..] => {
                let end = memchr(b'}', after).unwrap_or(after.len());
                self.0 = after.get(end + 1..).unwrap_or_default();
                Some(ValuePart::Variable(&after[..end]))
            }
            _ => {
                let end = simple_name_end(rest, 1);
                let (part, end) = match end {
                    1 => (ValuePart::Text(&rest[1..rest.len().min(2)]), rest.len().min(2)),
                    _ => (ValuePart::Variable(&rest[1..end]), end),
                };
                self.0 = &rest[end..];
                Some(part)
            }
        }
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().position(|&b| b != b' ').unwrap_or(text.len());
    &text[spaces..]
}

/// Appends the value of a raw text. A variable that `look_up` does not find is empty.
pub(crate) fn append_value<'v>(
    raw: &[u8],
    value: &mut Vec<u8>,
    look_up: impl Fn(&[u8]) -> Option<&'v [u8]>,
) -> Result<()> {
    for part in ValueParts(raw) {
        match part {
            ValuePart::Text(text) => value.extend_from_slice(text),
            ValuePart::Variable(name) => {
                value.extend_from_slice(look_up(name).unwrap_or_default());
                check_length(value, name)?;
            }
        }
    }
    Ok(())
}

/// Returns an error if the value exceeds the limit.
pub(crate) fn check_length(value: &[u8], name: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE_BYTES {
        return Ok(());
    }
    let limit = format!("' makes a value longer than {MAX_VALUE_BYTES} bytes");
    Err(Error::new(&[b"variable '", name, limit.as_bytes()]))
}

/// Returns the value with escapes resolved and variables as `${name}`, for `-t rules`.
pub fn unparse(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in ValueParts(raw) {
        match part {
            ValuePart::Text(text) => out.extend_from_slice(text),
            ValuePart::Variable(name) => out.extend_from_slice(&[b"${", name, b"}"].concat()),
        }
    }
    out
}
