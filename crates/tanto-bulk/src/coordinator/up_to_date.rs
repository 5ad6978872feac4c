//! Decides from inspections of package files which packages are up to date.

#[cfg(test)]
mod tests;

use super::plan::{Plan, PlanError, Planned};
use super::state::{PackageState, State, Success};
use crate::freshness::{self, Ages, Candidate, Check, Content, Freshness, Inspection, PackageFiles};
use crate::resolve::PackageId;

/// Inspects the package files of a plan. For done and stale packages, reads only mtimes.
pub fn inspect(plan: &Plan, files: PackageFiles<'_>) -> Vec<Inspection> {
    let check = |it: &Planned| match it.state() {
        State::Open if it.freshness == Freshness::Unknown => Check::Full,
        State::Open | State::Done => Check::Mtime,
        _ => Check::Skip,
    };
    let packages = plan.packages.iter().map(|it| Candidate { name: &it.name, depends: &it.depends, check: check(it) });
    let packages: Vec<Candidate<'_>> = packages.collect();
    freshness::inspect(&packages, files)
}

/// Marks unchecked packages as up to date or stale. Up-to-date packages are done if their dependencies are.
pub fn settle(plan: &mut Plan, inspections: Vec<Inspection>, ages: &Ages) -> Result<(), PlanError> {
    let since = |(found, it): (&Inspection, &Planned)| Some(ages.since(&it.name, found.written_ns?));
    let since: Vec<Option<i64>> = inspections.iter().zip(&plan.packages).map(since).collect();
    if matches!(ages, Ages::Contents(_)) {
        for (package, it) in (0..).zip(&inspections) {
            let times = it.written_ns.zip(since[package as usize]);
            let fingerprint = it.fingerprint;
            let content = times.map(|(written_ns, since_ns)| Content { written_ns, since_ns, fingerprint });
            plan.set_content(package, content);
        }
    }
    let ages = !matches!(ages, Ages::Ignored);
    for (package, it) in (0..).zip(inspections) {
        if plan.package(package).state() != State::Open || plan.package(package).freshness != Freshness::Unknown {
            continue;
        }
        let is_newer = |needed: &&PackageId| ages && since[**needed as usize] >= it.written_ns;
        let freshness = match it.verdict {
            Err(why) => Freshness::Stale(why),
            Ok(built_with) => match built_with.iter().find(is_newer) {
                Some(&newer) => {
                    Freshness::Stale(format!("{}, which it was built with, is newer", plan.package(newer).name))
                }
                None => Freshness::UpToDate(if ages { built_with } else { Vec::new() }),
            },
        };
        plan.set_freshness(package, freshness);
    }
    for package in plan.topological_order()? {
        let it = plan.package(package);
        let is_done = |&needed: &PackageId| plan.package(needed).state() == State::Done;
        let is_fresh = it.state() == State::Open && matches!(it.freshness, Freshness::UpToDate(_));
        if is_fresh && it.depends.iter().all(is_done) {
            plan.set(package, PackageState::Done(Success::UpToDate));
        }
    }
    Ok(())
}

/// Predicts the reason for building each open package; `None` for packages that will not be built.
pub fn predict(plan: &Plan) -> Result<Vec<Option<String>>, PlanError> {
    let mut all: Vec<Option<String>> = vec![None; plan.packages.len()];
    for package in plan.topological_order()? {
        let it = plan.package(package);
        all[package as usize] = match &it.freshness {
            _ if it.state() != State::Open => None,
            Freshness::UpToDate(built_with) => {
                let first = built_with.iter().find(|&&needed| all[needed as usize].is_some());
                let why = |&needed| format!("{}, which it was built with, has to be built", plan.package(needed).name);
                first.map(why)
            }
            Freshness::Stale(why) => Some(why.clone()),
            Freshness::Unknown => Some(String::new()),
        };
    }
    Ok(all)
}
