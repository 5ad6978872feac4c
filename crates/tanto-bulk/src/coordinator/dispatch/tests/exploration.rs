//! Explores all states of two packages and two clients with one slot each: answers are lost, requests are repeated late and
//! out of order, deadlines pass at any moment, clients and the coordinator restart, the user stops attempts.
//!
//! The clock stands still: deadlines are steps of their own, so that the order of events never depends on times. Each
//! mishap costs one of a few faults; everything else may happen without limit.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use tanto_protocol::{Bye, LeaseAction, ResultAnswer};
use tanto_testing::seeds;

use super::*;
use crate::coordinator::dispatch::lease::LeaseState;
use crate::coordinator::dispatch::remote::Poll;
use crate::coordinator::dispatch::{DispatchEffect, NextState};

const PACKAGES: usize = 2;
const CLIENTS: usize = 2;
const NAMES: [&str; CLIENTS] = ["a", "b"];
/// A relayed number whose answer nobody receives.
const LATE: u64 = 99;

#[derive(Clone)]
struct World {
    dispatch: Dispatch,
    /// The last record of each lease.
    journal: BTreeMap<LeaseId, LeaseRecord>,
    packages: [PackageProgress; PACKAGES],
    attempts: [u64; PACKAGES],
    clients: [SimpleClient; CLIENTS],
    connections: u64,
    faults: u32,
    kills: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PackageProgress {
    Open,
    Leased,
    Accepted,
    Failed,
}

#[derive(Clone, Default)]
struct SimpleClient {
    instance: u64,
    connection: Option<u64>,
    /// The number of the last work request.
    number: u64,
    /// It has no answer yet.
    asked: bool,
    running: Option<u64>,
    /// The lease of a result that is not settled.
    held: Option<u64>,
    /// Leases of an answer that is on its way.
    answer: Option<Vec<u64>>,
    /// A copy of an earlier request, still on its way.
    late: Option<LateRequest>,
}

#[derive(Clone)]
enum LateRequest {
    Hello(Box<Hello>),
    Work { connection: u64, number: u64 },
    Heartbeat { connection: u64, lease: Option<u64> },
    Result { connection: u64, lease: u64 },
    Bye { connection: u64 },
}

impl World {
    fn new(faults: u32) -> World {
        World {
            dispatch: dispatch(),
            journal: BTreeMap::new(),
            packages: [PackageProgress::Open; PACKAGES],
            attempts: [0; PACKAGES],
            clients: Default::default(),
            connections: 0,
            faults,
            kills: 1,
        }
    }

    /// Everything is built or has failed, and the clients know it.
    fn has_ended(&self) -> bool {
        let ended = |it: &PackageProgress| matches!(it, PackageProgress::Accepted | PackageProgress::Failed);
        self.packages.iter().all(ended) && self.clients.iter().all(|it| it.running.or(it.held).is_none())
    }

    fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        for at in 0..CLIENTS {
            self.client_steps(at, &mut next);
            if self.faults > 0 {
                self.client_faults(at, &mut next);
            }
        }
        self.coordinator_steps(&mut next);
        next
    }

    /// Adds the state after a step that costs some faults.
    fn step(&self, next: &mut Vec<World>, faults: u32, step: impl FnOnce(&mut World)) {
        if faults > self.faults {
            return;
        }
        let mut world = self.clone();
        world.faults -= faults;
        step(&mut world);
        world.settle();
        next.push(world);
    }

    fn client_steps(&self, at: usize, next: &mut Vec<World>) {
        let it = &self.clients[at];
        let Some(connection) = it.connection else {
            self.step(next, 0, |world| world.hello(at, true));
            self.step(next, 1, |world| world.hello(at, false));
            return;
        };
        let idle = it.running.or(it.held).is_none() && it.answer.is_none();
        if idle && !(it.asked && self.waits(at)) {
            self.step(next, 0, |world| world.ask(at));
        }
        if let Some(leases) = &it.answer {
            self.step(next, 0, |world| {
                world.clients[at].running = leases.first().copied();
                (world.clients[at].answer, world.clients[at].asked) = (None, false);
            });
            self.step(next, 1, |world| world.clients[at].answer = None);
        }
        self.step(next, 0, |world| world.beat(at, connection));
        if let Some(lease) = it.running {
            self.step(next, 0, |world| {
                (world.clients[at].running, world.clients[at].held) = (None, Some(lease));
            });
        }
        if let Some(lease) = it.held {
            self.step(next, 0, |world| world.report(at, connection, lease, true));
            self.step(next, 0, |world| world.report(at, connection, lease, false));
        }
    }

    fn client_faults(&self, at: usize, next: &mut Vec<World>) {
        let it = &self.clients[at];
        let restarted = |world: &mut World| {
            let SimpleClient { instance, held, late, .. } = world.clients[at].clone();
            world.clients[at] = SimpleClient { instance: instance + 1, held, late, ..SimpleClient::default() };
        };
        self.step(next, 1, restarted);
        if let Some(connection) = it.connection {
            self.step(next, 1, |world| {
                let _ = world.dispatch.bye(0, &token(NAMES[at]), &Bye { connection: connection_id(connection) });
                restarted(world);
            });
        }
        if let Some(late) = &it.late {
            self.step(next, 0, |world| {
                world.clients[at].late = None;
                world.deliver_late(at, late);
            });
        }
        for late in self.copies(at) {
            self.step(next, 1, |world| world.clients[at].late = Some(late));
        }
        if let Some(client) =
            self.client(at).filter(|&client| self.dispatch.silent_at(&self.dispatch.clients[client]).is_some())
        {
            self.step(next, 1, |world| world.dispatch.silence(0, client));
        }
    }

    fn coordinator_steps(&self, next: &mut Vec<World>) {
        let open = |package: usize| self.packages[package] == PackageProgress::Open;
        let free = (0..self.dispatch.clients.len()).filter(|&client| self.dispatch.clients[client].free_slots() > 0);
        for (client, package) in
            free.flat_map(|client| (0..PACKAGES).map(move |it| (client, it))).filter(|it| open(it.1))
        {
            self.step(next, 0, |world| world.offer(client, package));
        }
        for (&lease, entry) in &self.dispatch.leases {
            let package = entry.package as usize;
            if entry.state == LeaseState::Reported {
                self.step(next, 0, |world| {
                    world.record_outcome(lease, package);
                    world.dispatch.accepted(lease);
                });
                self.step(next, 1, |world| {
                    world.record_outcome(lease, package);
                    world.restart_coordinator();
                });
            } else if !entry.state.has_ended() {
                let is_offered = matches!(entry.state, LeaseState::Offered { .. });
                // An offer that nobody has ends by itself.
                let faults = u32::from(!is_offered || self.named_by_clients().contains(&number_of(lease)));
                self.step(next, faults, |world| world.dispatch.expire(lease));
                if self.kills > 0 {
                    self.step(next, 0, |world| {
                        world.kills -= 1;
                        world.dispatch.stop(lease);
                    });
                }
            }
        }
        self.step(next, 1, World::restart_coordinator);
    }

    /// The index of a client.
    fn client(&self, at: usize) -> Option<usize> {
        self.dispatch.find_client(NAMES[at], NAMES[at])
    }

    fn poll(&self, at: usize) -> Option<&Poll> {
        self.dispatch.clients[self.client(at)?].connection.as_ref()?.poll.as_ref()
    }

    /// Whether a work request of a client waits for its answer.
    fn waits(&self, at: usize) -> bool {
        self.poll(at).is_some_and(|poll| poll.waiting.contains(&(at as u64)))
    }

    fn own_hello(&self, at: usize) -> Hello {
        let it = &self.clients[at];
        let list = |lease: Option<u64>| lease.into_iter().map(lease_id).collect();
        Hello { replace: true, held: list(it.held), running: list(it.running), ..hello(NAMES[at], it.instance, &[]) }
    }

    fn hello(&mut self, at: usize, answered: bool) {
        let hello = self.own_hello(at);
        let connection = self.say_hello(at, &hello);
        if answered {
            let it = &mut self.clients[at];
            (it.connection, it.number, it.asked, it.answer) = (Some(connection), 0, false, None);
        }
    }

    fn say_hello(&mut self, at: usize, hello: &Hello) -> u64 {
        self.connections += 1;
        let id = connection_id(self.connections);
        self.dispatch.hello(0, &token(NAMES[at]), hello, &Environment::new(), id).unwrap();
        self.connections
    }

    fn ask(&mut self, at: usize) {
        let it = &mut self.clients[at];
        it.number += u64::from(!it.asked);
        it.asked = true;
        let (number, connection) = (it.number, it.connection.unwrap());
        self.dispatch.gone(at as u64);
        let answer = self.dispatch.work(0, &token(NAMES[at]), &work(connection, number, 1), at as u64);
        self.check_connection(at, answer.is_ok());
    }

    /// A client whose connection has ended says hello again.
    fn check_connection(&mut self, at: usize, known: bool) {
        if !known {
            self.clients[at].connection = None;
        }
    }

    fn beat(&mut self, at: usize, connection: u64) {
        let lease = self.clients[at].running.or(self.clients[at].held);
        let last =
            self.client(at).and_then(|it| self.dispatch.clients[it].connection.as_ref()).map_or(0, |it| it.heartbeat);
        let answer = self.send_beat(at, connection, last + 1, lease);
        self.check_connection(at, answer.is_some());
        match answer.flatten() {
            Some(LeaseAction::Supersede) => (self.clients[at].running, self.clients[at].held) = (None, None),
            Some(LeaseAction::Stop) => {
                let it = &mut self.clients[at];
                it.held = it.held.or(it.running.take());
            }
            _ => {}
        }
    }

    fn send_beat(
        &mut self,
        at: usize,
        connection: u64,
        number: u64,
        lease: Option<u64>,
    ) -> Option<Option<LeaseAction>> {
        let leases = lease.into_iter().map(|it| progress(it, "build", 0)).collect();
        let answer = self.dispatch.heartbeat(0, &token(NAMES[at]), &heartbeat(connection, number, leases));
        answer.ok().map(|it| it.leases.first().map(|it| it.action.clone()))
    }

    fn report(&mut self, at: usize, connection: u64, lease: u64, answered: bool) {
        let answer = self.dispatch.result(0, &token(NAMES[at]), connection_id(connection), lease_id(lease), Vec::new);
        if answered {
            self.check_connection(at, answer.is_ok());
            if matches!(answer, Ok(ResultAnswer::Settled | ResultAnswer::Superseded)) {
                self.clients[at].held = None;
            }
        }
    }

    /// Requests that the client could have sent by now.
    fn copies(&self, at: usize) -> Vec<LateRequest> {
        let it = &self.clients[at];
        if it.late.is_some() {
            return Vec::new();
        }
        let Some(connection) = it.connection else { return vec![LateRequest::Hello(Box::new(self.own_hello(at)))] };
        let mut copies = vec![
            LateRequest::Hello(Box::new(self.own_hello(at))),
            LateRequest::Heartbeat { connection, lease: it.running.or(it.held) },
            LateRequest::Bye { connection },
        ];
        copies.extend((it.number > 0).then_some(LateRequest::Work { connection, number: it.number }));
        copies.extend(it.held.map(|lease| LateRequest::Result { connection, lease }));
        copies
    }

    fn deliver_late(&mut self, at: usize, late: &LateRequest) {
        let token = token(NAMES[at]);
        match *late {
            LateRequest::Hello(ref hello) => {
                self.say_hello(at, hello);
            }
            LateRequest::Work { connection, number } => {
                let _ = self.dispatch.work(0, &token, &work(connection, number, 1), LATE);
            }
            LateRequest::Heartbeat { connection, lease } => {
                self.send_beat(at, connection, 0, lease);
            }
            LateRequest::Result { connection, lease } => {
                let _ = self.dispatch.result(0, &token, connection_id(connection), lease_id(lease), Vec::new);
            }
            LateRequest::Bye { connection } => {
                let _ = self.dispatch.bye(0, &token, &Bye { connection: connection_id(connection) });
            }
        }
    }

    fn offer(&mut self, client: usize, package: usize) {
        assert!(self.dispatch.choose(0, &needs(package as PackageId)).is_some());
        self.attempts[package] += 1;
        let (number, attempt) = (package as u64 * 100 + self.attempts[package], self.attempts[package] as u32);
        self.dispatch.offer(0, client, package as PackageId, lease(number, attempt), TERMS);
        self.packages[package] = PackageProgress::Leased;
    }

    fn record_outcome(&mut self, lease: LeaseId, package: usize) {
        assert_eq!(self.packages[package], PackageProgress::Leased, "a result was accepted twice");
        self.packages[package] = PackageProgress::Accepted;
        self.dispatch.outcome_recorded(lease);
        self.write_records();
    }

    fn write_records(&mut self) {
        for record in self.dispatch.take_records() {
            self.journal.insert(record.lease, record);
        }
    }

    fn restart_coordinator(&mut self) {
        let records: Vec<LeaseRecord> = self.journal.values().cloned().collect();
        self.dispatch = Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &records, BTreeMap::new(), |_| TERMS);
        self.dispatch.link_up(0);
    }

    /// Handles records, effects and answers, and checks what must always hold.
    fn settle(&mut self) {
        self.dispatch.check_polls();
        self.write_records();
        for effect in self.dispatch.take_effects() {
            let DispatchEffect::Ended { package, next, .. } = effect else { continue };
            assert_eq!(self.packages[package as usize], PackageProgress::Leased);
            self.packages[package as usize] = match next {
                NextState::Open => PackageProgress::Open,
                NextState::Failed | NextState::Killed => PackageProgress::Failed,
            };
        }
        for (relayed, answer) in self.dispatch.take_answers(0, "") {
            let it = self.clients.get_mut(relayed as usize).filter(|it| it.asked);
            if let (Some(it), Ok(answer)) = (it, answer) {
                it.answer = Some(leases_of(&answer));
            }
        }
        self.check();
    }

    fn check(&self) {
        for (package, &progress) in self.packages.iter().enumerate() {
            let leases = self.dispatch.leases.iter().filter(|(_, it)| it.package as usize == package);
            let open: Vec<LeaseId> = leases.filter(|(_, it)| !it.state.has_ended()).map(|(&id, _)| id).collect();
            assert!(open.len() <= 1, "package {package} has two unfenced attempts");
            assert_eq!(open.first().copied(), self.dispatch.current(package as PackageId));
            assert_eq!(!open.is_empty(), progress == PackageProgress::Leased, "package {package} is {progress:?}");
        }
        let of_clients: usize = self.dispatch.clients.iter().map(|it| it.leases.len()).sum();
        assert_eq!(of_clients, self.dispatch.current.len());
        for (id, entry) in &self.dispatch.leases {
            let recorded = &self.journal[id];
            let restored =
                LeaseState::restore(recorded.state.name(), recorded.state.cause().map_or("", |it| it.name()));
            let kept = |state: LeaseState| (state.name(), state.cause());
            assert_eq!(restored.map(kept), Some(kept(recorded.state)));
            // A restarted coordinator waits for silent clients and for results again.
            match entry.state {
                LeaseState::Missing { .. } | LeaseState::Reported => assert!(!recorded.state.has_ended(), "lease {id}"),
                state => assert_eq!(kept(recorded.state), kept(state), "lease {id}"),
            }
        }
    }

    /// Equal for states that behave alike: ids and numbers count only by their relations, and the names of clients and
    /// packages do not count.
    fn fingerprint(&self) -> u64 {
        let named = self.named_leases();
        let orders = [([0, 1], [0, 1]), ([0, 1], [1, 0]), ([1, 0], [0, 1]), ([1, 0], [1, 0])];
        orders.iter().map(|(clients, packages)| self.hash_in_order(&named, clients, packages)).min().unwrap()
    }

    fn hash_in_order(&self, named: &[u64], clients: &[usize; CLIENTS], packages: &[usize; PACKAGES]) -> u64 {
        let mut hasher = DefaultHasher::new();
        // A lease as its package and its rank among those of the package.
        let lease = |id: u64| {
            let rank = named.iter().filter(|&&it| it / 100 == id / 100 && it < id).count();
            (packages[(id / 100) as usize], rank)
        };
        (self.faults, self.kills).hash(&mut hasher);
        for &package in packages {
            (self.packages[package], self.dispatch.losses.get(&(package as PackageId))).hash(&mut hasher);
            for &id in named.iter().filter(|&&id| id / 100 == package as u64) {
                let Some(entry) = self.dispatch.leases.get(&lease_id(id)) else { continue };
                let state = match entry.state {
                    state if state.has_ended() => "ended",
                    LeaseState::Offered { until_ms: None } => "restored",
                    state => state.name(),
                };
                let at = NAMES.iter().position(|name| *name == self.dispatch.clients[entry.client].name);
                (lease(id), state, entry.state == LeaseState::Settled, at.map(|at| clients[at])).hash(&mut hasher);
            }
        }
        clients.iter().for_each(|&at| self.hash_client(at, &lease, &mut hasher));
        hasher.finish()
    }

    fn hash_client(&self, at: usize, lease: &dyn Fn(u64) -> (usize, usize), hasher: &mut DefaultHasher) {
        let it = &self.clients[at];
        let all = |ids: &[u64]| ids.iter().map(|&id| lease(id)).collect::<Vec<_>>();
        let client = self.client(at).map(|client| &self.dispatch.clients[client]);
        let known = client.and_then(|client| client.connection.as_ref()).map(|connection| connection.id);
        let is_known = |connection: u64| Some(connection_id(connection)) == known;
        (client.map(|it| it.silent), known.is_some(), it.connection.map(is_known)).hash(hasher);
        (it.asked, it.running.map(lease), it.held.map(lease), it.answer.as_deref().map(all)).hash(hasher);
        let poll = self.poll(at);
        let number = poll.map_or(0, |poll| poll.number);
        let answer = poll.and_then(|poll| poll.answer.as_ref()).map(|answer| all(&leases_of(answer)));
        let waiting = poll.map(|poll| (self.waits(at), poll.waiting.contains(&LATE)));
        (it.number.cmp(&number), waiting, answer).hash(hasher);
        match &it.late {
            None => 0.hash(hasher),
            Some(LateRequest::Hello(hello)) => (1, all(&listed(hello))).hash(hasher),
            Some(LateRequest::Work { connection, number: late }) => {
                (2, is_known(*connection), late.cmp(&number)).hash(hasher);
            }
            Some(LateRequest::Heartbeat { connection, lease: id }) => {
                (3, is_known(*connection), id.map(lease)).hash(hasher)
            }
            Some(LateRequest::Result { connection, lease: id }) => (4, is_known(*connection), lease(*id)).hash(hasher),
            Some(LateRequest::Bye { connection }) => (5, is_known(*connection)).hash(hasher),
        }
    }

    /// The leases that have not ended, or that a client or a message names.
    fn named_leases(&self) -> Vec<u64> {
        let mut named = self.named_by_clients();
        named.extend(self.dispatch.current.values().map(|&id| number_of(id)));
        named.sort_unstable();
        named.dedup();
        named
    }

    /// The leases that a client or a message names.
    fn named_by_clients(&self) -> Vec<u64> {
        let mut named = Vec::new();
        for (at, it) in self.clients.iter().enumerate() {
            named.extend(it.running.into_iter().chain(it.held).chain(it.answer.iter().flatten().copied()));
            named.extend(self.poll(at).and_then(|poll| poll.answer.as_ref()).iter().flat_map(|it| leases_of(it)));
            match &it.late {
                Some(LateRequest::Hello(hello)) => named.extend(listed(hello)),
                Some(LateRequest::Result { lease, .. }) => named.push(*lease),
                Some(LateRequest::Heartbeat { lease, .. }) => named.extend(*lease),
                _ => {}
            }
        }
        named
    }
}

fn listed(hello: &Hello) -> Vec<u64> {
    hello.running.iter().chain(&hello.held).map(|&id| number_of(id)).collect()
}

fn number_of(id: LeaseId) -> u64 {
    u128::from_be_bytes(id.0) as u64
}

/// Returns the number of states. Each must reach an end.
fn explore(faults: u32) -> usize {
    let first = World::new(faults);
    let mut numbers = HashMap::from([(first.fingerprint(), 0_usize)]);
    // The states before each state.
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut ends = Vec::new();
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((number, world)) = queue.pop_front() {
        if world.has_ended() {
            ends.push(number);
        }
        for next in world.successors() {
            let new = before.len();
            let at = *numbers.entry(next.fingerprint()).or_insert(new);
            if at == new {
                before.push(Vec::new());
                queue.push_back((at, next));
            }
            before[at].push(number as u32);
        }
    }
    let mut reached = vec![false; before.len()];
    while let Some(at) = ends.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            ends.extend(before[at].iter().map(|&it| it as usize));
        }
    }
    let stuck = reached.iter().filter(|it| !**it).count();
    assert_eq!(stuck, 0, "from so many of {} states, no end can be reached", before.len());
    before.len()
}

#[test]
fn all_states_keep_the_invariants_and_reach_an_end() {
    let faults = if seeds(100).end < 1000 { 1 } else { 2 };
    for faults in 0..=faults {
        println!("{faults} faults: {} states explored", explore(faults));
    }
}
