//! What follows from silence: offers return, leases go missing, and attempts without progress are superseded.

use tanto_protocol::LeaseId;

use super::lease::{Cause, LeaseEntry, LeaseState};
use super::placement::ClientIndex;
use super::remote::RemoteClient;
use super::{Dispatch, DispatchEffect};

impl Dispatch {
    /// Applies all deadlines that have passed.
    pub fn tick(&mut self, now_ms: i64) {
        let now = self.link.at(now_ms);
        if !self.link.is_up() || now < self.wake_ms {
            return;
        }
        for client in 0..self.clients.len() {
            if self.silent_at(&self.clients[client]).is_some_and(|at| at <= now) {
                self.silence(now, client);
            }
            for id in self.open_leases(client) {
                if self.leases[&id].deadline().is_some_and(|at| at <= now) {
                    self.expire(id);
                }
            }
        }
        self.wake_ms = self.earliest_deadline();
    }

    /// Returns when `tick` and `take_answers` have something to do if nothing happens before.
    pub fn next_deadline(&self) -> Option<i64> {
        let first = self.polls.next_ms().unwrap_or(i64::MAX).min(self.wake_ms);
        (self.link.is_up() && first < i64::MAX).then(|| self.link.real(first))
    }

    /// Has `tick` look at the deadlines by then.
    pub(super) fn wake_by(&mut self, at_ms: i64) {
        self.wake_ms = self.wake_ms.min(at_ms);
    }

    /// Has `tick` look at the deadlines of a client and its leases.
    pub(super) fn wake_for(&mut self, client: usize) {
        self.wake_by(self.client_deadline(&self.clients[client]));
    }

    fn earliest_deadline(&self) -> i64 {
        self.clients.iter().map(|it| self.client_deadline(it)).min().unwrap_or(i64::MAX)
    }

    /// The earliest deadline of a client and its leases.
    fn client_deadline(&self, client: &RemoteClient) -> i64 {
        let leases = client.leases.iter().filter_map(|id| self.leases[id].deadline());
        leases.chain(self.silent_at(client)).min().unwrap_or(i64::MAX)
    }

    pub(super) fn silent_at(&self, client: &RemoteClient) -> Option<i64> {
        let awaited = client.connection.is_some() || !client.leases.is_empty();
        (awaited && !client.silent).then(|| client.seen_ms.saturating_add(self.times.silent_ms))
    }

    /// A client was not heard for too long: its running leases go missing.
    pub(super) fn silence(&mut self, now: i64, client: usize) {
        let it = &mut self.clients[client];
        it.silent = true;
        if let Some(poll) = it.poll() {
            poll.until_ms = now;
        }
        self.index_poll(client);
        let (mut packages, mut reopen_ms) = (0, i64::MAX);
        for id in self.open_leases(client) {
            let LeaseEntry { state, began_ms, .. } = self.leases[&id];
            match state {
                // After a restart of the coordinator, its client may have it.
                LeaseState::Running | LeaseState::Offered { until_ms: None } => {
                    let after = self.times.reopen_after(self.link.real(now) - began_ms);
                    self.set(id, LeaseState::Missing { until_ms: now.saturating_add(after) });
                    (packages, reopen_ms) = (packages + 1, reopen_ms.min(after));
                }
                LeaseState::Stopped => self.end(id, LeaseState::Superseded(Cause::Killed)),
                _ => {}
            }
        }
        let client = ClientIndex::Remote(client);
        self.effects.push(DispatchEffect::Silent { client, packages, reopen_ms });
    }

    /// The deadline of a lease has passed.
    pub(super) fn expire(&mut self, id: LeaseId) {
        match self.leases[&id].state {
            LeaseState::Offered { .. } => self.end(id, LeaseState::Superseded(Cause::Unconfirmed)),
            LeaseState::Missing { .. } => self.end(id, LeaseState::Superseded(Cause::Silent)),
            LeaseState::Running | LeaseState::Stopped => self.end(id, LeaseState::Superseded(Cause::Stuck)),
            _ => {}
        }
    }
}
