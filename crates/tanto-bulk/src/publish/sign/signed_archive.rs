//! Writes signed packages: `ar` archives of the signed text, the signature and the package.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha512};

use super::client::Hashing;

const MAGIC: &[u8] = b"!<arch>\n";
const HASH: &str = "+PKG_HASH";

/// The forms of signatures that pkg_install reads, both text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureForm {
    /// A detached, armored PGP signature.
    Pgp,
    /// A detached PKCS#7 signature in PEM, made with an X.509 certificate.
    X509,
}

impl SignatureForm {
    pub fn of(signature: &[u8]) -> Option<SignatureForm> {
        match signature {
            _ if signature.starts_with(b"-----BEGIN PGP SIGNATURE-----") => Some(SignatureForm::Pgp),
            _ if signature.starts_with(b"-----BEGIN PKCS7-----") => Some(SignatureForm::X509),
            _ => None,
        }
    }

    /// The name of the archive member that holds it.
    fn member(self) -> &'static str {
        match self {
            SignatureForm::Pgp => "+PKG_GPG_SIGNATURE",
            SignatureForm::X509 => "+PKG_SIGNATURE",
        }
    }
}

/// Longer names precede the content.
const MAX_NAME: usize = 16;
/// The largest member of an `ar` archive, in bytes.
const MAX_BYTES: u64 = 9_999_999_999;

/// Writes the signed form of a package with this file name. Fails if the package has another digest.
pub fn write(
    to: &mut impl Write,
    (text, signature): (&[u8], &[u8]),
    (name, package): (&str, &mut File),
    digest: [u8; 64],
) -> io::Result<()> {
    let modified = package.metadata()?.modified()?;
    let bytes = package.metadata()?.len();
    let form =
        SignatureForm::of(signature).ok_or_else(|| io::Error::other("pkg_add cannot read a signature of this form"))?;
    to.write_all(MAGIC)?;
    for (name, content) in [(HASH, text), (form.member(), signature)] {
        head(to, name, content.len() as u64, modified)?;
        to.write_all(content)?;
        pad(to, name, content.len() as u64)?;
    }
    head(to, name, bytes, modified)?;
    package.rewind()?;
    let mut seen = Sha512::new();
    let mut from = Read::take(&mut *package, bytes);
    let mut room = vec![0; 1 << 16];
    loop {
        match from.read(&mut room)? {
            0 => break,
            length => {
                Hashing(&mut seen).write_all(&room[..length])?;
                to.write_all(&room[..length])?;
            }
        }
    }
    pad(to, name, bytes)?;
    if seen.finalize()[..] == digest[..] {
        Ok(())
    } else {
        Err(io::Error::other("the package does not match its signature"))
    }
}

fn head(to: &mut impl Write, name: &str, bytes: u64, modified: SystemTime) -> io::Result<()> {
    let seconds = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (field, bytes) = match is_long(name) {
        true => (format!("#1/{}", name.len()), bytes + name.len() as u64),
        false => (name.to_owned(), bytes),
    };
    if bytes > MAX_BYTES {
        return Err(io::Error::other("a signed package is limited to 9,999,999,999 bytes"));
    }
    writeln!(to, "{field:<16}{seconds:<12}{:<6}{:<6}{:<8}{bytes:<10}`", 0, 0, "100644")?;
    if is_long(name) { to.write_all(name.as_bytes()) } else { Ok(()) }
}

fn is_long(name: &str) -> bool {
    name.len() > MAX_NAME || name.contains(' ')
}

/// Members start at even offsets.
fn pad(to: &mut impl Write, name: &str, bytes: u64) -> io::Result<()> {
    let bytes = if is_long(name) { bytes + name.len() as u64 } else { bytes };
    if bytes.is_multiple_of(2) { Ok(()) } else { to.write_all(b"\n") }
}
