//! `tanto bulk publish`: what was built gets to those who want it, and what is to be said of it. Does not know which
//! packages may be published, nor what a report says.

mod send;

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::package::ALL;
use tanto_bulk::package::archive::{Bad, Metadata};
use tanto_bulk::package::records::Record;
use tanto_bulk::publish::list::{self, Listed, Wanted};
use tanto_bulk::publish::selection::{Choice, choose};
use tanto_bulk::publish::{self as made, DIGESTS, SUMMARY};
use tanto_bulk::report::{Report, Rows, machine};
use tanto_sys::fs::file;
use tanto_sys::machine::cpu;

use super::files::failed;
use super::place::{config, look, unusable};
use super::report::{of, rows, with_records};
use super::{meta, sign};
use crate::command_line::bulk::PublishArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What files are told by, by the names of packages.
pub(super) type Digests = HashMap<String, Vec<u8>>;

/// Publishes, and says what it has done; also where it could not do all of it.
pub(crate) fn run(args: &PublishArgs) -> Stop {
    let mut told = String::new();
    match obey(args, &mut told) {
        Ok(()) => Stop::printed(told, 0),
        Err(message) => Stop { out: told.into_bytes(), ..Stop::failed(Door::Tanto, "error", &message) },
    }
}

fn obey(args: &PublishArgs, told: &mut String) -> Result<(), Vec<u8>> {
    let config = config(&args.config.config)?;
    let rows = rows(&config)?;
    if rows.run.ended_ms.is_none() && !args.unfinished {
        let why = "the build has not ended, and what it still builds would be missing: --unfinished publishes the rest";
        return Err(why.into());
    }
    with_records(&config, |records| Publishing { config: &config, rows: &rows, records }.all(told))
}

struct Publishing<'a> {
    config: &'a Config,
    rows: &'a Rows,
    records: &'a [Record<'a>],
}

impl Publishing<'_> {
    fn all(&self, told: &mut String) -> Result<(), Vec<u8>> {
        let unknown = |name: String| format!("whether {name} may be published is not known: build again").into_bytes();
        let choice = choose(self.rows, self.records).map_err(unknown)?;
        for (package, why) in &choice.withheld {
            *told += &format!("not published: {} ({why})\n", self.rows.packages[*package as usize].name);
        }
        let mut names: Vec<&str> = choice.published.iter().map(|&it| &*self.rows.packages[it as usize].name).collect();
        names.sort_unstable();
        let built = digests(self.config)?;
        let dir = match self.config.sign_command.is_empty() {
            true => &self.config.packages,
            false => sign::all(self.config, &names, &built, told).map(|()| &self.config.signed)?,
        };
        let listed = self.list(Path::new(dir), &names, &built)?;
        *told += &format!("{} packages are in {dir}/{ALL}, with {SUMMARY} and {dir}/{DIGESTS}\n", listed.len());
        let report = of(self.rows, self.records);
        let first = listed.first().and_then(|it| Metadata::of(&Path::new(dir).join(ALL).join(&it.file)).ok());
        let status = machine::status_file(self.rows, &self.machine(first.as_ref()));
        self.describe(&report, &status, &choice)?;
        *told += &format!("what there is to be said is in {}\n", meta::dir(self.config).display());
        send::packages(self.config, dir, &listed, told)?;
        send::report(self.config, self.rows, told)?;
        send::letter(self.config, self.rows, &self.letter(&report, &status), told)
    }

    /// What clients of the packages want to know of them all.
    fn list(&self, dir: &Path, names: &[&str], built: &Digests) -> Result<Vec<Listed>, Vec<u8>> {
        let all = dir.join(ALL);
        let is_signed = !self.config.sign_command.is_empty();
        // What was signed has been verified before.
        let wanted = |name: &&str| Wanted {
            file: format!("{name}{}", self.config.pkg_sufx),
            verify: !is_signed && !built.contains_key(*name),
        };
        let files: Vec<Wanted> = names.iter().map(wanted).collect();
        let kept = Path::new(&self.config.state).join("published");
        // What cannot be read is found out again.
        let known = list::known(&fs::read(&kept).unwrap_or_default());
        let bad = |(file, bad): (String, _)| unusable_package(&all.join(&file), &bad, &self.name(&file));
        let listed = list::list(&all, &files, &known, cpu::count()).map_err(bad)?;
        replace(&kept, &list::kept(&listed))?;
        if !is_signed {
            let mut each = names.iter().zip(&listed);
            each.try_for_each(|(name, it)| as_built(name, &all.join(&it.file), &it.digest, built))?;
        }
        let packing = |error| failed("", b"packing", &error);
        let summary = made::summary(&listed).map_err(packing)?;
        replace(&all.join(SUMMARY), &summary)?;
        replace(&dir.join(DIGESTS), &made::digests(&listed, &summary).map_err(packing)?)?;
        Ok(listed)
    }

    /// The package of a file.
    fn name(&self, file: &str) -> String {
        file.strip_suffix(&self.config.pkg_sufx).unwrap_or(file).to_owned()
    }

    /// As a package says.
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

    /// The files of `meta`.
    fn describe(&self, report: &Report<'_>, status: &str, choice: &Choice) -> Result<(), Vec<u8>> {
        let records = machine::report(self.rows, self.records);
        let packed = made::packed(std::iter::once(&records[..])).map_err(|error| failed("", b"packing", &error))?;
        let names = |state: State| {
            let some = self.rows.packages.iter().filter(move |it| it.state == state.name());
            some.flat_map(|it| [it.name.as_bytes(), b"\n"].concat()).collect::<Vec<u8>>()
        };
        let withheld = choice.withheld.iter();
        let withheld = withheld.map(|(it, why)| format!("{}|{why}\n", self.rows.packages[*it as usize].name));
        let files: [(&str, Vec<u8>); 10] = [
            ("status", status.into()),
            ("pbuild", machine::pbuild(self.rows)),
            ("report", records),
            (send::REPORT, packed),
            ("report.txt", self.letter(report, status).into_bytes()),
            ("report.html", report.html().into_bytes()),
            ("report.json", report.json()),
            ("success", names(State::Done)),
            ("error", names(State::Failed)),
            ("withheld", withheld.collect::<String>().into_bytes()),
        ];
        files.iter().try_for_each(|(name, text)| meta::write(self.config, name, |file| file.write_all(text)))
    }

    /// The report as people get it.
    fn letter(&self, report: &Report<'_>, status: &str) -> String {
        let platform = status.lines().find_map(|line| line.strip_prefix("PLATFORM=")).unwrap_or_default();
        let mut text = format!("pkgsrc bulk build report\n========================\n\n{platform}\n\n");
        if !self.config.base_url.is_empty() {
            let place = format!("{}/{}/meta", self.config.base_url, machine::directory(self.rows.run.began_ms));
            text += &format!("Full report: {place}/report.html\n");
            text += &format!("Machine readable version: {place}/{}\n\n", send::REPORT);
        }
        text + &report.text()
    }
}

/// What packages' files were told by when they were built: SHA512 in hex, by name.
fn digests(config: &Config) -> Result<Digests, Vec<u8>> {
    let files = look(config)?.files().map_err(|error| unusable(&error))?;
    Ok(files.into_iter().map(|file| (file.name, file.digest)).collect())
}

/// The error for a package file that cannot be read or is damaged.
pub(super) fn unusable_package(path: &Path, bad: &Bad, name: &str) -> Vec<u8> {
    let mend = match bad {
        Bad::Io(error) if error.raw_os_error().is_some() => String::new(),
        _ => format!(": 'tanto bulk retry {name}' and a build make it again"),
    };
    format!("{}: {bad}{mend}", path.display()).into_bytes()
}

/// Fails if the file has another digest than was noted when the package was built.
pub(super) fn as_built(name: &str, path: &Path, digest: &str, built: &Digests) -> Result<(), Vec<u8>> {
    match built.get(name) {
        Some(noted) if noted != digest.as_bytes() => {
            let path = path.display();
            let why =
                format!("{path} is another file than was built: 'tanto bulk retry {name}' and a build make it again");
            Err(why.into_bytes())
        }
        _ => Ok(()),
    }
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Vec<u8>> {
    let written = file::write_atomically(path, |file| file.write_all(content));
    written.map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))
}
