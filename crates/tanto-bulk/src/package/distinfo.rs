//! The files `distinfo` of the package tree: sizes and digests of distfiles.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_protocol::is_safe_name;

/// The size limit of a `distinfo`, in bytes; the largest ones have half of it.
const MAX_BYTES: u64 = 4 << 20;

/// A distfile whose size and digest are listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedDistfile {
    /// The path below DISTDIR.
    pub name: String,
    pub size: u64,
    /// Lowercase hexadecimal digits.
    pub sha512: String,
}

/// Returns the distfiles of a directory that have a size, an SHA-512 digest and a plain name.
pub fn distfiles(directory: &Path) -> Vec<ListedDistfile> {
    listed(&read(directory))
}

/// The size of all distfiles of a directory, in bytes.
pub fn size(directory: &Path) -> u64 {
    sizes(&read(directory)).map(|(_, size)| size).fold(0, u64::saturating_add)
}

/// Returns the text; empty if there is none.
fn read(directory: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let read = File::open(directory.join("distinfo")).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    if read.is_ok() { text } else { Vec::new() }
}

/// Lines such as `Size (zip30.tar.gz) = 1118845 bytes`.
fn sizes(text: &[u8]) -> impl Iterator<Item = (&str, u64)> {
    values(text, "Size").filter_map(|(name, value)| Some((name, value.strip_suffix(" bytes")?.parse().ok()?)))
}

/// Lines `KIND (NAME) = VALUE`.
fn values<'t>(text: &'t [u8], kind: &'static str) -> impl Iterator<Item = (&'t str, &'t str)> {
    text.split(|&byte| byte == b'\n').filter_map(move |line| {
        let line = std::str::from_utf8(line.strip_prefix(kind.as_bytes())?).ok()?;
        line.strip_prefix(" (")?.split_once(") = ")
    })
}

fn listed(text: &[u8]) -> Vec<ListedDistfile> {
    let sizes: HashMap<&str, u64, RandomState> = sizes(text).collect();
    let is_sha512 = |digest: &str| digest.len() == 128 && digest.bytes().all(|it| b"0123456789abcdef".contains(&it));
    let distfiles = values(text, "SHA512").filter_map(|(name, sha512)| {
        let size = *sizes.get(name)?;
        let is_plain = is_safe_name(name.as_bytes(), true) && is_sha512(sha512);
        is_plain.then(|| ListedDistfile { name: name.to_owned(), size, sha512: sha512.to_owned() })
    });
    distfiles.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn sizes_are_summed() {
        let place = Scratch::new("bulk-distinfo");
        place.write(
            "a/b/distinfo",
            "$NetBSD$\n\nSHA512 (x.tgz) = 12\nSize (x.tgz) = 1000 bytes\nSize (y (1).tgz) = 30 bytes\nSHA1 (patch-aa) = 77\n\
             Size (z) = -1 bytes\nSize (z) = 18446744073709551616 bytes\nSize (\u{e9}) = 4 bytes\n",
        );
        assert_eq!((size(&place.at("a/b")), size(&place.at("a/none"))), (1034, 0));
        let most = b"Size (a) = 18446744073709551615 bytes\n".repeat(2);
        assert_eq!(sizes(&most).map(|(_, size)| size).fold(0, u64::saturating_add), u64::MAX);
    }

    #[test]
    fn distfiles_have_a_size_a_digest_and_a_plain_name() {
        let digest = "0123456789abcdef".repeat(8);
        let mut text =
            format!("BLAKE2s (sub/a-1.tgz) = 12\nSHA512 (sub/a-1.tgz) = {digest}\nSize (sub/a-1.tgz) = 7 bytes\n");
        for name in ["../a", "/a", "a b", "-a", "a/./b", ""] {
            text += &format!("SHA512 ({name}) = {digest}\nSize ({name}) = 7 bytes\n");
        }
        text += &format!("SHA512 (short) = {}\nSize (short) = 1 bytes\nSHA512 (no-size) = {digest}\n", &digest[1..]);
        text += &format!("SHA512 (patch-aa) = {digest}\n");
        let expected = ListedDistfile { name: "sub/a-1.tgz".into(), size: 7, sha512: digest };
        assert_eq!(listed(text.as_bytes()), [expected]);
    }
}
