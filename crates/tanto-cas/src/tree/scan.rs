//! Determines the manifest of a directory. Threads list the directories, then hash the files that the cache lacks.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tanto_sys::fs::dir::{Dir, EntryKind, EntryStat};
use tanto_sys::fs::file_stamp::{FileStamp, FsClock, coarse_now};
use tanto_sys::machine::cpu;
use tanto_sys::threads::{ThreadLimit, map_parallel};

use super::cache::{CacheEntry, DigestCache};
use super::error::called;
use super::{TEMP_DIR, TreeError};
use crate::digest::copy_hashed;
use crate::manifest::{MAX_PATH, ManifestError, ManifestLimits, TreeEntry, TreeMode};
use crate::{Digest, Manifest};

/// Files that a thread takes at a time.
const BATCH: usize = 64;
/// Readings of a file that changes meanwhile.
const ATTEMPTS: usize = 3;

/// How a tree is scanned.
#[derive(Clone, Default, Debug)]
pub struct ScanOptions {
    /// Names of directories that are no part of the tree, such as `CVS` and `.git`.
    pub ignored_dirs: Vec<Vec<u8>>,
    pub limits: ManifestLimits,
    pub threads: ThreadLimit,
}

/// An entry that was listed.
struct Listed {
    path: Vec<u8>,
    stat: EntryStat,
}

/// A list of everything in a tree.
#[derive(Default)]
struct Listing {
    /// Files and symbolic links.
    files: Vec<Listed>,
    empty_dirs: Vec<Vec<u8>>,
    special: Vec<Vec<u8>>,
}

/// A tree, and its entries that a manifest cannot have: pipes, sockets, devices.
pub(super) struct Scanned {
    pub(super) manifest: Manifest,
    pub(super) special: Vec<Vec<u8>>,
}

/// Determines the manifest of a directory. Updates the cache.
pub fn scan(dir: &Path, options: &ScanOptions, cache: &mut DigestCache) -> Result<Manifest, TreeError> {
    let scanned = scan_all(dir, options, cache)?;
    match scanned.special.into_iter().next() {
        Some(path) => Err(TreeError::Special(path)),
        None => Ok(scanned.manifest),
    }
}

pub(super) fn scan_all(dir: &Path, options: &ScanOptions, cache: &mut DigestCache) -> Result<Scanned, TreeError> {
    let root = called("open", dir.as_os_str().as_encoded_bytes(), Dir::open(dir))?;
    let listing = list(&root, options)?;
    let root_file = root.as_file()?;
    let hashing =
        Hashing { root: &root, cache, clock: FsClock::of(&root_file), device: FileStamp::of(&root_file)?.device };
    let threads = options.threads.limit(cpu::count());
    let (entries, entries_to_cache) = hashing.all(listing.files, threads)?;
    cache.replace(entries_to_cache);
    let dirs = listing.empty_dirs.into_iter().map(TreeEntry::empty_dir);
    let manifest = Manifest::new(entries.into_iter().chain(dirs).collect(), &options.limits)?;
    Ok(Scanned { manifest, special: listing.special })
}

/// Lists everything below the root.
fn list(root: &Dir, options: &ScanOptions) -> Result<Listing, TreeError> {
    let (mut listing, dirs) = list_one(root, b"", options)?;
    let threads = options.threads.limit(cpu::count());
    for below in map_parallel(threads, dirs, |dir| list_below(root, dir, options)) {
        listing.append(below?);
        listing.check(options)?;
    }
    // The root itself has no line.
    listing.empty_dirs.retain(|path| !path.is_empty());
    Ok(listing)
}

fn list_below(root: &Dir, top: Vec<u8>, options: &ScanOptions) -> Result<Listing, TreeError> {
    let (mut listing, mut open) = (Listing::default(), vec![top]);
    while let Some(path) = open.pop() {
        let (below, dirs) = list_one(root, &path, options)?;
        listing.append(below);
        listing.check(options)?;
        open.extend(dirs);
    }
    Ok(listing)
}

/// Lists the entries of a directory; returns its directories separately.
fn list_one(root: &Dir, path: &[u8], options: &ScanOptions) -> Result<(Listing, Vec<Vec<u8>>), TreeError> {
    let dir = called("open", path, root.open_dir(if path.is_empty() { b"." } else { path }))?;
    let (mut listing, mut dirs) = (Listing::default(), Vec::new());
    let mut is_empty = true;
    for name in called("list", path, dir.names())? {
        if path.is_empty() && name == TEMP_DIR {
            continue;
        }
        let below = if path.is_empty() { name.clone() } else { [path, b"/", &name].concat() };
        let stat = match dir.stat(&name) {
            // Removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => called("stat", &below, stat)?,
        };
        if stat.kind == EntryKind::Dir && options.ignored_dirs.contains(&name) {
            continue;
        }
        is_empty = false;
        if below.len() > MAX_PATH {
            called("scan", &below, Err(io::Error::from(io::ErrorKind::InvalidFilename)))?;
        }
        match stat.kind {
            EntryKind::Dir => dirs.push(below),
            EntryKind::Other => listing.special.push(below),
            EntryKind::File | EntryKind::Symlink => listing.files.push(Listed { path: below, stat }),
        }
    }
    if is_empty {
        listing.empty_dirs.push(path.to_vec());
    }
    Ok((listing, dirs))
}

impl Listing {
    fn append(&mut self, mut other: Listing) {
        self.files.append(&mut other.files);
        self.empty_dirs.append(&mut other.empty_dirs);
        self.special.append(&mut other.special);
    }

    /// Fails if there are too many entries.
    fn check(&self, options: &ScanOptions) -> Result<(), TreeError> {
        let limit = options.limits.entries;
        if self.files.len() + self.empty_dirs.len() + self.special.len() > limit {
            return Err(ManifestError::TooManyEntries(limit).into());
        }
        Ok(())
    }
}

struct Hashing<'a> {
    root: &'a Dir,
    cache: &'a DigestCache,
    clock: FsClock,
    /// That of the root. Files of other devices have the clock of another file system.
    device: u64,
}

/// An entry, and its data for the cache.
type Hashed = (TreeEntry, Option<CacheEntry>);
/// All entries, and the data for the cache by path.
type AllHashed = (Vec<TreeEntry>, Vec<(Vec<u8>, CacheEntry)>);

impl Hashing<'_> {
    fn all(&self, files: Vec<Listed>, threads: usize) -> Result<AllHashed, TreeError> {
        let mut batches = Vec::with_capacity(files.len() / BATCH + 1);
        let mut files = files.into_iter().peekable();
        while files.peek().is_some() {
            batches.push(files.by_ref().take(BATCH).collect::<Vec<_>>());
        }
        let batch = |files: Vec<Listed>| files.into_iter().map(|file| self.one(file)).collect::<Result<Vec<_>, _>>();
        let (mut entries, mut remembered) = (Vec::new(), Vec::new());
        for batch in map_parallel(threads, batches, batch) {
            for (entry, to_cache) in batch? {
                remembered.extend(to_cache.map(|it| (entry.path.clone(), it)));
                entries.push(entry);
            }
        }
        Ok((entries, remembered))
    }

    fn one(&self, file: Listed) -> Result<Hashed, TreeError> {
        if file.stat.kind == EntryKind::Symlink {
            return self.link(file.path).map(|entry| (entry, None));
        }
        let Some(digest) = self.cache.get(&file.path, &file.stat.stamp) else { return self.content(file.path) };
        let Listed { path, stat } = file;
        let entry = TreeEntry { mode: file_mode(stat.mode), digest, size: stat.stamp.size, path };
        Ok((entry, Some(CacheEntry { stamp: stat.stamp, digest })))
    }

    fn link(&self, path: Vec<u8>) -> Result<TreeEntry, TreeError> {
        let target = called("readlink", &path, read_link(self.root, &path))?;
        let (digest, size) = (Digest::of(&target), target.len() as u64);
        Ok(TreeEntry { mode: TreeMode::Symlink, digest, size, path })
    }

    fn content(&self, path: Vec<u8>) -> Result<Hashed, TreeError> {
        for _ in 0..ATTEMPTS {
            let began = coarse_now();
            let mut file = called("open", &path, self.root.open_file(&path))?;
            let data = file.metadata()?;
            let stamp = FileStamp::from(&data);
            if !stamp.is_regular {
                break;
            }
            let blob = called("read", &path, copy_hashed(&mut file, &mut io::sink()))?;
            if blob.size == stamp.size && FileStamp::of(&file)? == stamp {
                let clock = if stamp.device == self.device { self.clock } else { FsClock::Foreign };
                let to_cache = CacheEntry { stamp, digest: blob.digest };
                let to_cache = (!stamp.is_racy(began, clock)).then_some(to_cache);
                let mode = file_mode(data.permissions().mode());
                return Ok((TreeEntry { mode, digest: blob.digest, size: blob.size, path }, to_cache));
            }
        }
        Err(TreeError::Changing(path))
    }
}

/// Reads a symbolic link below the root.
pub(super) fn read_link(root: &Dir, path: &[u8]) -> io::Result<Vec<u8>> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => root.open_dir(&path[..slash])?.read_link(&path[slash + 1..]),
        None => root.read_link(path),
    }
}

fn file_mode(mode: u32) -> TreeMode {
    if mode & 0o100 == 0 { TreeMode::File } else { TreeMode::Executable }
}
