//! Packages that need a machine with a label.

use std::collections::{BTreeMap, BTreeSet};

use tanto_exec::job::JobId;
use tanto_exec::schedule::{self, Schedule};

use crate::config::Config;
use crate::coordinator::frontend::Coordinator;
use crate::coordinator::plan::{Plan, Planned};
use crate::package::name::Name;
use crate::package::pattern::matches_glob;
use crate::resolve::PackageId;

/// The labels that packages need, by the configuration.
#[derive(Clone, Default, Debug)]
pub struct Places {
    labels: BTreeMap<PackageId, Vec<String>>,
    /// Packages that the schedule leaves to other machines, because this one lacks a label.
    elsewhere: BTreeSet<PackageId>,
    /// The labels of this machine.
    local: Vec<String>,
}

impl Places {
    pub fn new(config: &Config, plan: &Plan) -> Places {
        let labels = plan.all().map(|package| (package, labels(&config.place, plan.package(package))));
        let labels = labels.filter(|(_, labels)| !labels.is_empty()).collect();
        Places { labels, elsewhere: BTreeSet::new(), local: config.labels.clone() }
    }

    pub fn of(&self, package: PackageId) -> &[String] {
        self.labels.get(&package).map_or(&[], Vec::as_slice)
    }

    pub fn local_labels(&self) -> &[String] {
        &self.local
    }
}

/// The labels of all patterns that match a package: its PKGPATH if they have a slash, or else its PKGBASE.
fn labels(place: &BTreeMap<String, String>, package: &Planned) -> Vec<String> {
    let base = String::from_utf8_lossy(Name::new(package.name.as_bytes()).base()).into_owned();
    let text = |pattern: &str| if pattern.contains('/') { &package.location } else { &base };
    let labels = place.iter().filter(|(pattern, _)| matches_glob(pattern, text(pattern)));
    let labels: BTreeSet<String> = labels.map(|(_, label)| label.clone()).collect();
    labels.into_iter().collect()
}

impl Coordinator<'_> {
    /// Leaves the packages whose labels this machine lacks to others.
    pub(in crate::coordinator) fn place_packages(&mut self, schedule: &mut Schedule) {
        let Some(farm) = &mut self.farm else { return };
        let missing = farm.places.labels.iter().filter(|(_, labels)| !self.dispatch.local.has_labels(labels));
        farm.places.elsewhere = missing.map(|(&package, _)| package).collect();
        farm.places.elsewhere.iter().for_each(|&package| schedule.set_elsewhere(JobId(package), true));
    }

    /// Has this machine take ready packages that need not be built.
    pub(super) fn take_back_packages(&mut self, schedule: &mut Schedule) {
        let Some(farm) = &self.farm else { return };
        let is_ready = |package: PackageId| schedule.state(JobId(package)) == schedule::State::Ready;
        let ready = farm.places.elsewhere.iter().copied().filter(|&package| is_ready(package));
        let is_due = |package: PackageId| self.plan.build_reason(package).is_some();
        let local: Vec<PackageId> = ready.filter(|it| !is_due(*it)).collect();
        for package in local {
            schedule.set_elsewhere(JobId(package), false);
            if let Some(farm) = &mut self.farm {
                farm.places.elsewhere.remove(&package);
            }
        }
    }

    pub(super) fn labels(&self, package: PackageId) -> &[String] {
        self.farm.as_ref().map_or(&[], |farm| farm.places.of(package))
    }

    /// Whether a client that is connected has the labels of a package.
    pub(super) fn has_place(&self, package: PackageId) -> bool {
        let labels = self.labels(package);
        labels.is_empty() || self.dispatch.has_labels(labels)
    }

    /// Describes the ready packages for whose labels there is no client, for the user.
    pub(in crate::coordinator) fn missing_labels(&self, schedule: &Schedule) -> Vec<String> {
        let Some(farm) = &self.farm else { return Vec::new() };
        let is_ready = |package: PackageId| schedule.state(JobId(package)) == schedule::State::Ready;
        let waiting = farm.places.elsewhere.iter().filter(|&&it| is_ready(it) && !self.has_place(it));
        let mut counts: BTreeMap<&[String], usize> = BTreeMap::new();
        waiting.for_each(|&package| *counts.entry(farm.places.of(package)).or_default() += 1);
        let line = |(labels, count): (&[String], usize)| {
            let labels = labels.join(", ");
            match count {
                1 => format!("1 package waits for a client with the label {labels}"),
                _ => format!("{count} packages wait for a client with the label {labels}"),
            }
        };
        counts.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::records;

    #[test]
    fn patterns_match_paths_or_names() {
        let text = "PKGNAME=ghc-9.4\nPKG_LOCATION=lang/ghc94\nPKGNAME=rust-1.80\nPKG_LOCATION=lang/rust\n";
        let plan = Plan::new(&records::read(text.as_bytes()).unwrap(), &[vec![], vec![]]).unwrap();
        let place = [("lang/ghc*", "big"), ("rust", "fast"), ("*", "any"), ("r*", "fast"), ("lang/gh", "never")];
        let place = place.into_iter().map(|(pattern, label)| (pattern.to_owned(), label.to_owned())).collect();
        let places = Places::new(&Config { place, ..Config::default() }, &plan);
        assert_eq!(places.of(0), ["any", "big"]);
        assert_eq!(places.of(1), ["any", "fast"]);
        assert!(Places::new(&Config::default(), &plan).of(0).is_empty());
    }
}
