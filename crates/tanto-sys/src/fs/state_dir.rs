//! The directories for Tanto's state of a build directory: `.tanto/` and a directory of the user's cache.
//!
//! `tanto build` writes to `.tanto/`. Under the name `ninja`, Tanto must not create files that ninja does not create,
//! so it writes to `CACHE/tanto/builds/DIGEST/`, with a digest of the canonical path of the build directory. Both read
//! from both.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::fs::{file, private_files};
use crate::user;

/// A file in a cache directory with the path of its build directory.
const NAME: &str = "dir";

/// The file whose mtime is the time of the last removal of unused state.
const SWEEP_STAMP: &str = ".swept";

/// Interval between removals of unused state.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// State that was neither read nor written for this time is removed.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Longest path that is read from a `NAME` file, in bytes.
const MAX_PATH: u64 = 64 << 10;

/// The place to which state is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateLocation {
    /// `.tanto/` in the build directory.
    Tree,
    /// The user's cache.
    Cache,
}

/// The state directories of one build directory.
#[derive(Clone, Debug)]
pub struct StateDirs {
    dir: PathBuf,
    tree: PathBuf,
    cache: Option<Cache>,
    written: StateLocation,
}

#[derive(Clone, Debug)]
struct Cache {
    /// The user's cache directory, shared by all programs.
    base: PathBuf,
    /// `BASE/tanto/builds/DIGEST`
    top: PathBuf,
    /// The canonical path of the build directory.
    of: PathBuf,
}

impl StateDirs {
    /// Uses only `.tanto/`.
    pub fn in_tree(dir: &Path) -> StateDirs {
        StateDirs { dir: dir.into(), tree: dir.join(".tanto"), cache: None, written: StateLocation::Tree }
    }

    /// Uses `.tanto/` of `dir` (empty: the current directory) and a directory below `cache`, the user's cache
    /// directory. Without a cache or a canonical path, only `.tanto/`.
    pub fn of(dir: &Path, cache: Option<&Path>, written: StateLocation) -> StateDirs {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let cache = cache.and_then(|base| Cache::of(base, canonical(dir)?));
        StateDirs { cache, written, ..StateDirs::in_tree(dir) }
    }

    /// Returns the build directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory to which state is written, which may not exist yet.
    pub fn write_dir(&self) -> Option<&Path> {
        match self.written {
            StateLocation::Tree => Some(&self.tree),
            StateLocation::Cache => self.cache.as_ref().map(|cache| cache.top.as_path()),
        }
    }

    /// Returns the directories that may contain state, the one that is written first. Their contents must be verified:
    /// the cache directory may belong to another build directory.
    pub fn read_dirs(&self) -> impl Iterator<Item = &Path> {
        let (tree, cache) = (Some(self.tree.as_path()), self.cache.as_ref().map(|cache| cache.top.as_path()));
        let order = match self.written {
            StateLocation::Tree => [tree, cache],
            StateLocation::Cache => [cache, tree],
        };
        order.into_iter().flatten()
    }

    /// Like `places`, without a cache directory that belongs to another build directory.
    pub fn verified_dirs(&self) -> impl Iterator<Item = &Path> {
        let is_other = |place: &Path| self.cache.as_ref().is_some_and(|cache| cache.top == place && !cache.is_named());
        self.read_dirs().filter(move |place| !is_other(place))
    }

    /// Returns whether failures to keep state are ignored silently.
    pub fn is_best_effort(&self) -> bool {
        self.written == StateLocation::Cache
    }

    /// Creates the directory to which state is written and returns it.
    ///
    /// # Errors
    ///
    /// There is no cache, or it is not writable, or others could write to it.
    pub fn make(&self) -> io::Result<&Path> {
        match (self.written, &self.cache) {
            (StateLocation::Tree, _) => private_files::create_state_dir(&self.tree).map(|()| self.tree.as_path()),
            (StateLocation::Cache, Some(cache)) => cache.make(SystemTime::now()).map(|()| cache.top.as_path()),
            (StateLocation::Cache, None) => Err(ErrorKind::NotFound.into()),
        }
    }
}

/// Returns the path without links, `.` and `..`.
fn canonical(dir: &Path) -> Option<PathBuf> {
    let found = if dir == Path::new(".") { std::env::current_dir() } else { fs::canonicalize(dir) };
    found.ok().filter(|path| path.is_absolute())
}

/// FNV-1a with 128 bits, as 32 hexadecimal digits. Part of the layout of the cache.
fn digest(path: &Path) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    let hash = path.as_os_str().as_bytes().iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, mix);
    format!("{hash:032x}")
}

impl Cache {
    fn of(base: &Path, of: PathBuf) -> Option<Cache> {
        let top = base.join("tanto/builds").join(digest(&of));
        base.is_absolute().then(|| Cache { base: base.into(), top, of })
    }

    /// Returns whether its `NAME` file contains this build directory.
    fn is_named(&self) -> bool {
        named(&self.top).is_some_and(|path| path == self.of)
    }

    fn make(&self, now: SystemTime) -> io::Result<()> {
        let builds = create_cache_dir(&self.base)?.join("builds");
        make_private(&builds)?;
        make_private(&self.top)?;
        if !self.is_named() {
            self.replace()?;
        }
        sweep(&builds, now);
        Ok(())
    }

    /// Empties the directory if it belongs to another build directory, and writes the `NAME` file.
    fn replace(&self) -> io::Result<()> {
        if fs::symlink_metadata(self.top.join(NAME)).is_ok() {
            fs::remove_dir_all(&self.top)?;
            make_private(&self.top)?;
        }
        let text = [self.of.as_os_str().as_bytes(), b"\n"].concat();
        match private_files::create(&self.top.join(NAME)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made?.write_all(&text),
        }
    }
}

/// Creates Tanto's directory in the user's cache and returns its path. Creates the cache directory too, but not its
/// parents.
///
/// # Errors
///
/// It cannot be created, belongs to another user, or others may write to it.
pub fn create_cache_dir(base: &Path) -> io::Result<PathBuf> {
    make_base(base)?;
    let tanto = base.join("tanto");
    make_private(&tanto)?;
    Ok(tanto)
}

/// Creates the user's cache directory if it is missing. It must belong to the current user: root may run with the
/// environment of another user, who could not remove root's files.
fn make_base(base: &Path) -> io::Result<()> {
    let is_own = |data: &Metadata| data.uid() == user::effective() && data.mode() & 0o002 == 0;
    let check = |dir: &Path| if fs::metadata(dir).is_ok_and(|data| is_own(&data)) { Ok(()) } else { refused() };
    if fs::symlink_metadata(base).is_err() {
        check(base.parent().unwrap_or(base))?;
        private_files::create_dir(base)?;
    }
    check(base)
}

/// Creates a directory for this user only, or checks that an existing one is.
fn make_private(dir: &Path) -> io::Result<()> {
    private_files::create_dir(dir)?;
    let is_private = |data: Metadata| data.is_dir() && data.uid() == user::effective() && data.mode() & 0o022 == 0;
    if fs::symlink_metadata(dir).is_ok_and(is_private) { Ok(()) } else { refused() }
}

fn refused() -> io::Result<()> {
    Err(ErrorKind::PermissionDenied.into())
}

/// Reads the path of the build directory to which `top` belongs.
fn named(top: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    private_files::open(&top.join(NAME)).ok()?.take(MAX_PATH).read_to_end(&mut text).ok()?;
    Some(file::path(text.strip_suffix(b"\n")?).into())
}

/// Removes unused state and state of deleted directories, once per interval.
fn sweep(builds: &Path, now: SystemTime) {
    let stamp = builds.join(SWEEP_STAMP);
    let is_near = |time| age(time, now).or(age(now, time)).is_some_and(|time| time < SWEEP_EVERY);
    if fs::metadata(&stamp).and_then(|data| data.modified()).is_ok_and(is_near) {
        return;
    }
    // First, so that concurrent builds do not do the same.
    if fs::write(&stamp, "\n").is_err() {
        return;
    }
    for entry in fs::read_dir(builds).into_iter().flatten().flatten() {
        let top = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_unused(&top, now) {
            let _ = fs::remove_dir_all(&top);
        }
    }
}

/// `None` for a time in the future.
fn age(time: SystemTime, now: SystemTime) -> Option<Duration> {
    now.duration_since(time).ok()
}

fn is_unused(top: &Path, now: SystemTime) -> bool {
    let is_old = |limit| last_use(top).and_then(|time| age(time, now)).is_some_and(|age| age > limit);
    let is_gone = |path: &Path| {
        let gone = |error: io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        fs::symlink_metadata(path).is_err_and(gone)
    };
    match named(top) {
        Some(path) if top.file_name() == Some(digest(&path).as_ref()) => is_gone(&path) || is_old(UNUSED),
        // A build may be about to name it.
        _ => is_old(SWEEP_EVERY),
    }
}

/// Returns when something in `top` was last written or read. Reading updates the access time once a day, except with
/// `noatime`.
fn last_use(top: &Path) -> Option<SystemTime> {
    let inner = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let entries = inner(top.into()).flat_map(|path| inner(path.clone()).chain(std::iter::once(path)));
    let times = entries.chain([top.into()]).filter_map(|path| {
        let data = fs::symlink_metadata(&path).ok()?;
        // The removal of unused state reads the name.
        let is_use = data.is_file() && !path.ends_with(NAME);
        let read = if is_use { data.accessed().ok() } else { None };
        read.max(data.modified().ok())
    });
    times.max()
}

#[cfg(test)]
mod tests;
