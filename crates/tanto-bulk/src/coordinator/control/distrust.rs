//! `tanto bulk distrust` during a build.

use std::collections::HashSet;

use tanto_record::database::Change;

use super::Control;
use crate::coordinator::control_socket::Response;
use crate::coordinator::distrusted::DISTRUSTED;
use crate::coordinator::state::{PackageState, Pending, State};
use crate::freshness::Freshness;
use crate::resolve::PackageId;

impl Control<'_, '_> {
    /// Gives a client no more packages, and builds packages and their dependents again.
    pub(super) fn distrust(&mut self, client: String, packages: &[String]) -> Response {
        self.withdraw_leases(&client);
        let at_ms = self.coordinator.date(self.coordinator.clock.now_ms());
        self.coordinator.journal.record(Change::Distrusted { client, at_ms });
        let names: HashSet<&str> = packages.iter().map(String::as_str).collect();
        let plan = &self.coordinator.plan;
        let is_it = |&package: &PackageId| names.contains(&*plan.package(package).name);
        // Those that are running are being built again.
        let is_built = |&package: &PackageId| plan.package(package).state() != State::Running;
        let distrusted: Vec<PackageId> = plan.all().filter(is_it).filter(is_built).collect();
        let reopened = self.reopen_distrusted(&distrusted);
        self.settle(&[]);
        Response::ok(reopened.iter().map(|&it| format!("{} will be built again\n", self.name(it))).collect::<String>())
    }

    /// Ends the leases of a client. What it has just built is built again.
    fn withdraw_leases(&mut self, name: &str) {
        // The database has to know all of its tokens.
        self.coordinator.record_leases();
        let clients = self.coordinator.dispatch.clients();
        let named: Vec<usize> = (0..clients.len()).filter(|&it| clients[it].name == name).collect();
        for client in named {
            for package in self.coordinator.dispatch.distrust(client) {
                self.request_rebuild(package, None);
            }
        }
    }

    /// Opens packages and their dependents. Returns those that have ended.
    fn reopen_distrusted(&mut self, packages: &[PackageId]) -> Vec<PackageId> {
        let users = self.coordinator.plan.all_dependents(packages);
        let mut reopened = Vec::new();
        for &package in packages.iter().chain(&users) {
            match self.state(package) {
                State::Running => self.request_rebuild(package, None),
                // Failed ones may have failed because of it.
                State::Done | State::Failed | State::MachineFailed => {
                    self.set(package, PackageState::Open(Pending::Requested));
                    reopened.push(package);
                }
                _ => {}
            }
            if self.state(package) == State::Open {
                self.coordinator.plan.set_freshness(package, Freshness::Stale(DISTRUSTED.into()));
                self.coordinator.withdraw_blob(package);
            }
        }
        reopened
    }
}
