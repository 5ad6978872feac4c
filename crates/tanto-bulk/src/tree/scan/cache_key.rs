//! The key of a directory's result, over everything that it depends on.
//!
//! The key covers: every makefile that was read; the names of makefiles in their directories, for lookups that failed;
//! for packages whose options were asked for, all makefiles of their directories, because another `make` without a
//! trace reads those; and the common inputs (`base`).

use std::fs;
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use tanto_sys::fs::file;

use super::files::{FileId, Files, InputHash, makefiles, stamp};
use super::path_view::PathView;

pub(super) struct CacheKeys {
    pub files: Files,
    pkgsrc: Vec<u8>,
    path_view: PathView,
    base: InputHash,
    parents: HashMap<FileId, FileId, RandomState>,
    /// The mtime of a file, or of the newest makefile of a directory, in nanoseconds since 1970.
    written: HashMap<Vec<u8>, Option<i64>, RandomState>,
    /// Makefiles of directories that were asked for options.
    asked: HashMap<Vec<u8>, Vec<FileId>, RandomState>,
}

impl CacheKeys {
    pub fn new(files: Files, pkgsrc: &str, path_view: PathView, base: InputHash) -> CacheKeys {
        let (parents, written, asked) = (HashMap::default(), HashMap::default(), HashMap::default());
        CacheKeys { files, pkgsrc: pkgsrc.as_bytes().to_vec(), path_view, base, parents, written, asked }
    }

    /// The key of a directory, from the makefiles in the SCAN_DEPENDS of its records.
    pub fn key(&mut self, location: &str, records: &[u8]) -> InputHash {
        self.made(location, records, i64::MAX).0
    }

    /// The key of a result that was obtained at this time, in nanoseconds since 1970. `None` if an input changed
    /// meanwhile.
    pub fn key_since(&mut self, location: &str, records: &[u8], began_ns: i64) -> Option<InputHash> {
        let (key, settled) = self.made(location, records, began_ns);
        settled.then_some(key)
    }

    /// Whether all inputs of these records exist and are older than a time: pbulk's rule, for imported results.
    pub fn is_older(&mut self, location: &str, records: &[u8], than_ns: i64) -> bool {
        let plain = self.is_plain(location);
        scan_depends(records).all(|word| {
            let Some(path) = self.path(location, plain, word) else { return true };
            let written = &mut self.written;
            let dir = parent(&path);
            let beside = *written.entry_ref(dir).or_insert_with(|| {
                let names = makefiles(file::path(dir)).into_iter();
                names.filter_map(|name| written_ns(&[dir, b"/", &name[..]].concat())).max()
            });
            let itself = *written.entry_ref(&path[..]).or_insert_with(|| written_ns(&path));
            itself.is_some_and(|it| it < than_ns) && beside.is_none_or(|it| it < than_ns)
        })
    }

    fn made(&mut self, location: &str, records: &[u8], began_ns: i64) -> (InputHash, bool) {
        let ids = self.all(location, records);
        let mut hash = Sha256::new().chain_update(self.base).chain_update(location);
        let mut settled = true;
        for id in ids {
            let seen = self.files.seen(id);
            hash.update(seen.print);
            settled &= seen.looked_ns < began_ns || seen.is_settled(began_ns);
        }
        (hash.finalize().into(), settled)
    }

    fn all(&mut self, location: &str, records: &[u8]) -> Vec<FileId> {
        let plain = self.is_plain(location);
        let mut ids = Ids::default();
        for word in scan_depends(records) {
            let Some(path) = self.path(location, plain, word) else { continue };
            let id = self.files.file(&path);
            if !ids.add(id) {
                continue;
            }
            let dir = parent(&path);
            let files = &mut self.files;
            ids.add(*self.parents.entry(id).or_insert_with(|| files.listing(dir)));
            if self.files.seen(id).asks {
                self.makefiles(dir).iter().for_each(|&id| _ = ids.add(id));
            }
        }
        ids.order
    }

    fn makefiles(&mut self, dir: &[u8]) -> &[FileId] {
        let files = &mut self.files;
        self.asked.entry(dir.to_vec()).or_insert_with(|| {
            let names = makefiles(file::path(dir));
            names.iter().map(|name| files.file(&[dir, b"/", name].concat())).collect()
        })
    }

    /// Resolves a makefile name; `None` for files of the bootstrap kit, which counts as a whole.
    fn path(&self, location: &str, plain: bool, word: &[u8]) -> Option<Vec<u8>> {
        match word {
            [b'/', ..] => self.path_view.real_bytes(word),
            // Normalizes the names of shared makefiles.
            [b'.', b'.', b'/', b'.', b'.', b'/', rest @ ..] if plain => Some([&self.pkgsrc[..], b"/", rest].concat()),
            _ => Some([&self.pkgsrc[..], b"/", location.as_bytes(), b"/", word].concat()),
        }
    }

    /// `../..` is the tree: there are no links.
    fn is_plain(&self, location: &str) -> bool {
        let Some((category, _)) = location.split_once('/') else { return false };
        let tree = Path::new(file::path(&self.pkgsrc));
        let is_dir = |path: &str| fs::symlink_metadata(tree.join(path)).is_ok_and(|it| it.is_dir());
        is_dir(category) && is_dir(location)
    }
}

/// An insertion-ordered set.
#[derive(Default)]
struct Ids {
    order: Vec<FileId>,
    has: hashbrown::HashSet<FileId, RandomState>,
}

impl Ids {
    /// Returns false if it was present.
    fn add(&mut self, id: FileId) -> bool {
        let is_new = self.has.insert(id);
        self.order.extend(is_new.then_some(id));
        is_new
    }
}

fn written_ns(path: &[u8]) -> Option<i64> {
    Some(stamp(&fs::metadata(file::path(path)).ok()?).mtime_ns)
}

fn parent(path: &[u8]) -> &[u8] {
    &path[..memchr::memrchr(b'/', path).unwrap_or(0)]
}

/// The words of SCAN_DEPENDS lines.
fn scan_depends(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = records.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"SCAN_DEPENDS="));
    lines.flat_map(|line| line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::scan::files::{GRAIN_NS, now_ns};
    use tanto_testing::Scratch;

    const RECORDS: &[u8] = b"PKGNAME=one-1\nSCAN_DEPENDS=Makefile ../../mk/all.mk ../../b/q/buildlink3.mk\n\
        PKGNAME=two-1\nSCAN_DEPENDS=Makefile two.mk\n";

    fn tree(name: &str) -> Scratch {
        let place = Scratch::new(name);
        for file in ["a/p/Makefile", "a/p/two.mk", "mk/all.mk", "b/q/Makefile", "b/q/options.mk"] {
            place.write(file, file);
        }
        place.write("b/q/buildlink3.mk", ".include \"../../mk/pkg-build-options.mk\"");
        place
    }

    fn inputs(place: &Scratch, base: InputHash) -> CacheKeys {
        CacheKeys::new(Files::default(), place.text(), PathView::default(), base)
    }

    fn key(place: &Scratch) -> InputHash {
        inputs(place, [0; 32]).key("a/p", RECORDS)
    }

    #[test]
    fn key_covers_reads_and_lookups() {
        let place = tree("scan-key");
        let mut keys = vec![key(&place)];
        assert_eq!(keys[0], key(&place));
        for changed in ["a/p/Makefile", "a/p/two.mk", "mk/all.mk", "a/p/hacks.mk", "mk/new.mk", "b/q/options.mk"] {
            place.write(changed, "changed");
            let new = key(&place);
            assert!(!keys.contains(&new), "{changed}");
            keys.push(new);
        }
        place.write("b/q/DESCR", "x");
        place.write("c/r/Makefile", "x");
        assert_eq!(keys.last(), Some(&key(&place)), "nobody looks there");
        std::fs::remove_file(place.at("mk/new.mk")).unwrap();
        assert!(!keys[5..].contains(&key(&place)));
        let elsewhere = inputs(&place, [1; 32]).key("a/p", RECORDS);
        assert!(!keys.contains(&elsewhere) && elsewhere != key(&place), "another base system");
    }

    #[test]
    fn changing_input_has_no_key() {
        let place = tree("scan-racy");
        let key_since = |began_ns| inputs(&place, [0; 32]).key_since("a/p", RECORDS, began_ns);
        assert_eq!(key_since(now_ns()), None, "all of it is too new");
        assert_eq!(key_since(now_ns() + 2 * GRAIN_NS), Some(key(&place)));
        let mut inputs = inputs(&place, [0; 32]);
        let before = inputs.key("a/p", RECORDS);
        let began_ns = now_ns();
        place.write("a/p/Makefile", "later");
        assert_eq!(inputs.key_since("a/p", RECORDS, began_ns), Some(before), "it was looked at before");
        assert_ne!(key(&place), before, "so the next scan will not take it for what is there");
    }

    #[test]
    fn written_or_removed_inputs_are_not_older() {
        let place = tree("scan-older");
        let made_ns = now_ns() + GRAIN_NS;
        let is_older = |than_ns| inputs(&place, [0; 32]).is_older("a/p", RECORDS, than_ns);
        assert!(is_older(made_ns) && !is_older(made_ns - 60_000_000_000));
        let write = |name: &str| {
            place.write(name, "x");
            let file = fs::File::options().write(true).open(place.at(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
        };
        write("a/p/work/x.mk");
        assert!(is_older(made_ns), "nobody looks there");
        write("a/p/hacks.mk");
        assert!(!is_older(made_ns));
        fs::remove_file(place.at("a/p/hacks.mk")).unwrap();
        assert!(is_older(made_ns));
        fs::remove_file(place.at("a/p/two.mk")).unwrap();
        assert!(!is_older(made_ns));
    }

    #[test]
    fn linked_directories_are_resolved() {
        let place = tree("scan-link");
        place.write("far/away/p/Makefile", "x");
        place.write("far/mk/all.mk", "the link's own");
        std::fs::create_dir_all(place.at("c")).unwrap();
        std::os::unix::fs::symlink("../far/away/p", place.at("c/p")).unwrap();
        let key = || inputs(&place, [0; 32]).key("c/p", RECORDS);
        let before = key();
        place.write("mk/all.mk", "nobody reads this one");
        assert_eq!(before, key());
        place.write("far/mk/all.mk", "changed");
        assert_ne!(before, key());
    }
}
