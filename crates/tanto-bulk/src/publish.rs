//! Packages that others may have: which of them, and what is told of them all. Does not know how they get to a server.

pub mod list;
pub mod selection;
pub mod sign;
pub mod summary;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use list::Listed;

use crate::package::ALL;
use crate::package::digest::sha512;

/// What each package says of itself, in `All`.
pub const SUMMARY: &str = "pkg_summary.gz";
/// Digests of all files, beside `All`.
pub const DIGESTS: &str = "SHA512.gz";

/// What `pkg_summary.gz` holds.
pub fn summary(listed: &[Listed]) -> io::Result<Vec<u8>> {
    packed(listed.iter().map(|it| &it.summary[..]))
}

/// What `SHA512.gz` holds, of the packages and of this summary.
pub fn digests(listed: &[Listed], summary: &[u8]) -> io::Result<Vec<u8>> {
    let line = |file: &str, digest: &str| format!("SHA512 ({ALL}/{file}) = {digest}\n");
    let mut lines: Vec<String> = listed.iter().map(|it| line(&it.file, &it.digest)).collect();
    lines.push(line(SUMMARY, &sha512(&mut &summary[..])?));
    lines.sort_unstable();
    packed(lines.iter().map(String::as_bytes))
}

/// As gzip packs it; the same each time.
pub fn packed<'t>(parts: impl Iterator<Item = &'t [u8]>) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    for part in parts {
        packed.write_all(part)?;
    }
    packed.finish()
}
