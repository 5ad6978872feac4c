//! Checks that bytes of a client are the binary package that it was to build.

use std::collections::HashMap;
use std::io::Read;

use crate::package::archive::plist::Word;
use crate::package::archive::{ArchiveError, FileDigests, Member, MemberKind, Metadata, Package};
use crate::package::name::Name;
use crate::package::pattern::Pattern;

/// Limits of a package.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    pub members: usize,
    /// Of a path, in bytes.
    pub path: usize,
    /// Unpacked bytes.
    pub unpacked: u64,
    /// Unpacked bytes for each packed one.
    pub ratio: u64,
    /// Any package may unpack to this many bytes.
    pub least: u64,
    /// `@pkgdep` and `@blddep` lines.
    pub dependencies: usize,
}

impl ArchiveLimits {
    /// The bytes to which a package of `size` bytes may unpack.
    pub fn unpacked_bytes(&self, size: u64) -> u64 {
        size.saturating_mul(self.ratio).max(self.least).min(self.unpacked)
    }
}

impl Default for ArchiveLimits {
    /// Far above the packages of pkgsrc: the largest have some 100,000 files and 10 GiB.
    fn default() -> ArchiveLimits {
        ArchiveLimits {
            members: 500_000,
            path: 1_024,
            unpacked: 64 << 30,
            ratio: 200,
            least: 256 << 20,
            dependencies: 10_000,
        }
    }
}

/// The limit of a file's name, as file systems have it.
const MAX_NAME: usize = 255;

/// Why a package is refused. `Display` follows the name of the package.
#[derive(Debug, thiserror::Error)]
pub enum PackageRefusal {
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    #[error("its name in the archive is {0}")]
    Name(String),
    #[error("the package has no {0}")]
    Incomplete(&'static str),
    #[error("the package has more than {0} {1}")]
    TooMany(usize, &'static str),
    #[error("the member {0} {1}")]
    Member(String, String),
    #[error("it was built with {0}, which it does not need")]
    BuiltWith(String),
    #[error("it needs {0}, which none of its dependencies provides")]
    Needs(String),
}

/// A package that is expected.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedPackage<'a> {
    /// PKGNAME.
    pub name: &'a str,
    /// Packed bytes.
    pub size: u64,
    /// The PKGNAMEs of all direct and indirect dependencies.
    pub dependencies: &'a [String],
}

/// Reads a whole package.
pub fn inspect(from: impl Read, expected: ExpectedPackage<'_>, limits: ArchiveLimits) -> Result<(), PackageRefusal> {
    let mut package = Package::read_limited(from, limits.unpacked_bytes(expected.size))?;
    let metadata = package.metadata().clone();
    check_metadata(&metadata, expected, limits)?;
    let mut members = Members { kinds: HashMap::new(), limits };
    let mut digests = FileDigests::of(&metadata);
    while let Some(member) = package.next_file()? {
        members.add(&member)?;
        digests.check(&member, package.content())?;
    }
    Ok(digests.end()?)
}

fn check_metadata(
    metadata: &Metadata,
    expected: ExpectedPackage<'_>,
    limits: ArchiveLimits,
) -> Result<(), PackageRefusal> {
    if metadata.name() != expected.name.as_bytes() {
        return Err(PackageRefusal::Name(shown(metadata.name())));
    }
    if let Some(missing) = ["+COMMENT", "+DESC", "+BUILD_INFO"].into_iter().find(|name| metadata.get(name).is_none()) {
        return Err(PackageRefusal::Incomplete(missing));
    }
    let dependencies: Vec<Name<'_>> = expected.dependencies.iter().map(|name| Name::new(name.as_bytes())).collect();
    let plist = metadata.contents();
    let count = plist.values(Word::BuiltWith).chain(plist.values(Word::Depends)).count();
    if count > limits.dependencies {
        return Err(PackageRefusal::TooMany(limits.dependencies, "dependencies"));
    }
    let is_known = |name: &[u8]| expected.dependencies.iter().any(|it| it.as_bytes() == name);
    if let Some(unknown) = plist.values(Word::BuiltWith).find(|name| !is_known(name)) {
        return Err(PackageRefusal::BuiltWith(shown(unknown)));
    }
    let is_provided =
        |text: &[u8]| Pattern::parse(text).is_ok_and(|pattern| dependencies.iter().any(|name| pattern.matches(name)));
    match plist.values(Word::Depends).find(|text| !is_provided(text)) {
        Some(unknown) => Err(PackageRefusal::Needs(shown(unknown))),
        None => Ok(()),
    }
}

/// The members so far.
struct Members {
    /// By path.
    kinds: HashMap<Vec<u8>, MemberKind>,
    limits: ArchiveLimits,
}

impl Members {
    /// Symbolic links may point anywhere, as those of packages do: to the prefix, the base system, `/var`. Nothing may
    /// be unpacked through them.
    fn add(&mut self, member: &Member) -> Result<(), PackageRefusal> {
        let refused = |why: &str| Err(PackageRefusal::Member(shown(&member.path), why.to_owned()));
        if let Some(why) = unsafe_path(&member.path, self.limits.path) {
            return refused(why);
        }
        if member.kind == MemberKind::Special {
            return refused("is a device or a pipe");
        }
        let path = plain(&member.path);
        if let Some(other) = self.obstacle(&path) {
            return refused(&format!("is below {}, which is no directory", shown(other)));
        }
        if member.kind == MemberKind::Hard && !self.is_file(&member.link) {
            return refused("is a hard link to something that is no file before it");
        }
        let before = self.kinds.get(&path).copied();
        if before.is_some_and(|before| [before, member.kind].contains(&MemberKind::Symlink)) {
            return refused("is there twice, once as a symbolic link");
        }
        if self.kinds.len() >= self.limits.members {
            return Err(PackageRefusal::TooMany(self.limits.members, "members"));
        }
        self.kinds.insert(path, member.kind);
        Ok(())
    }

    /// The symbolic link or file that a directory of the path is.
    fn obstacle<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let slashes = memchr::memchr_iter(b'/', path);
        let mut dirs = slashes.map(|at| &path[..at]);
        dirs.find(|dir| self.kinds.get(*dir).is_some_and(|kind| *kind != MemberKind::Directory))
    }

    fn is_file(&self, path: &[u8]) -> bool {
        matches!(self.kinds.get(&plain(path)), Some(MemberKind::File | MemberKind::Hard))
    }
}

/// The path without empty names and `.`.
fn plain(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.collect::<Vec<_>>().join(&b'/')
}

/// Why a path may not be unpacked.
fn unsafe_path(path: &[u8], most: usize) -> Option<&'static str> {
    let mut names = path.split(|&byte| byte == b'/');
    match () {
        () if path.starts_with(b"/") => Some("has an absolute path"),
        () if path.len() > most => Some("has too long a path"),
        () if names.clone().any(|name| name == b"..") => Some("has '..' in its path"),
        () if names.any(|name| name.len() > MAX_NAME) => Some("has too long a name"),
        () => None,
    }
}

/// The beginning of a text of a client, without control characters.
pub(super) fn shown(text: &[u8]) -> String {
    const MAX: usize = 200;
    String::from_utf8_lossy(text).chars().take(MAX).flat_map(char::escape_default).collect()
}
