//! Decides whether existing binary packages are what the tree would make now, by the rules of pbulk's `pkg-up-to-date`.
//!
//! `inspect` reads all package files in parallel and checks each by itself: the file exists, its source files are
//! unchanged, and it was built with packages that it still needs. `coordinator::up_to_date` then settles what depends on
//! other packages.

mod content;
mod files;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tanto_sys::machine::cpu;

pub use self::content::Content;
use self::content::Fingerprint;
pub(crate) use self::content::is_about_content;
use self::files::SourceFiles;
use crate::package::archive::Metadata;
use crate::package::archive::plist::Word;
use crate::package::name::Name;
use crate::resolve::PackageId;

/// The state of an existing binary package.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// Not checked.
    #[default]
    Unknown,
    /// It has to be built, with the reason.
    Stale(String),
    /// It is what the tree would make, unless one of these packages is rebuilt.
    UpToDate(Vec<PackageId>),
}

/// How the ages of packages count.
#[derive(Clone, Debug)]
pub enum Ages {
    Ignored,
    /// A package is stale if a package that it was built with has a newer file.
    Files,
    /// A package is stale if the content of such a package is newer. By package name: the mtime of the file that the
    /// entry is about, and since when the package has had this content; both in nanoseconds since 1970.
    Contents(HashMap<String, (i64, i64)>),
}

impl Ages {
    /// Returns since when a package whose file has this mtime has had its content.
    pub fn since(&self, name: &str, written_ns: i64) -> i64 {
        let Ages::Contents(known) = self else { return written_ns };
        let since = known.get(name).filter(|(written, _)| *written == written_ns).map(|(_, since)| *since);
        since.unwrap_or(written_ns)
    }
}

/// Where binary packages and their sources are.
#[derive(Clone, Copy, Debug)]
pub struct PackageFiles<'a> {
    pub pkgsrc: &'a str,
    /// Binary packages are in `All` below it.
    pub packages: &'a str,
    /// The suffix of package files.
    pub suffix: &'a str,
    /// Whether fingerprints of contents are computed too.
    pub contents: bool,
}

/// A package to inspect.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub name: &'a str,
    /// Indices of the candidates that it needs.
    pub depends: &'a [PackageId],
    pub check: Check,
}

/// How much of a package is inspected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// Nothing.
    Skip,
    /// Only the mtime of its file.
    Mtime,
    /// Everything.
    Full,
}

/// The result of inspecting one package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// The mtime of its file, in nanoseconds since 1970; `None` if there is no file.
    pub written_ns: Option<i64>,
    /// The packages that an up-to-date package was built with, or why it is stale.
    pub verdict: Result<Vec<PackageId>, String>,
    /// The fingerprint of its content, if requested and complete.
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Packages that a thread takes at a time. Neighbours are often made from the same files.
const CHUNK: usize = 64;
/// Packages that justify one more thread.
const PACKAGES_PER_THREAD: usize = 512;

/// Inspects all packages, in their order.
pub fn inspect(packages: &[Candidate<'_>], place: PackageFiles<'_>) -> Vec<Inspection> {
    let count = packages.len();
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut chunks, mut files) = (Vec::new(), SourceFiles::new(place.pkgsrc));
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= count {
                return chunks;
            }
            let chunk = &packages[from..count.min(from + CHUNK)];
            let inspections: Vec<Inspection> = chunk.iter().map(|it| place.inspect(packages, it, &mut files)).collect();
            chunks.push((from, inspections));
        }
    };
    let others = cpu::count().min(count / PACKAGES_PER_THREAD).saturating_sub(1);
    let mut chunks = thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
        let mut chunks = work();
        for thread in threads {
            chunks.extend(thread.join().expect("an inspection does not panic"));
        }
        chunks
    });
    chunks.sort_unstable_by_key(|(from, _)| *from);
    chunks.into_iter().flat_map(|(_, inspections)| inspections).collect()
}

impl PackageFiles<'_> {
    /// Returns the path of a binary package.
    pub fn file(self, name: &str) -> PathBuf {
        Path::new(self.packages).join(crate::package::ALL).join(format!("{name}{}", self.suffix))
    }

    fn inspect(self, packages: &[Candidate<'_>], it: &Candidate<'_>, files: &mut SourceFiles) -> Inspection {
        let stale = |why: &str| Inspection { written_ns: None, verdict: Err(why.to_owned()), fingerprint: None };
        if it.check == Check::Skip {
            return stale("");
        }
        let path = self.file(it.name);
        let written_ns = match written_ns(&path) {
            Ok(written_ns) => written_ns,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return stale("it was not built yet"),
            Err(error) => return stale(&format!("its file: {error}")),
        };
        let is_full = it.check == Check::Full;
        if !is_full && !self.contents {
            return Inspection { written_ns: Some(written_ns), verdict: Ok(Vec::new()), fingerprint: None };
        }
        let metadata = Metadata::of(&path);
        let fingerprint = metadata.as_ref().ok().filter(|_| self.contents).and_then(content::fingerprint);
        let verdict = match metadata {
            _ if !is_full => Ok(Vec::new()),
            Ok(metadata) => verdict(&metadata, packages, it, files),
            Err(error) => Err(error.to_string()),
        };
        Inspection { written_ns: Some(written_ns), verdict, fingerprint }
    }

    /// Returns a package's content after its file was replaced; `None` if the new file cannot be read.
    pub fn renewed(self, name: &str, before: &Content) -> Option<Content> {
        let path = self.file(name);
        let fingerprint = Metadata::of(&path).ok().as_ref().and_then(content::fingerprint);
        Some(before.followed_by(written_ns(&path).ok()?, fingerprint))
    }
}

fn written_ns(path: &Path) -> io::Result<i64> {
    let data = fs::metadata(path)?;
    match data.is_file() {
        true => Ok(data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec())),
        false => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// Compares a package's metadata with the tree.
fn verdict(
    metadata: &Metadata,
    packages: &[Candidate<'_>],
    it: &Candidate<'_>,
    files: &mut SourceFiles,
) -> Result<Vec<PackageId>, String> {
    if metadata.name() != it.name.as_bytes() {
        return Err(format!("its package file contains {}", String::from_utf8_lossy(metadata.name())));
    }
    for line in metadata.get("+BUILD_VERSION").unwrap_or_default().split(|&byte| byte == b'\n') {
        files.check(line)?;
    }
    metadata.contents().values(Word::BuiltWith).map(|name| built_with(packages, it, name)).collect()
}

/// Finds a package that this one was built with among those that it needs now. The converse is not checked.
fn built_with(packages: &[Candidate<'_>], it: &Candidate<'_>, name: &[u8]) -> Result<PackageId, String> {
    let of = |package: &PackageId| packages[*package as usize].name.as_bytes();
    if let Some(&package) = it.depends.iter().find(|package| of(package) == name) {
        return Ok(package);
    }
    let text = String::from_utf8_lossy;
    let base = Name::new(name).base();
    match it.depends.iter().find(|package| Name::new(of(package)).base() == base) {
        Some(now) => Err(format!("it needs {} instead of {}", text(of(now)), text(name))),
        None => Err(format!("it was built with {}, which it no longer needs", text(name))),
    }
}
