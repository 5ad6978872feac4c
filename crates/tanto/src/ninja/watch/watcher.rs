//! Waits for changes of files.

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

use super::places::Places;

/// A build starts when no further change has arrived for this long, because editors and version control systems write
/// many files at once. Longer, builds start later; shorter, one starts while files are still being written.
const QUIET: Duration = Duration::from_millis(50);
/// A build starts this long after the first change even if more changes keep arriving.
const LONGEST: Duration = Duration::from_secs(1);
/// How far the clock of file times may be behind, in nanoseconds.
const COARSE_NS: i64 = 20_000_000;

/// The files that changed, each once; none where the kernel could not say which.
pub type Changed = BTreeSet<Vec<u8>>;

/// What ended a wait.
pub enum Woken {
    Changed(Changed),
    /// A signal asked for an end.
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
        (self.last + QUIET).min(self.first + LONGEST)
    }
}

/// Watches the directories of files.
pub struct Watcher {
    inotify: Inotify,
    watched: HashMap<WatchId, Watched>,
}

/// A directory.
struct Watched {
    path: Vec<u8>,
    /// Other entries do not matter.
    names: BTreeSet<Vec<u8>>,
}

impl Watcher {
    /// Watches nothing yet. An error is a text for the user.
    pub fn new() -> Result<Watcher, Vec<u8>> {
        let inotify = Inotify::new().map_err(|error| match error.raw_os_error() {
            Some(EMFILE) => too_many(b"watching files", INSTANCES_SYSCTL, "1024"),
            _ => [b"watching files: ", &tanto_sys::error::text(&error)[..]].concat(),
        })?;
        Ok(Watcher { inotify, watched: HashMap::new() })
    }

    /// How many directories are watched.
    pub fn count(&self) -> usize {
        self.watched.len()
    }

    /// From now on watches these files and no others. Returns those that have changed since `since` and were not watched
    /// before. Directories that are not there, or cannot be read, are left out; those above them are watched.
    pub fn watch(&mut self, files: &[Vec<u8>], since: SystemTime) -> Result<Changed, Vec<u8>> {
        let mut watched: HashMap<WatchId, Watched> = HashMap::new();
        let mut changed = Changed::new();
        for (path, names) in Places::of(files).0 {
            let id = match self.inotify.watch(&to_path(&path)) {
                Ok(id) => id,
                Err(error) if is_absent(&error) => continue,
                Err(error) if error.raw_os_error() == Some(ENOSPC) => {
                    return Err(too_many(&[b"watching '", &path[..], b"'"].concat(), WATCHES_SYSCTL, "524288"));
                }
                Err(error) => {
                    return Err([b"watching '", &path[..], b"': ", &tanto_sys::error::text(&error)].concat());
                }
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

    /// Waits until a watched file changes, unless some have `changed` already, and then until changes cease to arrive.
    pub fn wait(&self, changed: Option<Changed>) -> io::Result<Woken> {
        let endings = TerminationSignals::listen()?;
        let mut burst = changed.map(Burst::new);
        loop {
            let patience = burst.as_ref().map(Burst::left);
            match burst {
                Some(burst) if patience == Some(Duration::ZERO) => return Ok(Woken::Changed(burst.changed)),
                _ => {}
            }
            let mut watches = [Watch::new(&self.inotify), Watch::new(&endings)];
            poll::wait(&mut watches, patience)?;
            if endings.take().is_some() {
                return Ok(Woken::Interrupted);
            }
            if let Some(more) = self.changed()? {
                match &mut burst {
                    Some(burst) => burst.add(more),
                    None => burst = Some(Burst::new(more)),
                }
            }
        }
    }

    /// The watched files that have changed since the last call, if any have.
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

const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// The user's limit is reached.
fn too_many(doing: &[u8], limit: &str, enough: &str) -> Vec<u8> {
    let path = Path::new("/proc/sys").join(limit.replace('.', "/"));
    let now = fs::read_to_string(path).map(|text| format!(" ({})", text.trim())).unwrap_or_default();
    let text = format!(": the limit {limit}{now} is reached; to raise it: sysctl {limit}={enough}");
    [doing, text.as_bytes()].concat()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// Has the file been written, renamed or replaced since? What is in a directory does not count.
fn is_newer(file: &[u8], since: SystemTime) -> bool {
    let since = since.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(0));
    fs::symlink_metadata(to_path(file)).is_ok_and(|data| {
        let changed = data.ctime().saturating_mul(1_000_000_000).saturating_add(data.ctime_nsec());
        !data.is_dir() && changed >= since - COARSE_NS
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

    fn waited(watcher: &Watcher) -> Changed {
        match watcher.wait(None).unwrap() {
            Woken::Changed(changed) => changed,
            Woken::Interrupted => panic!("no signal was sent"),
        }
    }

    #[test]
    fn other_files_of_the_directory_do_not_matter() {
        let dir = Scratch::new("watcher");
        dir.write("a", "");
        let mut watcher = Watcher::new().unwrap();
        assert_eq!(watcher.watch(&files(&dir, &["a", "sub/b"]), SystemTime::now() + QUIET).unwrap(), Changed::new());
        dir.write("other", "");
        assert_eq!(watcher.changed().unwrap(), None);
        dir.write("a", "text");
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("a")]));
        // A directory that appears is an entry that was waited for; then what is in it is watched.
        std::fs::create_dir(dir.at("sub")).unwrap();
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("sub")]));
        assert_eq!(watcher.watch(&files(&dir, &["sub/b"]), SystemTime::now() + QUIET).unwrap(), Changed::new());
        dir.write("a", "is not watched any more");
        assert_eq!(watcher.changed().unwrap(), None);
        dir.write("sub/b", "");
        assert_eq!(waited(&watcher), Changed::from([dir.bytes("sub/b")]));
        std::fs::remove_file(dir.at("sub/b")).unwrap();
        std::fs::remove_dir(dir.at("sub")).unwrap();
        assert!(waited(&watcher).contains(&dir.bytes("sub/b")));
    }

    #[test]
    fn a_burst_ends_when_no_change_arrives_or_after_a_second() {
        let mut burst = Burst::new(Changed::new());
        assert_eq!(burst.end(), burst.first + QUIET);
        burst.last = burst.first + LONGEST / 2;
        assert_eq!(burst.end(), burst.last + QUIET);
        burst.last = burst.first + LONGEST;
        assert_eq!(burst.end(), burst.first + LONGEST);
    }

    #[test]
    fn what_changed_before_it_was_watched_is_found() {
        let dir = Scratch::new("watcher-since");
        let before = SystemTime::now();
        dir.write("a", "");
        let mut watcher = Watcher::new().unwrap();
        let changed = Changed::from([dir.bytes("a")]);
        assert_eq!(watcher.watch(&files(&dir, &["a"]), before).unwrap(), changed);
        assert_eq!(watcher.watch(&files(&dir, &["a"]), before).unwrap(), Changed::new(), "it was watched");
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(Watcher::new().unwrap().watch(&files(&dir, &["a"]), later).unwrap(), Changed::new());
    }
}
