//! Decides which client builds which package: a pure state machine of clients and leases. Every method gets the time,
//! and ids from outside; the same calls give the same decisions.
//!
//! Callers first make the records of a turn durable (`take_records`), then act on its effects, and then send its answers.

mod expiry;
mod explanation;
mod health;
pub mod lease;
mod local;
mod persistence;
mod placement;
mod polls;
mod refusals;
mod remote;
mod requests;
#[cfg(test)]
mod tests;
mod times;
mod trust;
mod verification;

use std::collections::BTreeMap;

use tanto_protocol::{ConnectionId, Lease, LeaseId, LeaseProgress, Refusal, WorkAnswer};

pub use self::explanation::RunningAttempt;
use self::lease::{Cause, LastProgress, LeaseEntry, LeasePurpose, LeaseRecord, LeaseState, LeaseTerms};
pub use self::local::{LocalSlots, name as local_name};
use self::placement::WaitingPackages;
pub use self::placement::{ClientIndex, PackageNeeds, ThisMachine};
use self::polls::OpenPolls;
use self::refusals::Refusals;
pub use self::refusals::RefusedClient;
pub use self::remote::{ClientWork, RemoteClient};
pub(in crate::coordinator) use self::requests::connection_ended;
pub use self::times::LeaseTimes;
use self::times::LinkClock;
use crate::resolve::PackageId;

/// A package that was lost this often is given to long-lived clients only. The next loss fails it.
const MAX_LOSSES: u32 = 3;

/// Clients, leases, and work requests that wait.
#[derive(Clone, Debug)]
pub struct Dispatch {
    times: LeaseTimes,
    link: LinkClock,
    /// This machine.
    pub local: LocalSlots,
    clients: Vec<RemoteClient>,
    connections: BTreeMap<ConnectionId, usize>,
    /// All leases of the run: a late result must be recognized.
    leases: BTreeMap<LeaseId, LeaseEntry>,
    /// The lease of each package that is being built on a client, until it has ended.
    current: BTreeMap<PackageId, LeaseId>,
    /// How often an attempt at a package was lost unannounced.
    losses: BTreeMap<PackageId, u32>,
    /// What clients had done before this coordinator began, by name.
    work: BTreeMap<String, ClientWork>,
    waiting: WaitingPackages,
    refusals: Refusals,
    polls: OpenPolls,
    /// Nothing expires before, on the link's clock.
    wake_ms: i64,
    records: Vec<LeaseRecord>,
    effects: Vec<DispatchEffect>,
    answers: Vec<RelayedAnswer>,
}

/// The number of a relayed work request, and its answer.
pub type RelayedAnswer = (u64, Result<WorkAnswer, Refusal>);

/// Something that the coordinator has to react to.
#[derive(Clone, PartialEq, Debug)]
pub enum DispatchEffect {
    /// The client has the lease.
    Confirmed { lease: LeaseId, package: PackageId },
    /// A heartbeat of the attempt.
    Progress { lease: LeaseId, package: PackageId, progress: LeaseProgress },
    /// The result of the lease is to be accepted. `Dispatch::accepted` follows.
    Reported { lease: LeaseId, package: PackageId, attempt: u32, client: ClientIndex },
    /// A client is silent. Its packages are open again after `reopen_ms`, the first of them, unless it returns.
    Silent { client: ClientIndex, packages: usize, reopen_ms: i64 },
    /// A silent client is back.
    Back { client: ClientIndex },
    /// A lease has ended without a result.
    Ended { lease: LeaseId, package: PackageId, attempt: u32, client: ClientIndex, cause: Cause, next: NextState },
}

impl DispatchEffect {
    /// The lease that it is about, if it is about one.
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            DispatchEffect::Confirmed { lease, .. }
            | DispatchEffect::Progress { lease, .. }
            | DispatchEffect::Reported { lease, .. }
            | DispatchEffect::Ended { lease, .. } => Some(*lease),
            DispatchEffect::Silent { .. } | DispatchEffect::Back { .. } => None,
        }
    }
}

/// What becomes of a package whose lease has ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextState {
    /// It is open again.
    Open,
    /// It fails, because it was lost too often.
    Failed,
    /// It fails, because the user has stopped it.
    Killed,
}

impl Dispatch {
    /// Without leases. The link to the server is down.
    pub fn new(times: LeaseTimes, local: LocalSlots, now_ms: i64) -> Dispatch {
        Dispatch {
            times,
            link: LinkClock::new(now_ms),
            local,
            clients: Vec::new(),
            connections: BTreeMap::new(),
            leases: BTreeMap::new(),
            current: BTreeMap::new(),
            losses: BTreeMap::new(),
            work: BTreeMap::new(),
            waiting: WaitingPackages::default(),
            refusals: Refusals::default(),
            polls: OpenPolls::default(),
            wake_ms: i64::MIN,
            records: Vec::new(),
            effects: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Takes the changes of leases since the last call, in order.
    pub fn take_records(&mut self) -> Vec<LeaseRecord> {
        std::mem::take(&mut self.records)
    }

    /// Takes the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<DispatchEffect> {
        std::mem::take(&mut self.effects)
    }

    /// The clients on other machines, by index.
    pub fn clients(&self) -> &[RemoteClient] {
        &self.clients
    }

    /// Returns the number of attempts that may be running on a client.
    pub fn active_leases(&self, client: &RemoteClient) -> usize {
        client.leases.iter().filter(|&id| self.leases[id].state.is_active()).count()
    }

    /// Returns the name in the database and in messages.
    pub fn name(&self, client: ClientIndex) -> String {
        match client {
            ClientIndex::Local(slot) => local::name(slot),
            ClientIndex::Remote(client) => self.clients[client].name.clone(),
        }
    }

    pub fn lease(&self, lease: LeaseId) -> Option<&LeaseEntry> {
        self.leases.get(&lease)
    }

    /// Returns the lease to build a package that has not ended.
    pub fn current(&self, package: PackageId) -> Option<LeaseId> {
        self.current.get(&package).copied()
    }

    /// The server has connected. Clients need some time until they are back and confirm their leases.
    pub fn link_up(&mut self, now_ms: i64) {
        self.link.up(now_ms);
        self.wake_ms = i64::MIN;
        let until_ms = self.link.at(now_ms).saturating_add(self.times.silent_ms);
        for id in (0..self.clients.len()).flat_map(|client| self.open_leases(client)).collect::<Vec<_>>() {
            if matches!(self.leases[&id].state, LeaseState::Offered { until_ms: Some(before) } if before < until_ms) {
                self.set(id, LeaseState::Offered { until_ms: Some(until_ms) });
            }
        }
    }

    /// The server is gone, and with it all work requests. Until it is back, no time passes for leases.
    pub fn link_down(&mut self, now_ms: i64) {
        self.link.down(now_ms);
        self.clients.iter_mut().filter_map(RemoteClient::poll).for_each(|poll| poll.waiting.clear());
        (0..self.clients.len()).for_each(|client| self.index_poll(client));
        self.answers.clear();
    }

    fn find_client(&self, name: &str, token: &str) -> Option<usize> {
        self.clients.iter().position(|it| it.name == name && it.token == token)
    }

    fn add_client(&mut self, now_ms: i64, name: &str, token: &str) -> usize {
        let work = self.work.get(name).copied().unwrap_or_default();
        self.clients.push(RemoteClient::new(name, token, work, self.link.at(now_ms)));
        self.clients.len() - 1
    }

    fn disconnect(&mut self, client: usize) {
        let Some(connection) = self.clients[client].connection.take() else { return };
        self.connections.remove(&connection.id);
        self.index_poll(client);
        let waiting = connection.poll.into_iter().flat_map(|poll| poll.waiting);
        self.answers.extend(waiting.map(|relayed| (relayed, Err(connection_ended()))));
    }

    /// Marks a lease as one that its client has.
    fn confirm(&mut self, now: i64, id: LeaseId) {
        let entry = self.entry(id);
        entry.progress.at_ms = now;
        let package = entry.package;
        match entry.state {
            LeaseState::Offered { .. } => {
                self.set(id, LeaseState::Running);
                self.effects.push(DispatchEffect::Confirmed { lease: id, package });
            }
            LeaseState::Missing { .. } => self.set(id, LeaseState::Running),
            _ => {}
        }
    }

    /// Gives a package to a client that `choose` has named. The lease is in the answer to its work request.
    ///
    /// Panics if the package has such a lease that has not ended: two attempts at a package must never be accepted.
    pub fn offer(&mut self, now_ms: i64, client: usize, package: PackageId, lease: Lease, terms: LeaseTerms) {
        self.offer_lease(now_ms, client, (package, LeasePurpose::Build), lease, terms);
        self.waiting.remove(package);
    }

    fn offer_lease(
        &mut self,
        now_ms: i64,
        client: usize,
        (package, purpose): (PackageId, LeasePurpose),
        lease: Lease,
        terms: LeaseTerms,
    ) {
        let now = self.link.at(now_ms);
        let (id, until_ms) = (lease.lease, now.saturating_add(self.times.confirm_ms));
        let entry = LeaseEntry {
            package,
            purpose,
            attempt: lease.spec.attempt,
            client,
            tree: lease.tree,
            terms,
            began_ms: now_ms,
            since_ms: now,
            follow: false,
            state: LeaseState::Offered { until_ms: Some(until_ms) },
            progress: LastProgress { at_ms: now, ..LastProgress::default() },
        };
        self.add_lease(id, entry);
        self.push_record(id, self.leases[&id].state);
        let poll = self.clients[client].poll().filter(|poll| poll.answer.is_none());
        poll.expect("a chosen client has asked for work").leases.push(lease);
        self.index_poll(client);
        self.wake_by(until_ms);
    }

    fn add_lease(&mut self, id: LeaseId, entry: LeaseEntry) {
        if !entry.state.has_ended() {
            if entry.purpose == LeasePurpose::Build {
                let other = self.current.insert(entry.package, id);
                assert!(other.is_none(), "package {} has a lease already", entry.package);
            }
            self.clients[entry.client].leases.insert(id);
        }
        let other = self.leases.insert(id, entry);
        assert!(other.is_none(), "lease {id} exists already");
    }

    /// The outcome of a reported lease is being recorded, be it a success or not: the lease ends in the database when the
    /// outcome is there. For a client, it ends when that is durable.
    pub fn outcome_recorded(&mut self, lease: LeaseId) {
        self.push_record(lease, LeaseState::Settled);
    }

    /// The outcome of a reported lease is durable.
    pub fn accepted(&mut self, lease: LeaseId) {
        self.set(lease, LeaseState::Settled);
    }

    /// Withdraws a lease. Its result will not be accepted.
    pub fn supersede(&mut self, lease: LeaseId) {
        if self.leases.get(&lease).is_some_and(|it| !it.state.has_ended()) {
            self.set(lease, LeaseState::Superseded(Cause::Withdrawn));
        }
    }

    /// Stops an attempt by the user's request. The client reports its result. If it may not have the lease, that ends.
    pub fn stop(&mut self, lease: LeaseId) {
        match self.leases.get(&lease).map(|it| it.state) {
            Some(LeaseState::Running) => self.set(lease, LeaseState::Stopped),
            Some(LeaseState::Offered { .. } | LeaseState::Missing { .. }) => {
                self.end(lease, LeaseState::Superseded(Cause::Killed));
            }
            _ => {}
        }
    }

    /// Has the end of an attempt's output sent with each heartbeat, or no longer.
    pub fn follow(&mut self, lease: LeaseId, follow: bool) {
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.follow = follow;
        }
    }

    /// Gives a client no more leases, or some again.
    pub fn drain(&mut self, client: usize, drain: bool) {
        self.clients[client].draining = drain;
    }

    /// Records a failure through no fault of the package. Returns whether it disables the client.
    pub fn record_machine_failure(&mut self, client: ClientIndex, package: PackageId) -> bool {
        match client {
            ClientIndex::Local(slot) => self.local.record_machine_failure(slot, package),
            ClientIndex::Remote(client) => self.clients[client].health.record_machine_failure(package),
        }
    }

    /// Records a package that was built. `expected_ms` 0: unknown.
    pub fn record_success(&mut self, client: ClientIndex, expected_ms: u64, took_ms: u64) {
        match client {
            ClientIndex::Local(slot) => self.local.record_success(slot),
            ClientIndex::Remote(client) => self.clients[client].record_built(expected_ms, took_ms),
        }
    }

    /// Ends a lease that has no result.
    fn end(&mut self, id: LeaseId, state: LeaseState) {
        let stopped = self.leases[&id].state == LeaseState::Stopped;
        self.set(id, state);
        let LeaseEntry { package, purpose, attempt, client, .. } = self.leases[&id];
        let is_build = purpose == LeasePurpose::Build;
        let cause = state.cause().expect("it has no result");
        let next = match cause {
            _ if stopped || cause == Cause::Killed => NextState::Killed,
            _ if is_build && cause.is_loss() && self.losses[&package] > MAX_LOSSES => NextState::Failed,
            _ => NextState::Open,
        };
        let client = ClientIndex::Remote(client);
        self.effects.push(DispatchEffect::Ended { lease: id, package, attempt, client, cause, next });
    }

    /// Changes the state of a lease. This is the only way to change one.
    fn set(&mut self, id: LeaseId, state: LeaseState) {
        let entry = self.entry(id);
        entry.state.set(state);
        let (package, purpose, client) = (entry.package, entry.purpose, entry.client);
        if state.has_ended() {
            self.clients[client].leases.remove(&id);
        }
        if purpose == LeasePurpose::Build {
            if state.has_ended() {
                self.current.remove(&package);
            }
            self.count_loss(package, state);
        }
        if state.is_recorded_when_set() {
            self.push_record(id, state);
        }
    }

    /// Records a state of a lease, unless the lease is for verification: a coordinator that restarts forgets those.
    fn push_record(&mut self, id: LeaseId, state: LeaseState) {
        if self.leases[&id].purpose == LeasePurpose::Build {
            self.records.push(self.record(id, state));
        }
    }

    fn count_loss(&mut self, package: PackageId, state: LeaseState) {
        if state.cause().is_some_and(Cause::is_loss) {
            *self.losses.entry(package).or_default() += 1;
        }
    }

    fn entry(&mut self, id: LeaseId) -> &mut LeaseEntry {
        self.leases.get_mut(&id).expect("the lease is known")
    }

    /// The leases of a client that have not ended.
    fn open_leases(&self, client: usize) -> Vec<LeaseId> {
        self.clients[client].leases.iter().copied().collect()
    }
}
