//! Stored results by directory.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_record::database::{Database, ScanRow};

use super::ScanError;

/// The location of the tree; a category has its name.
pub(super) const TOP: &str = "";

pub(super) struct StoredScans(HashMap<String, ScanRow, RandomState>);

impl StoredScans {
    pub fn of(store: &Database) -> Result<StoredScans, ScanError> {
        Ok(StoredScans(store.scanned()?.into_iter().map(|row| (row.location.clone(), row)).collect()))
    }

    pub fn get(&self, location: &str) -> Option<&ScanRow> {
        self.0.get(location)
    }

    pub fn insert(&mut self, row: ScanRow) {
        self.0.insert(row.location.clone(), row);
    }

    pub fn all(&self) -> impl Iterator<Item = &ScanRow> {
        self.0.values()
    }

    /// Results of scanned directories.
    pub fn answers(&self, locations: &[String]) -> impl Iterator<Item = &[u8]> {
        locations.iter().filter_map(|it| self.0.get(it)).map(|row| &row.records[..])
    }

    /// Concatenated results.
    pub fn records(&self, locations: &[String]) -> Vec<u8> {
        self.answers(locations).flatten().copied().collect()
    }

    /// The output of a failed directory.
    pub fn failure(&self, location: &str) -> Option<&String> {
        self.0.get(location)?.failed.as_ref()
    }

    /// The entries of the tree or a category.
    pub fn subdirs(&self, location: &str) -> Vec<String> {
        let records = self.0.get(location).map(|row| String::from_utf8_lossy(&row.records).into_owned());
        let text = records.unwrap_or_default();
        let names = text.lines().find_map(|line| line.strip_prefix("SUBDIR=")).unwrap_or_default();
        names.split_whitespace().map(str::to_owned).collect()
    }

    pub fn tree(&self) -> Vec<String> {
        let of = |category: String| {
            let names = self.subdirs(&category);
            names.into_iter().map(move |name| format!("{category}/{name}"))
        };
        self.subdirs(TOP).into_iter().flat_map(of).collect()
    }
}
