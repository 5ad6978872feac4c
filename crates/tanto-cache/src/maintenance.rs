//! Counts, verifies and removes what is in a cache. Builds may use it meanwhile: for them, what was removed is a miss.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tanto_cas::Digest;
use tanto_sys::fs::file::open_no_follow;

use crate::cache_dir::{CacheAccess, CacheDir, CacheError};
use crate::counters::Counters;
use crate::entry::ActionFile;
use crate::input_names::NameTable;

/// What is in a cache.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheContents {
    pub counters: Counters,
    pub actions: u64,
    /// Results of all actions.
    pub results: u64,
    pub blobs: u64,
    /// Of all files.
    pub bytes: u64,
}

/// What a verification has found. Everything that is damaged was removed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Verification {
    pub blobs: u64,
    pub damaged_blobs: u64,
    pub actions: u64,
    pub damaged_actions: u64,
    /// Results that could not be used any more.
    pub incomplete_results: u64,
}

/// Describes the cache in a directory; `None` if there is none.
pub fn contents(path: &Path) -> Result<Option<CacheContents>, CacheError> {
    let Some(dir) = open(path, CacheAccess::ReadOnly)? else { return Ok(None) };
    let mut found = CacheContents { counters: Counters::read(&dir.counters()), ..CacheContents::default() };
    for (path, bytes) in files(&dir.actions()) {
        found.actions += 1;
        found.bytes += bytes;
        found.results += read(&path).map_or(0, |action| action.entries.len() as u64);
    }
    for (_, bytes) in files(&dir.blobs()) {
        found.blobs += 1;
        found.bytes += bytes;
    }
    found.bytes += [dir.names(), dir.known_files()].iter().map(|path| size(path)).sum::<u64>();
    Ok(Some(found))
}

/// Removes everything. Returns the number of bytes; `None` if there is no cache.
pub fn clear(path: &Path) -> Result<Option<u64>, CacheError> {
    let Some(before) = contents(path)? else { return Ok(None) };
    let failed = |error| CacheError::Io(path.to_path_buf(), error);
    let dir = CacheDir::open(path, CacheAccess::ReadWrite)?;
    for part in [dir.actions(), dir.blobs()] {
        ignore_missing(fs::remove_dir_all(part)).map_err(failed)?;
    }
    for part in [dir.names(), dir.known_files(), dir.counters()] {
        ignore_missing(fs::remove_file(part)).map_err(failed)?;
    }
    Ok(Some(before.bytes))
}

/// Reads everything, and removes what is damaged; `None` if there is no cache.
pub fn verify(path: &Path) -> Result<Option<Verification>, CacheError> {
    if open(path, CacheAccess::ReadOnly)?.is_none() {
        return Ok(None);
    }
    let dir = CacheDir::open(path, CacheAccess::ReadWrite)?;
    let mut found = Verification::default();
    for (path, _) in files(&dir.blobs()) {
        let Some(digest) = digest(&path) else { continue };
        found.blobs += 1;
        if dir.read_blob(&digest).is_none() {
            found.damaged_blobs += 1;
            // Most were moved away already.
            let _ = fs::remove_file(&path);
        }
    }
    for (path, _) in files(&dir.actions()) {
        found.actions += 1;
        match read(&path) {
            None => {
                found.damaged_actions += 1;
                let _ = fs::remove_file(&path);
            }
            Some(action) => found.incomplete_results += remove_incomplete(&dir, &path, action),
        }
    }
    Ok(Some(found))
}

/// Removes what was not used for the longest time if the cache is too large.
pub(crate) fn collect(dir: &CacheDir, max_bytes: u64) -> Result<(), CacheError> {
    let Some(store) = dir.store() else { return Ok(()) };
    let failed = |error| CacheError::Io(dir.path().to_path_buf(), error);
    if NameTable::is_full(&dir.names()) {
        // Lists of inputs are worth nothing without their names.
        ignore_missing(fs::remove_dir_all(dir.actions())).map_err(failed)?;
        ignore_missing(fs::remove_file(dir.names())).map_err(failed)?;
    }
    let of_actions: u64 = files(&dir.actions()).map(|(_, bytes)| bytes).sum();
    let epoch = store.begin_epoch()?;
    // Leaves room for some builds.
    let keep = (max_bytes / 8 * 7).saturating_sub(of_actions).max(1);
    let collected = store.collect(epoch, [], keep)?;
    if collected.removed_blobs > 0 {
        for (path, _) in files(&dir.actions()) {
            read(&path).iter().for_each(|action| _ = remove_incomplete(dir, &path, action.clone()));
        }
    }
    Counters::update(&dir.counters(), |counters| counters.bytes = collected.kept_bytes).map_err(failed)?;
    Ok(())
}

/// Removes results without their blobs. Returns their number.
fn remove_incomplete(dir: &CacheDir, path: &Path, mut action: ActionFile) -> u64 {
    let before = action.entries.len();
    action.entries.retain(|entry| entry.result.blobs().all(|blob| dir.has_blob(&blob)));
    let removed = before - action.entries.len();
    // Otherwise, it stays a miss.
    let _ = match digest(path) {
        _ if action.entries.is_empty() && !action.depends_on_root => fs::remove_file(path),
        Some(key) if removed > 0 => dir.write_action(&key, &action),
        _ => Ok(()),
    };
    removed as u64
}

/// `None`: there is no cache.
fn open(path: &Path, access: CacheAccess) -> Result<Option<CacheDir>, CacheError> {
    match CacheDir::open(path, access) {
        Err(CacheError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn read(path: &Path) -> Option<ActionFile> {
    let (mut bytes, key) = (Vec::new(), digest(path)?);
    io::Read::read_to_end(&mut open_no_follow(path).ok()?, &mut bytes).ok()?;
    ActionFile::decode(&bytes, &key)
}

/// The files in directories named by two digits, with their sizes. Other files are no part of the cache.
fn files(path: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let shards = list(path).filter(|entry| entry.file_name().len() == 2).map(|entry| entry.path());
    shards.flat_map(move |shard| list(&shard)).filter_map(|entry| {
        let data = fs::symlink_metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        Some((entry.path(), data.len()))
    })
}

/// The digest that names a file.
fn digest(path: &Path) -> Option<Digest> {
    let shard = path.parent()?.file_name()?.as_encoded_bytes();
    Digest::parse(&[shard, path.file_name()?.as_encoded_bytes()].concat()).ok()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
