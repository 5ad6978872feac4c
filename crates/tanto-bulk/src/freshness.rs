//! Whether the binary packages that are there are what the tree would make now; the rules of pbulk's `pkg-up-to-date`.
//! Does not know what becomes of packages that are not.
//!
//! What a package says by itself is found out for all of them at once, on several threads: its file is there, the files
//! that it was made from have not changed, and it was built with packages that it still needs. What depends on those is
//! found out then (`settle`), as far as it can be before some of them are built.

mod content;
mod files;
mod settle;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tanto_sys::machine::cpu;

pub use self::content::Content;
use self::content::Print;
use self::files::Files;
pub use self::settle::{Ages, Standing, foretell, settle};
use crate::coordinator::plan::{Plan, Planned};
use crate::coordinator::state::State;
use crate::package::archive::Metadata;
use crate::package::archive::plist::Word;
use crate::package::name::Name;
use crate::resolve::Package;

/// Where binary packages are, and what they are made from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The tree.
    pub pkgsrc: &'a str,
    /// Binary packages are in `All` below it.
    pub packages: &'a str,
    /// Ends their names.
    pub suffix: &'a str,
    /// Whether what they hold is asked for too.
    pub contents: bool,
}

/// What is there of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// When its file was written, in nanoseconds since 1970; nothing if there is none.
    pub written_ns: Option<i64>,
    /// It is what the tree would make, and was built with these; or why it is not.
    pub said: Result<Vec<Package>, String>,
    /// What stands for its content, if that was asked for and can be told.
    print: Option<Print>,
}

/// Packages that a thread takes at a time. Neighbours are often made from the same files.
const PIECE: usize = 64;
/// For fewer no second thread is started.
const WORTH_A_THREAD: usize = 512;

/// What is there of each package that is open. Of those that are done or known to be due, only when they were written.
pub fn look(plan: &Plan, place: Place<'_>) -> Vec<Found> {
    let count = plan.packages.len();
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut found, mut files) = (Vec::new(), Files::new(place.pkgsrc));
        loop {
            let from = next.fetch_add(PIECE, Ordering::Relaxed);
            if from >= count {
                return found;
            }
            let packages = from as Package..count.min(from + PIECE) as Package;
            found.push((from, packages.map(|it| place.look(plan, it, &mut files)).collect::<Vec<Found>>()));
        }
    };
    let others = cpu::count().min(count / WORTH_A_THREAD).saturating_sub(1);
    let mut pieces = thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
        let mut pieces = work();
        for thread in threads {
            pieces.extend(thread.join().expect("a look does not panic"));
        }
        pieces
    });
    pieces.sort_unstable_by_key(|(from, _)| *from);
    pieces.into_iter().flat_map(|(_, found)| found).collect()
}

impl Place<'_> {
    /// Where a binary package is.
    pub fn file(self, name: &str) -> PathBuf {
        Path::new(self.packages).join("All").join(format!("{name}{}", self.suffix))
    }

    fn look(self, plan: &Plan, package: Package, files: &mut Files) -> Found {
        let it = plan.package(package);
        if !matches!(it.state(), State::Open | State::Done) {
            return Found::nothing("");
        }
        let path = self.file(&it.name);
        let written_ns = match written_ns(&path) {
            Ok(written_ns) => written_ns,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::nothing("it was not built yet"),
            Err(error) => return Found::nothing(&format!("its file: {error}")),
        };
        let is_known = it.state() == State::Done || it.standing != Standing::Unknown;
        if is_known && !self.contents {
            return Found { written_ns: Some(written_ns), said: Ok(Vec::new()), print: None };
        }
        let metadata = Metadata::of(&path);
        let print = metadata.as_ref().ok().filter(|_| self.contents).and_then(content::print);
        let said = match metadata {
            _ if is_known => Ok(Vec::new()),
            Ok(metadata) => said(&metadata, plan, it, files),
            Err(bad) => Err(bad.told()),
        };
        Found { written_ns: Some(written_ns), said, print }
    }

    /// What has become of a package's content with the file that was built now; none if that cannot be told.
    pub fn renewed(self, name: &str, before: &Content) -> Option<Content> {
        let path = self.file(name);
        let print = Metadata::of(&path).ok().as_ref().and_then(content::print);
        Some(before.followed_by(written_ns(&path).ok()?, print))
    }
}

impl Found {
    fn nothing(why: &str) -> Found {
        Found { written_ns: None, said: Err(why.to_owned()), print: None }
    }
}

fn written_ns(path: &Path) -> io::Result<i64> {
    let data = fs::metadata(path)?;
    match data.is_file() {
        true => Ok(data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec())),
        false => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// What the package says of itself, beside what the tree says.
fn said(metadata: &Metadata, plan: &Plan, it: &Planned, files: &mut Files) -> Result<Vec<Package>, String> {
    if metadata.name() != it.name.as_bytes() {
        return Err(format!("its file says that it is {}", String::from_utf8_lossy(metadata.name())));
    }
    for line in metadata.get("+BUILD_VERSION").unwrap_or_default().split(|&byte| byte == b'\n') {
        files.hold(line)?;
    }
    metadata.contents().values(Word::BuiltWith).map(|name| built_with(plan, it, name)).collect()
}

/// What it was built with is what it needs now. (The converse is not asked.)
fn built_with(plan: &Plan, it: &Planned, name: &[u8]) -> Result<Package, String> {
    let of = |package: &Package| plan.package(*package).name.as_bytes();
    if let Some(&package) = it.depends.iter().find(|package| of(package) == name) {
        return Ok(package);
    }
    let text = String::from_utf8_lossy;
    let base = Name::new(name).base();
    match it.depends.iter().find(|package| Name::new(of(package)).base() == base) {
        Some(now) => Err(format!("it needs {} instead of {}", text(of(now)), text(name))),
        None => Err(format!("it was built with {}, and does not need that any more", text(name))),
    }
}
