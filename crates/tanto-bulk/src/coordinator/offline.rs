//! `retry`, `skip` and `distrust` while no build runs: changes of the database for the next build.

use tanto_record::database::Change;

use super::plan::Plan;
use super::state::{PackageState, Pending, State, StateRecord};
use crate::resolve::PackageId;

/// Reopens packages and their dependents.
pub fn retry(plan: &Plan, packages: &[PackageId]) -> Vec<Change> {
    let mut now = plan.clone();
    let mut records: Vec<StateRecord> = Vec::new();
    for &package in packages {
        records.extend(now.set(package, PackageState::Open(Pending::Requested)));
    }
    for user in plan.all_dependents(packages) {
        if matches!(plan.package(user).state(), State::Done | State::Failed) {
            records.extend(now.set(user, PackageState::NEW));
        }
    }
    changes(now, records)
}

/// Reopens packages that distrusted clients have built, and their dependents. Returns those that are built again, too.
pub fn distrust(plan: &Plan, packages: &[PackageId]) -> (Vec<PackageId>, Vec<Change>) {
    let mut now = plan.clone();
    let has_ended = |state: State| matches!(state, State::Done | State::Failed | State::MachineFailed);
    let is_open = |state: State| matches!(state, State::Open | State::Running);
    let all = || packages.iter().copied();
    let records: Vec<StateRecord> = all()
        .filter(|&it| has_ended(plan.package(it).state()) || is_open(plan.package(it).state()))
        .filter_map(|package| now.set(package, PackageState::Open(Pending::Requested)))
        .collect();
    let again = all().filter(|&it| has_ended(plan.package(it).state())).collect();
    (again, changes(now, records))
}

/// Excludes packages from the run that the next build resumes. An error names one that is done or has failed.
pub fn skip(plan: &Plan, packages: &[PackageId]) -> Result<Vec<Change>, String> {
    let mut now = plan.clone();
    let mut records: Vec<StateRecord> = Vec::new();
    for &package in packages {
        let it = plan.package(package);
        match it.state() {
            State::Done | State::Failed => return Err(format!("{} is {}", it.name, it.state().name())),
            // The build that ran it was killed.
            State::Running => records.extend(now.set(package, PackageState::NEW)),
            _ => {}
        }
        records.extend(now.set(package, PackageState::SKIPPED));
    }
    Ok(changes(now, records))
}

fn changes(mut plan: Plan, mut records: Vec<StateRecord>) -> Vec<Change> {
    records.extend(plan.update_dependents());
    StateRecord::merged(records).iter().map(StateRecord::change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_record::database;

    fn plan(states: [&str; 3]) -> Plan {
        let rows: Vec<database::PackageRow> = (0..)
            .zip(states)
            .map(|(package, state)| database::PackageRow {
                package,
                job: package,
                name: format!("p{package}-1"),
                location: format!("a/p{package}"),
                state: state.into(),
                detail: String::new(),
                why: String::new(),
            })
            .collect();
        Plan::from_rows(&rows, &[(1, 0), (2, 1)])
    }

    fn rows(changes: &[Change]) -> Vec<(u32, &str, &str)> {
        let row = |change: &'_ Change| match change {
            Change::State { package, state, detail, .. } => (*package, *state, *detail),
            other => panic!("{other:?}"),
        };
        changes.iter().map(row).collect()
    }

    #[test]
    fn distrust_reopens_all_that_may_have_been_built_with_it() {
        let requested = |package| (package, "open", "requested");
        let (again, changes) = distrust(&plan(["done", "failed", "indirect-failed"]), &[0, 1, 2]);
        assert_eq!((again, rows(&changes)), (vec![0, 1], vec![requested(0), requested(1), (2, "open", "")]));
        let (again, changes) = distrust(&plan(["done", "open", "running"]), &[1, 2]);
        assert_eq!((again, rows(&changes)), (vec![], vec![requested(1), requested(2)]));
    }

    #[test]
    fn retry_reopens_dependents() {
        let plan = plan(["done", "done", "done"]);
        assert_eq!(rows(&retry(&plan, &[1])), [(1, "open", "requested"), (2, "open", "")]);
    }

    #[test]
    fn retry_of_a_failure_reopens_lost_dependents() {
        let plan = plan(["failed", "indirect-failed", "indirect-failed"]);
        assert_eq!(rows(&retry(&plan, &[0])), [(0, "open", "requested"), (1, "open", ""), (2, "open", "")]);
    }

    #[test]
    fn skip_excludes_dependents() {
        let open = plan(["done", "open", "open"]);
        assert_eq!(rows(&skip(&open, &[1]).unwrap()), [(1, "prefailed", "skipped"), (2, "indirect-prefailed", "")]);
        assert_eq!(skip(&open, &[0]), Err("p0-1 is done".into()));
    }
}
