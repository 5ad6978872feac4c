//! Finds the end of a plain path, and whether it is canonical, in one pass: most of a manifest is paths.

use tanto_sys::bytes::classes::{BLOCK_SIZE, ByteClasses};

/// Bytes that end a plain path; dots; slashes.
const CLASSES: ByteClasses = ByteClasses::new(b"$ :|\r\n\0", b".", b"/");

/// Returns the end of the literal text of a path, and whether that is known to be canonical.
pub(super) fn path(text: &[u8], begin: usize) -> (usize, bool) {
    let mut at = begin;
    // Leading `../` may stay.
    while text[at..].starts_with(b"../") {
        at += 3;
    }
    let absolute = at == begin && text.get(at) == Some(&b'/');
    // Flags of the last two bytes before the block: slashes, and whether the last is a dot. A relative path counts as
    // if a slash preceded it.
    let (mut slashes_before, mut dot_before) = (if absolute { 0 } else { 0b10 }, 0);
    let mut odd = 0;
    CLASSES.scan(text, at, |marks| {
        let (slashes, dots) = (marks.third, marks.second);
        let behind_slash = slashes << 1 | slashes_before >> 1;
        let behind_any_and_slash = slashes << 2 | slashes_before;
        let behind_dot = dots << 1 | dot_before;
        // A slash after a slash; a slash or a dot after a slash and a dot.
        let found = slashes & behind_slash | (slashes | dots) & behind_dot & behind_any_and_slash;
        if marks.first != 0 {
            let length = marks.first.trailing_zeros();
            odd |= found & ((1 << length) - 1);
            at += length as usize;
            return false;
        }
        odd |= found;
        at += BLOCK_SIZE;
        (slashes_before, dot_before) = (slashes >> (BLOCK_SIZE - 2), dots >> (BLOCK_SIZE - 1));
        true
    });
    let ends_well = !matches!(&text[begin..at], [] | b"." | [_, .., b'/'] | [.., b'/', b'.']);
    (at, odd == 0 && ends_well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::canonical;

    /// The end of the path, found byte by byte.
    fn end(text: &[u8], begin: usize) -> usize {
        let is_end = |byte: &u8| b"$ :|\r\n\0".contains(byte);
        text[begin..].iter().position(is_end).map_or(text.len(), |length| begin + length)
    }

    #[test]
    fn canonical_check_has_no_false_positives_and_few_false_negatives() {
        let mut random = 1u64;
        let mut next = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        let pieces = [
            "..",
            ".",
            "/",
            "a",
            "bcd",
            ".x",
            "very/long/name",
            "a-name-that-is-longer-than-anything-that-fits-into-one-block-of-bytes/",
            "e.h",
            "/",
            "\u{e9}",
        ];
        let (mut called, mut all) = (0, 0);
        for _ in 0..100_000 {
            let mut text = vec![b'#'; next(3)];
            let begin = text.len();
            for _ in 0..next(9) {
                text.extend_from_slice(pieces[next(pieces.len())].as_bytes());
            }
            text.extend_from_slice([&b""[..], b" ", b":x", b"|", b"$", b"\n", b"\r\n", b"\0"][next(8)]);
            let (found, is_canonical) = path(&text, begin);
            assert_eq!(found, end(&text, begin), "{text:?}");
            let plain = &text[begin..found];
            let truly = canonical(plain) == plain && !plain.is_empty();
            assert!(truly || !is_canonical, "{:?}", String::from_utf8_lossy(plain));
            called += usize::from(is_canonical);
            all += usize::from(truly);
        }
        assert!(called * 4 > all * 3, "{called} of {all}");
    }

    #[test]
    fn usual_paths_are_reported_canonical() {
        for plain in
            ["a", "../../base/x.cc", "/usr/include/x.h", "out/soong/.intermediates/a/b.o", "a..b/c...", "/", "x.."]
        {
            assert_eq!(path(plain.as_bytes(), 0), (plain.len(), true), "{plain}");
        }
    }
}
