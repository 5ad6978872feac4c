//! Text as a row of the screen shows it: without what would move the cursor, measured in columns, and cut to fit. Does
//! not know what it says.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::ansi;

/// `text` on one line, without control characters. Where the terminal's own text is not Unicode, what is not ASCII
/// becomes `?`.
pub(super) fn clean(text: &[u8], unicode: bool) -> String {
    let plain = ansi::strip(text);
    let shown = |char: char| match char {
        char if char.is_control() => ' ',
        char if !unicode && !char.is_ascii() => '?',
        char => char,
    };
    String::from_utf8_lossy(&plain).chars().map(shown).collect()
}

/// How many columns it takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// `text`, or where it takes more than `most` columns its two ends around `dots`.
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

/// The bytes of as many characters as fit into `most` columns.
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

/// A time span in at most six columns: `7s`, `2m05s`, `1h02m`.
pub(super) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..360_000 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// An amount of memory in at most five columns: `87M`, `1.4G`.
pub(super) fn memory(kib: u64) -> String {
    let mib = kib.div_ceil(1024);
    match mib {
        0..1000 => format!("{mib}M"),
        1000..102_400 => format!("{:.1}G", mib as f64 / 1024.0),
        _ => format!("{}G", mib / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
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
    fn both_ends_stay() {
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

    #[test]
    fn amounts_of_memory_are_short() {
        let cases = [(0, "0M"), (1, "1M"), (999 << 10, "999M"), (1000 << 10, "1.0G"), (1_500 << 10, "1.5G")];
        for (kib, expected) in [&cases[..], &[(99 << 20, "99.0G"), (100 << 20, "100G"), (1 << 32, "4096G")]].concat() {
            assert_eq!(memory(kib), expected);
        }
    }

    #[test]
    fn spans_are_short() {
        let cases = [
            (-1, "0s"),
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_000, "59m59s"),
            (3_600_000, "1h00m"),
            (359_999_000, "99h59m"),
            (360_000_000, "4d04h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(span(ms), expected);
        }
    }
}
