//! Canonicalization of paths, as ninja does it: `a/./b`, `a//b` and `a/c/../b` all become `a/b`. Purely textual.

/// Writes the canonical form of `path` to `out`, which is cleared first. The canonical form of an empty path is
/// empty, that of `a/..` is `.`.
pub fn canonicalize_into(path: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if is_canonical(path) {
        out.extend_from_slice(path);
    } else {
        Canonicalizer::new(path, out).run();
    }
}

pub fn canonical(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    canonicalize_into(path, &mut out);
    out
}

/// Quick check whether `path` is canonical. A false negative is possible (`a/..b/c`), a false positive is not.
pub fn is_canonical(path: &[u8]) -> bool {
    let mut rest = path;
    while let [b'.', b'.', b'/', after @ ..] = rest {
        rest = after;
    }
    // Leading `../` may stay; the rest must neither be empty nor begin with a slash.
    let absolute = rest.len() == path.len();
    match rest {
        [] => return absolute,
        [b'.'] => return false,
        [b'/', ..] if !absolute => return false,
        [b'/' | b'.', b'/', ..] | [_, .., b'/'] | [.., b'/' | b'.', b'.'] => return false,
        _ => {}
    }
    // One branch-free pass that the compiler can vectorize: finds a slash followed by a slash, `./` or `..`.
    let ends = |b: u8| (b == b'/') | (b == b'.');
    !rest.windows(3).fold(false, |odd, w| odd | ((w[0] == b'/') & ((w[1] == b'/') | ((w[1] == b'.') & ends(w[2])))))
}

/// State of the slow path.
struct Canonicalizer<'p, 'o> {
    rest: &'p [u8],
    out: &'o mut Vec<u8>,
    /// Start of the part of `out` that `..` can remove.
    floor: usize,
    /// Number of components that `..` can remove.
    removable: usize,
}

impl<'p, 'o> Canonicalizer<'p, 'o> {
    fn new(path: &'p [u8], out: &'o mut Vec<u8>) -> Self {
        let mut rest = path;
        if let [b'/', after @ ..] = rest {
            rest = after;
        } else {
            while let [b'.', b'.', b'/', after @ ..] = rest {
                rest = after;
            }
        }
        out.extend_from_slice(&path[..path.len() - rest.len()]);
        Canonicalizer { rest, floor: out.len(), out, removable: 0 }
    }

    fn run(mut self) {
        let absolute = self.out.first() == Some(&b'/');
        while let Some(slash) = memchr::memchr(b'/', self.rest) {
            let (component, after) = self.rest.split_at(slash);
            self.rest = &after[1..];
            self.component(component, b"/");
        }
        let last = self.rest;
        self.component(last, b"");
        if self.out.len() > usize::from(absolute) && self.out.last() == Some(&b'/') {
            self.out.pop();
        }
        if self.out.is_empty() {
            self.out.push(b'.');
        }
    }

    fn component(&mut self, component: &[u8], slash: &[u8]) {
        match component {
            b"" | b"." => {}
            b".." if self.removable > 0 => self.back_up(),
            _ => {
                self.removable += usize::from(component != b"..");
                self.out.extend_from_slice(component);
                self.out.extend_from_slice(slash);
            }
        }
    }

    fn back_up(&mut self) {
        self.removable -= 1;
        let above = &self.out[self.floor..self.out.len() - 1];
        let keep = memchr::memrchr(b'/', above).map_or(0, |slash| slash + 1);
        self.out.truncate(self.floor + keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(path: &str) -> String {
        String::from_utf8(super::canonical(path.as_bytes())).unwrap()
    }

    #[test]
    fn samples() {
        let cases = [
            ("", ""),
            ("a", "a"),
            (".", "."),
            ("./", "."),
            ("./.", "."),
            ("..", ".."),
            ("../", ".."),
            ("../.", ".."),
            ("../..", "../.."),
            ("../../", "../.."),
            ("./../", ".."),
            ("../a", "../a"),
            ("../a/", "../a"),
            ("./a.h", "a.h"),
            (".a", ".a"),
            ("..a", "..a"),
            ("./a/./b.h", "a/b.h"),
            ("./x/a/../b.h", "x/b.h"),
            ("./x/a/../../b.h", "b.h"),
            ("./x/../a/../../b.h", "../b.h"),
            ("a//b", "a/b"),
            ("a//.//..///b", "b"),
            ("a/./.", "a"),
            ("a/b/..", "a"),
            ("a/.hidden", "a/.hidden"),
            ("a/..b", "a/..b"),
            ("a/b..", "a/b.."),
            ("a/b.", "a/b."),
            ("a/..", "."),
            ("a/../", "."),
            ("a/../..", ".."),
            ("a/../../b", "../b"),
            ("a/b/../../../../c", "../../c"),
            ("/", "/"),
            ("//", "/"),
            ("/a", "/a"),
            ("//a", "/a"),
            ("/./a", "/a"),
            ("/..", "/.."),
            ("/../", "/.."),
            ("/../..", "/../.."),
            ("/../a/..", "/.."),
            ("/a/..", "/"),
            ("/a/../..", "/.."),
            ("../../a/../b/", "../../b"),
            ("..//a", "../a"),
            (".../a", ".../a"),
            ("a/b", "a/b"),
        ];
        for (path, want) in cases {
            assert_eq!(canonical(path), want, "of {path:?}");
        }
    }

    #[test]
    fn quick_check_has_no_false_positives() {
        for code in 0..4u32.pow(8) {
            let path: Vec<u8> = (0..8).map(|i| b"/.a\0"[(code >> (2 * i)) as usize & 3]).filter(|&b| b != 0).collect();
            let mut slow = Vec::new();
            if is_canonical(&path) && !path.is_empty() {
                Canonicalizer::new(&path, &mut slow).run();
                assert_eq!(slow, path);
            }
        }
    }

    #[test]
    fn canonical_path_is_unchanged() {
        let mut out = Vec::new();
        for path in ["a/b", "../x", "/usr", "/", "out/.intermediates/x", "a..b/c"] {
            assert!(is_canonical(path.as_bytes()));
            canonicalize_into(path.as_bytes(), &mut out);
            assert_eq!(out, path.as_bytes());
        }
    }
}
