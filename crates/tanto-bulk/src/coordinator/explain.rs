//! Explains why a package is not built: the chain of dependencies to the one that failed, or the unfinished ones.

use std::collections::VecDeque;

use super::plan::Plan;
use super::state::State;
use crate::resolve::PackageId;

/// The maximum number of dependencies in the text.
const MAX_NAMES: usize = 5;

/// Returns lines of text; empty if the package's own state is explanation enough.
pub fn explain(plan: &Plan, package: PackageId) -> String {
    match plan.package(package).state() {
        State::IndirectFailed | State::IndirectPrefailed => failed_dependency(plan, package).unwrap_or_default(),
        State::Open => missing_dependencies(plan, package),
        _ => String::new(),
    }
}

/// The shortest chain to a dependency that failed or cannot be built.
fn failed_dependency(plan: &Plan, package: PackageId) -> Option<String> {
    let mut from: Vec<Option<PackageId>> = vec![None; plan.packages.len()];
    let mut next = VecDeque::from([package]);
    while let Some(at) = next.pop_front() {
        if plan.package(at).state().is_lost() {
            return Some(chain(plan, &from, package, at));
        }
        for &needed in &plan.package(at).depends {
            let is_lost = !matches!(plan.package(needed).state(), State::Done | State::Open | State::Running);
            if is_lost && needed != package && from[needed as usize].is_none() {
                from[needed as usize] = Some(at);
                next.push_back(needed);
            }
        }
    }
    None
}

fn chain(plan: &Plan, from: &[Option<PackageId>], package: PackageId, end: PackageId) -> String {
    let back = std::iter::successors(Some(end), |&at| from[at as usize]).take_while(|&at| at != package);
    let mut names: Vec<&str> = back.map(|at| &*plan.package(at).name).collect();
    names.reverse();
    let it = plan.package(end);
    let why = if it.why().is_empty() { String::new() } else { format!(": {}", it.why()) };
    let verb = match it.state() {
        State::Failed => "failed",
        State::MachineFailed => "had a machine failure",
        State::NeedsRoot => "needs root",
        _ => "cannot be built",
    };
    format!("  it needs {}, which {verb}{why}\n", names.join(", which needs "))
}

fn missing_dependencies(plan: &Plan, package: PackageId) -> String {
    let it = plan.package(package);
    let missing: Vec<&super::plan::Planned> =
        it.depends.iter().map(|&needed| plan.package(needed)).filter(|it| it.state() != State::Done).collect();
    if missing.is_empty() {
        return "  all its dependencies are built: it waits for its turn\n".into();
    }
    let names: Vec<String> =
        missing.iter().take(MAX_NAMES).map(|it| format!("{} ({})", it.name, it.state().name())).collect();
    let more = missing.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("  it waits for {}{more}\n", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_record::database;

    fn plan(states: [(&str, &str); 4]) -> Plan {
        let rows: Vec<database::PackageRow> = (0..)
            .zip(states)
            .map(|(package, (state, why))| database::PackageRow {
                package,
                job: package,
                name: format!("p{package}-1"),
                location: String::new(),
                state: state.into(),
                detail: String::new(),
                why: why.into(),
            })
            .collect();
        Plan::from_rows(&rows, &[(1, 0), (2, 1), (3, 2), (3, 0)])
    }

    #[test]
    fn chain_leads_to_the_failed_dependency() {
        let it =
            plan([("done", ""), ("failed", "build exited with 1"), ("indirect-failed", ""), ("indirect-failed", "")]);
        assert_eq!(explain(&it, 3), "  it needs p2-1, which needs p1-1, which failed: build exited with 1\n");
        assert_eq!(explain(&it, 1), "");
        let it =
            plan([("prefailed", "not here"), ("indirect-prefailed", ""), ("open", ""), ("indirect-prefailed", "")]);
        assert_eq!(explain(&it, 3), "  it needs p0-1, which cannot be built: not here\n");
    }

    #[test]
    fn open_package_waits_for_dependencies() {
        let it = plan([("done", ""), ("running", ""), ("open", ""), ("open", "")]);
        assert_eq!(explain(&it, 2), "  it waits for p1-1 (running)\n");
        assert_eq!(explain(&it, 3), "  it waits for p2-1 (open)\n");
        let it = plan([("done", ""), ("open", ""), ("open", ""), ("open", "")]);
        assert_eq!(explain(&it, 1), "  all its dependencies are built: it waits for its turn\n");
    }
}
