//! Differences between two runs. Packages are matched by name without version, and directory.

use std::collections::HashMap;

use tanto_record::database::{PackageRow, RunRow};

use crate::coordinator::state::State;
use crate::package::name::Name;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    pub since: RunRow,
    /// Built before, and failed or excluded now.
    pub broken: Vec<Change>,
    /// Absent or failed before, and built now.
    pub fixed: Vec<Change>,
    /// New packages.
    pub new: Vec<Change>,
    /// Removed packages.
    pub gone: Vec<Change>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The present PKGNAME, or the last one.
    pub name: String,
    /// The earlier state; empty if absent.
    pub then: String,
    /// The present state; empty if absent.
    pub now: String,
}

type Key<'p> = (&'p str, &'p [u8]);

impl Changes {
    /// Compares the packages of two runs.
    pub fn new(since: RunRow, then: &[PackageRow], now: &[PackageRow]) -> Changes {
        let (before, after) = (by_key(then), by_key(now));
        let mut changes = Changes { since, broken: vec![], fixed: vec![], new: vec![], gone: vec![] };
        for it in now {
            let change = |then: &str| Change { name: it.name.clone(), then: then.to_owned(), now: it.state.clone() };
            match before.get(&key(it)).map(|then| then.state.as_str()) {
                None => changes.new.push(change("")),
                Some(then) if is_there(then) && is_lost(&it.state) => changes.broken.push(change(then)),
                Some(then) if !is_there(then) && is_there(&it.state) => changes.fixed.push(change(then)),
                Some(_) => {}
            }
        }
        let gone = then.iter().filter(|it| !after.contains_key(&key(it)));
        let change = |it: &PackageRow| Change { name: it.name.clone(), then: it.state.clone(), now: String::new() };
        changes.gone = gone.map(change).collect();
        changes
    }
}

fn key(package: &PackageRow) -> Key<'_> {
    (&package.location, Name::new(package.name.as_bytes()).base())
}

fn by_key(packages: &[PackageRow]) -> HashMap<Key<'_>, &PackageRow> {
    packages.iter().map(|it| (key(it), it)).collect()
}

fn is_there(state: &str) -> bool {
    state == State::Done.name()
}

/// Whether it is lost, and not only pending.
fn is_lost(state: &str) -> bool {
    !is_there(state) && ![State::Open, State::Running].iter().any(|it| it.name() == state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(all: &[(&str, &str)]) -> Vec<PackageRow> {
        let package = |(package, &(name, state)): (u32, &(&str, &str))| PackageRow {
            package,
            job: package,
            name: name.into(),
            location: format!("devel/{}", name.split('-').next().unwrap_or_default()),
            state: state.into(),
            detail: String::new(),
            why: String::new(),
        };
        (0..).zip(all).map(package).collect()
    }

    #[test]
    fn new_version_is_the_same_package() {
        let then = packages(&[
            ("a-1", "done"),
            ("b-1", "failed"),
            ("c-1", "done"),
            ("d-1", "done"),
            ("e-1", "indirect-failed"),
            ("f-1", "done"),
        ]);
        let now = packages(&[
            ("a-2", "failed"),
            ("b-1nb1", "done"),
            ("d-1", "indirect-prefailed"),
            ("e-1", "failed"),
            ("f-1", "open"),
            ("g-1", "done"),
        ]);
        let since = RunRow { run: 1, began_ms: 0, ended_ms: None };
        let changes = Changes::new(since, &then, &now);
        let names = |all: &[Change]| all.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&changes.broken), ["a-2", "d-1"]);
        assert_eq!(names(&changes.fixed), ["b-1nb1"]);
        assert_eq!((names(&changes.new), names(&changes.gone)), (vec!["g-1".into()], vec!["c-1".into()]));
    }
}
