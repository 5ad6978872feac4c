//! `tanto bulk report`: what a bulk build has brought. Does not know how that is found out.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use tanto_bulk::config::Config;
use tanto_bulk::package::records::{self, Record};
use tanto_bulk::report::{Report, Rows, errors, machine};
use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, name};
use tanto_sys::fs::file;

use super::files::failed;
use super::place::{config, look, unusable};
use super::{findings, meta};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

static FLAGS: [Plain; 4] = [name("config").with_value(), name("html").with_value(), name("json"), name("pbulk")];

/// What `tanto bulk report` prints.
pub(super) fn run(args: &[Vec<u8>]) -> Stop {
    match obey(args) {
        Ok(out) => Stop { out, err: Vec::new(), code: 0 },
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &[Vec<u8>]) -> Result<Vec<u8>, Vec<u8>> {
    let given = Given::read(&FLAGS, args).map_err(Bad::with_hint)?;
    if let Some(operand) = given.operands.first() {
        return Err([b"unexpected '", &operand[..], b"'"].concat());
    }
    let config = config(given.value("config"))?;
    let rows = rows(&config)?;
    with_records(&config, |records| {
        if given.has("pbulk") {
            return Ok(machine::report(&rows, records));
        }
        let report = of(&rows, records);
        match given.value("html") {
            Some(path) => write(path, &report),
            None if given.has("json") => Ok(report.json()),
            None => Ok(report.text().into_bytes()),
        }
    })
}

fn write(path: &[u8], report: &Report<'_>) -> Result<Vec<u8>, Vec<u8>> {
    let written = file::write_atomically(file::path(path), |file| file.write_all(report.html().as_bytes()));
    written.map(|()| Vec::new()).map_err(|error| failed("writing ", path, &error))
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
