//! Counts, verifies and removes the files of a cache. Builds may use it meanwhile; removed files are misses.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache_dir::{CacheAccess, CacheDir, CacheError};
use crate::counters::Counters;
use crate::entry::{self, ActionFile};
use crate::input_names::NameTable;
use crate::plain_files::read_file;
use tanto_cas::Digest;

/// Contents of a cache.
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

/// Result of a verification. Damaged files were removed.
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

/// Reads the whole cache and removes damaged files; `None` if there is no cache.
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

/// Removes the results that have been unused for the longest time if the cache is too large.
pub(crate) fn collect(dir: &CacheDir, max_bytes: u64) -> Result<(), CacheError> {
    let Some(store) = dir.store() else { return Ok(()) };
    let failed = |error| CacheError::Io(dir.path().to_path_buf(), error);
    if NameTable::is_full(&dir.names()) {
        // Lists of inputs are worth nothing without their names.
        ignore_missing(fs::remove_dir_all(dir.actions())).map_err(failed)?;
        ignore_missing(fs::remove_file(dir.names())).map_err(failed)?;
    }
    let others: u64 = files(&dir.actions()).map(|(_, bytes)| bytes).sum::<u64>() + size(&dir.names());
    let epoch = store.begin_epoch()?;
    // Leaves room for some builds.
    let keep = (max_bytes / 8 * 7).saturating_sub(others).max(1);
    let collected = store.collect(epoch, [], keep)?;
    if collected.removed_blobs > 0 {
        for (path, _) in files(&dir.actions()) {
            if let Some(action) = read(&path) {
                remove_incomplete(dir, &path, action);
            }
        }
    }
    Counters::update(&dir.counters(), |counters| counters.bytes = collected.kept_bytes + others).map_err(failed)?;
    Ok(())
}

/// Removes results without their blobs. Returns their number.
fn remove_incomplete(dir: &CacheDir, path: &Path, mut action: ActionFile) -> u64 {
    let before = action.entries.len();
    action.entries.retain(|entry| entry.result.blobs().all(|blob| dir.has_blob(&blob)));
    let removed = before - action.entries.len();
    // Otherwise, it stays a miss.
    let _ = match digest(path) {
        _ if action.entries.is_empty() && !action.depends_on_place => fs::remove_file(path),
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
    let bytes = read_file(path, entry::MAX_BYTES).ok()?.content;
    ActionFile::decode(&bytes, &digest(path)?)
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
    // The file of known files has holes.
    fs::metadata(path).map_or(0, |data| data.len().min(512 * data.blocks()))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{ActionResult, Entry, StoredOutput};
    use crate::input_names::PackedList;
    use std::time::{Duration, SystemTime};
    use tanto_cas::ContentDigest;
    use tanto_exec::job::Cost;
    use tanto_testing::Scratch;

    /// Stores an action with an object of this size. Returns the digest of the object.
    fn add(dir: &CacheDir, number: u8, size: usize) -> Digest {
        let object = vec![number; size];
        let blob = dir.put(&object).unwrap();
        let output = StoredOutput { blob, content: ContentDigest::of(&object), is_executable: false };
        let result = ActionResult { outputs: vec![output], depfile: None, text: None, cost: Cost::default() };
        let list = PackedList { table: 1, inputs: Vec::new() };
        let entries = vec![Entry { list, inputs: Digest([number; 32]), needs_absent_outputs: false, result }];
        let action = ActionFile { depends_on_place: false, entries };
        dir.write_action(&Digest([number; 32]), &action).unwrap();
        blob
    }

    fn cache(place: &Scratch) -> (PathBuf, CacheDir) {
        let path = place.at("home/.cache/tanto/cache");
        fs::create_dir_all(place.at("home")).unwrap();
        let dir = CacheDir::open(&path, CacheAccess::ReadWrite).unwrap();
        (path, dir)
    }

    fn blob(path: &Path, digest: &Digest) -> PathBuf {
        let text = digest.to_string();
        path.join("blobs").join(&text[..2]).join(&text[2..])
    }

    fn age(path: &Path, days: u64) {
        let time = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn without_a_cache_nothing_is_created() {
        let place = Scratch::new("cache-none");
        let path = place.at("tanto/cache");
        assert_eq!(contents(&path).unwrap(), None);
        assert_eq!(clear(&path).unwrap(), None);
        assert_eq!(verify(&path).unwrap(), None);
        assert!(!path.exists());
    }

    #[test]
    fn everything_is_counted_and_cleared() {
        let place = Scratch::new("cache-contents");
        let (path, dir) = cache(&place);
        add(&dir, 1, 1000);
        add(&dir, 2, 2000);
        let found = contents(&path).unwrap().unwrap();
        assert_eq!((found.actions, found.results, found.blobs), (2, 2, 2));
        assert!(found.bytes > 3000 && found.bytes < 4000, "{}", found.bytes);
        assert_eq!(clear(&path).unwrap(), Some(found.bytes));
        let found = contents(&path).unwrap().unwrap();
        assert_eq!((found.actions, found.blobs, found.bytes), (0, 0, 0));
    }

    #[test]
    fn damage_is_found_and_removed() {
        let place = Scratch::new("cache-verify");
        let (path, dir) = cache(&place);
        let [flipped, missing, _] = [1, 2, 3].map(|number| add(&dir, number, 1000));
        add(&dir, 4, 10);
        let writable = |path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        writable(&blob(&path, &flipped));
        fs::write(blob(&path, &flipped), vec![9; 1000]).unwrap();
        fs::remove_file(blob(&path, &missing)).unwrap();
        let action = path.join("actions/04").join(&Digest([4; 32]).to_string()[2..]);
        fs::write(&action, "damaged").unwrap();
        let found = verify(&path).unwrap().unwrap();
        assert_eq!((found.blobs, found.damaged_blobs), (3, 1));
        assert_eq!((found.actions, found.damaged_actions, found.incomplete_results), (4, 1, 2));
        let again = verify(&path).unwrap().unwrap();
        assert_eq!((again.blobs, again.damaged_blobs), (2, 0));
        assert_eq!((again.actions, again.damaged_actions, again.incomplete_results), (1, 0, 0));
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let place = Scratch::new("cache-collect");
        let (path, dir) = cache(&place);
        let blobs = [1, 2, 3, 4].map(|number| add(&dir, number, 10_000));
        for (blob_digest, days) in blobs.iter().zip([3, 9, 1, 5]) {
            age(&blob(&path, blob_digest), days);
        }
        // It is read today.
        assert!(dir.read_blob(&blobs[1]).is_some());
        collect(&dir, 27_000).unwrap();
        assert_eq!(blobs.map(|blob| dir.has_blob(&blob)), [false, true, true, false]);
        let found = contents(&path).unwrap().unwrap();
        assert_eq!((found.actions, found.results), (2, 2), "results without their objects are removed");
        assert!(found.bytes <= 27_000);
        assert!(Counters::read(&dir.counters()).bytes <= 27_000);
        collect(&dir, 1 << 30).unwrap();
        assert_eq!(contents(&path).unwrap().unwrap().blobs, 2);
    }
}
