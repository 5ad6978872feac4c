//! Changes of a plan while its packages are built.

use std::collections::HashSet;

use tanto_record::database::Change;

use super::{Plan, Planned, row};
use crate::coordinator::simulate;
use crate::coordinator::state::{PackageState, State, StateRecord};
use crate::package::name::Name;
use crate::resolve::PackageId;

impl Plan {
    pub fn dependents(&self, package: PackageId) -> &[PackageId] {
        &self.dependents[package as usize]
    }

    /// Returns all direct and indirect dependents of packages, without these.
    pub fn all_dependents(&self, packages: &[PackageId]) -> Vec<PackageId> {
        let mut seen = vec![false; self.packages.len()];
        packages.iter().for_each(|&package| seen[package as usize] = true);
        let (mut found, mut next) = (Vec::new(), packages.to_vec());
        while let Some(package) = next.pop() {
            for &user in self.dependents(package) {
                if !std::mem::replace(&mut seen[user as usize], true) {
                    found.push(user);
                    next.push(user);
                }
            }
        }
        found
    }

    /// Returns whether at least `least` packages need a package, directly or indirectly.
    pub fn has_dependents(&self, package: PackageId, least: usize) -> bool {
        let mut seen = HashSet::from([package]);
        let mut next = vec![package];
        while let Some(package) = next.pop().filter(|_| seen.len() <= least) {
            next.extend(self.dependents(package).iter().filter(|&&user| seen.insert(user)));
        }
        seen.len() > least
    }

    /// Finds packages by PKGNAME, by directory, or by PKGBASE. An error is a message.
    pub fn find(&self, word: &str) -> Result<Vec<PackageId>, String> {
        let all = |is_it: &dyn Fn(&Planned) -> bool| -> Vec<PackageId> {
            self.all().filter(|&package| is_it(self.package(package))).collect()
        };
        let exact = all(&|it| it.name == word);
        if let Some(&first) = exact.first() {
            return Ok(vec![first]);
        }
        let there = all(&|it| it.location == word);
        if !there.is_empty() {
            return Ok(there);
        }
        match all(&|it| Name::new(it.name.as_bytes()).base() == word.as_bytes())[..] {
            [] => Err(format!("there is no package '{word}'")),
            [one] => Ok(vec![one]),
            _ => Err(format!("'{word}' is ambiguous: give the version or the directory")),
        }
    }

    /// Replaces a package, or adds the one with the next number. Its dependencies must exist. `keep_state`: the state
    /// does not change.
    pub fn replace(&mut self, package: PackageId, mut planned: Planned, keep_state: bool) -> Option<StateRecord> {
        let at = package as usize;
        if at == self.packages.len() {
            self.dependents.push(Vec::new());
            self.packages.push(Planned { depends: Vec::new(), ..planned.clone() });
        }
        for needed in std::mem::take(&mut self.packages[at].depends) {
            self.dependents[needed as usize].retain(|&user| user != package);
        }
        for &needed in &planned.depends {
            self.dependents[needed as usize].push(package);
        }
        let old = self.packages[at].state.clone();
        let state = std::mem::replace(&mut planned.state, old);
        self.packages[at] = planned;
        if keep_state { None } else { self.set(package, state) }
    }

    /// Updates the states of dependents of lost packages, except running and finished ones.
    pub fn update_dependents(&mut self) -> Vec<StateRecord> {
        let mut records = Vec::new();
        let Ok(chain) = simulate::topological_order(self.packages.len(), |it| &self.package(it).depends[..]) else {
            return records;
        };
        // By package: the lost dependency.
        let mut because: Vec<Option<PackageId>> = vec![None; self.packages.len()];
        for package in chain.into_iter().map(|job| job.0) {
            let it = self.package(package);
            let roots = it.depends.iter().filter_map(|&needed| because[needed as usize]);
            let root = roots.min_by_key(|&root| self.package(root).state() != State::Failed);
            match (it.state(), root) {
                (state, _) if state.is_lost() => because[package as usize] = Some(package),
                (State::IndirectFailed | State::IndirectPrefailed, None) => {
                    records.extend(self.set(package, PackageState::NEW));
                }
                (State::Open | State::IndirectFailed | State::IndirectPrefailed, Some(root)) => {
                    because[package as usize] = Some(root);
                    records.extend(self.set(package, self.state_of_dependents(root)));
                }
                _ => {}
            }
        }
        records
    }

    /// Returns the rows of a changed package.
    pub fn rows_of(&self, package: PackageId) -> impl Iterator<Item = Change> {
        let it = self.package(package);
        let edges = it.depends.iter().map(move |&needs| Change::Edge { package, needs });
        [row(package, it), Change::Edgeless { package }].into_iter().chain(edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::state::{Pending, Success};
    use crate::package::records;

    fn plan() -> Plan {
        let text: String = ["base-1", "lib-1", "app-1", "py1-x-1", "py2-x-1"]
            .map(|name| record(name, &name[..name.len() - 2]))
            .concat();
        Plan::new(&records::read(text.as_bytes()).unwrap(), &[vec![], vec![0], vec![1], vec![], vec![]]).unwrap()
    }

    fn record(name: &str, dir: &str) -> String {
        format!("PKGNAME={name}\nPKG_LOCATION=a/{}\n", if dir.starts_with("py") { "py-x" } else { dir })
    }

    fn states(plan: &Plan) -> Vec<State> {
        plan.packages[..3].iter().map(Planned::state).collect()
    }

    #[test]
    fn dependents_follow_their_dependencies() {
        use State::{Done, Failed, IndirectFailed, IndirectPrefailed, Open, Prefailed};
        let mut plan = plan();
        plan.set(0, PackageState::Failed(String::new()));
        plan.fail_dependents(0);
        assert_eq!(states(&plan), [Failed, IndirectFailed, IndirectFailed]);
        plan.set(0, PackageState::Open(Pending::Requested));
        plan.update_dependents();
        assert_eq!(states(&plan), [Open, Open, Open]);
        assert_eq!(plan.package(0).package_state(), &PackageState::Open(Pending::Requested));
        plan.set(1, PackageState::SKIPPED);
        plan.update_dependents();
        assert_eq!(states(&plan), [Open, Prefailed, IndirectPrefailed]);
        assert_eq!(plan.package(2).why(), "it needs lib-1, which cannot be built");
        plan.set(0, PackageState::Failed(String::new()));
        plan.set(1, PackageState::NEW);
        plan.set(1, PackageState::Done(Success::UpToDate));
        plan.update_dependents();
        assert_eq!(states(&plan), [Failed, Done, Open]);
    }

    #[test]
    fn packages_are_found_by_name_base_or_directory() {
        let plan = plan();
        assert_eq!((plan.find("lib-1"), plan.find("a/lib"), plan.find("lib")), (Ok(vec![1]), Ok(vec![1]), Ok(vec![1])));
        assert_eq!(plan.find("a/py-x"), Ok(vec![3, 4]));
        assert_eq!(plan.find("none"), Err("there is no package 'none'".into()));
        assert_eq!(plan.all_dependents(&[0]), [1, 2]);
        let mut plan = plan.clone();
        plan.replace(2, Planned { depends: vec![3], ..plan.package(2).clone() }, true);
        plan.replace(5, Planned { name: "lib-2".into(), depends: vec![0], ..plan.package(1).clone() }, true);
        assert_eq!((plan.dependents(1), plan.dependents(3), plan.dependents(0)), (&[][..], &[2][..], &[1, 5][..]));
        assert!(plan.find("lib").unwrap_err().starts_with("'lib' is ambiguous"));
    }
}
