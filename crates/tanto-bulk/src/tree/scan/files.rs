//! Digests of files and directory listings. Each is stated once in a run, and read only if its stamp is new.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use tanto_record::database::{DigestRow, Stamp};
use tanto_sys::fs::file;

pub(super) type InputHash = [u8; 32];

/// The index of a file or directory.
pub(super) type FileId = u32;

/// The text of makefiles that ask for another package's options.
const ASKS: &[u8] = b"pkg-build-options.mk";
/// The name of such files.
const ASKING: &[u8] = b"buildlink3.mk";
/// The granularity of mtimes, in nanoseconds: a file that changed so recently may change again without another stamp.
pub(super) const GRAIN_NS: i64 = 100_000_000;

#[derive(Default)]
pub(super) struct Files {
    ids: HashMap<Vec<u8>, FileId, RandomState>,
    seen: Vec<Seen>,
    /// Entries of earlier runs.
    known: HashMap<Vec<u8>, DigestRow, RandomState>,
    /// New reliable entries.
    fresh: Vec<DigestRow>,
    /// Changed since earlier runs; directories end with `/`.
    changed: Vec<Vec<u8>>,
}

/// The state of a file.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// The digest of path and content.
    pub print: InputHash,
    /// The change time in nanoseconds since 1970; `None` if absent.
    pub changed_ns: Option<i64>,
    pub looked_ns: i64,
    /// ScanCommands for another package's options.
    pub asks: bool,
}

impl Files {
    pub fn knowing(known: Vec<DigestRow>) -> Files {
        Files { known: known.into_iter().map(|it| (it.path.clone(), it)).collect(), ..Files::default() }
    }

    /// Takes the new entries.
    pub fn take_fresh(&mut self) -> Vec<DigestRow> {
        std::mem::take(&mut self.fresh)
    }

    /// Changed since earlier runs; directories end with `/`.
    pub fn changed(&self) -> &[Vec<u8>] {
        &self.changed
    }

    /// ScanKind a look has shown.
    pub fn seen(&self, id: FileId) -> &Seen {
        &self.seen[id as usize]
    }

    pub fn file(&mut self, path: &[u8]) -> FileId {
        self.look(path, |path, content| fs::File::open(path).and_then(|mut it: File| it.read_to_end(content)).is_ok())
    }

    /// The listing of a directory's makefiles.
    pub fn listing(&mut self, dir: &[u8]) -> FileId {
        self.look(&[dir, b"/"].concat(), |path, content| {
            let names = makefiles(path);
            content.extend(names.join(&b'\0'));
            true
        })
    }

    fn look(&mut self, path: &[u8], read: impl FnOnce(&Path, &mut Vec<u8>) -> bool) -> FileId {
        if let Some(&id) = self.ids.get(path) {
            return id;
        }
        let seen = self.see(path, read);
        let id = self.seen.len() as FileId;
        self.seen.push(seen);
        self.ids.insert(path.to_vec(), id);
        id
    }

    fn see(&mut self, path: &[u8], read: impl FnOnce(&Path, &mut Vec<u8>) -> bool) -> Seen {
        let looked_ns = now_ns();
        let Some(stamp) = fs::metadata(file::path(path)).ok().map(|data| stamp(&data)) else {
            self.changed.extend(self.known.contains_key(path).then(|| path.to_vec()));
            return Seen { print: print(path, b"missing"), changed_ns: None, looked_ns, asks: false };
        };
        let changed_ns = Some(stamp.ctime_ns.max(stamp.mtime_ns));
        if let Some(known) = self.known.get(path).filter(|known| known.stamp == stamp) {
            return Seen { print: print(path, &known.digest), changed_ns, looked_ns, asks: known.asks };
        }
        let mut content = Vec::new();
        if !read(file::path(path), &mut content) {
            return Seen { print: print(path, b"unreadable"), changed_ns, looked_ns, asks: false };
        }
        let digest = Sha256::digest(&content).to_vec();
        let is_other = self.known.get(path).is_some_and(|known| known.digest != digest);
        self.changed.extend(is_other.then(|| path.to_vec()));
        let asks = path.ends_with(ASKING) && memchr::memmem::find(&content, ASKS).is_some();
        let seen = Seen { print: print(path, &digest), changed_ns, looked_ns, asks };
        if seen.is_settled(looked_ns) {
            self.fresh.push(DigestRow { path: path.to_vec(), stamp, digest, asks });
        }
        seen
    }
}

impl Seen {
    /// Whether it is unchanged since a time, including the granularity.
    pub fn is_settled(&self, since_ns: i64) -> bool {
        self.changed_ns.is_none_or(|changed| changed < since_ns - GRAIN_NS)
    }
}

/// The sorted names of files that `make` may read.
pub(super) fn makefiles(dir: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<Vec<u8>> = entries.map(|entry| entry.file_name().as_bytes().to_vec()).collect();
    names.retain(|name| {
        let begins = [&b"Makefile"[..], b"makefile", b"BSDmakefile"].iter().any(|it| name.starts_with(it));
        begins || name.ends_with(b".mk") || name.ends_with(b".conf")
    });
    names.sort_unstable();
    names
}

/// The stamp.
pub(super) fn stamp(data: &Metadata) -> Stamp {
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Stamp {
        device: data.dev(),
        inode: data.ino(),
        bytes: data.size(),
        mtime_ns: ns(data.mtime(), data.mtime_nsec()),
        ctime_ns: ns(data.ctime(), data.ctime_nsec()),
    }
}

fn print(path: &[u8], digest: &[u8]) -> InputHash {
    Sha256::new().chain_update(path).chain_update([0]).chain_update(digest).finalize().into()
}

/// The time in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tanto_testing::Scratch;

    fn print_of(known: &[DigestRow], path: &[u8]) -> (InputHash, Vec<DigestRow>) {
        let mut files = Files::knowing(known.to_vec());
        let id = if path.ends_with(b"/") { files.listing(&path[..path.len() - 1]) } else { files.file(path) };
        (files.seen(id).print, files.take_fresh())
    }

    /// Waits for the granularity.
    fn settle() {
        std::thread::sleep(Duration::from_nanos(2 * GRAIN_NS.unsigned_abs()));
    }

    #[test]
    fn file_is_read_again_only_with_another_stamp() {
        let place = Scratch::new("scan-files");
        place.write("a.mk", "one");
        let path = place.bytes("a.mk");
        let (first, fresh) = print_of(&[], &path);
        assert!(fresh.is_empty(), "it was just changed, and may be changed again without looking different");
        settle();
        let (same, fresh) = print_of(&[], &path);
        assert_eq!((same, fresh.len()), (first, 1));
        let mut lie = fresh.clone();
        lie[0].digest = vec![0; 32];
        assert_ne!(print_of(&lie, &path).0, first, "what is known is not read again");
        assert_eq!(print_of(&fresh, &path), (first, vec![]));
        place.write("a.mk", "two");
        assert_ne!(print_of(&fresh, &path).0, first);
        std::fs::remove_file(place.at("a.mk")).unwrap();
        let missing = print_of(&fresh, &path).0;
        assert!(missing != first && missing == print_of(&[], &path).0);
    }

    #[test]
    fn directory_is_the_names_of_its_makefiles() {
        let place = Scratch::new("scan-listing");
        place.write("p/Makefile", "x");
        let dir = place.bytes("p/");
        let first = print_of(&[], &dir).0;
        place.write("p/work/x", "x");
        place.write("p/DESCR", "x");
        place.write("p/Makefile", "other");
        assert_eq!(print_of(&[], &dir).0, first);
        place.write("p/hacks.mk", "x");
        assert_ne!(print_of(&[], &dir).0, first);
    }

    #[test]
    fn files_that_ask_for_options_are_marked() {
        let place = Scratch::new("scan-asks");
        place.write("buildlink3.mk", ".include \"../../mk/pkg-build-options.mk\"");
        place.write("Makefile", ".include \"../../mk/pkg-build-options.mk\"");
        let mut files = Files::default();
        let asks = ["buildlink3.mk", "Makefile"].map(|name| {
            let id = files.file(&place.bytes(name));
            files.seen(id).asks
        });
        assert_eq!(asks, [true, false]);
    }
}
