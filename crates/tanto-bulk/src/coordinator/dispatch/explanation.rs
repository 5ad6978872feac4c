//! Explains why a package waits for a client, and estimates for how long.

use std::collections::BTreeMap;
use std::time::Duration;

use tanto_exec::text::units;

use super::lease::LeaseState;
use super::remote::RemoteClient;
use super::{ClientIndex, Dispatch, PackageNeeds, RefusedClient};
use crate::coordinator::needs::ResourceNeeds;
use crate::resolve::PackageId;

/// A running attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningAttempt {
    pub package: PackageId,
    pub client: ClientIndex,
    /// The time that it is expected to take yet, in milliseconds; `None` if unknown.
    pub left_ms: Option<i64>,
}

impl Dispatch {
    /// Explains why no client can start a package now, for the user. `running` are all running attempts.
    pub fn why_not(&self, now_ms: i64, needs: &PackageNeeds<'_>, running: &[RunningAttempt]) -> String {
        let eligible = self.eligible(self.link.at(now_ms), needs);
        let why = match eligible.is_empty() {
            true if self.suits_this_machine(needs) => self.why_not_here(needs).to_owned(),
            true => return self.why_none_is_eligible(needs),
            false => self.why_not_on(&eligible, needs),
        };
        if eligible.iter().any(|&client| self.free_slots(client) > 0 && needs.usage.fits(self.headroom(client))) {
            return why;
        }
        let starts = eligible.iter().filter_map(|&client| self.starts_in(client, needs, running));
        let starts_here = self.local_starts_in(needs, running);
        match starts.chain(starts_here).min() {
            Some(ms) => format!("{why} (in about {})", rough(ms)),
            None => why,
        }
    }

    /// Counts the leases of the run by state.
    pub fn count_leases(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.leases.values().for_each(|lease| *counts.entry(lease.state.name()).or_default() += 1);
        counts
    }

    /// The clients that were refused lately, the last one first.
    pub fn refused(&self) -> impl Iterator<Item = &RefusedClient> {
        self.refusals.all()
    }

    /// The time since a client was refused, in milliseconds.
    pub fn refused_for_ms(&self, now_ms: i64, client: &RefusedClient) -> i64 {
        self.link.at(now_ms) - client.at_ms
    }

    /// The time since a client was heard, in milliseconds.
    pub fn unheard_ms(&self, now_ms: i64, client: &RemoteClient) -> i64 {
        self.link.at(now_ms) - client.seen_ms
    }

    /// The packages that wait for a silent client, and when the first of them is open again, in milliseconds.
    pub fn missing(&self, now_ms: i64, client: &RemoteClient) -> (usize, i64) {
        let until = client.leases.iter().filter_map(|id| match self.leases[id].state {
            LeaseState::Missing { until_ms } => Some(until_ms - self.link.at(now_ms)),
            _ => None,
        });
        until.fold((0, i64::MAX), |(count, first), ms| (count + 1, first.min(ms)))
    }

    /// Slots of a client without an attempt.
    fn free_slots(&self, client: usize) -> usize {
        let it = &self.clients[client];
        (it.slots as usize).saturating_sub(self.active_leases(it))
    }

    fn why_not_here(&self, needs: &PackageNeeds<'_>) -> &'static str {
        match () {
            () if self.local.has_free() => "waiting for its turn",
            () if needs.trusted.is_some() => "waiting for a trusted client, or a free slot of this machine",
            () => "waiting for a free slot",
        }
    }

    fn why_not_on(&self, eligible: &[usize], needs: &PackageNeeds<'_>) -> String {
        let waiting = eligible.iter().copied().filter(|&client| self.clients[client].free_slots() > 0);
        let Some(best) = waiting.max_by_key(|&client| (self.headroom(client).memory_kib, std::cmp::Reverse(client)))
        else {
            let client = if needs.trusted.is_some() { "trusted client" } else { "client" };
            return format!("waiting for a {client} with a free slot");
        };
        let name = &self.clients[best].name;
        let ResourceNeeds { memory_kib, disk_kib } = self.headroom(best);
        match () {
            () if needs.usage.memory_kib > memory_kib => {
                format!("waiting for a client with {}; {name} has {} free", wanted(needs.usage), size(memory_kib))
            }
            () if needs.usage.disk_kib > disk_kib => {
                format!("waiting for a client with {}; {name} has {} of disk free", wanted(needs.usage), size(disk_kib))
            }
            () if self.is_reserved(best, needs) => {
                format!("waiting: {name} is kept free for a package that needs more")
            }
            () => "waiting for its turn".to_owned(),
        }
    }

    fn why_none_is_eligible(&self, needs: &PackageNeeds<'_>) -> String {
        match () {
            () if !needs.labels.is_empty() && !self.has_labels(needs.labels) => {
                format!("waiting for a client with the label {}", needs.labels.join(", "))
            }
            () if needs.trusted.is_some() && !self.has_trusted_client(needs) => {
                "waiting for a trusted client".to_owned()
            }
            () if !self.has_enabled_client() => "waiting for a client to connect".to_owned(),
            () => "waiting for a client that builds as root".to_owned(),
        }
    }

    /// When enough attempts on a client will have ended for a package, in milliseconds; `None` if unknown.
    fn starts_in(&self, client: usize, needs: &PackageNeeds<'_>, running: &[RunningAttempt]) -> Option<i64> {
        let (mut slots, mut room) = (self.free_slots(client), self.headroom(client));
        for attempt in by_end(running, |it| it == ClientIndex::Remote(client)) {
            let lease = self.current(attempt.package).and_then(|id| self.leases.get(&id));
            let freed = lease.map(|lease| lease.terms.needs.max(lease.progress.used)).unwrap_or_default();
            (slots, room) = (slots + 1, room.plus(freed));
            if slots > 0 && needs.usage.fits(room) {
                return attempt.left_ms;
            }
        }
        None
    }

    /// When a slot of this machine is free, if the package may be built here.
    fn local_starts_in(&self, needs: &PackageNeeds<'_>, running: &[RunningAttempt]) -> Option<i64> {
        let waits = self.suits_this_machine(needs) && !self.local.has_free();
        let first = by_end(running, |it| matches!(it, ClientIndex::Local(_))).into_iter().next();
        first.filter(|_| waits)?.left_ms
    }
}

/// The attempts of some clients, by their expected end, those of unknown length at the end.
fn by_end(running: &[RunningAttempt], is_it: impl Fn(ClientIndex) -> bool) -> Vec<RunningAttempt> {
    let mut attempts: Vec<RunningAttempt> = running.iter().copied().filter(|it| is_it(it.client)).collect();
    attempts.sort_by_key(|it| (it.left_ms.unwrap_or(i64::MAX), it.package));
    attempts
}

/// `14 GiB of memory and 31 GiB of disk`.
fn wanted(usage: ResourceNeeds) -> String {
    match usage.disk_kib {
        0 => format!("{} of memory", size(usage.memory_kib)),
        disk_kib => format!("{} of memory and {} of disk", size(usage.memory_kib), size(disk_kib)),
    }
}

fn size(kib: u64) -> String {
    if kib == 0 { "0".to_owned() } else { units::memory(kib) }
}

fn rough(ms: i64) -> String {
    units::rough_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}
