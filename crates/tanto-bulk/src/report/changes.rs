//! What has changed between two runs. Packages are the same that have one name without its version, and one directory:
//! a new version is no new package. Does not know why something failed.

use std::collections::HashMap;

use tanto_record::database::{PackageRow, RunRow};

use crate::coordinator::state::State;
use crate::package::name::Name;

/// Against an earlier run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// The earlier run.
    pub since: RunRow,
    /// Were built, and have failed now, or cannot be built any more.
    pub broken: Vec<Change>,
    /// Were not there, and are built now.
    pub fixed: Vec<Change>,
    /// Were not known before.
    pub new: Vec<Change>,
    /// Are not known any more.
    pub gone: Vec<Change>,
}

/// A package in two runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// PKGNAME, as it is now, or as it was if it is gone.
    pub name: String,
    /// Its state then; empty if it was not there.
    pub then: String,
    /// Its state now; empty if it is not there.
    pub now: String,
}

type Key<'p> = (&'p str, &'p [u8]);

impl Changes {
    /// From the packages of the earlier run to those of this one.
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

/// It is not there, and not because it still has to be built.
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
            why: String::new(),
        };
        (0..).zip(all).map(package).collect()
    }

    #[test]
    fn a_new_version_is_the_same_package() {
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
