//! `tanto bulk report`: what a bulk build has brought. Does not know how that is found out.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use tanto_bulk::config::Config;
use tanto_bulk::package::records::{self, Record};
use tanto_bulk::report::{Report, Rows, errors, machine};
use tanto_sys::fs::file;

use super::files::failed;
use super::place::{config, look, unusable};
use super::{findings, meta};
use crate::command_line::bulk::BulkReportArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What `tanto bulk report` prints.
pub(crate) fn run(args: &BulkReportArgs) -> Stop {
    match obey(args) {
        Ok(out) => Stop { out, err: Vec::new(), code: 0 },
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &BulkReportArgs) -> Result<Vec<u8>, Vec<u8>> {
    let config = config(&args.config.config)?;
    let rows = rows(&config)?;
    with_records(&config, |records| {
        if args.pbulk {
            return Ok(machine::report(&rows, records));
        }
        let report = of(&rows, records);
        match &args.html {
            Some(path) => write(path, &report),
            None if args.json => Ok(report.json()),
            None => Ok(report.text().into_bytes()),
        }
    })
}

fn write(path: &Path, report: &Report<'_>) -> Result<Vec<u8>, Vec<u8>> {
    let written = file::write_atomically(path, |file| file.write_all(report.html().as_bytes()));
    written.map(|()| Vec::new()).map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))
}

/// The rows of the last run.
pub(super) fn rows(config: &Config) -> Result<Rows, Vec<u8>> {
    let rows = Rows::read(&look(config)?).map_err(|error| unusable(&error))?;
    rows.ok_or_else(|| b"nothing was built yet".to_vec())
}

/// What the scan said of the packages that were built; nothing if that was not kept.
pub(super) fn with_records<T>(
    config: &Config,
    tell: impl FnOnce(&[Record<'_>]) -> Result<T, Vec<u8>>,
) -> Result<T, Vec<u8>> {
    match meta::kept(config)? {
        None => tell(&[]),
        Some((path, map)) => tell(&records::read(&map).map_err(|bad| findings::bad_scan(&path, bad))?),
    }
}

/// The report on these rows, with what the logs say.
pub(super) fn of<'r>(rows: &'r Rows, records: &[Record<'_>]) -> Report<'r> {
    Report::new(rows, records, end)
}

/// The end of a log. One that is gone tells nothing.
fn end(path: &str) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(errors::LOOKED_AT as u64))).ok()?;
    let mut text = Vec::new();
    file.take(errors::LOOKED_AT as u64).read_to_end(&mut text).ok()?;
    Some(text)
}
