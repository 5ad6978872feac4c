//! pbulk's machine-readable reports: `report` (a record for each package, with its result), `pbuild` and `status`.

use std::collections::HashMap;

use super::{RunRows, dependents};
use crate::coordinator::state::State;
use crate::package::records::Record;

/// pbulk's name of a state; it has fewer.
fn status(state: &str) -> &str {
    match State::named(state) {
        Some(State::Running) => "in_processing",
        Some(State::MachineFailed) => State::Failed.name(),
        Some(State::NeedsRoot) => State::Prefailed.name(),
        _ => state,
    }
}

/// The records of the resolved scan with PKG_DEPTH (the package and its dependents) and BUILD_STATUS, without packages
/// that the run lacks.
pub fn report(rows: &RunRows, records: &[Record<'_>]) -> Vec<u8> {
    let depths = dependents::dependents(rows.packages.len(), &rows.edges);
    let by_name: HashMap<&[u8], usize> = (0..).zip(&rows.packages).map(|(at, it)| (it.name.as_bytes(), at)).collect();
    let mut text = Vec::new();
    for record in records {
        let Some(&at) = by_name.get(record.name) else { continue };
        text.extend_from_slice(record.text);
        let status = status(&rows.packages[at].state);
        text.extend_from_slice(format!("PKG_DEPTH={}\nBUILD_STATUS={status}\n", depths[at] + 1).as_bytes());
    }
    text
}

/// `PKGNAME|state||PKG_DEPTH` lines.
pub fn pbuild(rows: &RunRows) -> Vec<u8> {
    let depths = dependents::dependents(rows.packages.len(), &rows.edges);
    let lines = rows.packages.iter().zip(depths);
    lines.flat_map(|(it, depth)| format!("{}|{}||{}\n", it.name, status(&it.state), depth + 1).into_bytes()).collect()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// System, version and architecture, such as `Linux 6.1/x86_64`.
    pub platform: String,
    /// PKGSRC_COMPILER.
    pub compiler: String,
    /// The URL of reports.
    pub base_url: String,
}

/// `KEY=value` lines: the platform, start and end.
pub fn status_file(rows: &RunRows, machine: &Machine) -> String {
    let mut text = format!("PLATFORM={}\nCOMPILER={}\n", machine.platform, machine.compiler);
    text += &format!("BUILD_START_ISO={}\n", iso(rows.run.began_ms));
    text += &format!("BUILD_START_DIR={}\n", directory(rows.run.began_ms));
    text += &format!("BASE_URL={}\n", machine.base_url);
    if let Some(ended_ms) = rows.run.ended_ms {
        text += &format!("BUILD_END_ISO={}\n", iso(ended_ms));
    }
    text
}

/// `2017-06-30 12:34`, in UTC.
pub fn iso(ms: i64) -> String {
    let (year, month, day, minutes) = date(ms);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// The directory of a run's reports on the server: `20170630.1234`.
pub fn directory(ms: i64) -> String {
    let (year, month, day, minutes) = date(ms);
    format!("{year:04}{month:02}{day:02}.{:02}{:02}", minutes / 60, minutes % 60)
}

/// Year, month, day, and minutes of the day.
fn date(ms: i64) -> (u64, u64, u64, u64) {
    let minutes = u64::try_from(ms).unwrap_or(0) / 60_000;
    let (year, month, day) = tanto_record::session::date(minutes / (24 * 60));
    (year, month, day, minutes % (24 * 60))
}
