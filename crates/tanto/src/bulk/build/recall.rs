//! Beginning a run, or going on with the one that was not finished. Does not know how its packages are built.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::state::{INTERRUPTED, PackageState, Pending, REQUESTED, State};
use tanto_bulk::freshness::Freshness;
use tanto_bulk::package::digest::sha512;
use tanto_record::database::{AttemptRow, Change, Database, FileRow, PackageRow as Row};

use super::now_ms;
use crate::bulk::phases;
use crate::bulk::place::unusable;

/// A run that was begun, by this build or by one that it goes on with.
pub(super) struct Begun {
    run: i64,
    /// What is known of it if an earlier build began it.
    earlier: Option<Earlier>,
    /// What the user wants to be built though it is there.
    wanted: HashSet<String>,
}

/// What an earlier build wrote down.
struct Earlier {
    rows: Vec<Row>,
    /// Why packages had to be built.
    due: Vec<(u32, String)>,
}

/// Goes on with the last run if that was not finished, else begins one.
pub(super) fn begin(config: &Config, store: &mut Database, again: bool) -> Result<Begun, Vec<u8>> {
    let failed = |error| unusable(&error);
    let last = store.last_run().map_err(failed)?;
    let wanted = last.map_or_else(|| Ok(HashSet::new()), |(run, _)| wanted(store, run))?;
    if let Some((run, None)) = last
        && !again
    {
        let earlier = Earlier { rows: store.packages(run).map_err(failed)?, due: store.due(run).map_err(failed)? };
        return Ok(Begun { run, earlier: Some(earlier), wanted });
    }
    phases::script("script_phase_pre_build", &config.script_phase_pre_build)?;
    phases::forget(config, store)?;
    let run = store.begin_run(now_ms()).map_err(failed)?;
    if again {
        // For who goes on before it is known which packages there are: of all of them.
        store.apply(run, &[Change::Due { package: 0, why: AGAIN.into() }]).map_err(failed)?;
    }
    Ok(Begun { run, earlier: None, wanted })
}

/// What `tanto bulk retry` has left to do in this run, or in the one before if this has not come to its packages.
fn wanted(store: &Database, run: i64) -> Result<HashSet<String>, Vec<u8>> {
    let mut rows = store.packages(run).map_err(|error| unusable(&error))?;
    if rows.is_empty() {
        rows = store.packages(run - 1).map_err(|error| unusable(&error))?;
    }
    let is_it = |row: &Row| row.state == State::Open.name() && row.why == REQUESTED;
    Ok(rows.into_iter().filter(is_it).map(|row| row.name).collect())
}

/// Why packages are built that need not be.
const AGAIN: &str = "--again was said";

/// What became of packages in a run that goes on: what is done stays done as long as its file is there, and what has
/// failed is not tried again. Where there are other packages than when the run was begun, it ends here, and another goes
/// on in its place.
pub(super) fn recall(
    config: &Config,
    store: &mut Database,
    begun: Begun,
    mut plan: Plan,
    (again, one_user): (bool, bool),
) -> Result<(i64, Plan), Vec<u8>> {
    let failed = |error| unusable(&error);
    let Begun { mut run, earlier, wanted } = begun;
    for package in plan.all() {
        if wanted.contains(&plan.package(package).name) && plan.package(package).state() == State::Open {
            plan.set(package, PackageState::Open(Pending::Requested));
            plan.stands(package, Freshness::Stale(REQUESTED.into()));
        }
    }
    let of_all = |it: &Earlier| it.rows.is_empty() && it.due.iter().any(|(_, why)| why == AGAIN);
    if again || earlier.as_ref().is_some_and(of_all) {
        plan.all().for_each(|package| plan.stands(package, Freshness::Stale(AGAIN.into())));
    }
    let Some(Earlier { rows, due }) = earlier else { return Ok((run, plan)) };
    let same = rows.iter().map(|row| &row.name).eq(plan.packages.iter().map(|package| &package.name));
    if !rows.is_empty() && !same {
        store.apply(run, &[Change::Ended { at_ms: now_ms() }]).map_err(failed)?;
        run = store.begin_run(now_ms()).map_err(failed)?;
    }
    let was_asked: HashSet<u32> = due.into_iter().filter(|(_, why)| why == AGAIN).map(|(package, _)| package).collect();
    let names: HashSet<&str> =
        rows.iter().filter(|row| was_asked.contains(&row.package)).map(|row| &*row.name).collect();
    for package in plan.all() {
        if names.contains(&*plan.package(package).name) {
            plan.stands(package, Freshness::Stale(AGAIN.into()));
        }
    }
    distrust(config, store, &rows, &mut plan)?;
    let place = phases::packages(config);
    let is_there = |name: &str| place.file(name).is_file();
    let stands = |row: &Row, state| match state {
        State::Done => is_there(&row.name),
        // Perhaps there are several users now.
        State::NeedsRoot => one_user,
        _ => true,
    };
    let state = |row: &Row| State::named(&row.state).filter(|&state| stands(row, state));
    let states: HashMap<&str, PackageState> =
        rows.iter().filter_map(|row| Some((&*row.name, PackageState::restore(state(row)?, &row.why)))).collect();
    plan.resume(|name| states.get(name).cloned());
    plan.tried(&interrupted(store, run)?);
    Ok((run, plan))
}

/// All attempts of a run by now. What a killed build had not ended never will.
fn interrupted(store: &mut Database, run: i64) -> Result<Vec<AttemptRow>, Vec<u8>> {
    let failed = |error| unusable(&error);
    let attempts = store.attempts(run).map_err(failed)?;
    let open = attempts.iter().filter(|it| it.ended_ms.is_none());
    let ended = open.map(|it| Change::Attempt(AttemptRow { outcome: "interrupted".into(), ..it.clone() }));
    let ended: Vec<Change> = ended.collect();
    store.apply(run, &ended).map_err(failed)?;
    Ok(attempts)
}

/// What was on the way to its place when the build ended may be there, and another than was noted: that is built again.
fn distrust(config: &Config, store: &Database, rows: &[Row], plan: &mut Plan) -> Result<(), Vec<u8>> {
    let was_on_its_way = |row: &&Row| row.state == State::Running.name() || row.why == INTERRUPTED;
    let names: HashSet<&str> = rows.iter().filter(was_on_its_way).map(|row| &*row.name).collect();
    let mut files = store.files().map_err(|error| unusable(&error))?;
    files.retain(|file| names.contains(&*file.name));
    let is_another = |file: &FileRow| {
        let found = fs::File::open(Path::new(&config.packages).join(&file.path));
        found.and_then(|mut found| sha512(&mut found)).is_ok_and(|digest| digest.as_bytes() != file.digest)
    };
    let others: HashSet<&str> = files.iter().filter(|file| is_another(file)).map(|file| &*file.name).collect();
    for package in plan.all() {
        if others.contains(&*plan.package(package).name) {
            plan.stands(package, Freshness::Stale("its file came to its place when the build was ended".into()));
        }
    }
    Ok(())
}
