//! Leases of packages that were accepted and are built again, to compare both.

use tanto_protocol::{Lease, LeaseId};

use super::lease::{LeasePurpose, LeaseState, LeaseTerms};
use super::{Dispatch, PackageNeeds};
use crate::resolve::PackageId;

impl Dispatch {
    /// Names the fastest client that can verify a package now. `not`: names of clients that must not.
    pub fn choose_verifier(&self, now_ms: i64, needs: &PackageNeeds<'_>, not: &[&str]) -> Option<usize> {
        let eligible = self.verifiers(now_ms, needs, not);
        let is_free = |&&client: &&usize| self.clients[client].free_slots() > 0 && !self.is_reserved(client, needs);
        let fitting = eligible.iter().filter(is_free).filter(|&&client| self.fits(client, needs, &eligible));
        fitting.max_by_key(|&&client| (self.clients[client].speed(), std::cmp::Reverse(client))).copied()
    }

    /// Returns whether a client, free or not, may verify a package.
    pub fn has_verifier(&self, now_ms: i64, needs: &PackageNeeds<'_>, not: &[&str]) -> bool {
        !self.verifiers(now_ms, needs, not).is_empty()
    }

    fn verifiers(&self, now_ms: i64, needs: &PackageNeeds<'_>, not: &[&str]) -> Vec<usize> {
        let mut clients = self.eligible(self.link.at(now_ms), needs);
        clients.retain(|&client| !not.contains(&&*self.clients[client].name));
        clients
    }

    /// Gives a package to a client that `choose_verifier` has named. Such leases are not in the database.
    pub fn offer_verification(
        &mut self,
        now_ms: i64,
        client: usize,
        package: PackageId,
        lease: Lease,
        terms: LeaseTerms,
    ) {
        self.offer_lease(now_ms, client, (package, LeasePurpose::Verification), lease, terms);
    }

    /// Returns whether a lease is one for verification.
    pub fn is_verification(&self, lease: LeaseId) -> bool {
        self.leases.get(&lease).is_some_and(|it| it.purpose == LeasePurpose::Verification)
    }

    /// Returns whether the attempt of a lease may be running on a client that is not silent.
    pub fn is_in_progress(&self, lease: LeaseId) -> bool {
        let state = self.leases.get(&lease).map(|it| it.state);
        state.is_some_and(|it| !it.has_ended() && !matches!(it, LeaseState::Missing { .. }))
    }
}
