//! Answers that were not asked by us: a `pscan` of pbulk's becomes what directories have said. Does not know where it came
//! from.

use hashbrown::HashMap;
use tanto_record::database::{Change, Database, ScanRow};

use super::files::Files;
use super::inputs::Inputs;
use super::rows::Rows;
use super::sight::Sight;
use super::{ScanError, base, list};
use crate::config::Config;
use crate::package::records::Record;

/// What an import has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imported {
    /// So many directories.
    pub directories: usize,
    /// Of so many the answer will be used by the next scan.
    pub stand: usize,
}

/// Takes the records for what their directories have said. As with pbulk, an answer stands if nothing that was read for
/// it has changed since then; the time is in nanoseconds since 1970. That the same base system and configuration made it
/// is for the user to say.
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
            || ScanError::Stopped(format!("{} is no directory", String::from_utf8_lossy(record.location)));
        let location = location.ok_or_else(no_location)?;
        let text = texts.entry(location).or_insert_with(|| {
            order.push(location);
            Vec::new()
        });
        text.extend_from_slice(record.text);
    }
    let known = Rows::of(store)?;
    let mut files = Files::knowing(store.digests()?);
    let sight = Sight::of(config);
    let base = base::Base::of(config, &sight, &mut files).print();
    let mut inputs = Inputs::new(files, &config.pkgsrc, sight, base);
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
