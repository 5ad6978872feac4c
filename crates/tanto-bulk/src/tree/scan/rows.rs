//! What directories have said, as far as it was asked. Does not know whether it still holds.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_record::database::{Database, ScanRow};

use super::ScanError;

/// The location of the tree itself; a category has its name.
pub(super) const TOP: &str = "";

/// By location.
pub(super) struct Rows(HashMap<String, ScanRow, RandomState>);

impl Rows {
    pub fn of(store: &Database) -> Result<Rows, ScanError> {
        Ok(Rows(store.scanned()?.into_iter().map(|row| (row.location.clone(), row)).collect()))
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

    /// Of those that have said something.
    pub fn answers(&self, locations: &[String]) -> impl Iterator<Item = &[u8]> {
        locations.iter().filter_map(|it| self.0.get(it)).map(|row| &row.records[..])
    }

    /// The same as one text.
    pub fn records(&self, locations: &[String]) -> Vec<u8> {
        self.answers(locations).flatten().copied().collect()
    }

    /// What a directory printed that could not be scanned.
    pub fn failure(&self, location: &str) -> Option<&String> {
        self.0.get(location)?.failed.as_ref()
    }

    /// What the tree or a category has in it.
    pub fn subdirs(&self, location: &str) -> Vec<String> {
        let records = self.0.get(location).map(|row| String::from_utf8_lossy(&row.records).into_owned());
        let text = records.unwrap_or_default();
        let names = text.lines().find_map(|line| line.strip_prefix("SUBDIR=")).unwrap_or_default();
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// The directories of all categories.
    pub fn tree(&self) -> Vec<String> {
        let of = |category: String| {
            let names = self.subdirs(&category);
            names.into_iter().map(move |name| format!("{category}/{name}"))
        };
        self.subdirs(TOP).into_iter().flat_map(of).collect()
    }
}
