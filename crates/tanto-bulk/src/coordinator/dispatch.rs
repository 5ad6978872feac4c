//! Decides which client builds which package: a pure state machine of clients and leases. Every method gets the time,
//! and ids from outside; the same calls give the same decisions.
//!
//! Callers first make the records of a turn durable (`take_records`), then act on its effects, and then send its answers.

mod environment;
mod expiry;
mod health;
pub mod lease;
mod local;
mod persistence;
mod placement;
mod remote;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;

use tanto_protocol::{
    Bye, ConnectionId, Digest, Environment, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, Lease, LeaseAction,
    LeaseId, LeaseInstruction, LeaseProgress, Refusal, RefusalCode, ResultAnswer, Role, TokenIdentity, WorkAnswer,
    WorkRequest,
};

use self::lease::{Cause, LastProgress, LeaseEntry, LeaseRecord, LeaseState, LeaseTerms};
pub use self::local::{LocalSlots, name as local_name};
use self::placement::WaitingPackages;
pub use self::placement::{ClientIndex, PackageNeeds};
pub use self::remote::RemoteClient;
use self::remote::{MAX_REPEATS, Poll};
pub use self::times::LeaseTimes;
use self::times::LinkClock;
use super::needs::ResourceNeeds;
use crate::resolve::PackageId;

/// Most clients of a build.
const MAX_CLIENTS: usize = 10_000;
/// The reason for an answer to a work request after which another was made.
const OUTDATED: &str = "a later request has been made";
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
    /// The lease of each package that has one that has not ended.
    current: BTreeMap<PackageId, LeaseId>,
    /// How often an attempt at a package was lost unannounced.
    losses: BTreeMap<PackageId, u32>,
    waiting: WaitingPackages,
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
            waiting: WaitingPackages::default(),
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

    /// Returns the lease of a package that has not ended.
    pub fn current(&self, package: PackageId) -> Option<LeaseId> {
        self.current.get(&package).copied()
    }

    /// The server has connected.
    pub fn link_up(&mut self, now_ms: i64) {
        self.link.up(now_ms);
        self.wake_ms = i64::MIN;
    }

    /// The server is gone, and with it all work requests. Until it is back, no time passes for leases.
    pub fn link_down(&mut self, now_ms: i64) {
        self.link.down(now_ms);
        self.clients.iter_mut().filter_map(RemoteClient::poll).for_each(|poll| poll.waiting.clear());
        self.answers.clear();
    }

    /// Begins a connection. `own`: the coordinator's environment.
    pub fn hello(
        &mut self,
        now_ms: i64,
        token: &TokenIdentity,
        hello: &Hello,
        own: &Environment,
        connection: ConnectionId,
    ) -> Result<HelloAnswer, Refusal> {
        if !token.roles.permit(Role::Build) {
            return Err(refusal(RefusalCode::Role, "the token does not have the role 'build'"));
        }
        let warnings = environment::compare(own, &hello.environment)?;
        let client = self.admit(now_ms, token, hello)?;
        let now = self.link.at(now_ms);
        self.disconnect(client);
        self.clients[client].connect(now, hello, connection);
        self.connections.insert(connection, client);
        self.adopt(now, client, hello);
        let ms = |ms| u64::try_from(ms).unwrap_or(0);
        let (heartbeat_ms, missing_ms) = (ms(self.times.heartbeat_ms), ms(self.times.silent_ms));
        Ok(HelloAnswer { connection, heartbeat_ms, missing_ms, warnings })
    }

    /// Finds or adds the client of a hello, unless another process has its name.
    fn admit(&mut self, now_ms: i64, token: &TokenIdentity, hello: &Hello) -> Result<usize, Refusal> {
        for client in self.clients.iter().filter(|it| it.name == hello.name && it.is_live()) {
            let same = client.connection.as_ref().is_some_and(|it| it.instance == hello.instance);
            if client.token != token.id || !same && !hello.replace {
                return Err(refusal(RefusalCode::NameTaken, "another client of this name is connected"));
            }
        }
        if let Some(known) = self.find_client(&hello.name, &token.id) {
            return Ok(known);
        }
        if self.clients.len() >= MAX_CLIENTS {
            return Err(refusal(RefusalCode::Busy, "the build has too many clients"));
        }
        Ok(self.add_client(now_ms, &hello.name, &token.id))
    }

    fn find_client(&self, name: &str, token: &str) -> Option<usize> {
        self.clients.iter().position(|it| it.name == name && it.token == token)
    }

    fn add_client(&mut self, now_ms: i64, name: &str, token: &str) -> usize {
        self.clients.push(RemoteClient::new(name, token, self.link.at(now_ms)));
        self.clients.len() - 1
    }

    fn disconnect(&mut self, client: usize) {
        let Some(connection) = self.clients[client].connection.take() else { return };
        self.connections.remove(&connection.id);
        let waiting = connection.poll.into_iter().flat_map(|poll| poll.waiting);
        self.answers.extend(waiting.map(|relayed| (relayed, Err(connection_ended()))));
    }

    /// Keeps the leases that a client says it has. It has lost the others.
    fn adopt(&mut self, now: i64, client: usize, hello: &Hello) {
        for id in self.open_leases(client) {
            let listed = hello.running.contains(&id) || hello.held.contains(&id);
            match self.leases[&id].state {
                LeaseState::Reported => {}
                LeaseState::Offered { .. } if !listed => self.end(id, LeaseState::Returned(Cause::Unconfirmed)),
                _ if !listed => self.end(id, LeaseState::Returned(Cause::Restarted)),
                _ => self.confirm(now, id),
            }
        }
        self.wake_by(now);
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

    /// Finds the client of a connection, and notes that it is alive.
    fn enter(&mut self, now_ms: i64, token: &TokenIdentity, id: ConnectionId) -> Result<(i64, usize), Refusal> {
        let client = self.connections.get(&id).copied().filter(|&it| self.clients[it].token == token.id);
        let client = client.ok_or_else(connection_ended)?;
        let now = self.link.at(now_ms);
        self.clients[client].seen_ms = now;
        if std::mem::replace(&mut self.clients[client].silent, false) {
            self.revive(now, client);
        }
        Ok((now, client))
    }

    /// A silent client is back, with all of its leases.
    fn revive(&mut self, now: i64, client: usize) {
        self.effects.push(DispatchEffect::Back { client: ClientIndex::Remote(client) });
        for id in self.open_leases(client) {
            if matches!(self.leases[&id].state, LeaseState::Missing { .. }) {
                self.confirm(now, id);
            }
        }
        self.wake_by(now);
    }

    /// Registers a work request; `relayed` is the number of its message. `take_answers` answers it.
    pub fn work(
        &mut self,
        now_ms: i64,
        token: &TokenIdentity,
        request: &WorkRequest,
        relayed: u64,
    ) -> Result<(), Refusal> {
        let (now, client) = self.enter(now_ms, token, request.connection)?;
        let longest_ms = self.times.wait_ms;
        let it = &mut self.clients[client];
        let free = ResourceNeeds { memory_kib: request.memory_kib, disk_kib: request.disk_kib };
        let Some(connection) = it.connection.as_mut() else { return Ok(()) };
        match &mut connection.poll {
            Some(poll) if request.number < poll.number => {
                self.answers.push((relayed, Ok(no_work(OUTDATED))));
            }
            Some(poll) if request.number == poll.number => match &poll.answer {
                Some(answer) => self.answers.push((relayed, Ok(answer.clone()))),
                None if poll.waiting.len() >= MAX_REPEATS => {
                    return Err(refusal(RefusalCode::Busy, "the same request waits already"));
                }
                None => poll.waiting.push(relayed),
            },
            last => {
                let last = last.replace(Poll::new(now, longest_ms, request, relayed));
                it.free = free;
                self.end_poll(now, last);
            }
        }
        Ok(())
    }

    /// The client knows the answer of its last work request, since it has made another.
    fn end_poll(&mut self, now: i64, last: Option<Poll>) {
        let Some(poll) = last else { return };
        for lease in poll.answer.iter().flat_map(|answer| &answer.leases) {
            if matches!(self.leases[&lease.lease].state, LeaseState::Offered { .. }) {
                self.confirm(now, lease.lease);
            }
        }
        // Leases of an answer that was never sent are offered to nobody.
        if poll.answer.is_none() {
            poll.leases.iter().for_each(|lease| self.return_offer(lease.lease));
        }
        self.answers.extend(poll.waiting.into_iter().map(|relayed| (relayed, Ok(no_work(OUTDATED)))));
    }

    fn return_offer(&mut self, id: LeaseId) {
        if !self.leases[&id].state.has_ended() {
            self.end(id, LeaseState::Returned(Cause::Unconfirmed));
        }
    }

    /// The server can no longer deliver the answer to a relayed request.
    pub fn gone(&mut self, relayed: u64) {
        self.clients
            .iter_mut()
            .filter_map(RemoteClient::poll)
            .for_each(|poll| poll.waiting.retain(|&it| it != relayed));
    }

    /// Gives a package to a client that `choose` has named. The lease is in the answer to its work request.
    ///
    /// Panics if the package has a lease that has not ended: two attempts at a package must never be accepted.
    pub fn offer(&mut self, now_ms: i64, client: usize, package: PackageId, lease: Lease, terms: LeaseTerms) {
        let now = self.link.at(now_ms);
        let (id, until_ms) = (lease.lease, now.saturating_add(self.times.confirm_ms));
        let entry = LeaseEntry {
            package,
            attempt: lease.spec.attempt,
            client,
            terms,
            began_ms: now_ms,
            since_ms: now,
            follow: false,
            state: LeaseState::Offered { until_ms },
            progress: LastProgress { at_ms: now, ..LastProgress::default() },
        };
        self.add_lease(id, entry);
        self.records.push(self.record(id));
        let poll = self.clients[client].poll().filter(|poll| poll.answer.is_none());
        poll.expect("a chosen client has asked for work").leases.push(lease);
        self.waiting.remove(package);
        self.wake_by(until_ms);
    }

    fn add_lease(&mut self, id: LeaseId, entry: LeaseEntry) {
        if !entry.state.has_ended() {
            let other = self.current.insert(entry.package, id);
            assert!(other.is_none(), "package {} has a lease already", entry.package);
            self.clients[entry.client].leases.insert(id);
        }
        let other = self.leases.insert(id, entry);
        assert!(other.is_none(), "lease {id} exists already");
    }

    /// Takes the answers to work requests that have leases, or have waited long enough. `reason`: why there is no work.
    pub fn take_answers(&mut self, now_ms: i64, reason: &str) -> Vec<RelayedAnswer> {
        let now = self.link.at(now_ms);
        for it in &mut self.clients {
            let reason = match () {
                () if it.draining => "the client is drained",
                () if it.is_disabled() => "the client is disabled after repeated machine failures",
                () => reason,
            };
            let Some(poll) = it.poll().filter(|poll| poll.answer.is_none()) else { continue };
            poll.leases.retain(|lease| !self.leases[&lease.lease].state.has_ended());
            if !poll.leases.is_empty() || poll.until_ms <= now {
                self.answers.extend(poll.answer(reason));
            }
        }
        std::mem::take(&mut self.answers)
    }

    /// Notes the progress of a client's attempts. Late heartbeats change nothing.
    pub fn heartbeat(
        &mut self,
        now_ms: i64,
        token: &TokenIdentity,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Refusal> {
        let (now, client) = self.enter(now_ms, token, heartbeat.connection)?;
        let it = &mut self.clients[client];
        let is_late = it.connection.as_ref().is_none_or(|it| heartbeat.number <= it.heartbeat);
        if let Some(connection) = it.connection.as_mut().filter(|_| !is_late) {
            connection.heartbeat = heartbeat.number;
            it.free = ResourceNeeds { memory_kib: heartbeat.memory_kib, disk_kib: heartbeat.disk_kib };
        }
        let drain = it.draining;
        let mut leases = Vec::new();
        for progress in &heartbeat.leases {
            let Some(entry) = self.leases.get(&progress.lease).filter(|it| it.client == client) else { continue };
            let action = instruction(entry);
            if !is_late && entry.state.is_active() {
                self.progress(now, progress);
            }
            leases.extend(action.map(|action| LeaseInstruction { lease: progress.lease, action }));
        }
        Ok(HeartbeatAnswer { leases, drain })
    }

    fn progress(&mut self, now: i64, progress: &LeaseProgress) {
        let id = progress.lease;
        let entry = self.entry(id);
        let LeaseProgress { stage, cpu_ms, sent_bytes, memory_kib, disk_kib, ended, .. } = progress;
        let last = &entry.progress;
        let same = last.stage == *stage && last.cpu_ms == *cpu_ms && last.sent_bytes == *sent_bytes && ended.is_empty();
        entry.progress = LastProgress {
            at_ms: if same { last.at_ms } else { now },
            stage: stage.clone(),
            cpu_ms: *cpu_ms,
            sent_bytes: *sent_bytes,
            used: ResourceNeeds { memory_kib: *memory_kib, disk_kib: *disk_kib },
        };
        let package = entry.package;
        if matches!(entry.state, LeaseState::Offered { .. }) {
            self.confirm(now, id);
        }
        self.effects.push(DispatchEffect::Progress { lease: id, package, progress: progress.clone() });
    }

    /// Handles a result. `missing`: the blobs that are not there yet, asked only if the result counts.
    pub fn result(
        &mut self,
        now_ms: i64,
        token: &TokenIdentity,
        connection: ConnectionId,
        lease: LeaseId,
        missing: impl FnOnce() -> Vec<Digest>,
    ) -> Result<ResultAnswer, Refusal> {
        let (now, client) = self.enter(now_ms, token, connection)?;
        let Some(entry) = self.leases.get(&lease).filter(|it| it.client == client) else {
            return Ok(ResultAnswer::Superseded);
        };
        Ok(match entry.state {
            LeaseState::Settled => ResultAnswer::Settled,
            LeaseState::Superseded(_) | LeaseState::Returned(_) => ResultAnswer::Superseded,
            LeaseState::Reported => ResultAnswer::Pending,
            _ => match missing() {
                digests if !digests.is_empty() => {
                    self.confirm(now, lease);
                    ResultAnswer::Missing { digests }
                }
                _ => {
                    self.report(lease);
                    ResultAnswer::Pending
                }
            },
        })
    }

    fn report(&mut self, lease: LeaseId) {
        self.set(lease, LeaseState::Reported);
        let LeaseEntry { package, attempt, client, .. } = self.leases[&lease];
        let client = ClientIndex::Remote(client);
        self.effects.push(DispatchEffect::Reported { lease, package, attempt, client });
    }

    /// The outcome of a reported lease is durable, be it a success or not.
    pub fn accepted(&mut self, lease: LeaseId) {
        self.set(lease, LeaseState::Settled);
    }

    /// Ends a connection. Its packages are open again at once, except those with results.
    pub fn bye(&mut self, now_ms: i64, token: &TokenIdentity, bye: &Bye) -> Result<(), Refusal> {
        let (_, client) = self.enter(now_ms, token, bye.connection)?;
        self.disconnect(client);
        for id in self.open_leases(client) {
            if self.leases[&id].state.is_active() {
                self.end(id, LeaseState::Returned(Cause::Bye));
            }
        }
        Ok(())
    }

    /// Withdraws a lease. Its result will not be accepted.
    pub fn supersede(&mut self, lease: LeaseId) {
        if self.leases.get(&lease).is_some_and(|it| !it.state.has_ended()) {
            self.set(lease, LeaseState::Superseded(Cause::Withdrawn));
        }
    }

    /// Stops an attempt by the user's request. The client reports its result; if it cannot, the lease ends.
    pub fn stop(&mut self, lease: LeaseId) {
        match self.leases.get(&lease).map(|it| it.state) {
            Some(LeaseState::Offered { .. } | LeaseState::Running) => self.set(lease, LeaseState::Stopped),
            Some(LeaseState::Missing { .. }) => self.end(lease, LeaseState::Superseded(Cause::Killed)),
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
        let LeaseEntry { package, attempt, client, .. } = self.leases[&id];
        let cause = state.cause().expect("it has no result");
        let next = match cause {
            _ if stopped || cause == Cause::Killed => NextState::Killed,
            _ if cause.is_loss() && self.losses[&package] > MAX_LOSSES => NextState::Failed,
            _ => NextState::Open,
        };
        let client = ClientIndex::Remote(client);
        self.effects.push(DispatchEffect::Ended { lease: id, package, attempt, client, cause, next });
    }

    /// Changes the state of a lease. This is the only way to change one.
    fn set(&mut self, id: LeaseId, state: LeaseState) {
        let entry = self.entry(id);
        entry.state.set(state);
        let (package, client) = (entry.package, entry.client);
        if state.has_ended() {
            self.current.remove(&package);
            self.clients[client].leases.remove(&id);
        }
        self.count_loss(package, state);
        self.records.push(self.record(id));
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

/// What a client has to do with a lease that it lists.
fn instruction(entry: &LeaseEntry) -> Option<LeaseAction> {
    match entry.state {
        LeaseState::Superseded(_) | LeaseState::Returned(_) => Some(LeaseAction::Supersede),
        LeaseState::Stopped => Some(LeaseAction::Stop),
        _ => entry.follow.then_some(LeaseAction::Follow),
    }
}

fn no_work(reason: &str) -> WorkAnswer {
    WorkAnswer { leases: Vec::new(), reason: reason.to_owned() }
}

fn connection_ended() -> Refusal {
    refusal(RefusalCode::Connection, "the connection has ended: say hello again")
}

fn refusal(code: RefusalCode, message: &str) -> Refusal {
    Refusal { code, message: message.to_owned() }
}
