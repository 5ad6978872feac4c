//! ANSI escape sequences.

use std::borrow::Cow;
use std::ops::Range;

const ESC: u8 = 0x1b;

/// Removes control sequences. A lone escape character is removed, too; an unterminated sequence extends to the end.
pub(crate) fn strip(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&ESC) {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    strip_to(text, |piece| plain.extend_from_slice(piece));
    Cow::Owned(plain)
}

/// Like `strip`, piece by piece.
pub(crate) fn strip_to(text: &[u8], mut take: impl FnMut(&[u8])) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == ESC) {
        take(&rest[..at]);
        rest = after_sequence(&rest[at + 1..]);
    }
    take(rest);
}

/// Returns the text after the sequence whose escape character precedes `rest`.
fn after_sequence(rest: &[u8]) -> &[u8] {
    let Some(body) = rest.strip_prefix(b"[") else { return rest };
    match body.iter().position(u8::is_ascii_alphabetic) {
        Some(last) => &body[last + 1..],
        None => &[],
    }
}

/// Ranges of the colour sequences (`ESC [ digits m`) of a text.
pub(crate) struct Colors<'a> {
    text: &'a [u8],
    from: usize,
}

/// Finds colour sequences. Like ninja, counts any other sequence as three visible bytes, so that widths agree.
pub(crate) fn colors(text: &[u8]) -> Colors<'_> {
    Colors { text, from: 0 }
}

impl Iterator for Colors<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.from + self.text.get(self.from..)?.iter().position(|&byte| byte == ESC)?;
            if self.text.len() - start < b"\x1b[0m".len() {
                return None;
            }
            if self.text[start + 1] != b'[' {
                self.from = start + 1;
                continue;
            }
            let body = &self.text[start + 2..];
            let last = start + 2 + body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
            if self.text[last] == b'm' {
                self.from = last + 1;
                return Some(start..self.from);
            }
            self.from = start + 3;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_removes_control_sequences_alone() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"plain", b"plain"),
            (b"x\x1b[31mred\x1b[0m\n", b"xred\n"),
            (b"\x1b[1;31;44m\x1b[Kx", b"x"),
            (b"end\x1b", b"end"),
            (b"\x1bMup", b"Mup"),
            (b"cut\x1b[12", b"cut"),
            (b"cut\x1b[", b"cut"),
            (b"\x1b\x1b[0mx\0y", b"x\0y"),
        ];
        for (text, plain) in cases {
            assert_eq!(strip(text), plain, "{:?}", text.escape_ascii().to_string());
        }
    }

    #[test]
    fn colors_are_found_in_order() {
        let found = |text: &[u8]| colors(text).collect::<Vec<_>>();
        assert_eq!(found(b"a\x1b[0mb\x1b[1;31m"), [1..5, 6..13]);
        assert_eq!(found(b"\x1b[K\x1b[m\x1b[0m"), [3..6, 6..10]);
        assert_eq!(found(b"\x1b[m"), [], "shorter than the shortest");
        assert_eq!(found(b"abc\x1b[12;"), []);
        assert_eq!(colors(b"\x1b\x1b[0m").next(), Some(1..5));
    }

    #[test]
    fn an_escape_inside_another_sequence_is_ignored() {
        assert_eq!(colors(b"\x1b[\x1b[0m").count(), 0);
    }
}
