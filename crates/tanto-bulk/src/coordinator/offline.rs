//! What users want of a build that does not run: the database's rows change, and the next build finds them so. Does not know
//! who writes them.

use tanto_record::database::Change;

use super::plan::{Plan, SKIPPED, WANTED};
use super::state::State;
use crate::resolve::Package;

/// These are built by the next build, and so is what was built with them.
pub fn retry(plan: &Plan, packages: &[Package]) -> Vec<Change> {
    let mut now = plan.clone();
    for &package in packages {
        now.set(package, State::Open, WANTED.into());
    }
    for user in plan.all_users(packages) {
        if matches!(plan.package(user).state, State::Done | State::Failed) {
            now.set(user, State::Open, String::new());
        }
    }
    changes(plan, now)
}

/// These are not built when the run goes on. An error is one that is done or has failed.
pub fn skip(plan: &Plan, packages: &[Package]) -> Result<Vec<Change>, String> {
    let mut now = plan.clone();
    for &package in packages {
        let it = plan.package(package);
        if matches!(it.state, State::Done | State::Failed) {
            return Err(format!("{} is {}", it.name, it.state.name()));
        }
        now.set(package, State::Prefailed, SKIPPED.into());
    }
    Ok(changes(plan, now))
}

fn changes(before: &Plan, mut now: Plan) -> Vec<Change> {
    now.derive();
    let differ = now.all().filter(|&it| {
        let (old, new) = (before.package(it), now.package(it));
        (old.state, &old.why) != (new.state, &new.why)
    });
    let change = |package| {
        let it = now.package(package);
        Change::State { package, state: it.state.name(), why: it.why.clone() }
    };
    differ.map(change).collect()
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
                why: String::new(),
            })
            .collect();
        Plan::of_rows(&rows, &[(1, 0), (2, 1)])
    }

    fn told(changes: &[Change]) -> Vec<(u32, &str, &str)> {
        let one = |change: &'_ Change| match change {
            Change::State { package, state, .. } => (*package, *state),
            other => panic!("{other:?}"),
        };
        let why = |change: &'_ Change| match change {
            Change::State { why, .. } => why.clone(),
            _ => String::new(),
        };
        changes.iter().map(|it| (one(it).0, one(it).1, if why(it) == WANTED { "again" } else { "" })).collect()
    }

    #[test]
    fn what_is_done_is_done_again_with_what_needs_it() {
        let plan = plan(["done", "done", "done"]);
        assert_eq!(told(&retry(&plan, &[1])), [(1, "open", "again"), (2, "open", "")]);
    }

    #[test]
    fn what_failed_takes_nothing_with_it_any_more() {
        let plan = plan(["failed", "indirect-failed", "indirect-failed"]);
        assert_eq!(told(&retry(&plan, &[0])), [(0, "open", "again"), (1, "open", ""), (2, "open", "")]);
    }

    #[test]
    fn what_is_skipped_takes_what_needs_it_with_it() {
        let open = plan(["done", "open", "open"]);
        assert_eq!(told(&skip(&open, &[1]).unwrap()), [(1, "prefailed", ""), (2, "indirect-prefailed", "")]);
        assert_eq!(skip(&open, &[0]), Err("p0-1 is done".into()));
    }
}
