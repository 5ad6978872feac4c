//! Whether a package that was built again is what it was before, but for when and from what it was built. Does not know
//! what follows from that.
//!
//! It is told by what packages say of themselves, in the beginning of their files: the MD5 of each of their files, where
//! links lead, their scripts, what they need, what they provide. Modes and owners that are not in the list of files are
//! not told there.

use sha2::{Digest, Sha256};

use crate::package::archive::Metadata;
use crate::package::archive::plist::Sum;

/// What stands for all that a package says of its content.
pub(super) type Print = [u8; 32];

/// What is known of a package file when it may be replaced by another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// When the file was written, in nanoseconds since 1970.
    pub written_ns: i64,
    /// Since when the package has had this content.
    pub since_ns: i64,
    pub(super) print: Option<Print>,
}

impl Content {
    /// The file that was written now in this one's place: it has its content since the same time, if it is the same one.
    pub(super) fn followed_by(&self, written_ns: i64, print: Option<Print>) -> Content {
        let is_same = print.is_some() && print == self.print;
        Content { written_ns, since_ns: if is_same { self.since_ns } else { written_ns }, print }
    }
}

/// What a build says of itself.
const BUILT: [&[u8]; 2] = [b"BUILD_DATE=", b"BUILD_HOST="];

/// Of a package; none if it does not say what is in all of its files.
pub(super) fn print(metadata: &Metadata) -> Option<Print> {
    if metadata.contents().files().any(|(_, sum)| sum == Sum::Unsaid) {
        return None;
    }
    let mut hash = Sha256::new();
    for (name, content) in metadata.members().filter(|(name, _)| *name != b"+BUILD_VERSION") {
        hash.update([name, b"\0"].concat());
        for line in content.split(|&byte| byte == b'\n').filter(|line| counts(name, line)) {
            hash.update([line, b"\n"].concat());
        }
        hash.update([0]);
    }
    Some(hash.finalize().into())
}

/// Does this line say more than when, where and from which version of a list the package was made?
fn counts(name: &[u8], line: &[u8]) -> bool {
    match name {
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

    fn of(contents: &str, info: &str, version: &str) -> Option<Print> {
        let members: [(&str, &[u8]); 5] = [
            ("+CONTENTS", contents.as_bytes()),
            ("+COMMENT", b"a library"),
            ("+BUILD_VERSION", version.as_bytes()),
            ("+BUILD_INFO", info.as_bytes()),
            ("lib/a", b"whatever"),
        ];
        print(Package::read(&gzip(&tar(&members))[..]).unwrap().metadata())
    }

    #[test]
    fn when_and_from_what_it_was_built_makes_no_difference() {
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
    fn what_says_too_little_is_never_the_same() {
        let plain = "@name lib-1\n@cwd /usr/pkg\nlib/a\n";
        assert_eq!(of(plain, INFO, ""), None);
        let content = Content { written_ns: 7, since_ns: 3, print: None };
        assert_eq!(content.followed_by(9, None).since_ns, 9);
        let print = of(CONTENTS, INFO, "");
        let content = Content { print, ..content };
        assert_eq!(content.followed_by(9, None).since_ns, 9);
        let same = content.followed_by(9, print);
        assert_eq!((same.since_ns, same.written_ns), (3, 9));
        assert_eq!(same.followed_by(11, print).since_ns, 3);
    }
}
