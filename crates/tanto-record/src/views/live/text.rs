//! Cleans, measures and shortens text for a row of the screen.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::ansi;

/// Returns `text` as one line without control characters. Without `unicode`, other characters than ASCII become `?`.
pub(super) fn clean(text: &[u8], unicode: bool) -> String {
    let plain = ansi::strip(text);
    let shown = |char: char| match char {
        char if char.is_control() => ' ',
        char if !unicode && !char.is_ascii() => '?',
        char => char,
    };
    String::from_utf8_lossy(&plain).chars().map(shown).collect()
}

/// Returns the width in columns.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// Returns `text`, or its two ends around `dots` if it is wider than `most` columns.
pub(super) fn fit<'t>(text: &'t str, most: usize, dots: &str) -> Cow<'t, str> {
    if columns(text) <= most {
        return Cow::Borrowed(text);
    }
    let room = most.saturating_sub(columns(dots));
    let head = prefix(text.chars(), room / 2);
    let tail = prefix(text.chars().rev(), room - room / 2);
    let dots = &dots[..prefix(dots.chars(), most)];
    Cow::Owned([&text[..head], dots, &text[text.len() - tail..]].concat())
}

/// Returns the length of the characters that fit into `most` columns.
fn prefix(chars: impl Iterator<Item = char>, most: usize) -> usize {
    let mut taken = 0;
    chars
        .take_while(|char| {
            taken += char.width().unwrap_or(0);
            taken <= most
        })
        .map(char::len_utf8)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        let cases: [(&[u8], &str, &str); 5] = [
            (b"CXX a.o", "CXX a.o", "CXX a.o"),
            (b"\x1b[1mCXX\x1b[0m\ta\r\nb\x07", "CXX a  b ", "CXX a  b "),
            ("写 é".as_bytes(), "写 é", "? ?"),
            (b"\xff.o", "\u{fffd}.o", "?.o"),
            (b"\xc2\x9b2J", " 2J", " 2J"),
        ];
        for (text, unicode, ascii) in cases {
            assert_eq!((&*clean(text, true), &*clean(text, false)), (unicode, ascii));
        }
    }

    #[test]
    fn both_ends_are_kept() {
        let cases = [
            ("abcdefgh", 8, "abcdefgh"),
            ("abcdefgh", 7, "abc…fgh"),
            ("abcdefgh", 4, "a…gh"),
            ("abcdefgh", 1, "…"),
            ("abcdefgh", 0, ""),
            ("目録目録目録", 12, "目録目録目録"),
            ("目録目録目録", 11, "目録…目録"),
            ("目録目録目録", 7, "目…録"),
            ("目録目録目録", 6, "目…録"),
        ];
        for (text, most, expected) in cases {
            let shown = fit(text, most, "…");
            assert_eq!(shown, expected, "{text} in {most}");
            assert!(columns(&shown) <= most);
        }
        assert_eq!(fit("abcdefgh", 7, "..."), "ab...gh");
    }
}
