//! The state directory of a bulk build: its database and its lock.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tanto_record::database::{Database, DatabaseError};
use tanto_sys::fs::{lock, private_files};
use tanto_sys::process::pid_identity::{self, ProcessId};

use crate::config::Config;
use crate::error::BulkError;

/// A locked state directory, which no other process changes.
pub struct StateDir {
    pub store: Database,
    pub lock: StateLock,
}

/// The lock of a state directory. Its file names the process that may leave something behind; after a kill it still does.
pub struct StateLock {
    file: File,
    is_owner: bool,
}

impl StateLock {
    /// Returns the owner that was killed since the machine was started.
    pub fn owner(&self) -> Option<ProcessId> {
        let mut text = [0; MAX_OWNER_BYTES];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let (process, boot) = std::str::from_utf8(&text[..length]).ok()?.trim_end().split_once(' ')?;
        ProcessId::parse(process.as_bytes()).filter(|_| boot == pid_identity::boot_id())
    }

    /// Makes this process the owner.
    pub fn own(&mut self) -> io::Result<()> {
        let text = format!("{} {}\n", ProcessId::current()?, pid_identity::boot_id());
        self.is_owner = true;
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        if self.is_owner {
            // A stale owner only costs a search for its processes.
            let _ = self.file.set_len(0);
        }
    }
}

/// Two numbers and a boot id.
const MAX_OWNER_BYTES: usize = 128;

/// Locks the state directory; creates it if necessary.
pub fn take(config: &Config) -> Result<StateDir, BulkError> {
    try_take(config)?.ok_or(BulkError::StateLocked)
}

/// Like `take`; `None` if another process has the lock.
pub fn try_take(config: &Config) -> Result<Option<StateDir>, BulkError> {
    let dir = Path::new(&config.state);
    fs::create_dir_all(dir.parent().unwrap_or(dir)).map_err(BulkError::io("opening ", dir))?;
    private_files::create_dir(dir).map_err(BulkError::io("opening ", dir))?;
    let file = lock::open_lock_file(&dir.join("lock")).map_err(BulkError::io("opening ", dir))?;
    if !lock::try_lock_exclusive(&file).map_err(BulkError::io("opening ", dir))? {
        return Ok(None);
    }
    let store = Database::open(&database(config))?;
    Ok(Some(StateDir { store, lock: StateLock { file, is_owner: false } }))
}

/// Opens the database read-only, without the lock.
pub fn open_read_only(config: &Config) -> Result<Database, BulkError> {
    let path = database(config);
    let missing = || BulkError::NoDatabase(path.display().to_string());
    if !path.exists() {
        return Err(missing());
    }
    Database::open_read_only(&path).map_err(|error| match error {
        // It is being created.
        DatabaseError::Version(0) => missing(),
        error => error.into(),
    })
}

fn database(config: &Config) -> PathBuf {
    Path::new(&config.state).join("db")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn lock_names_a_killed_owner_of_this_boot() {
        let place = Scratch::new("bulk-lock");
        let take = || StateLock { file: lock::open_lock_file(&place.at("lock")).unwrap(), is_owner: false };
        assert_eq!(take().owner(), None);
        let mut ours = take();
        ours.own().unwrap();
        assert_eq!(take().owner(), Some(ProcessId::current().unwrap()), "as after a kill");
        drop(ours);
        assert_eq!(take().owner(), None, "released");
        for text in ["7.9 another-run-of-the-machine\n", "7.9", "7", "\0\0\0"] {
            place.write("lock", text);
            assert_eq!(take().owner(), None, "{text:?}");
        }
    }
}
