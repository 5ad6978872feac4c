//! Temporary files of a store. Each is locked by the process that writes it, so that another can tell that it was
//! abandoned.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::error::call_error;
use tanto_sys::fs::dir::Dir;
use tanto_sys::fs::lock::try_lock_exclusive;

use super::use_clock::system_time;
use super::{Durability, StoreError};

/// A locked file; removed when dropped, unless it was renamed or is kept.
pub(super) struct TempFile<'a> {
    dir: &'a Dir,
    name: Vec<u8>,
    file: File,
    /// It stays when dropped.
    kept: bool,
}

/// Makes names unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl TempFile<'_> {
    pub(super) fn create(dir: &Dir) -> io::Result<TempFile<'_>> {
        loop {
            let name = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into_bytes();
            let file = match dir.create_file(&name, 0o600) {
                // A process of another PID namespace may have the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created.map_err(|error| call_error("create a temporary file", Some(&name), error))?,
            };
            // Another process may have removed it before it was locked.
            if try_lock_exclusive(&file)? && file.metadata()?.nlink() > 0 {
                return Ok(TempFile { dir, name, file, kept: false });
            }
        }
    }

    /// Wraps a file that is locked already.
    pub(super) fn from_locked<'a>(dir: &'a Dir, name: Vec<u8>, file: File) -> TempFile<'a> {
        TempFile { dir, name, file, kept: false }
    }

    pub(super) fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Makes the file read-only, and writes it to the disk if that is asked.
    pub(super) fn seal(&self, durability: Durability) -> Result<(), StoreError> {
        self.file.set_permissions(Permissions::from_mode(0o444))?;
        if durability == Durability::PowerLoss {
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// Makes the file writable again and leaves it in place.
    pub(super) fn keep(mut self) -> io::Result<()> {
        self.kept = true;
        self.file.set_permissions(Permissions::from_mode(0o600))
    }

    /// Sets the time and renames the file.
    pub(super) fn rename_to(&mut self, dir: &Dir, name: &[u8], time_ns: i64) -> Result<(), StoreError> {
        self.file.set_modified(system_time(time_ns))?;
        self.dir.rename(&self.name, dir, name).map_err(|error| call_error("rename", Some(name), error))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // `remove_abandoned` would do it later.
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Removes the files of processes that have ended.
pub(super) fn remove_abandoned(dir: &Dir) -> io::Result<()> {
    for name in dir.names()? {
        let is_abandoned = match dir.open_file(&name) {
            Ok(file) => try_lock_exclusive(&file)?,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if is_abandoned {
            dir.remove_tree(&name).map_err(|error| call_error("remove", Some(&name), error))?;
        }
    }
    Ok(())
}
