//! Compares a whole package with the digests that it carries.

use std::collections::HashMap;
use std::io::{self, Read};

use md5::{Digest, Md5};

use super::plist::Sum;
use super::{ArchiveError, Member, MemberKind, Metadata, Package};

/// Reads a whole package. Fails if a file is missing or differs from its MD5 in `+CONTENTS`, or if the archive is
/// damaged (gzip and signatures cover all bytes).
pub fn verify(from: impl Read) -> Result<(), ArchiveError> {
    let mut package = Package::read(from)?;
    let metadata = package.metadata().clone();
    let mut digests = FileDigests::of(&metadata);
    while let Some(member) = package.next_file()? {
        digests.check(&member, package.content())?;
    }
    digests.end()
}

/// The files whose digests in `+CONTENTS` have not been compared yet.
pub struct FileDigests<'m>(HashMap<&'m [u8], &'m [u8]>);

impl<'m> FileDigests<'m> {
    pub fn of(metadata: &'m Metadata) -> FileDigests<'m> {
        FileDigests(recorded(metadata))
    }

    /// Compares the content of a member with its digest, if it has one.
    pub fn check(&mut self, member: &Member, mut content: impl Read) -> Result<(), ArchiveError> {
        let Some(expected) = self.0.remove(&member.path[..]) else { return Ok(()) };
        // The content of a hard link was compared before.
        if member.kind == MemberKind::File && !md5(&mut content)?.eq_ignore_ascii_case(expected) {
            return Err(damaged(&member.path, "does not match its MD5 in +CONTENTS"));
        }
        Ok(())
    }

    /// Fails if a file was missing.
    pub fn end(self) -> Result<(), ArchiveError> {
        match self.0.keys().min() {
            Some(missing) => Err(damaged(missing, "is listed in +CONTENTS, but missing")),
            None => Ok(()),
        }
    }
}

/// The MD5 of each file. Files that are listed more than once (below several `@cwd`) are left out.
fn recorded(metadata: &Metadata) -> HashMap<&[u8], &[u8]> {
    let mut recorded: HashMap<&[u8], Option<&[u8]>> = HashMap::new();
    for (file, sum) in metadata.contents().files() {
        let sum = if let Sum::Md5(md5) = sum { Some(md5) } else { None };
        recorded.entry(file).and_modify(|it| *it = None).or_insert(sum);
    }
    recorded.into_iter().filter_map(|(file, sum)| Some((file, sum?))).collect()
}

fn md5(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut digest = Md5::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(crate::package::digest::hex(&digest.finalize()).into_bytes()),
            length => digest.update(&buffer[..length]),
        }
    }
}

fn damaged(file: &[u8], why: &str) -> ArchiveError {
    ArchiveError::Damaged(format!("{} {why}", String::from_utf8_lossy(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::archive::tests::{gzip, tar};

    /// MD5 of "hello".
    const HELLO: &str = "5d41402abc4b2a76b9719d911017c592";

    fn package(contents: &str, file: &[u8]) -> Vec<u8> {
        gzip(&tar(&[("+CONTENTS", contents.as_bytes()), ("bin/x", file)]))
    }

    fn message(package: &[u8]) -> String {
        verify(package).map_or_else(|bad| bad.to_string(), |()| "whole".into())
    }

    #[test]
    fn files_are_compared_with_their_digests() {
        let contents = format!("@name lib-1\n@cwd /pkg\nbin/x\n@comment MD5:{}\n", HELLO.to_uppercase());
        let whole = package(&contents, b"hello");
        assert_eq!(message(&whole), "whole");
        assert_eq!(
            message(&package(&contents, b"hallo")),
            "the package is damaged: bin/x does not match its MD5 in +CONTENTS"
        );
        let more = contents.clone() + "bin/y\n@comment MD5:00\n";
        assert_eq!(
            message(&package(&more, b"hello")),
            "the package is damaged: bin/y is listed in +CONTENTS, but missing"
        );
        for at in [whole.len() / 2, whole.len() - 5] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_ne!(message(&damaged), "whole", "byte {at} of {}", whole.len());
        }
    }

    #[test]
    fn files_without_digest_are_accepted() {
        assert_eq!(message(&package("@name lib-1\n@cwd /pkg\nbin/x\n", b"any")), "whole");
        let twice = "@name lib-1\n@cwd /pkg\nbin/x\n@comment MD5:00\n@cwd /other\nbin/x\n@comment MD5:01\n";
        assert_eq!(message(&package(twice, b"any")), "whole");
    }
}
