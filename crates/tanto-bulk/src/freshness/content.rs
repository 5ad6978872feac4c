//! Fingerprints of package contents: whether a rebuilt package is the same but for when and from which sources it was
//! built.
//!
//! A fingerprint covers the metadata at the beginning of a package file: the MD5 of each file, link targets, scripts,
//! needed and provided packages. Modes and owners that the file list omits are not covered.

use sha2::{Digest, Sha256};

use crate::package::archive::Metadata;
use crate::package::archive::plist::Sum;

pub(crate) type Fingerprint = [u8; 32];

/// The content of a package file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The mtime of the file, in nanoseconds since 1970.
    pub written_ns: i64,
    /// Since when the package has had this content.
    pub since_ns: i64,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Content {
    /// Returns the content of the file that replaces this one. The same fingerprint keeps `since_ns`.
    pub(super) fn followed_by(&self, written_ns: i64, fingerprint: Option<Fingerprint>) -> Content {
        let is_same = fingerprint.is_some() && fingerprint == self.fingerprint;
        Content { written_ns, since_ns: if is_same { self.since_ns } else { written_ns }, fingerprint }
    }
}

/// Lines of +BUILD_INFO about the build itself.
const BUILT: [&[u8]; 2] = [b"BUILD_DATE=", b"BUILD_HOST="];

/// Returns `None` if the metadata has no digest of some file.
pub(super) fn fingerprint(metadata: &Metadata) -> Option<Fingerprint> {
    if metadata.contents().files().any(|(_, sum)| sum == Sum::Unsaid) {
        return None;
    }
    let mut hash = Sha256::new();
    for (name, content) in metadata.members().filter(|(name, _)| is_about_content(name, b"")) {
        hash.update([name, b"\0"].concat());
        for line in content.split(|&byte| byte == b'\n').filter(|line| is_about_content(name, line)) {
            hash.update([line, b"\n"].concat());
        }
        hash.update([0]);
    }
    Some(hash.finalize().into())
}

/// Whether a line of a member of the metadata is about the content and not about the build.
pub(crate) fn is_about_content(name: &[u8], line: &[u8]) -> bool {
    match name {
        b"+BUILD_VERSION" => false,
        b"+BUILD_INFO" => !BUILT.iter().any(|it| line.starts_with(it)),
        b"+CONTENTS" => !line.starts_with(b"@comment $NetBSD"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::archive::Package;
    use crate::package::archive::tests::{gzip, tar};

    const CONTENTS: &str = "@comment $NetBSD: PLIST,v 1.1$\n@name lib-1\n@cwd /usr/pkg\n@blddep base-1\nlib/a\n\
        @comment MD5:0123456789abcdef0123456789abcdef\nlib/b\n@comment Symlink:a\n";
    const INFO: &str = "BUILD_DATE=2026-01-01\nBUILD_HOST=one\nPROVIDES=/usr/pkg/lib/a\n";

    fn of(contents: &str, info: &str, version: &str) -> Option<Fingerprint> {
        let members: [(&str, &[u8]); 5] = [
            ("+CONTENTS", contents.as_bytes()),
            ("+COMMENT", b"a library"),
            ("+BUILD_VERSION", version.as_bytes()),
            ("+BUILD_INFO", info.as_bytes()),
            ("lib/a", b"whatever"),
        ];
        fingerprint(Package::read(&gzip(&tar(&members))[..]).unwrap().metadata())
    }

    #[test]
    fn fingerprint_ignores_build_date_host_and_versions() {
        let first = of(CONTENTS, INFO, "a/Makefile: $NetBSD: 1$\n");
        assert!(first.is_some());
        let info = INFO.replace("2026", "2027").replace("one", "two");
        assert_eq!(of(&CONTENTS.replace("1.1$", "1.2$"), &info, "a/Makefile: $NetBSD: 2$\n"), first);
        for (old, new) in
            [("abcdef\n", "abcdee\n"), ("Symlink:a", "Symlink:c"), ("base-1", "base-2"), ("lib/b", "lib/c")]
        {
            let other = of(&CONTENTS.replace(old, new), INFO, "");
            assert!(other.is_some() && other != first, "{old}");
        }
        assert_ne!(of(CONTENTS, &INFO.replace("lib/a", "lib/a.2"), ""), first);
    }

    #[test]
    fn incomplete_metadata_has_no_fingerprint() {
        let plain = "@name lib-1\n@cwd /usr/pkg\nlib/a\n";
        assert_eq!(of(plain, INFO, ""), None);
        let content = Content { written_ns: 7, since_ns: 3, fingerprint: None };
        assert_eq!(content.followed_by(9, None).since_ns, 9);
        let fingerprint = of(CONTENTS, INFO, "");
        let content = Content { fingerprint, ..content };
        assert_eq!(content.followed_by(9, None).since_ns, 9);
        let same = content.followed_by(9, fingerprint);
        assert_eq!((same.since_ns, same.written_ns), (3, 9));
        assert_eq!(same.followed_by(11, fingerprint).since_ns, 3);
    }
}
