//! Makes a directory equal to a manifest. Touches only the entries that differ.

use std::cmp::Ordering;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use tanto_sys::fs::dir::{Dir, EntryKind};
use tanto_sys::machine::cpu;
use tanto_sys::threads::map_parallel;

use super::error::called;
use super::scan::{ScanOptions, scan_all};
use super::{DigestCache, TEMP_DIR, TreeError};
use crate::manifest::{MAX_TARGET, TreeEntry, TreeMode, path_order};
use crate::store::is_corrupt;
use crate::{Manifest, Store, StoreError};

/// Entries that a thread takes at a time.
const BATCH: usize = 64;

/// Permission bits of new directories.
pub(super) const DIR_MODE: u32 = 0o755;

/// The changes to a directory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Applied {
    pub written: usize,
    pub removed: usize,
    /// Size of the written files, in bytes.
    pub written_bytes: u64,
}

/// Scans a directory and makes it equal to `wanted`. Creates it if it does not exist. Ignored directories stay.
pub fn sync(
    store: &Store,
    wanted: &Manifest,
    dir: &Path,
    options: &ScanOptions,
    cache: &mut DigestCache,
) -> Result<Applied, TreeError> {
    called("mkdir", dir.as_os_str().as_encoded_bytes(), std::fs::create_dir_all(dir))?;
    let before = scan_all(dir, options, cache)?;
    let root = called("open", dir.as_os_str().as_encoded_bytes(), Dir::open(dir))?;
    for path in &before.special {
        remove(&root, path, None)?;
    }
    apply(store, &before.manifest, wanted, dir, options)
}

/// Makes a directory that is equal to `before` equal to `wanted`. All blobs must be in the store. Files get the
/// permissions 644 or 755, and nothing is synced to the disk.
///
/// If this fails or is interrupted, call `sync`.
pub fn apply(
    store: &Store,
    before: &Manifest,
    wanted: &Manifest,
    dir: &Path,
    options: &ScanOptions,
) -> Result<Applied, TreeError> {
    let is_reserved = |path: &[u8]| path.split(|byte| *byte == b'/').next() == Some(TEMP_DIR);
    if let Some(entry) = wanted.entries().iter().find(|entry| is_reserved(&entry.path)) {
        return Err(TreeError::Reserved(entry.path.clone()));
    }
    let root = called("open", dir.as_os_str().as_encoded_bytes(), Dir::open(dir))?;
    let difference = Difference::between(before, wanted);
    let removed = difference.removed.len();
    // Entries below a directory come before it.
    for entry in difference.removed.iter().rev() {
        remove(&root, &entry.path, Some(entry.mode))?;
    }
    if difference.written.is_empty() {
        return Ok(Applied { removed, ..Applied::default() });
    }
    called("remove", TEMP_DIR, root.remove_tree(TEMP_DIR))?;
    let temp = called("mkdir", TEMP_DIR, root.open_or_create_dir(TEMP_DIR, 0o700))?;
    let writer = TreeWriter { store, root: &root, temp, next: AtomicU64::new(0) };
    let batches = difference.written.chunks(BATCH).collect();
    let results = map_parallel(options.threads.limit(cpu::count()), batches, |batch| writer.write_all(batch));
    let is_written = results.into_iter().collect::<Result<(), TreeError>>();
    called("remove", TEMP_DIR, root.remove_tree(TEMP_DIR))?;
    is_written?;
    let written_bytes = difference.written.iter().map(|entry| entry.size).sum();
    Ok(Applied { written: difference.written.len(), removed, written_bytes })
}

/// The entries that differ.
#[derive(Default)]
struct Difference<'a> {
    removed: Vec<&'a TreeEntry>,
    written: Vec<&'a TreeEntry>,
}

impl<'a> Difference<'a> {
    fn between(before: &'a Manifest, wanted: &'a Manifest) -> Difference<'a> {
        let mut difference = Difference::default();
        let (mut old, mut new) = (before.entries().iter().peekable(), wanted.entries().iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => path_order(&old.path, &new.path),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return difference,
            };
            let old = old.next_if(|_| order != Ordering::Greater);
            let new = new.next_if(|_| order != Ordering::Less);
            match (old, new) {
                (Some(old), None) => difference.removed.push(old),
                (Some(old), Some(new)) if old == new => {}
                (_, new) => difference.written.extend(new),
            }
        }
    }
}

/// Splits a path into its directory, which is empty for the root, and its name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn open_parent(root: &Dir, parent: &[u8]) -> io::Result<Dir> {
    root.open_dir(if parent.is_empty() { b"." } else { parent })
}

/// Removes an entry and the directories that become empty.
fn remove(root: &Dir, path: &[u8], mode: Option<TreeMode>) -> Result<(), TreeError> {
    let (parent, name) = split(path);
    let dir = match open_parent(root, parent) {
        // Nothing of the tree can be below it.
        Err(error) if is_no_dir(&error) => return Ok(()),
        opened => called("open", parent, opened)?,
    };
    if mode == Some(TreeMode::EmptyDir) {
        // An ignored directory may be in it.
        let _ = dir.remove_dir(name);
    } else {
        called("remove", path, dir.remove_tree(name))?;
    }
    remove_empty(root, parent);
    Ok(())
}

/// Removes a directory and its parents as far as they are empty.
fn remove_empty(root: &Dir, mut path: &[u8]) {
    while !path.is_empty() {
        let (parent, name) = split(path);
        if !open_parent(root, parent).is_ok_and(|dir| dir.remove_dir(name).is_ok()) {
            return;
        }
        path = parent;
    }
}

/// Whether a directory could not be opened because something else has its name, or nothing.
fn is_no_dir(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

struct TreeWriter<'a> {
    store: &'a Store,
    root: &'a Dir,
    /// Files are written here and renamed.
    temp: Dir,
    /// Makes names unique.
    next: AtomicU64,
}

impl TreeWriter<'_> {
    /// Writes entries. Those of a directory should follow each other.
    fn write_all(&self, entries: &[&TreeEntry]) -> Result<(), TreeError> {
        let mut open: Option<(&[u8], Dir)> = None;
        for entry in entries {
            let (parent, name) = split(&entry.path);
            if open.as_ref().is_none_or(|(path, _)| *path != parent) {
                open = Some((parent, called("mkdir", parent, self.parent(parent))?));
            }
            if let Some((_, dir)) = &open {
                self.write(entry, dir, name)?;
            }
        }
        Ok(())
    }

    /// Opens a directory; creates it and its parents, and replaces everything else with their names.
    fn parent(&self, path: &[u8]) -> io::Result<Dir> {
        match open_parent(self.root, path) {
            Err(error) if is_no_dir(&error) => {}
            opened => return opened,
        }
        let mut dir = open_parent(self.root, b"")?;
        for name in path.split(|byte| *byte == b'/') {
            dir = open_or_replace(&dir, name)?;
        }
        Ok(dir)
    }

    fn write(&self, entry: &TreeEntry, dir: &Dir, name: &[u8]) -> Result<(), TreeError> {
        if entry.mode == TreeMode::EmptyDir {
            return Ok(called("mkdir", &entry.path, open_or_replace(dir, name)).map(drop)?);
        }
        let temp = self.next.fetch_add(1, Memory::Relaxed).to_string().into_bytes();
        if entry.mode == TreeMode::Symlink {
            self.write_link(entry, &temp)?;
        } else {
            self.write_file(entry, &temp)?;
        }
        if dir.stat(name).is_ok_and(|stat| stat.kind == EntryKind::Dir) {
            called("remove", &entry.path, dir.remove_tree(name))?;
        }
        Ok(called("rename", &entry.path, self.temp.rename(&temp, dir, name))?)
    }

    fn write_file(&self, entry: &TreeEntry, temp: &[u8]) -> Result<(), TreeError> {
        let mut reader = self.store.read_verified(&entry.digest)?;
        if reader.size() != entry.size {
            return Err(TreeError::Size(entry.path.clone()));
        }
        let mut file = called("create", &entry.path, self.temp.create_file(temp, 0o600))?;
        match io::copy(&mut reader, &mut file) {
            Err(error) if is_corrupt(&error) => return Err(StoreError::Corrupt(entry.digest).into()),
            copied => called("write", &entry.path, copied)?,
        };
        let mode = if entry.mode == TreeMode::Executable { 0o755 } else { 0o644 };
        Ok(called("chmod", &entry.path, file.set_permissions(Permissions::from_mode(mode)))?)
    }

    fn write_link(&self, entry: &TreeEntry, temp: &[u8]) -> Result<(), TreeError> {
        let target = self.store.read_to_vec(&entry.digest, MAX_TARGET)?;
        if target.len() as u64 != entry.size {
            return Err(TreeError::Size(entry.path.clone()));
        }
        if target.is_empty() || target.contains(&b'\0') {
            return Err(TreeError::Target(entry.path.clone()));
        }
        Ok(called("symlink", &entry.path, self.temp.symlink(&target, temp))?)
    }
}

/// Opens a directory in another one; creates it, and replaces everything else with its name. Other threads may do the
/// same.
fn open_or_replace(dir: &Dir, name: &[u8]) -> io::Result<Dir> {
    match dir.open_or_create_dir(name, DIR_MODE) {
        Err(error) if is_no_dir(&error) => {}
        opened => return opened,
    }
    match dir.remove_file(name) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => Err(error),
        _ => dir.open_or_create_dir(name, DIR_MODE),
    }
}
