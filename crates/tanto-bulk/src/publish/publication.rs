//! Publishes a run: signs packages, writes their list and the reports, and uploads them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use tanto_sys::fs::file;
use tanto_sys::machine::cpu;

use super::list::{self, Listed, Wanted};
use super::selection::{Selection, select};
use super::sign::process::sign_all;
use super::{DIGESTS, SUMMARY, digests, packed, summary, upload};
use crate::config::Config;
use crate::coordinator::state::State;
use crate::coordinator::state_dir;
use crate::error::BulkError;
use crate::package::ALL;
use crate::package::archive::{ArchiveError, Metadata};
use crate::package::records::Record;
use crate::report::{Report, RunRows, errors, machine};
use crate::resolve::meta_dir;

/// The SHA512 digests that files had when they were built, by package name.
pub(super) type Digests = HashMap<String, Vec<u8>>;

/// Publishes the last run, and appends each step to `log`. A run that has not ended is refused unless `unfinished`.
pub fn publish(config: &Config, unfinished: bool, log: &mut String) -> Result<(), BulkError> {
    let rows = rows(config)?;
    if rows.run.ended_ms.is_none() && !unfinished {
        return Err(
            "the build has not ended, and later packages would be missing: use --unfinished to publish anyway".into()
        );
    }
    meta_dir::with_presolve(config, |records| Publication { config, rows: &rows, records }.run(log))
}

/// Reads the rows of the last run.
pub fn rows(config: &Config) -> Result<RunRows, BulkError> {
    RunRows::read(&state_dir::open_read_only(config)?)?.ok_or(BulkError::NothingBuilt)
}

/// A form of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportForm<'a> {
    Text,
    Json,
    /// A page in this file; then nothing is printed.
    Html(&'a Path),
    /// The records that pbulk's reports have.
    Pbulk,
}

/// Returns the report of the last run.
pub fn print(config: &Config, form: ReportForm<'_>) -> Result<Vec<u8>, BulkError> {
    let rows = rows(config)?;
    meta_dir::with_presolve(config, |records| match form {
        ReportForm::Text => Ok(report(&rows, records).text().into_bytes()),
        ReportForm::Json => Ok(report(&rows, records).json()),
        ReportForm::Html(path) => {
            let html = report(&rows, records).html();
            let written = file::write_atomically(path, |file| file.write_all(html.as_bytes()));
            written.map(|()| Vec::new()).map_err(BulkError::io("writing ", path))
        }
        ReportForm::Pbulk => Ok(machine::report(&rows, records)),
    })
}

/// Makes the report of a run, with errors from its logs.
pub fn report<'r>(rows: &'r RunRows, records: &[Record<'_>]) -> Report<'r> {
    Report::new(rows, records, log_end)
}

/// Reads the end of a log; `None` if it was removed.
fn log_end(path: &str) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(errors::TAIL_BYTES as u64))).ok()?;
    let mut text = Vec::new();
    file.take(errors::TAIL_BYTES as u64).read_to_end(&mut text).ok()?;
    Some(text)
}

struct Publication<'a> {
    config: &'a Config,
    rows: &'a RunRows,
    records: &'a [Record<'a>],
}

impl Publication<'_> {
    fn run(&self, log: &mut String) -> Result<(), BulkError> {
        let unknown = |name: String| format!("cannot tell whether {name} may be published: build again");
        let selection = select(self.rows, self.records).map_err(unknown)?;
        for (package, why) in &selection.withheld {
            *log += &format!("not published: {} ({why})\n", self.rows.packages[*package as usize].name);
        }
        let name = |&it: &u32| &*self.rows.packages[it as usize].name;
        let mut names: Vec<&str> = selection.published.iter().map(name).collect();
        names.sort_unstable();
        let files = state_dir::open_read_only(self.config)?.files()?;
        let built: Digests = files.into_iter().map(|file| (file.name, file.digest)).collect();
        let dir = match self.config.sign_command.is_empty() {
            true => &self.config.packages,
            false => sign_all(self.config, &names, &built, log).map(|()| &self.config.signed)?,
        };
        let listed = self.list(Path::new(dir), &names, &built)?;
        *log += &format!("{} packages are in {dir}/{ALL}, with {SUMMARY} and {dir}/{DIGESTS}\n", listed.len());
        let report = report(self.rows, self.records);
        let first = listed.first().and_then(|it| Metadata::of(&Path::new(dir).join(ALL).join(&it.file)).ok());
        let status = machine::status_file(self.rows, &self.machine(first.as_ref()));
        self.write_meta(&report, &status, &selection)?;
        *log += &format!("the reports are in {}\n", self.config.meta_dir().display());
        upload::packages(self.config, dir, &listed, log)?;
        upload::report(self.config, self.rows, log)?;
        upload::mail(self.config, self.rows, &self.letter(&report, &status), log)
    }

    /// Writes the list of packages and its digests.
    fn list(&self, dir: &Path, names: &[&str], built: &Digests) -> Result<Vec<Listed>, BulkError> {
        let all = dir.join(ALL);
        let is_signed = !self.config.sign_command.is_empty();
        // Signed packages were verified before.
        let wanted = |name: &&str| Wanted {
            file: format!("{name}{}", self.config.pkg_sufx),
            verify: !is_signed && !built.contains_key(*name),
        };
        let files: Vec<Wanted> = names.iter().map(wanted).collect();
        let kept = Path::new(&self.config.state).join("published");
        // An unreadable cache is rebuilt.
        let known = list::known(&fs::read(&kept).unwrap_or_default());
        let name = |file: &str| file.strip_suffix(&self.config.pkg_sufx).unwrap_or(file).to_owned();
        let failed = |(file, error): (String, _)| unusable_package(&all.join(&file), &error, &name(&file));
        let listed = list::list(&all, &files, &known, cpu::count()).map_err(failed)?;
        replace(&kept, &list::kept(&listed))?;
        if !is_signed {
            let mut each = names.iter().zip(&listed);
            each.try_for_each(|(name, it)| check_digest(name, &all.join(&it.file), &it.digest, built))?;
        }
        let summary = summary(&listed).map_err(BulkError::of("packing"))?;
        replace(&all.join(SUMMARY), &summary)?;
        replace(&dir.join(DIGESTS), &digests(&listed, &summary).map_err(BulkError::of("packing"))?)?;
        Ok(listed)
    }

    /// The machine, from the metadata of a package.
    fn machine(&self, package: Option<&Metadata>) -> machine::Machine {
        let value = |name: &str| {
            let value = package.and_then(|it| it.build_info(name)).unwrap_or(b"unknown");
            String::from_utf8_lossy(value).into_owned()
        };
        machine::Machine {
            platform: format!("{} {}/{}", value("OPSYS"), value("OS_VERSION"), value("MACHINE_ARCH")),
            compiler: value("CC_VERSION"),
            base_url: self.config.base_url.clone(),
        }
    }

    fn write_meta(&self, report: &Report<'_>, status: &str, selection: &Selection) -> Result<(), BulkError> {
        let records = machine::report(self.rows, self.records);
        let packed = packed(std::iter::once(&records[..])).map_err(BulkError::of("packing"))?;
        let names = |state: State| {
            let in_state = self.rows.packages.iter().filter(move |it| it.state == state.name());
            in_state.map(|it| format!("{}\n", it.name)).collect::<String>().into_bytes()
        };
        let withheld = selection.withheld.iter();
        let withheld = withheld.map(|(it, why)| format!("{}|{why}\n", self.rows.packages[*it as usize].name));
        let files: [(&str, Vec<u8>); 10] = [
            ("status", status.into()),
            ("pbuild", machine::pbuild(self.rows)),
            ("report", records),
            (upload::REPORT, packed),
            ("report.txt", self.letter(report, status).into_bytes()),
            ("report.html", report.html().into_bytes()),
            ("report.json", report.json()),
            ("success", names(State::Done)),
            ("error", names(State::Failed)),
            ("withheld", withheld.collect::<String>().into_bytes()),
        ];
        files.iter().try_for_each(|(name, text)| meta_dir::write(self.config, name, |file| file.write_all(text)))
    }

    /// The report as a mail.
    fn letter(&self, report: &Report<'_>, status: &str) -> String {
        let platform = status.lines().find_map(|line| line.strip_prefix("PLATFORM=")).unwrap_or_default();
        let mut text = format!("pkgsrc bulk build report\n========================\n\n{platform}\n\n");
        if !self.config.base_url.is_empty() {
            let place = format!("{}/{}/meta", self.config.base_url, machine::directory(self.rows.run.began_ms));
            text += &format!("Full report: {place}/report.html\n");
            text += &format!("Machine readable version: {place}/{}\n\n", upload::REPORT);
        }
        text + &report.text()
    }
}

/// The error for a package file that cannot be read or is damaged.
pub(super) fn unusable_package(path: &Path, error: &ArchiveError, name: &str) -> BulkError {
    let remedy = match error {
        ArchiveError::Io(error) if error.raw_os_error().is_some() => String::new(),
        _ => format!(": 'tanto bulk retry {name}' and 'tanto bulk build' build it again"),
    };
    format!("{}: {error}{remedy}", path.display()).into()
}

/// Fails if the file has another digest than was recorded when the package was built.
pub(super) fn check_digest(name: &str, path: &Path, digest: &str, built: &Digests) -> Result<(), BulkError> {
    match built.get(name) {
        Some(recorded) if recorded != digest.as_bytes() => {
            let path = path.display();
            Err(format!(
                "{path} is not the file that was built: 'tanto bulk retry {name}' and 'tanto bulk build' build it again"
            )
            .into())
        }
        _ => Ok(()),
    }
}

fn replace(path: &Path, content: &[u8]) -> Result<(), BulkError> {
    file::write_atomically(path, |file| file.write_all(content)).map_err(BulkError::io("writing ", path))
}
