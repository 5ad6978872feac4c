//! Begins a run, or resumes an unfinished one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use tanto_record::database::{AttemptRow, Change, Database, FileRow, LeaseRow, PackageRow};

use super::dispatch::lease::{Cause, LeaseState};
use super::distrusted::DISTRUSTED;
use super::phases::{package_files, run_script};
use super::plan::Plan;
use super::state::{Detail, INTERRUPTED, PackageState, Pending, REQUESTED, State};
use super::{distrusted, now_ms};
use crate::config::Config;
use crate::error::BulkError;
use crate::freshness::Freshness;
use crate::package::digest::sha512;
use crate::resolve::PackageId;

/// A run that this build began or resumes.
pub struct StartedRun {
    run: i64,
    /// The state of a resumed run.
    earlier: Option<EarlierRun>,
    /// Packages that the user asked to rebuild.
    requested: HashSet<String>,
}

struct EarlierRun {
    rows: Vec<PackageRow>,
    /// Reasons for building packages.
    due: Vec<(u32, String)>,
}

/// The reason for building up-to-date packages.
const AGAIN: &str = "--again was given";

/// Resumes the last run if it is unfinished, else begins one.
pub fn start(config: &Config, store: &mut Database, again: bool) -> Result<StartedRun, BulkError> {
    let last = store.last_run()?;
    let requested = last.map_or_else(|| Ok(HashSet::new()), |(run, _)| requested(store, run))?;
    if let Some((run, None)) = last
        && !again
    {
        let earlier = EarlierRun { rows: store.packages(run)?, due: store.due(run)? };
        return Ok(StartedRun { run, earlier: Some(earlier), requested });
    }
    run_script("script_phase_pre_build", &config.script_phase_pre_build)?;
    if !config.reuse_scan_results {
        store.forget_scans()?;
    }
    let run = store.begin_run(now_ms())?;
    if again {
        // For a resume before the packages are known: the row applies to all of them.
        store.apply(run, &[Change::Due { package: 0, why: AGAIN.into() }])?;
    }
    Ok(StartedRun { run, earlier: None, requested })
}

/// Returns the open requests of `tanto bulk retry` in this run, or in the previous one if this one has no packages yet.
fn requested(store: &Database, run: i64) -> Result<HashSet<String>, BulkError> {
    let mut rows = store.packages(run)?;
    if rows.is_empty() {
        rows = store.packages(run - 1)?;
    }
    let is_unfinished = |row: &PackageRow| [State::Open, State::Running].iter().any(|it| row.state == it.name());
    let is_request = |row: &PackageRow| is_unfinished(row) && row.detail == Detail::Requested.name();
    Ok(rows.into_iter().filter(is_request).map(|row| row.name).collect())
}

/// Restores package states in a resumed run: done packages stay done while their files exist, and failed ones stay failed.
/// If the packages differ from before, the run ends and a new one continues.
pub fn restore(
    config: &Config,
    store: &mut Database,
    started: StartedRun,
    mut plan: Plan,
    (again, one_user): (bool, bool),
) -> Result<(i64, Plan), BulkError> {
    let StartedRun { mut run, earlier, requested } = started;
    for package in plan.all() {
        if requested.contains(&plan.package(package).name) && plan.package(package).state() == State::Open {
            plan.set(package, PackageState::Open(Pending::Requested));
            plan.set_freshness(package, Freshness::Stale(REQUESTED.into()));
        }
    }
    let is_for_all = |it: &EarlierRun| it.rows.is_empty() && it.due.iter().any(|(_, why)| why == AGAIN);
    if again || earlier.as_ref().is_some_and(is_for_all) {
        plan.all().for_each(|package| plan.set_freshness(package, Freshness::Stale(AGAIN.into())));
    }
    let distrusted = distrusted::packages(store)?;
    let distrusted = distrusted::with_dependents(&plan, &distrusted).into_iter();
    let distrusted: HashSet<String> = distrusted.map(|it| plan.package(it).name.clone()).collect();
    mark_stale(&mut plan, &distrusted.iter().map(String::as_str).collect(), DISTRUSTED);
    let Some(EarlierRun { rows, due }) = earlier else { return Ok((run, plan)) };
    let is_same = rows.iter().map(|row| &row.name).eq(plan.packages.iter().map(|package| &package.name));
    if !rows.is_empty() && !is_same {
        store.apply(run, &[Change::Ended { at_ms: now_ms() }])?;
        run = store.begin_run(now_ms())?;
    }
    let again: HashSet<u32> = due.into_iter().filter(|(_, why)| why == AGAIN).map(|(package, _)| package).collect();
    let again: HashSet<&str> = rows.iter().filter(|row| again.contains(&row.package)).map(|row| &*row.name).collect();
    mark_stale(&mut plan, &again, AGAIN);
    let replaced = replaced_files(config, store, &rows)?;
    let replaced: HashSet<&str> = replaced.iter().map(|file| &*file.name).collect();
    mark_stale(&mut plan, &replaced, "its file was replaced when the build was killed");
    let files = package_files(config);
    let is_valid = |row: &PackageRow, state: &PackageState| match state.kind() {
        State::Done => !distrusted.contains(&row.name) && files.file(&row.name).is_file(),
        // This build may have several users.
        State::NeedsRoot => one_user,
        _ => true,
    };
    let state = |row: &PackageRow| PackageState::of_row(row).filter(|state| is_valid(row, state));
    let states: HashMap<&str, PackageState> = rows.iter().filter_map(|row| Some((&*row.name, state(row)?))).collect();
    plan.resume(|name| states.get(name).cloned());
    let retried = |it: &PackageRow| it.detail == Detail::Requested.name();
    let retried: HashSet<u32> = rows.iter().filter(|row| retried(row)).map(|row| row.package).collect();
    let tokens: HashSet<String> = store.distrusted_tokens()?.into_iter().collect();
    let may_continue =
        |lease: &LeaseRow| !config.listen.is_empty() && !retried.contains(&lease.job) && !tokens.contains(&lease.token);
    let (attempts, continued) = end_attempts(store, run, may_continue)?;
    plan.restore_attempts(&attempts);
    // Its file may be there already, if its result was being accepted: it is accepted again.
    let expected = |package| plan.packages.get(package as usize).map(|it| it.name.clone());
    let expected: Vec<String> = continued.into_iter().filter_map(expected).collect();
    mark_stale(&mut plan, &expected.iter().map(String::as_str).collect(), "a client was building it");
    Ok((run, plan))
}

fn mark_stale(plan: &mut Plan, names: &HashSet<&str>, why: &str) {
    for package in plan.all() {
        if names.contains(&*plan.package(package).name) {
            plan.set_freshness(package, Freshness::Stale(why.into()));
        }
    }
}

/// Returns all attempts of a run, and the packages whose leases may continue. Ends the other leases, and marks attempts that a
/// killed build left open as interrupted.
fn end_attempts(
    store: &mut Database,
    run: i64,
    may_continue: impl Fn(&LeaseRow) -> bool,
) -> Result<(Vec<AttemptRow>, HashSet<PackageId>), BulkError> {
    let attempts = store.attempts(run)?;
    let mut open: BTreeMap<(u32, u32), &AttemptRow> =
        attempts.iter().filter(|it| it.ended_ms.is_none()).map(|it| ((it.job, it.attempt), it)).collect();
    let outcomes: HashMap<(u32, u32), &str> =
        attempts.iter().map(|it| ((it.job, it.attempt), it.outcome.as_str())).collect();
    let (mut changes, mut continued) = (Vec::new(), HashSet::new());
    for lease in store.leases(run)? {
        let attempt = (lease.job, lease.attempt);
        if LeaseState::restore(&lease.state, &lease.cause).is_none_or(LeaseState::has_ended) {
            continue;
        }
        let outcome = outcomes.get(&attempt).copied();
        if outcome == Some("") && may_continue(&lease) && continued.insert(lease.job) {
            open.remove(&attempt);
            continue;
        }
        let ended = LeaseState::of_outcome(outcome);
        let cause = ended.cause().map_or("", Cause::name).to_owned();
        changes.push(Change::Lease(LeaseRow { state: ended.name().to_owned(), cause, ..lease }));
    }
    let interrupted = |it: &AttemptRow| Change::Attempt(AttemptRow { outcome: INTERRUPTED.into(), ..it.clone() });
    changes.extend(open.into_values().map(interrupted));
    store.apply(run, &changes)?;
    Ok((attempts, continued))
}

/// Returns files of interrupted packages that differ from the recorded digest: they were replaced without a record.
fn replaced_files(config: &Config, store: &Database, rows: &[PackageRow]) -> Result<Vec<FileRow>, BulkError> {
    let was_running =
        |row: &&PackageRow| row.state == State::Running.name() || row.detail == Detail::Interrupted.name();
    let names: HashSet<&str> = rows.iter().filter(was_running).map(|row| &*row.name).collect();
    let mut files = store.files()?;
    files.retain(|file| {
        let digest = || File::open(Path::new(&config.packages).join(&file.path)).and_then(|mut file| sha512(&mut file));
        names.contains(&*file.name) && digest().is_ok_and(|digest| digest.as_bytes() != file.digest)
    });
    Ok(files)
}
