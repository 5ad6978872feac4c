//! Shortens lines in the middle, as ninja does.

use std::borrow::Cow;

use crate::text::ansi;

/// Returns `text`, or its two ends around an ellipsis if it is wider than `width` bytes. Colour sequences have no width
/// and are kept.
pub(crate) fn middle(text: &[u8], width: usize) -> Cow<'_, [u8]> {
    if text.len() <= width {
        return Cow::Borrowed(text);
    }
    let visible = text.len() - ansi::colors(text).map(|range| range.len()).sum::<usize>();
    if visible <= width {
        return Cow::Borrowed(text);
    }
    let dots = width.min(3);
    let left = (width - dots) / 2;
    let right = width - dots - left;
    let gap = after_visible(text, left)..after_visible(text, visible - right);

    let mut short = Vec::with_capacity(text.len());
    short.extend_from_slice(&text[..gap.start]);
    short.extend_from_slice(&b"..."[..dots]);
    for range in ansi::colors(text).filter(|range| gap.contains(&range.start)) {
        short.extend_from_slice(&text[range]);
    }
    short.extend_from_slice(&text[gap.end..]);
    Cow::Owned(short)
}

/// Returns the offset after the first `count` visible bytes.
fn after_visible(text: &[u8], count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let mut hidden = 0;
    for range in ansi::colors(text) {
        if range.start - hidden >= count {
            break;
        }
        hidden += range.len();
    }
    count + hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Random;

    #[test]
    fn plain_lines_are_cut_like_ninja() {
        let line = b"[0/1] 0123456789012345678901234567890123456789 end";
        let cases: [(usize, &[u8]); 10] = [
            (0, b""),
            (1, b"."),
            (2, b".."),
            (3, b"..."),
            (4, b"...d"),
            (5, b"[...d"),
            (7, b"[0...nd"),
            (20, b"[0/1] 01...56789 end"),
            (39, b"[0/1] 012345678901...67890123456789 end"),
            (50, line),
        ];
        for (width, expected) in cases {
            assert_eq!(middle(line, width), expected, "width {width}");
        }
    }

    #[test]
    fn coloured_lines_are_cut_like_ninja() {
        let line = b"[0/1] \x1b[31m0123456789012345678901234567890123456789\x1b[0m end";
        let cases: [(usize, &[u8]); 5] = [
            (3, b"...\x1b[31m\x1b[0m"),
            (10, b"[0/...\x1b[31m\x1b[0m end"),
            (20, b"[0/1] \x1b[31m01...56789\x1b[0m end"),
            (39, b"[0/1] \x1b[31m012345678901...67890123456789\x1b[0m end"),
            (50, line),
        ];
        for (width, expected) in cases {
            assert_eq!(middle(line, width), expected, "width {width}");
        }
    }

    /// Every byte with the number of visible bytes before it, and whether it is visible.
    fn classified(tokens: &[&'static [u8]]) -> Vec<(u8, usize, bool)> {
        let mut bytes = Vec::new();
        let mut before = 0;
        for token in tokens {
            let shown = !token.ends_with(b"m");
            for &byte in *token {
                bytes.push((byte, before, shown));
                before += usize::from(shown);
            }
        }
        bytes
    }

    fn model(tokens: &[&'static [u8]], width: usize) -> Vec<u8> {
        let bytes = classified(tokens);
        let visible = bytes.iter().filter(|byte| byte.2).count();
        if visible <= width {
            return tokens.concat();
        }
        let dots = width.min(3);
        let left = (width - dots) / 2;
        let end = visible - (width - dots - left);
        let mut out: Vec<u8> = bytes.iter().filter(|byte| byte.1 < left).map(|byte| byte.0).collect();
        out.extend_from_slice(&b"..."[..dots]);
        out.extend(bytes.iter().filter(|byte| byte.1 >= left && (!byte.2 || byte.1 >= end)).map(|byte| byte.0));
        out
    }

    #[test]
    fn random_lines_agree_with_a_byte_by_byte_model() {
        const TOKENS: [&[u8]; 8] =
            [b"a", b"bc", b"0123456789", b"\x1b[0m", b"\x1b[1;31m", b"\x1b[K", b"\xc3\xa9", b" "];
        for seed in 1..=2000u64 {
            let mut random = Random::new(seed);
            let tokens: Vec<&[u8]> = (0..random.below(24)).map(|_| *random.pick(&TOKENS)).collect();
            let width = random.below(40);
            assert_eq!(middle(&tokens.concat(), width), model(&tokens, width), "seed {seed}");
        }
    }
}
