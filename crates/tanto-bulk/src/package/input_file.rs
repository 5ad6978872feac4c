//! Input files that a user names.

use std::fs::File;
use std::path::{Path, PathBuf};

use tanto_sys::memory::map::Map;

use super::records::{self, Record};
use crate::error::BulkError;

/// A mapped file.
pub struct InputFile {
    pub path: PathBuf,
    map: Map,
}

impl InputFile {
    pub fn open(path: &Path) -> Result<InputFile, BulkError> {
        let map = File::open(path).and_then(|file| Map::new(&file, file.metadata()?.len()));
        Ok(InputFile { map: map.map_err(BulkError::io("reading ", path))?, path: path.to_owned() })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Parses the file as scan records.
    pub fn records(&self) -> Result<Vec<Record<'_>>, BulkError> {
        records::read(&self.map).map_err(|error| format!("{}:{error}", self.path.display()).into())
    }

    /// Fails if the file was truncated after it was mapped. To be called when everything was read.
    pub fn check(&self) -> Result<(), BulkError> {
        match self.map.is_torn() {
            true => Err(format!("reading {}: the file was truncated", self.path.display()).into()),
            false => Ok(()),
        }
    }
}
