//! Where a package can start now: memory, disk space, labels and users of each client. A package that others overtake for
//! long gets a client reserved.

use std::collections::{BTreeMap, BTreeSet};

use super::lease::LeaseState;
use super::remote::RemoteClient;
use super::trust::is_trusted;
use super::{Dispatch, MAX_LOSSES};
use crate::coordinator::needs::ResourceNeeds;
use crate::resolve::PackageId;

/// Ready packages that are searched for those that can start now, and at most so many that cannot.
pub(super) const MAX_CANDIDATES: usize = 64;

/// A slot of this machine, or a client on another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ClientIndex {
    Local(usize),
    Remote(usize),
}

impl Default for ClientIndex {
    fn default() -> ClientIndex {
        ClientIndex::Local(0)
    }
}

/// Conditions of a package for its client.
#[derive(Clone, Copy, Debug)]
pub struct PackageNeeds<'a> {
    pub package: PackageId,
    /// Expected usage. On this machine, the schedule admits the job.
    pub usage: ResourceNeeds,
    /// It needs several users.
    pub root: bool,
    /// Labels that the client must have.
    pub labels: &'a [String],
    /// Only these clients, and this machine; `None`: all.
    pub trusted: Option<&'a [String]>,
    /// Avoided: the package failed there.
    pub excluded: &'a [ClientIndex],
    /// Only long-lived clients.
    pub long_lived: bool,
    pub this_machine: ThisMachine,
}

/// Whether the machine of the build may build a package, apart from labels and users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThisMachine {
    Now,
    /// Not now: the schedule has not started it.
    Later,
    Never,
}

/// Packages that found no client although one had a free slot.
#[derive(Clone, Default, Debug)]
pub(super) struct WaitingPackages {
    packages: BTreeMap<PackageId, WaitingPackage>,
    /// By the time since when they wait.
    queue: BTreeSet<(i64, PackageId)>,
    /// The client that is kept free, and for which package.
    reserved: Option<(usize, PackageId)>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingPackage {
    since_ms: i64,
    /// The client with the most memory of those that could build it.
    client: Option<usize>,
}

impl WaitingPackages {
    pub fn remove(&mut self, package: PackageId) {
        if let Some(it) = self.packages.remove(&package) {
            self.queue.remove(&(it.since_ms, package));
        }
        self.reserved.take_if(|(_, reserved_for)| *reserved_for == package);
    }

    fn insert(&mut self, package: PackageId, now: i64, client: Option<usize>) {
        let it = self.packages.entry(package).or_insert(WaitingPackage { since_ms: now, client });
        it.client = client;
        self.queue.insert((it.since_ms, package));
    }

    /// Reserves a client for the package that has waited longest, if that is long enough.
    fn reserve(&mut self, since_ms: i64) {
        let mut long = self.queue.iter().take_while(|(since, _)| *since <= since_ms);
        self.reserved = long.find_map(|&(_, package)| Some((self.packages[&package].client?, package)));
    }
}

impl RemoteClient {
    /// Whether it has the labels, users and trust that a package needs.
    fn suits(&self, needs: &PackageNeeds<'_>) -> bool {
        (self.root || !needs.root) && self.has_labels(needs.labels) && is_trusted(self, needs)
    }
}

impl Dispatch {
    /// Returns whether some client has a free slot.
    pub fn has_free(&self) -> bool {
        self.local.has_free() || self.has_free_client()
    }

    /// Returns whether some client on another machine has a free slot.
    pub fn has_free_client(&self) -> bool {
        self.free_clients().next().is_some()
    }

    /// Returns whether some client on another machine has a free slot for such a package. Memory and disk space do not count.
    fn has_free_client_for(&self, needs: &PackageNeeds<'_>) -> bool {
        self.free_clients().any(|client| self.clients[client].suits(needs))
    }

    /// Selects ready packages for `choose`, which is to see them in this order. Packages for which no client is free come
    /// first, because `choose` notes that they wait; they do not displace the others.
    pub fn candidates<'a>(
        &self,
        ready: impl Iterator<Item = PackageId>,
        needs: impl Fn(PackageId) -> PackageNeeds<'a>,
    ) -> Vec<PackageId> {
        let (mut waiting, mut startable) = (Vec::new(), Vec::new());
        for package in ready {
            if self.has_free_client_for(&needs(package)) {
                startable.push(package);
            } else if waiting.len() < MAX_CANDIDATES {
                waiting.push(package);
            }
            if startable.len() == MAX_CANDIDATES {
                break;
            }
        }
        waiting.append(&mut startable);
        waiting
    }

    /// Returns whether some client on another machine may get a package with these labels.
    pub fn has_labels(&self, labels: &[String]) -> bool {
        self.clients.iter().any(|it| it.is_enabled() && it.has_labels(labels))
    }

    /// Returns whether some client on another machine may get leases.
    pub fn has_enabled_client(&self) -> bool {
        self.clients.iter().any(RemoteClient::is_enabled)
    }

    /// Returns whether no client can build any more, nor one may come.
    pub fn is_empty(&self) -> bool {
        self.local.is_empty() && !self.has_enabled_client()
    }

    /// Names the best client that can start a package now: the fastest, then this machine, then the one with most memory.
    pub fn choose(&mut self, now_ms: i64, needs: &PackageNeeds<'_>) -> Option<ClientIndex> {
        let now = self.link.at(now_ms);
        self.update_reservation(now);
        if !self.has_free() {
            return None;
        }
        let eligible = self.eligible(now, needs);
        let found = self.best(needs, &eligible);
        if found.is_some() {
            self.waiting.remove(needs.package);
        } else {
            self.waiting.insert(needs.package, now, self.most_capable(needs, &eligible));
        }
        found
    }

    /// A package no longer waits: it is excluded, or was started otherwise.
    pub fn forget_waiting(&mut self, package: PackageId) {
        self.waiting.remove(package);
    }

    fn update_reservation(&mut self, now: i64) {
        let clients = &self.clients;
        self.waiting.reserved.take_if(|(client, _)| !clients[*client].is_enabled());
        if self.waiting.reserved.is_none() {
            self.waiting.reserve(now.saturating_sub(self.times.reserve_ms));
        }
    }

    fn best(&self, needs: &PackageNeeds<'_>, eligible: &[usize]) -> Option<ClientIndex> {
        let free = |&&client: &&usize| self.clients[client].free_slots() > 0 && !self.is_reserved(client, needs);
        let fitting = eligible.iter().filter(free).filter(|&&client| self.fits(client, needs, eligible));
        let remote = fitting.max_by_key(|&&client| {
            let it = &self.clients[client];
            (it.speed(), it.free.memory_kib, std::cmp::Reverse(client))
        });
        let remote = remote.copied().map(ClientIndex::Remote);
        let local = self.local_slot(needs);
        let faster =
            |client: &ClientIndex| matches!(client, ClientIndex::Remote(it) if self.clients[*it].speed() > 1000);
        remote.filter(|client| local.is_none() || faster(client)).or(local)
    }

    fn local_slot(&self, needs: &PackageNeeds<'_>) -> Option<ClientIndex> {
        let excluded = needs.excluded.iter().find_map(|it| match it {
            ClientIndex::Local(slot) => Some(*slot),
            ClientIndex::Remote(_) => None,
        });
        let is_free = self.suits_this_machine(needs) && self.local.has_free();
        is_free.then(|| ClientIndex::Local(self.local.next(excluded)))
    }

    pub(super) fn suits_this_machine(&self, needs: &PackageNeeds<'_>) -> bool {
        needs.this_machine == ThisMachine::Now && self.local.has_labels(needs.labels)
    }

    pub(super) fn is_reserved(&self, client: usize, needs: &PackageNeeds<'_>) -> bool {
        self.waiting.reserved.is_some_and(|(reserved, package)| reserved == client && package != needs.package)
    }

    /// The clients that may build a package, free or not. Excluded ones are among them only if nothing else can build it.
    pub(super) fn eligible(&self, now: i64, needs: &PackageNeeds<'_>) -> Vec<usize> {
        let all = (0..self.clients.len()).filter(|&it| self.clients[it].is_enabled() && self.clients[it].suits(needs));
        let mut eligible: Vec<usize> = all.collect();
        let excluded = |client: &usize| needs.excluded.contains(&ClientIndex::Remote(*client));
        if self.can_ever_start_here(needs) || !eligible.iter().all(excluded) {
            eligible.retain(|client| !excluded(client));
        }
        if needs.long_lived || self.is_restricted(needs.package) {
            self.retain_long_lived(now, &mut eligible);
        }
        eligible
    }

    /// Whether a slot of this machine, free or not, may build a package that is not excluded here.
    fn can_ever_start_here(&self, needs: &PackageNeeds<'_>) -> bool {
        let excluded = needs.excluded.iter().any(|it| matches!(it, ClientIndex::Local(_)));
        let may_start = needs.this_machine != ThisMachine::Never && !needs.root && !excluded;
        may_start && self.local.has_labels(needs.labels) && !self.local.is_empty()
    }

    /// Whether a package has been lost so often that it is given to long-lived clients only.
    pub fn is_restricted(&self, package: PackageId) -> bool {
        self.losses.get(&package).is_some_and(|&losses| losses >= MAX_LOSSES)
    }

    /// Keeps the clients that have been connected for long. If none has, it keeps the one that was connected first.
    fn retain_long_lived(&self, now: i64, clients: &mut Vec<usize>) {
        let since = |client: usize| self.clients[client].connection.as_ref().map_or(i64::MAX, |it| it.since_ms);
        let first = clients.iter().map(|&client| since(client)).min().unwrap_or(i64::MAX);
        let latest = first.max(now.saturating_sub(self.times.long_lived_ms));
        clients.retain(|&client| since(client) <= latest);
    }

    /// Returns whether a package fits beside the leases of a client. One that would fit nowhere is built alone.
    pub(super) fn fits(&self, client: usize, needs: &PackageNeeds<'_>, eligible: &[usize]) -> bool {
        let covers = |room: ResourceNeeds| needs.usage.fits(room);
        let it = &self.clients[client];
        let alone = || it.leases.is_empty() && Some(client) == self.most_capable(needs, eligible);
        covers(self.headroom(client)) || alone() && !eligible.iter().any(|&it| covers(self.clients[it].capacity))
    }

    fn most_capable(&self, needs: &PackageNeeds<'_>, eligible: &[usize]) -> Option<usize> {
        let covers_disk = |client: usize| self.clients[client].capacity.disk_kib >= needs.usage.disk_kib;
        eligible.iter().copied().max_by_key(|&client| {
            let ResourceNeeds { memory_kib, disk_kib } = self.clients[client].capacity;
            (covers_disk(client), memory_kib, disk_kib, std::cmp::Reverse(client))
        })
    }

    /// Memory and disk space of a client that its attempts are not expected to use.
    pub(super) fn headroom(&self, client: usize) -> ResourceNeeds {
        let it = &self.clients[client];
        let running = it.leases.iter().map(|id| &self.leases[id]);
        let running = running.filter(|lease| lease.state != LeaseState::Reported && !lease.progress.has_ended);
        running.fold(it.free, |free, lease| {
            let (expected, used) = (lease.terms.needs, lease.progress.used);
            let less = |free: u64, expected: u64, used: u64| free.saturating_sub(expected.saturating_sub(used));
            ResourceNeeds {
                memory_kib: less(free.memory_kib, expected.memory_kib, used.memory_kib),
                disk_kib: less(free.disk_kib, expected.disk_kib, used.disk_kib),
            }
        })
    }
}
