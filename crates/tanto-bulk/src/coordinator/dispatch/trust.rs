//! Clients whose packages are not to be used.

use super::Dispatch;
use super::lease::{Cause, LeaseState};
use crate::resolve::PackageId;

impl Dispatch {
    /// Gives a client no more leases, and withdraws those that it has. Returns the packages whose results have arrived and
    /// are not durable yet.
    pub fn distrust(&mut self, client: usize) -> Vec<PackageId> {
        self.clients[client].distrusted = true;
        let mut reported = Vec::new();
        for id in self.open_leases(client) {
            match self.leases[&id].state {
                LeaseState::Reported => reported.push(self.leases[&id].package),
                _ => self.end(id, LeaseState::Superseded(Cause::Withdrawn)),
            }
        }
        reported
    }
}
