//! The files of snapshots, in `snapshots/` of the state directories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_sys::fs::file::open_no_follow;
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::fs::{lock, private_files};

/// Snapshots per directory. Fewer: alternating builds of several manifests load some of them each time. More: unused
/// ones take disk space.
const MAX_SNAPSHOTS: usize = 8;

const DIR_NAME: &str = "snapshots";

/// File extension of a snapshot that is being written.
const UNFINISHED_EXTENSION: &str = "new";

/// The files of one snapshot.
#[derive(Clone)]
pub(super) struct SnapshotFiles {
    state: StateDirs,
    name: String,
}

impl SnapshotFiles {
    pub(super) fn new(state: StateDirs, name: String) -> SnapshotFiles {
        SnapshotFiles { state, name }
    }

    /// The directory to which the state belongs.
    pub(super) fn dir(&self) -> &Path {
        self.state.dir()
    }

    /// Opens the existing files that only this user can have written, one per state directory.
    pub(super) fn files(&self) -> impl Iterator<Item = File> {
        self.state.read_dirs().filter_map(|state_dir| {
            let dir = state_dir.join(DIR_NAME);
            private_files::open(&dir.join(&self.name)).ok().filter(|_| private_files::is_private_dir(state_dir, &dir))
        })
    }

    pub(super) fn remove(&self) {
        for state_dir in self.state.read_dirs() {
            // If it cannot be removed, this run does not use it again, and the next run detects the damage again.
            let _ = fs::remove_file(state_dir.join(DIR_NAME).join(&self.name));
        }
    }

    /// Creates a file with `write`, which replaces the old one if `write` returns true. The file is not synced, which
    /// would take longer than everything else: checksums detect contents lost in a power failure.
    pub(super) fn write(&self, write: impl FnOnce(&File) -> io::Result<bool>) -> io::Result<()> {
        let state_dir = self.state.make()?;
        let dir = state_dir.join(DIR_NAME);
        private_files::create_dir(&dir)?;
        if !private_files::is_private_dir(state_dir, &dir) {
            return Ok(());
        }
        let file = dir.join(&self.name);
        if remove_old(&dir, &file).contains(&file) {
            return Ok(());
        }
        let name = file.with_extension(format!("{}.{UNFINISHED_EXTENSION}", std::process::id()));
        let written = create(&name).and_then(|file| write(&file));
        if written.as_ref().is_ok_and(|wanted| *wanted) {
            return fs::rename(&name, &file);
        }
        let _ = fs::remove_file(&name);
        written.map(|_| ())
    }

    /// Whether failures to write are not reported.
    pub(super) fn is_best_effort(&self) -> bool {
        self.state.is_best_effort()
    }
}

/// Removes the oldest snapshots beyond the limit, except `kept`, and unfinished files of killed runs. Returns the
/// snapshots that other runs are writing.
fn remove_old(dir: &Path, kept: &Path) -> Vec<PathBuf> {
    let (mut others, mut in_progress) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path == kept {
        } else if path.extension().is_some_and(|end| end == UNFINISHED_EXTENSION) {
            if is_in_progress(&path) {
                in_progress.push(path.with_extension("").with_extension(""));
            }
        } else {
            let time = entry.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            others.push((time, path));
        }
    }
    others.sort();
    let too_many = (others.len() + 1).saturating_sub(MAX_SNAPSHOTS);
    others.iter().take(too_many).for_each(|(_, path)| drop(fs::remove_file(path)));
    in_progress
}

fn create(path: &Path) -> io::Result<File> {
    let file = private_files::create(path)?;
    // Shows other runs that the file is being written.
    let _ = lock::try_lock_exclusive(&file);
    Ok(file)
}

/// Whether the writer of an unfinished snapshot is alive. If not, removes the file.
fn is_in_progress(path: &Path) -> bool {
    let Ok(file) = open_no_follow(path) else { return false };
    match lock::try_lock_exclusive(&file) {
        Ok(true) => {
            let _ = fs::remove_file(path);
            false
        }
        Ok(false) => true,
        // The file system has no locks.
        Err(_) => false,
    }
}
