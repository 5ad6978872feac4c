//! The blobs that each build needs, as its coordinator has named them last.
//!
//! They are in one file for each build, so that a build whose coordinator is not linked keeps its blobs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tanto_cas::Digest;
use tanto_sys::fs::private_files;

use crate::files::replace_private;

pub(super) struct Roots {
    dir: PathBuf,
    /// The epoch of each build's last answer to this process.
    answered: Mutex<HashMap<String, u64>>,
}

impl Roots {
    pub(super) fn open(dir: &Path) -> io::Result<Roots> {
        private_files::create_dir(dir)?;
        Ok(Roots { dir: dir.to_owned(), answered: Mutex::default() })
    }

    /// Replaces the blobs that a build needs.
    pub(super) fn set(&self, build: &str, epoch: u64, digests: &[Digest]) -> io::Result<()> {
        let text: String = digests.iter().map(|digest| format!("{digest}\n")).collect();
        // Held while writing: two answers of a build must not write its file together.
        let mut answered = self.answered();
        replace_private(&self.dir.join(build), text.as_bytes())?;
        answered.insert(build.to_owned(), epoch);
        Ok(())
    }

    /// Whether a build has answered in this epoch.
    pub(super) fn has_answered(&self, build: &str, epoch: u64) -> bool {
        self.answered().get(build) == Some(&epoch)
    }

    /// Returns the blobs that these builds need. Forgets those of other builds.
    pub(super) fn of(&self, builds: &HashSet<String>) -> io::Result<HashSet<Digest>> {
        let _no_answer = self.answered();
        let mut roots = HashSet::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if builds.contains(name) {
                read(&path, &mut roots)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
        Ok(roots)
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails if the file is damaged: its build may need any blob then.
fn read(path: &Path, roots: &mut HashSet<Digest>) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{}: it is damaged", path.display()));
    for line in text.lines() {
        roots.insert(Digest::parse(line.as_bytes()).map_err(|_| damaged())?);
    }
    Ok(())
}
