//! The phases before packages are built: what is to be built, from a scan of the tree or from a file, and the user's own
//! commands between the phases. Does not know how packages are built.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::up_to_date::{inspect, settle};
use tanto_bulk::freshness::{Ages, PackageFiles};
use tanto_bulk::package::records::{self, Record};
use tanto_bulk::resolve::{Package, depends_of, resolve};
use tanto_bulk::tree::scan::Report;
use tanto_exec::event::View;
use tanto_record::database::Database;
use tanto_sys::memory::map::Map;

use super::build::no_plan;
use super::files::{check as check_whole, open};
use super::scan::{self, Told};
use super::site::Spaces;
use super::{findings, place};

/// Where it stands what is to be built.
pub(super) enum Source {
    /// In a resolved scan, which the user names.
    File(Vec<u8>, Map),
    /// In the tree itself.
    Tree(Report),
}

/// What is to be built, and what each package needs.
pub(super) struct Packages<'t> {
    pub(super) records: Vec<Record<'t>>,
    pub(super) depends: Vec<Vec<Package>>,
    /// Those that need what is not there, and what that is.
    pub(super) lacking: Vec<(Package, String)>,
}

/// Reads the file, or else scans the tree.
pub(super) fn source(
    config: &Config,
    spaces: Option<&Rc<Spaces>>,
    file: Option<&Path>,
    store: Database,
    view: &mut dyn View,
) -> Result<(Source, Database), Told> {
    match file {
        Some(path) => {
            let path = path.as_os_str().as_encoded_bytes();
            Ok((Source::File(path.to_vec(), open(path)?), store))
        }
        None => {
            let (report, store) = scan::scan(config, spaces, store, 0.0, view)?;
            Ok((Source::Tree(report), store))
        }
    }
}

/// Forgets what was scanned, if a new bulk build is not to use it.
pub(super) fn forget(config: &Config, store: &mut Database) -> Result<(), Vec<u8>> {
    if config.reuse_scan_results { Ok(()) } else { store.forget_scans().map_err(|error| place::unusable(&error)) }
}

impl Source {
    /// What it says. What needs something that is not there is an error, unless the configuration says that the others
    /// are built.
    pub(super) fn packages(&self, config: &Config) -> Result<Packages<'_>, Vec<u8>> {
        match self {
            Source::File(path, map) => {
                let records = records::read(map).map_err(|bad| findings::bad_scan(path, bad))?;
                let depends = depends_of(&records).map_err(|unknown| findings::unknown(path, &unknown))?;
                check_whole(path, map)?;
                Ok(Packages { records, depends, lacking: Vec::new() })
            }
            Source::Tree(report) => resolved(report, config.ignore_missing_dependencies),
        }
    }

    /// What the user should know of it, a line each.
    pub(super) fn complaints(&self) -> Vec<u8> {
        let Source::Tree(report) = self else { return Vec::new() };
        let line = |location: &String| format!("tanto: warning: {location} cannot be scanned\n");
        let lines: String = report.failed.iter().map(|(location, _)| line(location)).collect();
        let hint = "tanto: 'tanto bulk scan' tells why\n";
        if lines.is_empty() { Vec::new() } else { [lines.as_bytes(), hint.as_bytes()].concat() }
    }
}

fn resolved(report: &Report, ignore_missing: bool) -> Result<Packages<'_>, Vec<u8>> {
    let all = records::read(&report.records).map_err(|bad| findings::bad_scan(b"the scan", bad))?;
    let resolution = resolve(&all, report.wanted);
    let lacking = findings::lacking(&resolution, &all);
    if !lacking.is_empty() && !ignore_missing {
        let lines: String = lacking.iter().map(|(_, why)| format!("{why}\n")).collect();
        let count = lacking.len();
        return Err(format!(
            "{count} packages need what is not there, and nothing was built; with 'ignore_missing_dependencies = true' \
             the others are:\n{}",
            lines.trim_end()
        )
        .into_bytes());
    }
    let (chosen, records, depends) = resolution.chosen(&all);
    let place = |package: Package| chosen.binary_search(&package).ok().map(|at| at as Package);
    let lacking = lacking.into_iter().filter_map(|(package, why)| Some((place(package)?, why))).collect();
    Ok(Packages { records, depends, lacking })
}

impl Packages<'_> {
    /// The plan of them all, as if nothing was ever built.
    pub(super) fn plan(&self) -> Result<Plan, Vec<u8>> {
        let mut plan = Plan::new(&self.records, &self.depends).map_err(|bad| no_plan(&bad))?;
        self.lacking.iter().for_each(|(package, why)| plan.lacks(*package, why.clone()));
        Ok(plan)
    }
}

/// Packages that are up to date are done, if all that they need is. With `cutoff` a package that was built again counts as
/// old as its content.
pub(super) fn check(config: &Config, store: &Database, plan: &mut Plan, cutoff: bool) -> Result<(), Vec<u8>> {
    let ages = match (config.skip_age_check, cutoff) {
        (true, _) => Ages::Ignored,
        (false, false) => Ages::Files,
        (false, true) => {
            let known = store.contents().map_err(|error| place::unusable(&error))?;
            Ages::Contents(known.into_iter().map(|(name, written, since)| (name, (written, since))).collect())
        }
    };
    if config.rebuild_on_options {
        let before = store.options().map_err(|error| place::unusable(&error))?;
        plan.compare_options(&before.into_iter().collect());
    }
    let found = inspect(plan, PackageFiles { contents: cutoff, ..packages(config) });
    settle(plan, found, &ages).map_err(|bad| no_plan(&bad))
}

/// Where binary packages are.
pub(super) fn packages(config: &Config) -> PackageFiles<'_> {
    let Config { pkgsrc, packages, pkg_sufx, .. } = config;
    PackageFiles { pkgsrc, packages, suffix: pkg_sufx, contents: false }
}

/// Runs a line that the user wants to be run at this point.
pub(super) fn script(key: &str, line: &str) -> Result<(), Vec<u8>> {
    if line.is_empty() {
        return Ok(());
    }
    let ran = Command::new("/bin/sh").arg("-c").arg(line).status();
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{key} failed: {status}").into_bytes()),
        Err(error) => Err(super::files::failed("", key.as_bytes(), &error)),
    }
}
