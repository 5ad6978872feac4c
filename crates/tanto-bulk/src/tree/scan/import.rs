//! Imports a `pscan` of pbulk as scan results.

use hashbrown::HashMap;
use tanto_record::database::{Change, Database, ScanRow};

use super::cache_key::CacheKeys;
use super::files::Files;
use super::path_view::PathView;
use super::rows::StoredScans;
use super::{ScanError, base, list};
use crate::config::Config;
use crate::package::records::Record;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imported {
    pub directories: usize,
    /// The number of directories whose results the next scan reuses.
    pub stand: usize,
}

/// Imports records. As with pbulk, a result is valid if its inputs have not changed since `made_ns`, in nanoseconds
/// since 1970. The user vouches for the same base system and configuration.
pub fn import(
    config: &Config,
    store: &mut Database,
    records: &[Record<'_>],
    made_ns: i64,
) -> Result<Imported, ScanError> {
    let mut order: Vec<&str> = Vec::new();
    let mut texts: HashMap<&str, Vec<u8>> = HashMap::new();
    for record in records {
        let location = std::str::from_utf8(record.location).ok().filter(|it| list::is_location(it));
        let no_location =
            || ScanError::Stopped(format!("{} is not a directory", String::from_utf8_lossy(record.location)));
        let location = location.ok_or_else(no_location)?;
        let text = texts.entry(location).or_insert_with(|| {
            order.push(location);
            Vec::new()
        });
        text.extend_from_slice(record.text);
    }
    let known = StoredScans::of(store)?;
    let mut files = Files::knowing(store.digests()?);
    let path_view = PathView::of(config);
    let base = base::Base::of(config, &path_view, &mut files).print();
    let mut inputs = CacheKeys::new(files, &config.pkgsrc, path_view, base);
    let mut imported = Imported { directories: order.len(), stand: 0 };
    let mut changes: Vec<Change> = Vec::new();
    for location in order {
        let records = texts.remove(location).unwrap_or_default();
        let stands = inputs.is_older(location, &records, made_ns);
        let key = if stands { inputs.key(location, &records).to_vec() } else { Vec::new() };
        imported.stand += usize::from(stands);
        let wall_ms = known.get(location).map_or(0, |row| row.wall_ms);
        changes.push(Change::Scanned(ScanRow { location: location.to_owned(), key, records, failed: None, wall_ms }));
    }
    changes.extend(inputs.files.take_fresh().into_iter().map(Change::Digested));
    store.apply(0, &changes)?;
    Ok(imported)
}
