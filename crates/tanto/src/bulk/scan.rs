//! `tanto bulk scan`: asks a tree which packages it makes. Does not know which of the answers still hold.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use tanto_bulk::attempt::platform_vars;
use tanto_bulk::config::Config;
use tanto_bulk::tree::scan::{Bad as BadScan, Report, Scan, written};
use tanto_exec::clock::RealClock;
use tanto_exec::event::{Event, View};
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions};
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::sandbox::SandboxPool;
use tanto_record::database::Database;
use tanto_sys::clock;
use tanto_sys::fs::file;

use super::files::failed;
use super::place::{config, take};
use super::prepare::prepare;
use super::progress::Progress;
use super::site::{self, Spaces};
use crate::command_line::bulk::ScanArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::ninja::view::{self, Shown};

/// Scans, and says what that has brought.
pub(crate) fn run(args: &ScanArgs) -> Stop {
    match obey(args) {
        Ok(stop) => stop,
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &ScanArgs) -> Result<Stop, Vec<u8>> {
    let config = config(&args.config.config)?;
    let mut state = take(&config)?;
    let spaces = prepare(&config, &mut state)?;
    let report = match scan(&config, spaces.as_ref(), state.store, args.verify_scan, &mut shown()?) {
        Err(Told::Interrupted) => return Ok(interrupted()),
        Err(Told::Message(message)) => return Err(message),
        Ok((report, _)) => report,
    };
    if let Some(path) = &args.output {
        file::write_atomically(path, |file| file.write_all(&report.records))
            .map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))?;
    }
    let code = u8::from(!report.failed.is_empty() || !report.differing.is_empty());
    Ok(Stop { out: summary(&report).into_bytes(), err: complaints(&report), code })
}

/// Why there is no report.
pub(super) enum Told {
    /// The user has stopped it.
    Interrupted,
    /// For the user.
    Message(Vec<u8>),
}

impl Told {
    fn of(config: &Config, bad: &BadScan) -> Told {
        match bad {
            BadScan::Interrupted => Told::Interrupted,
            bad => Told::Message(bad.told(config).into_bytes()),
        }
    }
}

impl From<Vec<u8>> for Told {
    fn from(message: Vec<u8>) -> Told {
        Told::Message(message)
    }
}

/// What a user sees of phases that run commands.
pub(super) fn shown() -> Result<Shown, Vec<u8>> {
    view::of(&super::build::options()?).map_err(|_| b"the status format makes no sense".to_vec())
}

/// What the user is told who has stopped it.
pub(super) fn interrupted() -> Stop {
    Stop { code: 130, ..Stop::failed(Door::Tanto, "error", b"interrupted by user") }
}

/// Scans, for somebody who has the state; of `verify` percent of what need not be asked again it is asked and compared.
pub(super) fn scan(
    config: &Config,
    spaces: Option<&Rc<Spaces>>,
    store: Database,
    verify: f64,
    view: &mut dyn View,
) -> Result<(Report, Database), Told> {
    let view: &mut dyn View = &mut Progress::of(config, view);
    let mut runner = ProcessRunner::new(spawning(config)).map_err(|error| tanto_sys::error::text(&error))?;
    let (clock, seed) = (RealClock::start(), clock::monotonic_ms().cast_unsigned());
    let facts = || of_the_system(config, spaces);
    let facts: &dyn Fn() -> Vec<String> = &facts;
    let before = Scan { config, runner: &mut runner, view: &mut *view, clock: &clock, facts, verify, seed };
    let store = before.script(store).map_err(|bad| Told::of(config, &bad))?;
    // That script may have fetched it.
    if !Path::new(&config.pkgsrc).is_dir() {
        let why =
            format!("there is no package tree in {}: 'pkgsrc' in the configuration says where it is", config.pkgsrc);
        return Err(Told::Message(why.into_bytes()));
    }
    shut_in(&mut runner, config, spaces);
    let scan = Scan { config, runner: &mut runner, view, clock: &clock, facts, verify, seed };
    scan.run(store).map_err(|bad| Told::of(config, &bad))
}

/// Scans these directories, and what they need that is not known, with a state that nobody else has, below one that
/// somebody may have.
pub(super) fn some(
    config: &Config,
    above: &str,
    locations: Vec<String>,
    is_known: &dyn Fn(&str) -> bool,
) -> Result<Report, Told> {
    let store = super::place::take(config)?.store;
    let spaces = site::enter(config, Some(above))?;
    let mut runner = ProcessRunner::new(spawning(config)).map_err(|error| tanto_sys::error::text(&error))?;
    shut_in(&mut runner, config, spaces.as_ref());
    let clock = RealClock::start();
    let facts: &dyn Fn() -> Vec<String> = &|| of_the_system(config, spaces.as_ref());
    let scan = Scan { config, runner: &mut runner, view: &mut Unseen, clock: &clock, facts, verify: 0.0, seed: 0 };
    let done = scan.some(locations, is_known, store).map_err(|bad| Told::of(config, &bad));
    done.map(|(report, _)| report)
}

/// What makefiles need not ask the system.
fn of_the_system(config: &Config, spaces: Option<&Rc<Spaces>>) -> Vec<String> {
    platform_vars::ask(config, spaces.and_then(|spaces| spaces.sandbox().ok()))
}

/// What is started from now on is in sandboxes, if there are to be some.
fn shut_in(runner: &mut ProcessRunner, config: &Config, spaces: Option<&Rc<Spaces>>) {
    let Some(spaces) = spaces.cloned() else { return };
    let written = written(config);
    let open = move |number| spaces.sandbox().map_err(io::Error::other)?.scan_room(number, &written);
    runner.use_sandboxes(SandboxPool::new(open));
}

/// Nobody looks on.
struct Unseen;

impl View for Unseen {
    fn event(&mut self, _: Event<'_>) {}
}

fn spawning(config: &Config) -> RunnerOptions {
    let own = config.limits("scan");
    let limits = own.watched();
    let watch = Some(WatchOptions { limits, leftovers: Leftovers::Kill, cgroups: CgroupUse::None });
    let parallelism = if config.scan_clients == 0 { tanto_sys::machine::cpu::count() } else { config.scan_clients };
    RunnerOptions { parallelism, watch, ..RunnerOptions::default() }
}

fn summary(report: &Report) -> String {
    let packages = count(&report.records);
    let Report { scanned, reused, started, .. } = report;
    let mut text = format!(
        "{} directories make {packages} packages; {scanned} were scanned, {reused} are as before\n\
         {started} commands were run\n",
        scanned + reused
    );
    if report.verified > 0 {
        text += &format!("{} were scanned to compare; {} differ\n", report.verified, report.differing.len());
    }
    text
}

fn count(records: &[u8]) -> usize {
    records.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"PKGNAME=")).count()
}

/// A line for each package that is made twice, and each directory that gave no answer, with its log.
fn complaints(report: &Report) -> Vec<u8> {
    let mut text = String::new();
    for duplicate in &report.duplicates {
        text += &format!("tanto: warning: {}\n", duplicate.told());
    }
    for (location, log) in &report.failed {
        text += &format!("tanto: error: {location} cannot be scanned:\n{log}");
    }
    for location in &report.differing {
        text +=
            &format!("tanto: error: {location} gives another answer, though nothing has changed that Tanto knows of\n");
    }
    text.into_bytes()
}
