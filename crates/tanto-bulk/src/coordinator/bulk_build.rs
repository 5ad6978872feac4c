//! Runs a whole bulk build: all phases, from the scan to the last package.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use tanto_exec::clock::RealClock;
use tanto_exec::event::View;
use tanto_exec::resource_sampler;
use tanto_exec::run::BuildOutcome;
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::schedule::ResourceSample;
use tanto_record::database::journal::Journal;
use tanto_record::database::{CostRow, Database};
use tanto_sys::fs::page_cache;
use tanto_sys::ipc::epoll::{Epoll, Interest};

use super::control_socket::Server;
use super::farm::starter::ClientStarter;
use super::farm::{self, Farm};
use super::phase_file::{self, Phase};
use super::phases::{self, PackageSource, run_script};
use super::plan::Plan;
use super::prepare::prepare;
use super::pushed_tree::{self, IfAbsent};
use super::sources::Sources;
use super::state::State;
use super::workdirs::Workdirs;
use super::{Build, now_ms, queries, resume, state_dir};
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::{environment, preflight};
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::estimate::{self, Estimate, distfiles};
use crate::package::records::Record;
use crate::resolve::{PackageId, meta_dir};

/// What the user asks of a bulk build.
#[derive(Clone, Copy, Default)]
pub struct BuildRequest<'a> {
    /// A resolved scan; `None` scans the tree.
    pub resolved: Option<&'a Path>,
    /// Builds up-to-date packages too.
    pub again: bool,
    /// Ignores packages that were rebuilt with the same content.
    pub cutoff: bool,
}

/// The end of a bulk build.
pub struct BuildReport {
    /// A summary of package states.
    pub summary: String,
    /// Directories that could not be scanned.
    pub warnings: String,
    pub end: BuildEnd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildEnd {
    AllBuilt,
    SomeFailed,
    Interrupted,
}

/// Runs all phases with the state locked, and then the user's scripts. `view` makes a view for each phase with commands.
pub fn run<V: View>(
    config: &Config,
    request: BuildRequest<'_>,
    view: &dyn Fn() -> Result<V, BulkError>,
) -> Result<BuildReport, BulkError> {
    let report = run_locked(config, request, view)?;
    // The state is unlocked, so that the scripts can run bulk commands.
    if report.end != BuildEnd::Interrupted {
        run_script("script_phase_report", &config.script_phase_report)?;
        run_script("script_phase_upload", &config.script_phase_upload)?;
    }
    Ok(report)
}

fn run_locked<V: View>(
    config: &Config,
    request: BuildRequest<'_>,
    view: &dyn Fn() -> Result<V, BulkError>,
) -> Result<BuildReport, BulkError> {
    let BuildRequest { resolved, again, cutoff } = request;
    preflight::check_config(config)?;
    let mut state = state_dir::take(config)?;
    let _prefix = preflight::lock_prefix(config)?;
    let starter = ClientStarter::start(config)?;
    let environment = prepare(config, &mut state)?;
    let one_user = environment.as_ref().is_some_and(|it| it.as_user);
    preflight::check_user(config, one_user)?;
    pushed_tree::update(config, IfAbsent::Wait)?;
    let started = resume::start(config, &mut state.store, again)?;
    // Scans of a run that is resumed are reused in any case.
    let reusing = Config { reuse_scan_results: true, ..config.clone() };
    let (source, mut store) = PackageSource::read(&reusing, environment.as_ref(), resolved, state.store, &mut view()?)?;
    phase_file::begin(config, Phase::Resolve);
    let packages = source.packages(config)?;
    let (run, mut plan) = resume::restore(config, &mut store, started, packages.plan()?, (again, one_user))?;
    phase_file::begin(config, Phase::Check);
    phases::check(config, &store, &mut plan, cutoff)?;
    let costs = store.costs()?;
    let estimates = estimates(config, &costs, &packages.records, &packages.depends);
    meta_dir::write_presolve(config, &packages.records, &packages.depends)?;
    let sources = Sources::of(&packages.records);
    drop(packages);
    let warnings = source.warnings();
    drop(source);
    run_script("script_phase_build", &config.script_phase_build)?;
    let mut settings = environment::settings(config, environment.as_deref())?;
    if let Some(package) = plan.packages.first() {
        settings.check_unprivileged(&package.location);
    }
    if settings.one_user {
        plan.exclude_multi_user();
    }
    plan.expect_needs(&costs, settings.scratch_memory());
    let mut farm = farm::prepare::prepare(config, &store, run, &plan)?;
    if let Some(farm) = &mut farm {
        farm.starter = starter;
    }
    let (outcome, plan, store) =
        build(config, &settings, (plan, sources, farm), &estimates, (store, run), &mut view()?)?;
    let summary = queries::summary(&store, run)?;
    let has_failed = plan.packages.iter().any(|it| matches!(it.state(), State::Failed | State::MachineFailed));
    let end = match outcome {
        BuildOutcome::Interrupted => BuildEnd::Interrupted,
        BuildOutcome::InvalidInput(why) | BuildOutcome::Failed { reason: why, .. }
            if !has_failed || plan.has_open() =>
        {
            return Err(String::from_utf8_lossy(&why).as_ref().into());
        }
        _ if has_failed => BuildEnd::SomeFailed,
        _ => BuildEnd::AllBuilt,
    };
    Ok(BuildReport { summary, warnings, end })
}

fn build(
    config: &Config,
    settings: &BuildSettings,
    (plan, sources, farm): (Plan, Sources, Option<Farm>),
    estimates: &[Estimate],
    (store, run): (Database, i64),
    view: &mut dyn View,
) -> Result<(BuildOutcome, Plan, Database), BulkError> {
    let keeps_provenance = farm.is_some() || store.has_provenance()?;
    let mut journal = Journal::start(store, run).map_err(BulkError::of("starting"))?;
    plan.rows()
        .chain(plan.option_rows())
        .chain(plan.estimate_rows(estimates))
        .for_each(|change| journal.record(change));
    journal.flush();
    let failed = |error| BulkError::io("listening in ", &config.state)(error);
    let mut server = Server::open(Path::new(&config.state)).map_err(failed)?;
    phase_file::end(config);
    let accepted = farm.as_ref().map(Farm::wake_fds).transpose().map_err(failed)?;
    let requests = server.wake_fd().map_err(failed)?;
    let mut wakers = vec![requests.as_fd(), journal.commits().wake_fd().as_fd()];
    wakers.extend(accepted.iter().flatten().map(AsFd::as_fd));
    let wake_fd = any_fd(&wakers).map_err(failed)?;
    let options = RunnerOptions { wake_fd: Some(wake_fd), ..environment::runner_options(config, settings) };
    let mut runner = ProcessRunner::new(options).map_err(|error| cause(&error))?;
    let clock = RealClock::start();
    let times: Vec<u64> = estimates.iter().map(|estimate| estimate.ms).collect();
    // Processors are shared by tokens, and may all be busy.
    let mut machine = resource_sampler::machine();
    let state = Path::new(&config.state);
    let mut sampler = move || ResourceSample { free_disk_kib: page_cache::free_kib(state), cpu_some: 0.0, ..machine() };
    let build = Build {
        settings,
        runner: &mut runner,
        view,
        clock: &clock,
        epoch_ms: now_ms(),
        control: &mut server,
        sources,
        workdirs: Workdirs::of(&config.state),
        farm,
        keeps_provenance,
        sampler: Some(&mut sampler),
    };
    let (outcome, plan, journal) = build.run(plan, &times, journal)?;
    Ok((outcome, plan, journal.finish()?))
}

/// Returns a descriptor that is readable while one of these is. It is so only as long as they exist.
fn any_fd(sources: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let set = Epoll::new()?;
    for (number, source) in (0..).zip(sources) {
        set.add(source, number, Interest::Read)?;
    }
    set.try_clone_fd()
}

/// Estimates the wall time of each package from earlier builds of it and of others.
fn estimates(config: &Config, costs: &[CostRow], records: &[Record<'_>], depends: &[Vec<PackageId>]) -> Vec<Estimate> {
    let took: HashMap<&[u8], u64> = costs.iter().map(|cost| (cost.name.as_bytes(), cost.wall_ms)).collect();
    let known: Vec<Option<u64>> = records.iter().map(|record| took.get(record.name).copied()).collect();
    let sizes = distfiles::sizes(Path::new(&config.pkgsrc), records);
    estimate::all(estimate::Tree { records, depends, sizes: &sizes }, &known)
}
