//! Reads signed packages: `ar` archives of the signed text (`+PKG_HASH`: name, size, and a digest for each block), the
//! signature, and the package. Compares the package with the text; does not verify the signature.

use std::io::{self, Read};

use sha2::{Digest, Sha512};

use super::ArchiveError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// The signed text.
    pub text: Vec<u8>,
    /// Its PKGNAME.
    pub name: Vec<u8>,
    /// The member with the signature: `+PKG_GPG_SIGNATURE`, or `+PKG_SIGNATURE` for X.509.
    pub form: &'static str,
    pub signature: Vec<u8>,
    block: usize,
    size: u64,
    digests: Vec<[u8; 64]>,
}

pub(super) const MAGIC: [u8; 8] = *b"!<arch>\n";
const HASH: &str = "+PKG_HASH";
const FORMS: [&str; 2] = ["+PKG_GPG_SIGNATURE", "+PKG_SIGNATURE"];
/// A digest has 129 bytes for a block of 64 KiB: a package of 32 GiB.
const LONGEST: u64 = 64 << 20;
/// The smallest block of pkg_install, in bytes.
const BLOCKS: std::ops::RangeInclusive<u64> = 1024..=1 << 26;
const LONGEST_NAME: u64 = 4096;

pub(super) fn open<R: Read>(mut from: R) -> Result<(Signed, Checked<io::Take<R>>), ArchiveError> {
    from.read_exact(&mut [0; MAGIC.len()])?;
    let (name, text) = whole(&mut from)?;
    if name != HASH.as_bytes() {
        return Err(ArchiveError::NoPackage);
    }
    let mut signed = Signed::read(text).ok_or(ArchiveError::Signature("malformed +PKG_HASH"))?;
    let (name, signature) = whole(&mut from)?;
    let form = FORMS.into_iter().find(|form| form.as_bytes() == name);
    signed.form = form.ok_or(ArchiveError::Signature("there is no signature"))?;
    signed.signature = signature;
    let Head { size, .. } = Head::read(&mut from)?;
    if size != signed.size {
        return Err(ArchiveError::Signature("it has a different size"));
    }
    let checked = Checked {
        from: from.take(size),
        digests: signed.digests.clone().into_iter(),
        block: Vec::new(),
        at: 0,
        length: signed.block,
    };
    Ok((signed, checked))
}

/// The header of a member.
struct Head {
    name: Vec<u8>,
    size: u64,
    /// Members start at even offsets.
    padding: u64,
}

impl Head {
    fn read(from: &mut impl Read) -> Result<Head, ArchiveError> {
        let broken = || ArchiveError::Member("malformed header in the signed archive");
        let mut head = [0; 60];
        from.read_exact(&mut head)?;
        let number = |field: &[u8]| std::str::from_utf8(field.trim_ascii()).ok()?.parse::<u64>().ok();
        let whole = number(&head[48..58]).filter(|_| head.ends_with(b"`\n")).ok_or_else(broken)?;
        let name = head[..16].trim_ascii_end();
        let Some(length) = name.strip_prefix(b"#1/") else {
            // The System V variant ends names with `/`.
            let name = name.strip_suffix(b"/").unwrap_or(name).to_vec();
            return Ok(Head { name, size: whole, padding: whole % 2 });
        };
        // The BSD variant has long names in the content.
        let length = number(length).filter(|&length| length <= whole.min(LONGEST_NAME)).ok_or_else(broken)?;
        let mut name = bytes(from, length)?;
        name.truncate(name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        Ok(Head { name, size: whole - length, padding: whole % 2 })
    }
}

fn whole(from: &mut impl Read) -> Result<(Vec<u8>, Vec<u8>), ArchiveError> {
    let Head { name, size, padding } = Head::read(from)?;
    if size > LONGEST {
        return Err(ArchiveError::TooLong);
    }
    let content = bytes(from, size)?;
    bytes(from, padding)?;
    Ok((name, content))
}

fn bytes(from: &mut impl Read, length: u64) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    from.take(length).read_to_end(&mut content)?;
    if (content.len() as u64) < length { Err(ArchiveError::Torn) } else { Ok(content) }
}

impl Signed {
    fn read(text: Vec<u8>) -> Option<Signed> {
        let mut lines = std::str::from_utf8(&text).ok()?.split('\n');
        for expected in ["pkgsrc signature", "", "version: 1"] {
            lines.next().filter(|&line| line == expected)?;
        }
        let name = lines.next()?.strip_prefix("pkgname: ")?.as_bytes().to_vec();
        lines.next().filter(|&line| line == "algorithm: SHA512")?;
        let block = lines.next()?.strip_prefix("block size: ")?.parse().ok().filter(|it| BLOCKS.contains(it))?;
        let size: u64 = lines.next()?.strip_prefix("file size: ")?.parse().ok().filter(|&size| size > 0)?;
        lines.next().filter(|line| line.is_empty())?;
        let mut digests = Vec::new();
        for _ in 0..size.div_ceil(block) {
            digests.push(digest(lines.next()?)?);
        }
        if !lines.eq(["end pkgsrc signature", ""]) {
            return None;
        }
        let block = usize::try_from(block).ok()?;
        Some(Signed { name, form: FORMS[0], signature: Vec::new(), block, size, digests, text })
    }
}

fn digest(hex: &str) -> Option<[u8; 64]> {
    let (mut digest, hex) = ([0; 64], hex.as_bytes());
    if hex.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks(2)) {
        let value = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(value(0)? * 16 + value(1)?).ok()?;
    }
    Some(digest)
}

/// A reader that verifies each block before returning it.
pub(super) struct Checked<R> {
    from: R,
    digests: std::vec::IntoIter<[u8; 64]>,
    block: Vec<u8>,
    at: usize,
    length: usize,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.next_block()? {
            return Ok(0);
        }
        let length = room.len().min(self.block.len() - self.at);
        room[..length].copy_from_slice(&self.block[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

impl<R: Read> Checked<R> {
    fn next_block(&mut self) -> io::Result<bool> {
        let Some(expected) = self.digests.next() else { return Ok(false) };
        self.at = 0;
        self.block.clear();
        (&mut self.from).take(self.length as u64).read_to_end(&mut self.block)?;
        if self.block.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if Sha512::digest(&self.block)[..] != expected[..] {
            self.block.clear();
            return Err(io::Error::other(ArchiveError::Signature("a block has a different digest")));
        }
        Ok(true)
    }
}
