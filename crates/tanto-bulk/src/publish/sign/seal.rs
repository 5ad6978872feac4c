//! Puts a package together with its signature: an `ar` archive of what was signed, the signature, and the package. The
//! signer has verified the signature before.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha512};

use super::client::Hashing;

const MAGIC: &[u8] = b"!<arch>\n";
const HASH: &str = "+PKG_HASH";
/// The two forms of signatures that pkg_install reads. Both are text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A detached, armored PGP signature.
    Pgp,
    /// A detached PKCS#7 signature in PEM, made with an X.509 certificate.
    X509,
}

impl Form {
    /// The form of a signature; `None` if it has neither.
    pub fn of(signature: &[u8]) -> Option<Form> {
        match signature {
            _ if signature.starts_with(b"-----BEGIN PGP SIGNATURE-----") => Some(Form::Pgp),
            _ if signature.starts_with(b"-----BEGIN PKCS7-----") => Some(Form::X509),
            _ => None,
        }
    }

    /// The name of the archive member that holds it.
    fn member(self) -> &'static str {
        match self {
            Form::Pgp => "+PKG_GPG_SIGNATURE",
            Form::X509 => "+PKG_SIGNATURE",
        }
    }
}

/// Longer names stand before the content.
const NAME: usize = 16;
/// An `ar` archive has ten digits for a length.
const LONGEST: u64 = 9_999_999_999;

/// Writes the signed form of a package whose file has this name. Fails if the package has not this digest.
pub fn seal(
    to: &mut impl Write,
    (text, signature): (&[u8], &[u8]),
    (name, package): (&str, &mut File),
    digest: [u8; 64],
) -> io::Result<()> {
    let modified = package.metadata()?.modified()?;
    let bytes = package.metadata()?.len();
    let form = Form::of(signature).ok_or_else(|| io::Error::other("its signature has no form that pkg_add reads"))?;
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
    if seen.finalize()[..] == digest[..] { Ok(()) } else { Err(io::Error::other("it is not what was signed")) }
}

fn head(to: &mut impl Write, name: &str, bytes: u64, modified: SystemTime) -> io::Result<()> {
    let seconds = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (field, bytes) = match is_long(name) {
        true => (format!("#1/{}", name.len()), bytes + name.len() as u64),
        false => (name.to_owned(), bytes),
    };
    if bytes > LONGEST {
        return Err(io::Error::other("a signed package cannot be so long"));
    }
    writeln!(to, "{field:<16}{seconds:<12}{:<6}{:<6}{:<8}{bytes:<10}`", 0, 0, "100644")?;
    if is_long(name) { to.write_all(name.as_bytes()) } else { Ok(()) }
}

fn is_long(name: &str) -> bool {
    name.len() > NAME || name.contains(' ')
}

/// Members begin at even places.
fn pad(to: &mut impl Write, name: &str, bytes: u64) -> io::Result<()> {
    let bytes = if is_long(name) { bytes + name.len() as u64 } else { bytes };
    if bytes.is_multiple_of(2) { Ok(()) } else { to.write_all(b"\n") }
}
