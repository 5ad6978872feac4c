//! Sessions, the records of builds: a file per build in `sessions/` of a state directory.
//!
//! The name is the start time in UTC and the process id, so names sort by time.

mod read;
pub mod recorder;
pub mod scenario;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tanto_sys::fs::file::LimitedFile;
use tanto_sys::fs::private_files;
use tanto_sys::fs::state_dir::StateDirs;

use crate::json::string;
use crate::jsonl::Place;

pub use self::read::{LeftBehind, Pause, Session, SessionError, SessionJob};

/// Older sessions are removed: long enough to compare after a holiday.
const OLDEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Limit of all sessions with their output, in bytes; the oldest are removed. A build of 20,000 commands takes about 15
/// MB.
const MOST_BYTES: u64 = 256 << 20;

/// Limit of files: listing a larger directory would delay builds.
const MOST_FILES: usize = 500;

const ENDING: &str = ".jsonl";

const SESSIONS: &str = "sessions";

/// Extension of the file with long output of commands.
const OUTPUT_ENDING: &str = ".output";

/// The sessions of a build directory.
#[derive(Clone, Debug)]
pub struct Sessions {
    state: StateDirs,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionEntry {
    /// Without extension.
    pub name: String,
    /// Length of its files in bytes.
    pub length: u64,
}

/// Why a user's name for a session denotes none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindSessionError {
    #[error("no sessions yet: builds that run commands are recorded")]
    NoSessions,
    #[error("no session {number}: there are {count}")]
    NoSuchNumber { number: usize, count: usize },
    #[error("several sessions begin with '{0}'")]
    Ambiguous(String),
    #[error("no session '{0}'")]
    NoSuchName(String),
}

impl Sessions {
    pub fn new(state: &StateDirs) -> Sessions {
        Sessions { state: state.clone() }
    }

    fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        self.state.verified_dirs().map(|top| top.join(SESSIONS))
    }

    /// Returns the path of a session.
    pub fn path(&self, name: &str) -> PathBuf {
        let mut paths = self.dirs().map(|dir| path(&dir, name));
        let first = paths.next().unwrap_or_default();
        if first.exists() { first } else { paths.find(|path| path.exists()).unwrap_or(first) }
    }

    /// Returns the path of the file with long output, which may not exist.
    pub fn output_path(&self, name: &str) -> PathBuf {
        self.path(name).with_extension(&OUTPUT_ENDING[1..])
    }

    /// Reads a part of the long output, or less if the file ends early.
    pub fn read_output(&self, name: &str, place: Place) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Ok(mut file) = private_files::open(&self.output_path(name))
            && file.seek(SeekFrom::Start(place.at)).is_ok()
        {
            // On an error, returns the bytes before it.
            let _ = file.take(place.length.min(MOST_BYTES)).read_to_end(&mut bytes);
        }
        bytes
    }

    /// Returns whether the session may contain a command with this output. Faster than reading it.
    pub fn may_contain_output(&self, name: &str, output: &[u8]) -> bool {
        let mut text = Vec::new();
        string(&mut text, output);
        let read = private_files::open(&self.path(name)).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(MOST_BYTES).read_to_end(&mut bytes).map(|_| bytes)
        });
        read.map_or(true, |bytes| memchr::memmem::find(&bytes, &text).is_some())
    }

    /// Returns all sessions, the oldest first.
    pub fn list(&self) -> Vec<SessionEntry> {
        let mut entries: Vec<SessionEntry> = self.dirs().flat_map(|dir| list(&dir)).collect();
        entries.sort();
        entries
    }

    /// Resolves a user's name for a session: a number (1 is the last session), a name, or a prefix of one.
    pub fn find(&self, meant: &[u8]) -> Result<String, FindSessionError> {
        let names: Vec<String> = self.list().into_iter().map(|entry| entry.name).collect();
        if names.is_empty() {
            return Err(FindSessionError::NoSessions);
        }
        let text = String::from_utf8_lossy(meant).into_owned();
        let is_number = text.len() < 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        if let (true, Ok(number)) = (is_number, text.parse::<usize>()) {
            let name = names.len().checked_sub(number).and_then(|at| names.get(at));
            return name.cloned().ok_or(FindSessionError::NoSuchNumber { number, count: names.len() });
        }
        let mut like = names.iter().filter(|name| name.starts_with(&text));
        match (like.next(), like.next()) {
            (Some(name), None) => Ok(name.clone()),
            (Some(_), Some(_)) => Err(FindSessionError::Ambiguous(text)),
            (None, _) => Err(FindSessionError::NoSuchName(text)),
        }
    }

    /// Creates the file of a session that begins now, and removes old ones.
    pub fn create(&self, now: SystemTime) -> io::Result<SessionFile> {
        let top = self.state.make()?;
        let dir = top.join(SESSIONS);
        private_files::create_dir(&dir)?;
        if !private_files::is_private_dir(top, &dir) {
            return Err(io::Error::other("writable by other users"));
        }
        tidy(&dir, now);
        let pid = std::process::id();
        // A process can begin several sessions in a millisecond, but not many.
        let times = (0..10).map(|more| now + Duration::from_millis(more));
        let tried = times.map(|time| {
            let path = path(&dir, &name(time, pid));
            private_files::create(&path).map(|file| (path, file))
        });
        let is_taken = |made: &io::Result<(PathBuf, File)>| {
            made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        let mut left = tried.skip_while(is_taken);
        let (path, file) = left.next().unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        Ok(SessionFile { path, file: LimitedFile::new(file) })
    }
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{ENDING}"))
}

fn output_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{OUTPUT_ENDING}"))
}

/// Returns the sessions in a directory, unsorted.
fn list(dir: &Path) -> Vec<SessionEntry> {
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?.strip_suffix(ENDING)?.to_owned();
        let data = entry.metadata().ok()?;
        let output = fs::metadata(output_path(dir, &name)).map_or(0, |data| data.len());
        (data.is_file() && is_name(&name)).then(|| SessionEntry { length: data.len().saturating_add(output), name })
    };
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(entry).collect()
}

/// Removes sessions beyond the limits, leaving room for one more. Ignores errors.
fn tidy(dir: &Path, now: SystemTime) {
    let oldest = name(now.checked_sub(OLDEST).unwrap_or(UNIX_EPOCH), 0);
    let mut entries = list(dir);
    entries.sort_by(|a, b| b.cmp(a));
    let mut bytes = 0_u64;
    for (at, entry) in entries.iter().enumerate() {
        bytes = bytes.saturating_add(entry.length);
        if at + 1 >= MOST_FILES || bytes > MOST_BYTES || entry.name < oldest {
            let _ = fs::remove_file(path(dir, &entry.name));
            let _ = fs::remove_file(output_path(dir, &entry.name));
        }
    }
}

/// The file of a session that is being written.
pub struct SessionFile {
    path: PathBuf,
    file: LimitedFile,
}

impl SessionFile {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates the file for long output next to the session in `path`.
pub fn create_output(path: &Path) -> io::Result<LimitedFile> {
    private_files::create(&path.with_extension(&OUTPUT_ENDING[1..])).map(LimitedFile::new)
}

impl Write for SessionFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// `20261120-162219-123-4711`
fn name(time: SystemTime, pid: u32) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{:03}-{pid}", since.subsec_millis())
}

fn is_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let lengths = || parts.iter().zip([8, 6, 3]).all(|(part, length)| part.len() == length);
    parts.len() == 4 && parts.iter().all(|part| is_number(part)) && lengths()
}

/// Converts days since 1970 to year, month and day. Years begin in March here, so that the leap day is the last one;
/// 400 years have 146,097 days.
pub fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests;
