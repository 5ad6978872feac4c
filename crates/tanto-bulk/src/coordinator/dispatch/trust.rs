//! Clients that are trusted more than others, and those whose packages are not to be used.

use super::lease::{Cause, LeasePurpose, LeaseState};
use super::remote::RemoteClient;
use super::{Dispatch, PackageNeeds};
use crate::resolve::PackageId;

/// Whether a client is trusted with a package.
pub(super) fn is_trusted(client: &RemoteClient, needs: &PackageNeeds<'_>) -> bool {
    needs.trusted.is_none_or(|names| names.contains(&client.name))
}

impl Dispatch {
    /// Returns whether a client that is trusted with a package, and has its labels, may get leases.
    pub(super) fn has_trusted_client(&self, needs: &PackageNeeds<'_>) -> bool {
        let is_it = |it: &RemoteClient| it.is_enabled() && it.has_labels(needs.labels) && is_trusted(it, needs);
        self.clients.iter().any(is_it)
    }

    /// Gives a client no more leases, and withdraws those that it has. Returns the packages whose results have arrived and
    /// are not durable yet.
    pub fn distrust(&mut self, client: usize) -> Vec<PackageId> {
        self.clients[client].distrusted = true;
        let mut reported = Vec::new();
        for id in self.open_leases(client) {
            match (self.leases[&id].purpose, self.leases[&id].state) {
                (LeasePurpose::Build, LeaseState::Reported) => reported.push(self.leases[&id].package),
                _ => self.end(id, LeaseState::Superseded(Cause::Withdrawn)),
            }
        }
        reported
    }
}
