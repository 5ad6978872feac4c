//! Publishing: which packages, their signatures, their list and the reports.

pub mod list;
pub mod publication;
pub mod selection;
pub mod sign;
pub mod summary;
mod upload;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use self::list::Listed;
use crate::package::ALL;
use crate::package::digest::sha512;

/// The metadata of all packages, in `All`.
pub const SUMMARY: &str = "pkg_summary.gz";
/// Digests of all files, beside `All`.
pub const DIGESTS: &str = "SHA512.gz";

/// Makes the content of `pkg_summary.gz`.
pub fn summary(listed: &[Listed]) -> io::Result<Vec<u8>> {
    packed(listed.iter().map(|it| &it.summary[..]))
}

/// Makes the content of `SHA512.gz`, for the packages and the summary.
pub fn digests(listed: &[Listed], summary: &[u8]) -> io::Result<Vec<u8>> {
    let line = |file: &str, digest: &str| format!("SHA512 ({ALL}/{file}) = {digest}\n");
    let mut lines: Vec<String> = listed.iter().map(|it| line(&it.file, &it.digest)).collect();
    lines.push(line(SUMMARY, &sha512(&mut &summary[..])?));
    lines.sort_unstable();
    packed(lines.iter().map(String::as_bytes))
}

/// Compresses with gzip, reproducibly.
pub fn packed<'t>(parts: impl Iterator<Item = &'t [u8]>) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    for part in parts {
        packed.write_all(part)?;
    }
    packed.finish()
}
