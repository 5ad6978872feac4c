//! `tanto bulk build`: all phases, from the scan to the last package. Does not know what a stage does.

mod recall;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tanto_bulk::attempt::build_settings::Site;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::Build;
use tanto_bulk::coordinator::control_socket::Server;
use tanto_bulk::coordinator::plan::{Bad as BadPlan, Plan};
use tanto_bulk::coordinator::sources::Sources;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::estimate::{self, Estimate, distfiles};
use tanto_bulk::package::records::Record;
use tanto_bulk::resolve::Package;
use tanto_exec::clock::RealClock;
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions};
use tanto_exec::run::BuildOutcome;
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::schedule::ResourceSample;
use tanto_record::database::journal::Journal;
use tanto_record::database::{CostRow, Database};

use self::recall::{begin, recall};
use super::place::{config as read, take, unusable};
use super::prepare::prepare;
use super::progress::{self, Phase};
use super::scan::{Told, interrupted, shown};
use super::{ask, jobs, meta, phases, site};
use crate::command_line::bulk::BulkBuildArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use crate::flags::{self, Options};
use crate::settings::Surroundings;

/// What a build exits with that the user has stopped.
const INTERRUPTED: u8 = 130;

/// Builds, and says how that ended. The exit code is 1 if a package failed.
pub(crate) fn run(args: &BulkBuildArgs) -> Stop {
    match obey(args) {
        Ok(stop) => stop,
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &BulkBuildArgs) -> Result<Stop, Vec<u8>> {
    let config = read(&args.config.config)?;
    let stop = match all(&config, args.resolved.as_deref(), args.again, args.cutoff) {
        Err(Told::Interrupted) => return Ok(interrupted()),
        Err(Told::Message(message)) => return Err(message),
        Ok(stop) => stop,
    };
    // Nobody has the state now: the user's commands may ask it.
    if stop.code != INTERRUPTED {
        phases::script("script_phase_report", &config.script_phase_report)?;
        phases::script("script_phase_upload", &config.script_phase_upload)?;
    }
    Ok(stop)
}

/// All phases, with the state to ourselves.
fn all(config: &Config, resolved: Option<&Path>, again: bool, cutoff: bool) -> Result<Stop, Told> {
    site::refuse(config)?;
    let mut state = take(config)?;
    let _prefix = site::keep_prefix(config)?;
    let spaces = prepare(config, &mut state)?;
    site::check_user(config, spaces.as_ref().is_some_and(|spaces| spaces.have_one_user()))?;
    let begun = begin(config, &mut state.store, again)?;
    // What was asked since the beginning of a build that goes on is not asked again, whatever the configuration says.
    let reusing = Config { reuse_scan_results: true, ..config.clone() };
    let (source, mut store) = phases::source(&reusing, spaces.as_ref(), resolved, state.store, &mut shown()?)?;
    progress::begin(config, Phase::Resolve);
    let packages = source.packages(config)?;
    let one_user = spaces.as_ref().is_some_and(|spaces| spaces.have_one_user());
    let (run, mut plan) = recall(config, &mut store, begun, packages.plan()?, (again, one_user))?;
    progress::begin(config, Phase::Check);
    phases::check(config, &store, &mut plan, cutoff)?;
    let costs = store.costs().map_err(|error| unusable(&error))?;
    let estimates = estimates(config, &costs, &packages.records, &packages.depends);
    meta::keep(config, &packages.records, &packages.depends)?;
    let sources = Sources::of(&packages.records);
    drop(packages);
    let err = source.complaints();
    drop(source);
    phases::script("script_phase_build", &config.script_phase_build)?;
    let mut site = site::of(config, spaces.as_deref())?;
    if let Some(package) = plan.packages.first() {
        site.ask_for_users(&package.location);
    }
    if site.one_user {
        plan.only_one_user();
    }
    plan.expect_needs(&costs, site.room());
    let journal = Journal::start(store, run).map_err(|error| super::files::failed("", b"starting", &error))?;
    let (verdict, plan, store) = build(config, &site, (plan, sources), &estimates, journal, now_ms())?;
    let text = ask::summary(&store, run)?;
    let failed = plan.packages.iter().any(|it| matches!(it.state(), State::Failed | State::MachineFailed));
    let code = match verdict {
        BuildOutcome::Interrupted => {
            let err = [&err[..], b"tanto: error: interrupted; 'tanto bulk build' goes on where it was\n"].concat();
            return Ok(Stop { out: text.into_bytes(), err, code: INTERRUPTED });
        }
        BuildOutcome::InvalidInput(why) | BuildOutcome::Failed { reason: why, .. } if !failed || plan.has_open() => {
            return Err(why.into());
        }
        _ => u8::from(failed),
    };
    Ok(Stop { out: text.into_bytes(), err, code })
}

fn build(
    config: &Config,
    site: &Site,
    (plan, sources): (Plan, Sources),
    estimates: &[Estimate],
    mut journal: Journal,
    epoch_ms: i64,
) -> Result<(BuildOutcome, Plan, Database), Vec<u8>> {
    plan.rows().chain(plan.options()).chain(plan.expected(estimates)).for_each(|change| journal.record(change));
    journal.flush();
    let mut view = shown()?;
    let failed = |error: io::Error| super::files::failed("listening in ", config.state.as_bytes(), &error);
    let mut door = Server::open(Path::new(&config.state)).map_err(failed)?;
    progress::end(config);
    let spawning = RunnerOptions { wake_fd: Some(door.bell().map_err(failed)?), ..spawning(config, site) };
    let mut runner = ProcessRunner::new(spawning).map_err(|error| tanto_sys::error::text(&error))?;
    let clock = RealClock::start();
    let times: Vec<u64> = estimates.iter().map(|estimate| estimate.ms).collect();
    let mut sampler = jobs::sampler(config);
    let (desk, sampler) = (&mut door, Some(&mut sampler as &mut dyn FnMut() -> ResourceSample));
    let build = Build { site, runner: &mut runner, view: &mut view, clock: &clock, epoch_ms, desk, sources, sampler };
    let (verdict, plan, journal) = build.run(plan, &times, journal).map_err(|bad| no_plan(&bad))?;
    let store = journal.finish().map_err(|error| unusable(&error))?;
    Ok((verdict, plan, store))
}

/// What shows a build shows this one too.
pub(super) fn options() -> Result<Options, Vec<u8>> {
    flags::options(Door::Tanto, b"tanto bulk", &[], &Surroundings::of_process(), &mut |_| {}).map_err(|stop| stop.err)
}

fn spawning(config: &Config, site: &Site) -> RunnerOptions {
    // What a package writes in memory is known, whoever of its commands it was.
    let groups = if site.memory.is_some() { CgroupUse::AllWithoutFiles } else { CgroupUse::All };
    let watch = Some(WatchOptions { limits: config.limits.watched(), leftovers: Leftovers::Kill, cgroups: groups });
    RunnerOptions { parallelism: site.clients, watch, jobserver: Some(jobs::pool(config)), ..RunnerOptions::default() }
}

/// What packages will take, in milliseconds, from what they and others took.
fn estimates(config: &Config, costs: &[CostRow], records: &[Record<'_>], depends: &[Vec<Package>]) -> Vec<Estimate> {
    let took: HashMap<&[u8], u64> = costs.iter().map(|cost| (cost.name.as_bytes(), cost.wall_ms)).collect();
    let known: Vec<Option<u64>> = records.iter().map(|record| took.get(record.name).copied()).collect();
    let sizes = distfiles::sizes(Path::new(&config.pkgsrc), records);
    estimate::all(estimate::Tree { records, depends, sizes: &sizes }, &known)
}

/// For the user.
pub(super) fn no_plan(bad: &BadPlan) -> Vec<u8> {
    match bad {
        BadPlan::Name(name) => [b"'", &name[..], b"' is no name for a package or its directory"].concat(),
        BadPlan::Cycle => b"packages need each other; 'tanto bulk resolve' tells which".to_vec(),
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
