//! Plain paths in a manifest: where they end, and whether they are canonical, in one look at their bytes, since most of
//! a manifest is paths. Does not know what stands around them.

use tanto_sys::bytes::{Bytes, COUNT};

/// What is where in a block, a bit for each byte.
struct Masks {
    /// What may end a plain path: `$`, a space, `:`, `|`, a carriage return, a line end.
    ends: u32,
    slashes: u32,
    dots: u32,
}

impl Masks {
    #[inline]
    fn of(block: [u8; COUNT]) -> Self {
        let bytes = Bytes::new(block);
        // A space and a `$` differ in this bit alone.
        let spaces = bytes.masked(!4).equal_to(b' ');
        let lines = bytes.equal_to(b'\n') | bytes.equal_to(b'\r');
        let ends = (bytes.equal_to(b':') | bytes.equal_to(b'|')) | (spaces | lines);
        Masks { ends: ends.bits(), slashes: bytes.equal_to(b'/').bits(), dots: bytes.equal_to(b'.').bits() }
    }
}

/// Where the text that stands for itself in a path ends, and whether it surely is its own canonical form.
pub(super) fn path(text: &[u8], begin: usize) -> (usize, bool) {
    let mut at = begin;
    // Leading `../` may stay.
    while text[at..].starts_with(b"../") {
        at += 3;
    }
    let absolute = at == begin && text.get(at) == Some(&b'/');
    // What was before the block: its last two bytes' slashes and dots, in the lowest bits. A relative path is as if a
    // slash were before it.
    let (mut slashes, mut dots) = (if absolute { 0 } else { 0b10 }, 0);
    let mut odd = 0;
    loop {
        let masks = Masks::of(block(text, at));
        let length = masks.ends.trailing_zeros().min(COUNT as u32);
        let seen = (1 << (length + 2)) - 1;
        slashes |= masks.slashes << 2;
        dots |= masks.dots << 2;
        // A slash behind a slash; a slash or a dot behind a slash and a dot.
        let doubled = slashes & (slashes << 1);
        let dotted = (slashes | dots) & (dots << 1) & (slashes << 2);
        odd |= (doubled | dotted) & seen & !0b11;
        if length < COUNT as u32 {
            at += length as usize;
            let ends_well = !matches!(&text[begin..at], [] | b"." | [_, .., b'/'] | [.., b'/', b'.']);
            return (at, odd == 0 && ends_well);
        }
        at += COUNT;
        slashes >>= COUNT;
        dots >>= COUNT;
    }
}

/// The next bytes, and line ends where there are no more.
#[inline]
fn block(text: &[u8], at: usize) -> [u8; COUNT] {
    let rest = &text[at..];
    rest.first_chunk().copied().unwrap_or_else(|| {
        let mut block = [b'\n'; COUNT];
        block[..rest.len()].copy_from_slice(rest);
        block
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::canonical;

    /// As `path`, byte by byte.
    fn end(text: &[u8], begin: usize) -> usize {
        let is_end = |byte: &u8| b"$ :|\r\n".contains(byte);
        text[begin..].iter().position(is_end).map_or(text.len(), |length| begin + length)
    }

    #[test]
    fn what_is_called_canonical_is_and_most_of_it_is_called_so() {
        let mut random = 1u64;
        let mut next = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        let pieces = ["..", ".", "/", "a", "bcd", ".x", "very/long/name", "e.h", "/", "\u{e9}"];
        let (mut called, mut all) = (0, 0);
        for _ in 0..100_000 {
            let mut text = vec![b'#'; next(3)];
            let begin = text.len();
            for _ in 0..next(9) {
                text.extend_from_slice(pieces[next(pieces.len())].as_bytes());
            }
            text.extend_from_slice([&b""[..], b" ", b":x", b"|", b"$", b"\n", b"\r\n"][next(7)]);
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
    fn usual_paths_are_called_canonical() {
        for plain in
            ["a", "../../base/x.cc", "/usr/include/x.h", "out/soong/.intermediates/a/b.o", "a..b/c...", "/", "x.."]
        {
            assert_eq!(path(plain.as_bytes(), 0), (plain.len(), true), "{plain}");
        }
    }
}
