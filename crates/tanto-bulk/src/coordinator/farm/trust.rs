//! Packages that many others need are built only by trusted clients and this machine.

use std::collections::HashSet;

use crate::config::Config;
use crate::coordinator::frontend::Coordinator;
use crate::coordinator::plan::Plan;
use crate::resolve::PackageId;

/// Which packages only trusted clients build.
#[derive(Clone, Default, Debug)]
pub struct TrustRule {
    /// The names of trusted clients.
    trusted: Vec<String>,
    /// Packages that so many others need; 0: none.
    reach: usize,
    /// These packages.
    packages: HashSet<PackageId>,
}

impl TrustRule {
    pub fn new(config: &Config, plan: &Plan) -> TrustRule {
        let mut rule =
            TrustRule { trusted: config.trusted.clone(), reach: config.trust_reach, packages: HashSet::new() };
        rule.update(plan);
        rule
    }

    /// Finds the packages in a plan that has changed.
    fn update(&mut self, plan: &Plan) {
        if self.reach > 0 {
            self.packages = plan.all().filter(|&package| plan.has_dependents(package, self.reach)).collect();
        }
    }

    /// Returns the clients that may build a package; `None`: all.
    pub(super) fn clients(&self, package: PackageId) -> Option<&[String]> {
        self.packages.contains(&package).then_some(&self.trusted)
    }
}

impl Coordinator<'_> {
    /// Dependencies have changed.
    pub(in crate::coordinator) fn update_trust(&mut self) {
        if let Some(farm) = &mut self.farm {
            farm.trust.update(&self.plan);
        }
    }

    /// Returns the clients on other machines that may build a package; `None`: all.
    pub(super) fn trusted_clients(&self, package: PackageId) -> Option<&[String]> {
        self.farm.as_ref()?.trust.clients(package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::records;

    #[test]
    fn direct_and_indirect_dependents_count() {
        let text: String =
            ["base", "lib", "app", "other"].map(|name| format!("PKGNAME={name}-1\nPKG_LOCATION=a/{name}\n")).concat();
        let depends = [vec![], vec![0], vec![0, 1], vec![1]];
        let plan = Plan::new(&records::read(text.as_bytes()).unwrap(), &depends).unwrap();
        let restricted = |trust_reach| {
            let trusted = vec!["builder-1".to_owned()];
            let rule = TrustRule::new(&Config { trusted, trust_reach, ..Config::default() }, &plan);
            plan.all().filter(|&package| rule.clients(package).is_some()).collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3].map(restricted), [vec![0, 1], vec![0, 1], vec![0]]);
        assert_eq!([0, 4].map(restricted), [const { Vec::<PackageId>::new() }; 2]);
    }
}
