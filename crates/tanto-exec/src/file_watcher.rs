//! Waits for changes of files with inotify.

mod watch_paths;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tanto_sys::fs::inotify::{Change, INSTANCES_SYSCTL, Inotify, WATCHES_SYSCTL, WatchId};
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::signals::TerminationSignals;

use self::watch_paths::WatchPaths;

/// A build starts when no further change has arrived for this long, because editors and version control systems write
/// many files at once.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// A build starts this long after the first change even if more changes keep arriving.
const MAX_BURST: Duration = Duration::from_secs(1);
/// The maximum lag of file timestamps behind the clock, in nanoseconds.
const TIMESTAMP_LAG_NS: i64 = 20_000_000;

/// The changed files; empty if the kernel lost track of them.
pub type Changed = BTreeSet<Vec<u8>>;

pub enum WaitResult {
    Changed(Changed),
    Interrupted,
}

/// Changes that arrive shortly after each other.
struct Burst {
    changed: Changed,
    first: Instant,
    last: Instant,
}

impl Burst {
    fn new(changed: Changed) -> Burst {
        let now = Instant::now();
        Burst { changed, first: now, last: now }
    }

    fn add(&mut self, more: Changed) {
        self.changed.extend(more);
        self.last = Instant::now();
    }

    /// Returns the time until it counts as complete.
    fn left(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }

    fn end(&self) -> Instant {
        (self.last + QUIET_TIME).min(self.first + MAX_BURST)
    }
}

pub struct FileWatcher {
    inotify: Inotify,
    watched: HashMap<WatchId, Watched>,
}

struct Watched {
    path: Vec<u8>,
    /// Other entries are ignored.
    names: BTreeSet<Vec<u8>>,
}

impl FileWatcher {
    pub fn new() -> Result<FileWatcher, WatchError> {
        let inotify = Inotify::new().map_err(|error| match error.raw_os_error() {
            Some(EMFILE) => WatchError::TooManyInstances,
            _ => WatchError::Inotify(error),
        })?;
        Ok(FileWatcher { inotify, watched: HashMap::new() })
    }

    pub fn count(&self) -> usize {
        self.watched.len()
    }

    /// Replaces the set of watched files. Returns the files that have changed since `since` and were not watched
    /// before. Skips missing and unreadable directories, whose parents are watched.
    pub fn watch(&mut self, files: &[Vec<u8>], since: SystemTime) -> Result<Changed, WatchError> {
        let mut watched: HashMap<WatchId, Watched> = HashMap::new();
        let mut changed = Changed::new();
        for (path, names) in WatchPaths::of(files).0 {
            let id = match self.inotify.watch(&to_path(&path)) {
                Ok(id) => id,
                Err(error) if is_absent(&error) => continue,
                Err(error) if error.raw_os_error() == Some(ENOSPC) => return Err(WatchError::TooManyWatches(path)),
                Err(error) => return Err(WatchError::Directory(path, error)),
            };
            if !self.watched.contains_key(&id) {
                changed.extend(names.iter().map(|name| joined(&path, name)).filter(|file| is_newer(file, since)));
            }
            let own = watched.entry(id).or_insert_with(|| Watched { path, names: BTreeSet::new() });
            own.names.extend(names);
        }
        let old = std::mem::replace(&mut self.watched, watched);
        old.keys().filter(|id| !self.watched.contains_key(id)).for_each(|id| self.inotify.forget(*id));
        Ok(changed)
    }

    /// Waits until a watched file changes, unless some have `changed` already, and then for the end of the burst.
    pub fn wait(&self, changed: Option<Changed>) -> io::Result<WaitResult> {
        let signals = TerminationSignals::listen()?;
        let mut burst = changed.map(Burst::new);
        loop {
            let timeout = burst.as_ref().map(Burst::left);
            match burst {
                Some(burst) if timeout == Some(Duration::ZERO) => return Ok(WaitResult::Changed(burst.changed)),
                _ => {}
            }
            let mut watches = [Watch::new(&self.inotify), Watch::new(&signals)];
            poll::wait(&mut watches, timeout)?;
            if signals.take().is_some() {
                return Ok(WaitResult::Interrupted);
            }
            if let Some(more) = self.changed()? {
                match &mut burst {
                    Some(burst) => burst.add(more),
                    None => burst = Some(Burst::new(more)),
                }
            }
        }
    }

    /// The watched files that have changed since the last call, or `None`.
    pub fn changed(&self) -> io::Result<Option<Changed>> {
        let changes = self.inotify.changes()?;
        let mut files = Changed::new();
        let mut is_any = false;
        for change in changes {
            match change {
                Change::Overflow => is_any = true,
                Change::Directory(id) => is_any |= self.watched.contains_key(&id),
                Change::Entry(id, name) => {
                    let watched = self.watched.get(&id).filter(|watched| watched.names.contains(&name));
                    files.extend(watched.map(|watched| joined(&watched.path, &name)));
                }
            }
        }
        Ok((is_any || !files.is_empty()).then_some(files))
    }
}

/// Describes changes in one line.
pub fn describe_changes(changed: &Changed) -> Vec<u8> {
    match (changed.first(), changed.len()) {
        (None, _) => b"checking all files: the kernel lost track of changes".to_vec(),
        (Some(one), 1) => [b"'", &one[..], b"' changed"].concat(),
        (Some(one), count) => {
            let others = if count == 2 { "file" } else { "files" };
            [b"'", &one[..], format!("' and {} more {others} changed", count - 1).as_bytes()].concat()
        }
    }
}

const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// The reason files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(&self.message()))]
pub enum WatchError {
    Inotify(io::Error),
    TooManyInstances,
    Directory(Vec<u8>, io::Error),
    /// The directory that exceeded the limit.
    TooManyWatches(Vec<u8>),
}

impl WatchError {
    /// The message; it contains the path as it is.
    pub fn message(&self) -> Vec<u8> {
        match self {
            WatchError::Inotify(error) => [b"watching files: ", &tanto_sys::error::text(error)[..]].concat(),
            WatchError::TooManyInstances => format!("watching files: {}", limit_reached(INSTANCES_SYSCTL, 1024)).into(),
            WatchError::Directory(path, error) => {
                [b"watching '", &path[..], b"': ", &tanto_sys::error::text(error)].concat()
            }
            WatchError::TooManyWatches(path) => {
                [b"watching '", &path[..], b"': ", limit_reached(WATCHES_SYSCTL, 524_288).as_bytes()].concat()
            }
        }
    }
}

fn limit_reached(limit: &str, enough: u32) -> String {
    let path = Path::new("/proc/sys").join(limit.replace('.', "/"));
    let now = fs::read_to_string(path).map(|text| format!(" ({})", text.trim())).unwrap_or_default();
    format!("the limit {limit}{now} is reached; to raise it: sysctl {limit}={enough}")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// Returns whether the file was written, renamed or replaced since then. Directories do not count.
fn is_newer(file: &[u8], since: SystemTime) -> bool {
    let since = since.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(0));
    fs::symlink_metadata(to_path(file)).is_ok_and(|data| {
        let changed = data.ctime().saturating_mul(1_000_000_000).saturating_add(data.ctime_nsec());
        !data.is_dir() && changed >= since - TIMESTAMP_LAG_NS
    })
}

fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"." => name.to_vec(),
        b"/" => [b"/", name].concat(),
        dir => [dir, b"/", name].concat(),
    }
}

fn to_path(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn files(dir: &Scratch, names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| dir.bytes(name)).collect()
    }

    fn waited(watcher: &FileWatcher) -> Changed {
        match watcher.wait(None).unwrap() {
            WaitResult::Changed(changed) => changed,
            WaitResult::Interrupted => panic!("no signal was sent"),
        }
    }

    #[test]
    fn other_files_of_the_directory_are_ignored() {
        let dir = Scratch::new("watcher");
        dir.write("a", "");
        let mut watcher = FileWatcher::new().unwrap();
        assert_eq!(
            watcher.watch(&files(&dir, &["a", "sub/b"]), SystemTime::now() + QUIET_TIME).unwrap(),
            Changed::new()
        );
        dir.write("other", "");
        assert_eq!(watcher.changed().unwrap(), None);
        dir.write("a", "text");
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("a")]));
        // A new directory is a watched entry; afterwards its files are watched.
        std::fs::create_dir(dir.at("sub")).unwrap();
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("sub")]));
        assert_eq!(watcher.watch(&files(&dir, &["sub/b"]), SystemTime::now() + QUIET_TIME).unwrap(), Changed::new());
        dir.write("a", "is not watched any more");
        assert_eq!(watcher.changed().unwrap(), None);
        dir.write("sub/b", "");
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("sub/b")]));
        std::fs::remove_file(dir.at("sub/b")).unwrap();
        std::fs::remove_dir(dir.at("sub")).unwrap();
        assert!(waited(&watcher).contains(&dir.bytes("sub/b")));
    }

    #[test]
    fn burst_ends_when_changes_stop_or_after_a_second() {
        let mut burst = Burst::new(Changed::new());
        assert_eq!(burst.end(), burst.first + QUIET_TIME);
        burst.last = burst.first + MAX_BURST / 2;
        assert_eq!(burst.end(), burst.last + QUIET_TIME);
        burst.last = burst.first + MAX_BURST;
        assert_eq!(burst.end(), burst.first + MAX_BURST);
    }

    #[test]
    fn earlier_changes_are_found() {
        let dir = Scratch::new("watcher-since");
        let before = SystemTime::now();
        dir.write("a", "");
        let mut watcher = FileWatcher::new().unwrap();
        let changed = Changed::from([dir.bytes("a")]);
        assert_eq!(watcher.watch(&files(&dir, &["a"]), before).unwrap(), changed);
        assert_eq!(watcher.watch(&files(&dir, &["a"]), before).unwrap(), Changed::new(), "it was watched");
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(FileWatcher::new().unwrap().watch(&files(&dir, &["a"]), later).unwrap(), Changed::new());
    }

    #[test]
    fn changes_are_described_in_one_line() {
        let text = |files: &[&str]| {
            let changed: Changed = files.iter().map(|file| file.as_bytes().to_vec()).collect();
            String::from_utf8(describe_changes(&changed)).unwrap()
        };
        assert_eq!(text(&["a.c"]), "'a.c' changed");
        assert_eq!(text(&["b.c", "a.c"]), "'a.c' and 1 more file changed");
        assert_eq!(text(&["a", "b", "c"]), "'a' and 2 more files changed");
        assert_eq!(text(&[]), "checking all files: the kernel lost track of changes");
    }
}
