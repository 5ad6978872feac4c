//! The phases before packages are built: scan, resolve and up-to-date check, and the user's scripts between them.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use tanto_exec::clock::RealClock;
use tanto_exec::command_output::CommandOutput;
use tanto_exec::event::{Event, View};
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions};
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::sandbox::SandboxPool;
use tanto_record::database::Database;
use tanto_sys::clock;
use tanto_sys::fs::file;
use tanto_sys::machine::cpu;

use super::phase_file::ScanProgress;
use super::plan::Plan;
use super::prepare::prepare;
use super::pushed_tree::{self, IfAbsent};
use super::scan_farm::ScanFarm;
use super::state_dir;
use super::up_to_date::{inspect, settle};
use crate::attempt::environment::Environment;
use crate::attempt::platform_vars;
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::freshness::{Ages, PackageFiles};
use crate::package::input_file::InputFile;
use crate::package::records::{self, Record};
use crate::resolve::meta_dir::resolved_depends;
use crate::resolve::{PackageId, messages, resolve};
use crate::tree::scan::{self, RemoteScanners, Scan, ScanReport};

/// The source of the packages to build.
pub enum PackageSource {
    /// A resolved scan, given by the user.
    File(InputFile),
    /// A scan of the tree.
    Tree(ScanReport),
}

/// The packages to build and their dependencies.
pub struct PackageSet<'t> {
    pub records: Vec<Record<'t>>,
    pub depends: Vec<Vec<PackageId>>,
    /// Packages with missing dependencies, and their messages.
    missing: Vec<(PackageId, String)>,
}

impl PackageSource {
    /// Opens the file, or else scans the tree.
    pub fn read(
        config: &Config,
        environment: Option<&Rc<Environment>>,
        file: Option<&Path>,
        store: Database,
        view: &mut dyn View,
    ) -> Result<(PackageSource, Database), BulkError> {
        match file {
            Some(path) => Ok((PackageSource::File(InputFile::open(path)?), store)),
            None => {
                let (report, store) = scan(config, environment, store, 0.0, view)?;
                Ok((PackageSource::Tree(report), store))
            }
        }
    }

    /// Resolves the packages. Missing dependencies are an error, unless the configuration ignores them.
    pub fn packages(&self, config: &Config) -> Result<PackageSet<'_>, BulkError> {
        match self {
            PackageSource::File(file) => {
                let records = file.records()?;
                let depends = resolved_depends(file, &records)?;
                file.check()?;
                Ok(PackageSet { records, depends, missing: Vec::new() })
            }
            PackageSource::Tree(report) => resolved(report, config.ignore_missing_dependencies),
        }
    }

    /// Returns warnings about directories that could not be scanned, a line each.
    pub fn warnings(&self) -> String {
        let PackageSource::Tree(report) = self else { return String::new() };
        let line = |(location, _): &(String, String)| format!("tanto: warning: {location} cannot be scanned\n");
        let lines: String = report.failed.iter().map(line).collect();
        if lines.is_empty() { lines } else { lines + "tanto: run 'tanto bulk scan' for the reasons\n" }
    }
}

fn resolved(report: &ScanReport, ignore_missing: bool) -> Result<PackageSet<'_>, BulkError> {
    let all = records::read(&report.records).map_err(|error| format!("malformed scan:{error}"))?;
    let resolution = resolve(&all, report.wanted);
    let missing = messages::missing_dependencies(&resolution, &all);
    if !missing.is_empty() && !ignore_missing {
        let lines: Vec<&str> = missing.iter().map(|(_, why)| why.as_str()).collect();
        return Err(format!(
            "{} packages have missing dependencies, so nothing was built; set 'ignore_missing_dependencies = true' to \
             build the others:\n{}",
            missing.len(),
            lines.join("\n")
        )
        .into());
    }
    let (chosen, records, depends) = resolution.chosen(&all);
    let index = |package: PackageId| chosen.binary_search(&package).ok().map(|at| at as PackageId);
    let missing = missing.into_iter().filter_map(|(package, why)| Some((index(package)?, why))).collect();
    Ok(PackageSet { records, depends, missing })
}

impl PackageSet<'_> {
    /// Returns a plan with nothing built yet.
    pub fn plan(&self) -> Result<Plan, BulkError> {
        let mut plan = Plan::new(&self.records, &self.depends)?;
        self.missing.iter().for_each(|(package, why)| plan.exclude(*package, why.clone()));
        Ok(plan)
    }
}

/// Runs the scan script and scans. `verify` percent of the reusable answers are scanned again and compared.
pub fn scan(
    config: &Config,
    environment: Option<&Rc<Environment>>,
    store: Database,
    verify: f64,
    view: &mut dyn View,
) -> Result<(ScanReport, Database), BulkError> {
    let view: &mut dyn View = &mut ScanProgress::new(config, view);
    let mut runner = scan_runner(config)?;
    let (clock, seed) = (RealClock::start(), clock::monotonic_ms().cast_unsigned());
    let facts: &dyn Fn() -> Vec<String> = &|| platform_facts(config, environment);
    let before =
        Scan { config, runner: &mut runner, view: &mut *view, clock: &clock, facts, verify, seed, remote: None };
    let store = before.script(store)?;
    // The script may have fetched the tree.
    if !Path::new(&config.pkgsrc).is_dir() {
        let why = format!("there is no package tree in {}: set 'pkgsrc' in the configuration", config.pkgsrc);
        return Err(why.into());
    }
    use_sandboxes(&mut runner, config, environment);
    let mut farm = ScanFarm::new(config, parallelism(config));
    let remote = farm.as_mut().map(|farm| farm as &mut dyn RemoteScanners);
    let scan = Scan { config, runner: &mut runner, view, clock: &clock, facts, verify, seed, remote };
    Ok(scan.run(store)?)
}

/// Scans the tree and writes its records to a file. The exit code is 1 if a directory cannot be scanned or differs.
pub fn scan_tree(
    config: &Config,
    verify: f64,
    output: Option<&Path>,
    view: &mut dyn View,
) -> Result<CommandOutput, BulkError> {
    let mut state = state_dir::take(config)?;
    let environment = prepare(config, &mut state)?;
    pushed_tree::update(config, IfAbsent::Fail)?;
    let (report, _) = scan(config, environment.as_ref(), state.store, verify, view)?;
    if let Some(path) = output {
        file::write_atomically(path, |file| file.write_all(&report.records))
            .map_err(BulkError::io("writing ", path))?;
    }
    let code = u8::from(!report.failed.is_empty() || !report.differing.is_empty());
    Ok(CommandOutput { out: report.summary().into_bytes(), err: report.complaints().into_bytes(), code })
}

/// Scans some directories and their unknown dependencies, with a separate state directory below `parent`.
pub fn scan_some(
    config: &Config,
    parent: &str,
    locations: Vec<String>,
    is_known: &dyn Fn(&str) -> bool,
) -> Result<ScanReport, BulkError> {
    let store = state_dir::take(config)?.store;
    let environment = Environment::enter(config, Some(parent))?;
    let mut runner = scan_runner(config)?;
    use_sandboxes(&mut runner, config, environment.as_ref());
    let clock = RealClock::start();
    let facts: &dyn Fn() -> Vec<String> = &|| platform_facts(config, environment.as_ref());
    let view = &mut NoView;
    let scan = Scan { config, runner: &mut runner, view, clock: &clock, facts, verify: 0.0, seed: 0, remote: None };
    Ok(scan.some(locations, is_known, store)?.0)
}

pub struct NoView;

impl View for NoView {
    fn event(&mut self, _: Event<'_>) {}
}

/// Returns platform variables for make.
pub(crate) fn platform_facts(config: &Config, environment: Option<&Rc<Environment>>) -> Vec<String> {
    platform_vars::ask(config, environment.and_then(|it| it.sandbox().ok()))
}

/// Lets commands of scans run in sandboxes, if there are some.
pub(crate) fn use_sandboxes(runner: &mut ProcessRunner, config: &Config, environment: Option<&Rc<Environment>>) {
    let Some(environment) = environment.cloned() else { return };
    let written = scan::written(config);
    let open = move |number| environment.sandbox().map_err(io::Error::other)?.open_for_scan(number, &written);
    runner.use_sandboxes(SandboxPool::new(open));
}

/// Directories that are scanned at a time.
fn parallelism(config: &Config) -> usize {
    if config.scan_clients == 0 { cpu::count() } else { config.scan_clients }
}

/// Returns the runner of the commands of scans.
pub(crate) fn scan_runner(config: &Config) -> Result<ProcessRunner, BulkError> {
    let limits = config.limits("scan").watched();
    let watch = Some(WatchOptions { limits, leftovers: Leftovers::Kill, cgroups: CgroupUse::None });
    let options = RunnerOptions { parallelism: parallelism(config), watch, ..RunnerOptions::default() };
    ProcessRunner::new(options).map_err(|error| cause(&error).into())
}

/// Marks up-to-date packages as done if their dependencies are. With `cutoff`, the age of a rebuilt package is that of its
/// content.
pub fn check(config: &Config, store: &Database, plan: &mut Plan, cutoff: bool) -> Result<(), BulkError> {
    let ages = match (config.skip_age_check, cutoff) {
        (true, _) => Ages::Ignored,
        (false, false) => Ages::Files,
        (false, true) => {
            let known = store.contents()?.into_iter();
            Ages::Contents(known.map(|(name, written, since)| (name, (written, since))).collect())
        }
    };
    if config.rebuild_on_options {
        plan.compare_options(&store.options()?.into_iter().collect());
    }
    let inspections = inspect(plan, PackageFiles { contents: cutoff, ..package_files(config) });
    Ok(settle(plan, inspections, &ages)?)
}

/// Returns the paths of binary packages.
pub fn package_files(config: &Config) -> PackageFiles<'_> {
    let Config { pkgsrc, packages, pkg_sufx, .. } = config;
    PackageFiles { pkgsrc, packages, suffix: pkg_sufx, contents: false }
}

/// Runs the user's script between two phases.
pub fn run_script(key: &'static str, line: &str) -> Result<(), BulkError> {
    if line.is_empty() {
        return Ok(());
    }
    let status = std::process::Command::new("/bin/sh").arg("-c").arg(line).status().map_err(BulkError::of(key))?;
    if status.success() { Ok(()) } else { Err(format!("{key} failed: {status}").into()) }
}
