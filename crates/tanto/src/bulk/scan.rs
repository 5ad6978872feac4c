//! `tanto bulk scan`.

use std::io::Write;

use tanto_bulk::coordinator::prepare::prepare;
use tanto_bulk::coordinator::{phases, state_dir};
use tanto_bulk::error::BulkError;
use tanto_bulk::tree::scan::ScanReport;
use tanto_sys::fs::file;

use super::args::ScanArgs;
use super::config::read_config;
use super::{failed, shown};
use crate::output::CommandOutput;

pub fn run(args: &ScanArgs) -> CommandOutput {
    scan(args).unwrap_or_else(|error| failed(&error))
}

fn scan(args: &ScanArgs) -> Result<CommandOutput, BulkError> {
    let config = read_config(&args.config.config)?;
    let mut state = state_dir::take(&config)?;
    let environment = prepare(&config, &mut state)?;
    let (report, _) = phases::scan(&config, environment.as_ref(), state.store, args.verify_scan, &mut shown()?)?;
    if let Some(path) = &args.output {
        file::write_atomically(path, |file| file.write_all(&report.records))
            .map_err(BulkError::io("writing ", path))?;
    }
    let code = u8::from(!report.failed.is_empty() || !report.differing.is_empty());
    Ok(CommandOutput { out: summary(&report).into_bytes(), err: complaints(&report).into_bytes(), code })
}

fn summary(report: &ScanReport) -> String {
    let packages = count(&report.records);
    let ScanReport { scanned, reused, started, .. } = report;
    let mut text = format!(
        "{packages} packages in {} directories: {scanned} scanned, {reused} unchanged\nCommands run: {started}\n",
        scanned + reused
    );
    if report.verified > 0 {
        text += &format!("{} scanned again for comparison: {} differ\n", report.verified, report.differing.len());
    }
    text
}

fn count(records: &[u8]) -> usize {
    records.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"PKGNAME=")).count()
}

/// A line for each package that is made twice, and each directory that gave no answer, with its log.
fn complaints(report: &ScanReport) -> String {
    let mut text = String::new();
    for duplicate in &report.duplicates {
        text += &format!("tanto: warning: {}\n", duplicate.message());
    }
    for (location, log) in &report.failed {
        text += &format!("tanto: error: {location} cannot be scanned:\n{log}");
    }
    for location in &report.differing {
        text += &format!(
            "tanto: error: {location}: a new scan gives a different result, but no recorded input has changed\n"
        );
    }
    text
}
