//! Indexes of the work requests that wait, so that a turn costs the same with one client and with thousands.

use std::collections::{BTreeMap, BTreeSet};

use super::Dispatch;
use super::remote::Poll;

/// Clients by what their unanswered work requests need. Derived from the clients: `Dispatch::index_poll` follows each change.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct OpenPolls {
    /// When each request is answered at the latest.
    until_ms: BTreeMap<usize, i64>,
    by_time: BTreeSet<(i64, usize)>,
    /// Requests with leases.
    with_leases: BTreeSet<usize>,
    /// Requests with slots that have no lease yet.
    with_free_slots: BTreeSet<usize>,
}

impl OpenPolls {
    fn update(&mut self, client: usize, poll: Option<&Poll>) {
        if let Some(until_ms) = self.until_ms.remove(&client) {
            self.by_time.remove(&(until_ms, client));
            self.with_leases.remove(&client);
            self.with_free_slots.remove(&client);
        }
        let Some(poll) = poll.filter(|poll| poll.answer.is_none()) else { return };
        self.until_ms.insert(client, poll.until_ms);
        self.by_time.insert((poll.until_ms, client));
        if !poll.leases.is_empty() {
            self.with_leases.insert(client);
        }
        if poll.free_slots() > 0 {
            self.with_free_slots.insert(client);
        }
    }

    /// The clients of all requests.
    pub(super) fn clients(&self) -> impl Iterator<Item = usize> {
        self.until_ms.keys().copied()
    }

    /// Returns when the next request is to be answered although it has no lease.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.by_time.first().map(|&(until_ms, _)| until_ms)
    }

    /// Returns the clients whose requests have leases, or have waited long enough.
    pub(super) fn due(&self, now: i64) -> BTreeSet<usize> {
        let late = self.by_time.iter().take_while(|(until_ms, _)| *until_ms <= now);
        late.map(|&(_, client)| client).chain(self.with_leases.iter().copied()).collect()
    }
}

impl Dispatch {
    /// Follows a change of a client's work request.
    pub(super) fn index_poll(&mut self, client: usize) {
        self.polls.update(client, self.clients[client].last_poll());
    }

    /// The clients that can start a package now, by index.
    pub(super) fn free_clients(&self) -> impl Iterator<Item = usize> {
        self.polls.with_free_slots.iter().copied().filter(|&client| self.clients[client].is_enabled())
    }

    /// Panics if the indexes differ from the clients.
    #[cfg(test)]
    pub(super) fn check_polls(&self) {
        let mut all = self.clone();
        all.polls = OpenPolls::default();
        (0..self.clients.len()).for_each(|client| all.index_poll(client));
        assert_eq!(all.polls, self.polls);
        let free = (0..self.clients.len()).filter(|&client| self.clients[client].free_slots() > 0);
        assert!(free.eq(self.free_clients()), "the clients with free slots");
    }
}
