//! Compares packages by the content, modes and links of their members.
//!
//! Compression, order, owners and times of members do not count, nor do the lines of the metadata about the build itself:
//! its date, host, kernel and the versions of source files.

use std::collections::BTreeMap;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::inspect::{ArchiveLimits, shown};
use crate::freshness::is_about_content;
use crate::package::archive::{ArchiveError, Member, MemberKind, Package};

/// Most members that are named.
const MAX_NAMED: usize = 20;
const BUFFER: usize = 1 << 16;
/// A difference of packages one of which cannot be read.
const ARCHIVE: &str = "the archive";
/// The version of the kernel, the patch level of which may differ between clients.
const KERNEL: &[u8] = b"OS_VERSION=";

/// The members of a package, by path.
pub(super) struct MemberList(BTreeMap<Vec<u8>, MemberSummary>);

#[derive(PartialEq, Eq)]
struct MemberSummary {
    kind: MemberKind,
    mode: u32,
    link: Vec<u8>,
    /// Of the content.
    digest: [u8; 32],
}

impl MemberSummary {
    /// Returns the first property that differs.
    fn difference(&self, other: &MemberSummary) -> Option<&'static str> {
        match () {
            () if self.kind != other.kind => Some("kind"),
            () if self.link != other.link => Some("link"),
            () if self.digest != other.digest => Some("content"),
            () if self.mode != other.mode => Some("mode"),
            () => None,
        }
    }
}

impl MemberList {
    /// Reads a whole package of `size` bytes.
    pub fn read(from: impl Read, size: u64, limits: ArchiveLimits) -> Result<MemberList, ArchiveError> {
        let mut package = Package::read_limited(from, limits.unpacked_bytes(size))?;
        let mut list = MemberList(BTreeMap::new());
        for (name, content) in package.metadata().members().filter(|(name, _)| is_about_content(name, b"")) {
            list.0.insert(name.to_vec(), metadata(name, content));
        }
        while let Some(member) = package.next_file()? {
            list.add(member, package.content())?;
            if list.0.len() > limits.members {
                return Err(ArchiveError::Member("there are too many"));
            }
        }
        Ok(list)
    }

    fn add(&mut self, member: Member, mut content: impl Read) -> io::Result<()> {
        let mut hash = Sha256::new();
        if let Some(before) = self.0.get(&member.path) {
            // Of members with the same path, all count.
            hash.update([&before.digest[..], &before.mode.to_le_bytes(), &before.link].concat());
        }
        let mut buffer = vec![0; BUFFER];
        while let length @ 1.. = content.read(&mut buffer)? {
            hash.update(&buffer[..length]);
        }
        let Member { path, kind, mode, link, .. } = member;
        self.0.insert(path, MemberSummary { kind, mode, link, digest: hash.finalize().into() });
        Ok(())
    }
}

fn metadata(name: &[u8], content: &[u8]) -> MemberSummary {
    let mut hash = Sha256::new();
    let lines = content.split(|&byte| byte == b'\n').filter(|line| is_about_content(name, line));
    for line in lines.filter(|line| name != b"+BUILD_INFO" || !line.starts_with(KERNEL)) {
        hash.update([line, b"\n"].concat());
    }
    MemberSummary { kind: MemberKind::File, mode: 0, link: Vec::new(), digest: hash.finalize().into() }
}

/// Names the members that differ, for people: `bin/a (content)`. Empty if the packages are the same.
pub(super) fn differences(packages: &[Result<MemberList, ArchiveError>; 2]) -> Vec<String> {
    let lists = match packages {
        [Ok(first), Ok(second)] => [first, second],
        [Err(why), _] | [_, Err(why)] => return vec![format!("{ARCHIVE} ({})", shown(why.to_string().as_bytes()))],
    };
    let [first, second] = lists.map(|list| &list.0);
    let in_both = first.iter().filter_map(|(path, member)| {
        let difference = second.get(path).map_or(Some("missing in one"), |other| member.difference(other));
        Some((path, difference?))
    });
    let in_second = second.keys().filter(|path| !first.contains_key(*path)).map(|path| (path, "missing in one"));
    let mut names: Vec<(&Vec<u8>, &str)> = in_both.chain(in_second).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.iter().take(MAX_NAMED).map(|(path, difference)| format!("{} ({difference})", shown(path)));
    named.chain((more > 0).then(|| format!("{more} more"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::archive::tests::{ended, file, gzip, link};

    const CONTENTS: &[u8] = b"@name lib-1\n@cwd /usr/pkg\nlib/a\n";
    const INFO: &str = "BUILD_DATE=2026-01-01\nBUILD_HOST=one\nOS_VERSION=6.1.0-1\nOPSYS=Linux\n";

    fn read(members: &[Vec<u8>]) -> Result<MemberList, ArchiveError> {
        let bytes = gzip(&ended(members.concat()));
        MemberList::read(&bytes[..], bytes.len() as u64, ArchiveLimits { members: 100, ..ArchiveLimits::default() })
    }

    fn package(info: &str, version: &str, more: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let metadata = [file("+CONTENTS", CONTENTS), file("+BUILD_INFO", info.as_bytes())];
        [&metadata[..], &[file("+BUILD_VERSION", version.as_bytes())], more].concat()
    }

    fn with(more: &[Vec<u8>]) -> Vec<String> {
        let usual = [file("lib/a", b"text"), link("lib/b", 2, "a")];
        differences(&[read(&package(INFO, "1", &usual)), read(&package(INFO, "1", more))])
    }

    #[test]
    fn date_host_kernel_and_order_do_not_count() {
        let info = INFO.replace("2026", "2027").replace("one", "two").replace("6.1.0-1", "6.1.0-2");
        let first = package(INFO, "1", &[file("lib/a", b"text"), file("lib/b", b"")]);
        let second = package(&info, "2", &[file("lib/b", b""), file("lib/a", b"text")]);
        assert_eq!(differences(&[read(&first), read(&second)]), [""; 0]);
        let other = package(&INFO.replace("Linux", "NetBSD"), "1", &[file("lib/a", b"text"), file("lib/b", b"")]);
        assert_eq!(differences(&[read(&first), read(&other)]), ["+BUILD_INFO (content)"]);
    }

    #[test]
    fn members_that_differ_are_named() {
        let (a, b) = (file("lib/a", b"text"), link("lib/b", 2, "a"));
        assert_eq!(with(&[a.clone(), b.clone()]), [""; 0]);
        assert_eq!(with(&[file("lib/a", b"next"), b.clone()]), ["lib/a (content)"]);
        assert_eq!(with(&[a.clone(), link("lib/b", 2, "c")]), ["lib/b (link)"]);
        assert_eq!(with(&[a.clone(), file("lib/b", b"")]), ["lib/b (kind)"]);
        assert_eq!(with(&[a.clone(), file("lib/c\n", b"")]), ["lib/b (missing in one)", "lib/c\\n (missing in one)"]);
        assert_eq!(
            with(&[file("lib/a", b"next"), a.clone(), b.clone()]),
            ["lib/a (content)"],
            "the first one is hidden"
        );
        let mut executable = file("lib/a", b"text");
        executable[100..107].copy_from_slice(b"0000755");
        let sum: u32 = executable[..512]
            .iter()
            .enumerate()
            .map(|(at, &it)| if (148..156).contains(&at) { 32 } else { it.into() })
            .sum();
        executable[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert_eq!(with(&[executable, b]), ["lib/a (mode)"]);
    }

    #[test]
    fn long_lists_are_cut_and_other_files_differ() {
        let many: Vec<Vec<u8>> = (0..50).map(|number| file(&format!("lib/{number:02}"), b"")).collect();
        let names = with(&many);
        assert_eq!((names.len(), &*names[0], &*names[20]), (21, "lib/00 (missing in one)", "32 more"));
        let whole = read(&package(INFO, "1", &[]));
        let other = MemberList::read(&[b'x'; 2048][..], 2048, ArchiveLimits::default());
        assert_eq!(differences(&[whole, other]), ["the archive (not a binary package)"]);
        let too_many: Vec<Vec<u8>> = (0..101).map(|number| file(&format!("lib/{number}"), b"")).collect();
        assert!(read(&package(INFO, "1", &too_many)).is_err());
    }
}
