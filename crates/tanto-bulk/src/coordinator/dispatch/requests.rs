//! The requests of clients: hello, work, heartbeat, result, bye.

use tanto_protocol::{
    Bye, ConnectionId, Digest, Environment, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, LeaseAction, LeaseId,
    LeaseInstruction, LeaseProgress, Refusal, RefusalCode, ResultAnswer, Role, TokenIdentity, WorkAnswer, WorkRequest,
};

use super::lease::{Cause, LastProgress, LeaseEntry, LeaseState};
use super::placement::ClientIndex;
use super::remote::{MAX_REPEATS, Poll};
use super::{Dispatch, DispatchEffect, RelayedAnswer};
use crate::coordinator::needs::ResourceNeeds;
use crate::machine_environment;

/// Most clients of a build.
const MAX_CLIENTS: usize = 10_000;
/// The reason for an answer to a work request after which another was made.
const OUTDATED: &str = "a later request has been made";

impl Dispatch {
    /// Begins a connection. `own`: the coordinator's environment.
    pub fn hello(
        &mut self,
        now_ms: i64,
        token: &TokenIdentity,
        hello: &Hello,
        own: &Environment,
        connection: ConnectionId,
    ) -> Result<HelloAnswer, Refusal> {
        let answer = self.begin_connection(now_ms, token, hello, own, connection);
        match &answer {
            Ok(_) => self.refusals.forget(&hello.name),
            Err(refusal) if refusal.code == RefusalCode::NameTaken => {}
            Err(refusal) => self.refusals.add(self.link.at(now_ms), token, hello, own, refusal),
        }
        answer
    }

    fn begin_connection(
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
        let warnings = machine_environment::compare(own, &hello.environment)?;
        let client = self.admit(now_ms, token, hello)?;
        let now = self.link.at(now_ms);
        self.disconnect(client);
        self.clients[client].connect(now, hello, connection);
        self.clients[client].roles = token.roles.to_string();
        self.connections.insert(connection, client);
        self.adopt(now, client, hello);
        let ms = |ms| u64::try_from(ms).unwrap_or(0);
        let (heartbeat_ms, missing_ms) = (ms(self.times.heartbeat_ms), ms(self.times.silent_ms));
        Ok(HelloAnswer { connection, heartbeat_ms, missing_ms, warnings, blobs: String::new() })
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

    /// Keeps the leases that a client says it has. It has lost the others.
    fn adopt(&mut self, now: i64, client: usize, hello: &Hello) {
        for id in self.open_leases(client) {
            let listed = hello.running.contains(&id) || hello.held.contains(&id);
            match self.leases[&id].state {
                LeaseState::Reported => {}
                // It may be in an answer that is on its way since before the coordinator began.
                LeaseState::Offered { until_ms: None } if !listed => {
                    let until_ms = Some(now.saturating_add(self.times.confirm_ms));
                    self.set(id, LeaseState::Offered { until_ms });
                }
                LeaseState::Offered { .. } if !listed => self.end(id, LeaseState::Returned(Cause::Unconfirmed)),
                _ if !listed => self.end(id, LeaseState::Returned(Cause::Restarted)),
                _ => self.confirm(now, id),
            }
        }
        self.wake_for(client);
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
        self.wake_for(client);
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
                Some(answer) => {
                    let mut answer = answer.clone();
                    answer.leases.retain(|lease| !self.leases[&lease.lease].state.has_ended());
                    self.answers.push((relayed, Ok(answer)));
                }
                None if poll.waiting.len() >= MAX_REPEATS => {
                    return Err(refusal(RefusalCode::Busy, "the same request waits already"));
                }
                None => {
                    poll.waiting.push(relayed);
                    self.index_poll(client);
                }
            },
            last => {
                let last = last.replace(Poll::new(now, longest_ms, request, relayed));
                it.free = free;
                self.index_poll(client);
                self.end_poll(last);
            }
        }
        Ok(())
    }

    /// Ends a work request after which another was made. That confirms no lease: the answer may be lost.
    fn end_poll(&mut self, last: Option<Poll>) {
        let Some(poll) = last else { return };
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
        let waits = |&client: &usize| {
            let poll = self.clients[client].last_poll();
            poll.is_some_and(|poll| poll.waiting.contains(&relayed))
        };
        let Some(client) = self.polls.clients().find(waits) else { return };
        if let Some(poll) = self.clients[client].poll() {
            poll.waiting.retain(|&it| it != relayed);
        }
        self.index_poll(client);
    }

    /// Takes the answers to work requests that have leases, or have waited long enough. `reason`: why there is no work.
    pub fn take_answers(&mut self, now_ms: i64, reason: &str) -> Vec<RelayedAnswer> {
        let now = self.link.at(now_ms);
        for client in self.polls.due(now) {
            let it = &mut self.clients[client];
            let reason = match () {
                () if it.distrusted => "the client is distrusted",
                () if it.draining => "the client is drained",
                () if it.is_disabled() => "the client is disabled after repeated machine failures",
                () => reason,
            };
            let Some(poll) = it.poll().filter(|poll| poll.answer.is_none()) else { continue };
            poll.leases.retain(|lease| !self.leases[&lease.lease].state.has_ended());
            if !poll.leases.is_empty() || poll.until_ms <= now {
                self.answers.extend(poll.answer(reason));
            }
            self.index_poll(client);
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
            has_ended: stage.is_empty() && (last.has_ended || !last.stage.is_empty()),
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
            state if state.has_ended() || state == LeaseState::Reported => self.settlement(lease),
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

    /// What a client learns about a result that has arrived.
    pub fn settlement(&self, lease: LeaseId) -> ResultAnswer {
        match self.leases.get(&lease).map(|it| it.state) {
            Some(LeaseState::Settled) => ResultAnswer::Settled,
            None | Some(LeaseState::Superseded(_) | LeaseState::Returned(_)) => ResultAnswer::Superseded,
            Some(_) => ResultAnswer::Pending,
        }
    }

    fn report(&mut self, lease: LeaseId) {
        self.set(lease, LeaseState::Reported);
        let LeaseEntry { package, attempt, client, .. } = self.leases[&lease];
        let client = ClientIndex::Remote(client);
        self.effects.push(DispatchEffect::Reported { lease, package, attempt, client });
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

pub(in crate::coordinator) fn connection_ended() -> Refusal {
    refusal(RefusalCode::Connection, "the connection has ended: say hello again")
}

fn refusal(code: RefusalCode, message: &str) -> Refusal {
    Refusal { code, message: message.to_owned() }
}
