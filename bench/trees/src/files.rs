//! The tree's sources and outputs: empty files with set times.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Result;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use crate::state::{OUTPUT_TIME, SOURCE_TIME};

/// Creates files below a directory, and counts them.
pub struct Files {
    root: PathBuf,
    directories: HashSet<PathBuf>,
    wanted: bool,
    pub count: u64,
}

impl Files {
    /// Creates none unless they are `wanted`.
    pub fn new(root: PathBuf, wanted: bool) -> Files {
        Files { root, directories: HashSet::new(), wanted, count: 0 }
    }

    pub fn source(&mut self, path: &str) -> Result<()> {
        self.create(path, SOURCE_TIME)
    }

    pub fn output(&mut self, path: &str) -> Result<()> {
        self.create(path, OUTPUT_TIME)
    }

    fn create(&mut self, path: &str, seconds: u64) -> Result<()> {
        if !self.wanted {
            return Ok(());
        }
        let path = self.root.join(path);
        if let Some(directory) = path.parent()
            && !self.directories.contains(directory)
        {
            fs::create_dir_all(directory)?;
            self.directories.insert(directory.to_path_buf());
        }
        self.count += 1;
        File::create(&path)?.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
    }
}
