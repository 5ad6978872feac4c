//! Seeded builds on 1 to 1,000 clients: messages are delayed, lost and repeated; clients are cut off, restart, lie and are
//! slow; the coordinator restarts. Every build ends, and every package is accepted once.

mod packages;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tanto_protocol::{LeaseAction, ResultAnswer};
use tanto_testing::{Random, seeds};

use self::packages::{BuildState, SimulatedPackage};
use super::*;
use crate::coordinator::dispatch::{DispatchEffect, NextState, RelayedAnswer};

const TICK_MS: i64 = 10_000;
const TERMS: LeaseTerms = LeaseTerms { needs: super::TERMS.needs, idle_ms: 30 * MINUTE, total_ms: 300 * MINUTE };

/// How much goes wrong, in percent.
#[derive(Clone, Copy)]
struct Faults {
    lost: usize,
    repeated: usize,
    liars: usize,
    slow: usize,
    /// Restarts of a client in ten minutes.
    restarts: usize,
    /// It is cut off for some minutes, in ten minutes.
    partitions: usize,
    /// Restarts of the coordinator in a minute.
    coordinator: usize,
    /// Crashes of the coordinator before the leases of a turn are durable, in a turn of up to eight clients. More clients
    /// take more turns in the same time.
    crashes: usize,
}

const CALM: Faults =
    Faults { lost: 0, repeated: 0, liars: 0, slow: 0, restarts: 0, partitions: 0, coordinator: 0, crashes: 0 };
const ROUGH: Faults =
    Faults { lost: 5, repeated: 5, liars: 10, slow: 10, restarts: 3, partitions: 5, coordinator: 3, crashes: 1 };
/// Only the coordinator fails, but often.
const KILLS: Faults = Faults { coordinator: 30, crashes: 3, ..CALM };

#[derive(Default)]
struct SimulatedClient {
    name: String,
    is_liar: bool,
    slowness: i64,
    slots: usize,
    cut_off_until: i64,
    instance: u64,
    connection: Option<u64>,
    number: u64,
    asked_ms: Option<i64>,
    beats: u64,
    running: BTreeSet<u64>,
    held: BTreeSet<u64>,
}

#[derive(Clone)]
enum Message {
    Hello(Box<Hello>),
    Work(WorkRequest),
    Beat(Heartbeat),
    Result { connection: u64, lease: u64 },
}

#[derive(Clone)]
enum Reply {
    Hello(u64),
    /// With the connection and the number of its request.
    Work((u64, u64), WorkAnswer),
    Beat(Vec<(u64, LeaseAction)>),
    Settled(u64),
    Refused,
}

#[derive(Clone)]
enum Happening {
    Request(usize, Message),
    Reply { client: usize, instance: u64, reply: Reply },
    Timer(usize),
    AttemptEnds { client: usize, instance: u64, lease: u64 },
    Restart,
    Turn,
}

struct Simulation {
    random: Random,
    faults: Faults,
    now: i64,
    /// By their times; the second number orders those of the same time.
    events: BTreeMap<(i64, u64), Happening>,
    scheduled: u64,
    dispatch: Dispatch,
    journal: BTreeMap<LeaseId, LeaseRecord>,
    packages: Vec<SimulatedPackage>,
    /// Packages that are neither accepted nor failed, and how many of them are leased.
    unfinished: usize,
    leased: usize,
    clients: Vec<SimulatedClient>,
    /// The package of each lease, by its number.
    leases: Vec<usize>,
    /// How often clients have begun each package.
    begun: Vec<usize>,
    connections: u64,
    /// The client of each relayed work request, its instance, and the request's connection and number.
    relayed: Vec<(usize, u64, (u64, u64))>,
    /// The client of the request that was served last.
    sender: usize,
    /// When the next turn without a request is due.
    turn_ms: i64,
    losses: usize,
    /// Open packages whose dependencies are accepted, the longest chain first.
    ready: BTreeSet<(Reverse<i64>, usize)>,
    /// When the coordinator restarted, if the link is still down; 0 otherwise.
    restarted_ms: i64,
}

impl Simulation {
    fn new(seed: u64, faults: Faults) -> Simulation {
        let mut random = Random::new(seed);
        let clients = match seed % 100 {
            99 => 65 + random.below(64),
            0 | 50 => 1 + random.below(64),
            _ => 1 + random.below(8),
        };
        Simulation::with_clients(clients, random, faults)
    }

    fn with_clients(clients: usize, mut random: Random, faults: Faults) -> Simulation {
        let count = 5 + clients + random.below(3 * clients + 20);
        let packages = packages::generate(&mut random, count);
        let clients = (0..clients).map(|at| client(at, &mut random, faults)).collect();
        Simulation {
            random,
            faults,
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            dispatch: dispatch(),
            journal: BTreeMap::new(),
            unfinished: packages.len(),
            leased: 0,
            packages,
            clients,
            leases: Vec::new(),
            begun: vec![0; count],
            connections: 0,
            relayed: Vec::new(),
            sender: 0,
            turn_ms: 0,
            losses: 0,
            ready: BTreeSet::new(),
            restarted_ms: 0,
        }
    }

    /// Returns the makespan divided by its lower bound, and the number of lost attempts.
    fn run(&mut self) -> (f64, usize) {
        let bound_ms = self.lower_bound_ms();
        (0..self.packages.len()).for_each(|package| self.note_ready(package));
        (0..self.clients.len()).for_each(|client| self.schedule(client as i64 % TICK_MS, Happening::Timer(client)));
        if self.faults.coordinator > 0 {
            self.schedule(MINUTE, Happening::Restart);
        }
        while self.unfinished > 0 {
            let ((at, _), event) = self.events.pop_first().expect("something happens");
            assert!(at < 30 * 24 * 60 * MINUTE, "the build does not end");
            self.now = at;
            match event {
                Happening::Request(client, message) => {
                    self.serve(client, message);
                    self.turn();
                }
                Happening::Turn => self.turn(),
                event => self.handle(event),
            }
        }
        (self.now as f64 / bound_ms as f64, self.losses)
    }

    fn lower_bound_ms(&self) -> i64 {
        let slots: i64 = self.clients.iter().map(|it| it.slots as i64).sum();
        let chain = self.packages.iter().map(|it| it.chain_ms).max().unwrap();
        chain.max(self.packages.iter().map(|it| it.ms).sum::<i64>() / slots)
    }

    fn schedule(&mut self, after_ms: i64, event: Happening) {
        self.scheduled += 1;
        self.events.insert((self.now + after_ms, self.scheduled), event);
    }

    /// Delivers an event after a delay, perhaps never or twice.
    fn send(&mut self, client: usize, event: &Happening) {
        if self.now < self.clients[client].cut_off_until {
            return;
        }
        let copies = match () {
            () if self.random.chance(self.faults.lost) => 0,
            () if self.random.chance(self.faults.repeated) => 2,
            () => 1,
        };
        for copy in 0..copies {
            let delay = 1 + self.random.below(if copy == 0 { 100 } else { 60_000 }) as i64;
            self.schedule(delay, event.clone());
        }
    }

    fn request(&mut self, client: usize, message: Message) {
        self.send(client, &Happening::Request(client, message));
    }

    fn reply(&mut self, client: usize, instance: u64, reply: Reply) {
        self.send(client, &Happening::Reply { client, instance, reply });
    }

    fn handle(&mut self, event: Happening) {
        match event {
            Happening::Reply { client, instance, reply } if self.clients[client].instance == instance => {
                self.receive(client, reply);
            }
            Happening::AttemptEnds { client, instance, lease } if self.clients[client].instance == instance => {
                self.attempt_ends(client, lease);
            }
            Happening::Timer(client) => self.timer(client),
            Happening::Restart => self.restart_coordinator(),
            _ => {}
        }
    }

    // The clients.

    fn timer(&mut self, client: usize) {
        self.schedule(TICK_MS, Happening::Timer(client));
        if self.random.below(6000) < self.faults.restarts * 100 / 10 {
            let it = &mut self.clients[client];
            (it.instance, it.connection) = (it.instance + 1, None);
            it.running.clear();
        }
        if self.random.below(6000) < self.faults.partitions * 100 / 10 {
            self.clients[client].cut_off_until = self.now + self.random.below(15) as i64 * MINUTE;
        }
        let Some(connection) = self.clients[client].connection else { return self.say_hello(client) };
        let lie = self.clients[client].is_liar;
        let mut listed: Vec<u64> =
            self.clients[client].running.iter().chain(&self.clients[client].held).copied().collect();
        if lie && !self.leases.is_empty() {
            let other = self.random.below(self.leases.len()) as u64;
            listed.push(other);
            self.request(client, Message::Result { connection, lease: other });
        }
        let it = &mut self.clients[client];
        it.beats += 1;
        let leases = listed.into_iter().map(|lease| progress(lease, "build", it.beats)).collect();
        let beat = heartbeat(connection, it.beats, leases);
        self.request(client, Message::Beat(beat));
        for lease in self.clients[client].held.clone() {
            self.report(client, lease);
        }
        self.ask(client);
    }

    fn say_hello(&mut self, client: usize) {
        let it = &self.clients[client];
        let ids = |leases: &BTreeSet<u64>| leases.iter().map(|&lease| lease_id(lease)).collect();
        let (running, held) = (ids(&it.running), ids(&it.held));
        let slots = it.slots as u32;
        let hello = Hello { replace: true, slots, running, held, ..hello(&it.name, it.instance, &[]) };
        self.request(client, Message::Hello(Box::new(hello)));
    }

    fn report(&mut self, client: usize, lease: u64) {
        let Some(connection) = self.clients[client].connection else { return };
        self.request(client, Message::Result { connection, lease });
        if self.clients[client].is_liar {
            self.request(client, Message::Result { connection, lease });
        }
    }

    /// Asks for work if there is a free slot. A request without an answer is repeated.
    fn ask(&mut self, client: usize) {
        let now = self.now;
        let it = &mut self.clients[client];
        let slots = it.slots.saturating_sub(it.running.len());
        let Some(connection) = it.connection.filter(|_| slots > 0) else { return };
        if it.asked_ms.is_some_and(|at| now - at < 40_000) {
            return;
        }
        it.number += u64::from(it.asked_ms.is_none());
        it.asked_ms = Some(now);
        let request = work(connection, it.number, slots as u32);
        self.request(client, Message::Work(request));
    }

    fn attempt_ends(&mut self, client: usize, lease: u64) {
        let it = &mut self.clients[client];
        if it.running.remove(&lease) {
            it.held.insert(lease);
            self.report(client, lease);
            self.ask(client);
        }
    }

    fn receive(&mut self, client: usize, reply: Reply) {
        let it = &mut self.clients[client];
        match reply {
            Reply::Hello(connection) => {
                (it.connection, it.number, it.asked_ms, it.beats) = (Some(connection), 0, None, 0);
                self.ask(client);
            }
            Reply::Work(request, answer)
                if it.asked_ms.is_some() && (it.connection, it.number) == (Some(request.0), request.1) =>
            {
                it.asked_ms = None;
                leases_of(&answer).into_iter().for_each(|lease| self.begin(client, lease));
                self.ask(client);
            }
            Reply::Work(..) => {}
            Reply::Beat(instructions) => {
                for (lease, action) in instructions {
                    if action == LeaseAction::Supersede {
                        it.running.remove(&lease);
                        it.held.remove(&lease);
                    }
                }
            }
            Reply::Settled(lease) => {
                it.held.remove(&lease);
            }
            Reply::Refused => it.connection = None,
        }
    }

    fn begin(&mut self, client: usize, lease: u64) {
        let it = &mut self.clients[client];
        if it.running.insert(lease) {
            let package = self.leases[lease as usize];
            self.begun[package] += 1;
            let (instance, ms) = (it.instance, self.packages[package].ms * it.slowness);
            self.schedule(ms, Happening::AttemptEnds { client, instance, lease });
        }
    }

    // The coordinator.

    fn serve(&mut self, client: usize, message: Message) {
        if self.restarted_ms > 0 {
            return;
        }
        self.sender = client;
        let (now, token, instance) = (self.now, token(&self.clients[client].name), self.clients[client].instance);
        let reply = match message {
            Message::Hello(hello) => {
                self.connections += 1;
                let id = connection_id(self.connections);
                let answer = self.dispatch.hello(now, &token, &hello, &Environment::new(), id);
                if u128::from_be_bytes(hello.instance.0) as u64 != instance {
                    return;
                }
                answer.map(|_| Reply::Hello(self.connections))
            }
            Message::Work(request) => {
                let connection = u128::from_be_bytes(request.connection.0) as u64;
                self.relayed.push((client, instance, (connection, request.number)));
                let relayed = self.relayed.len() as u64 - 1;
                match self.dispatch.work(now, &token, &request, relayed) {
                    Ok(()) => return,
                    Err(refusal) => Err(refusal),
                }
            }
            Message::Beat(beat) => {
                let answer = self.dispatch.heartbeat(now, &token, &beat);
                let number = |id: LeaseId| u128::from_be_bytes(id.0) as u64;
                answer.map(|it| Reply::Beat(it.leases.into_iter().map(|it| (number(it.lease), it.action)).collect()))
            }
            Message::Result { connection, lease } => {
                match self.dispatch.result(now, &token, connection_id(connection), lease_id(lease), Vec::new) {
                    Ok(ResultAnswer::Settled | ResultAnswer::Superseded) => Ok(Reply::Settled(lease)),
                    Ok(_) => return,
                    Err(refusal) => Err(refusal),
                }
            }
        };
        self.reply(client, instance, reply.unwrap_or(Reply::Refused));
    }

    /// A turn of the coordinator's loop.
    fn turn(&mut self) {
        self.dispatch.tick(self.now);
        self.settle();
        self.start_packages();
        if self.restarted_ms == 0 && self.crashes() {
            return self.crash();
        }
        for (relayed, answer) in self.dispatch.take_answers(self.now, "nothing is ready") {
            self.answer_work((relayed, answer));
        }
        self.settle();
        let deadline = self.dispatch.next_deadline().unwrap_or(i64::MAX).max(self.now + 1);
        if deadline < self.turn_ms || self.turn_ms <= self.now && deadline < i64::MAX {
            self.turn_ms = deadline;
            self.schedule(deadline - self.now, Happening::Turn);
        }
    }

    fn answer_work(&mut self, (relayed, answer): RelayedAnswer) {
        let (client, instance, request) = self.relayed[relayed as usize];
        let reply = answer.map_or(Reply::Refused, |answer| Reply::Work(request, answer));
        self.reply(client, instance, reply);
    }

    /// Gives open packages to free clients, the longest chain first.
    fn start_packages(&mut self) {
        if !self.dispatch.has_free() {
            return;
        }
        let ready: Vec<usize> = self.ready.iter().map(|it| it.1).collect();
        for package in ready {
            if !self.dispatch.has_free() {
                return;
            }
            let Some(ClientIndex::Remote(client)) = self.dispatch.choose(self.now, &needs(package as PackageId)) else {
                continue;
            };
            let number = self.leases.len() as u64;
            self.leases.push(package);
            self.dispatch.offer(self.now, client, package as PackageId, lease(number, 1), TERMS);
            self.packages[package].state = BuildState::Leased;
            self.leased += 1;
            self.ready.remove(&(Reverse(self.packages[package].chain_ms), package));
        }
    }

    /// Makes the records durable, and accepts results.
    fn settle(&mut self) {
        let records = self.dispatch.take_records();
        let changed = !records.is_empty();
        self.journal.extend(records.into_iter().map(|it| (it.lease, it)));
        for effect in self.dispatch.take_effects() {
            match effect {
                DispatchEffect::Reported { lease, package, client, .. } => {
                    assert_eq!(
                        self.dispatch.name(client),
                        self.clients[self.sender].name,
                        "the result of another's lease"
                    );
                    self.set(package, BuildState::Accepted);
                    self.dispatch.outcome_recorded(lease);
                    self.dispatch.accepted(lease);
                }
                DispatchEffect::Ended { package, next: NextState::Open, cause, .. } => {
                    self.losses += usize::from(cause.is_loss());
                    self.set(package, BuildState::Open);
                }
                DispatchEffect::Ended { package, .. } => {
                    self.losses += 1;
                    self.set(package, BuildState::Failed);
                }
                _ => {}
            }
        }
        self.journal.extend(self.dispatch.take_records().into_iter().map(|it| (it.lease, it)));
        if !changed {
            return;
        }
        assert_eq!(self.leased, self.dispatch.current.len(), "each leased package has one lease that has not ended");
    }

    fn set(&mut self, package: PackageId, state: BuildState) {
        let it = &mut self.packages[package as usize];
        assert_eq!(it.state, BuildState::Leased, "package {package} becomes {state:?}");
        it.state = state;
        self.leased -= 1;
        match state {
            BuildState::Accepted => {
                self.unfinished -= 1;
                self.packages[package as usize].dependents.clone().into_iter().for_each(|it| self.note_ready(it));
            }
            BuildState::Failed => {
                self.unfinished -= 1;
                self.fail_dependents(package as usize);
            }
            BuildState::Open | BuildState::Leased => self.note_ready(package as usize),
        }
    }

    fn note_ready(&mut self, package: usize) {
        let is_built = |it: &usize| self.packages[*it].state == BuildState::Accepted;
        let it = &self.packages[package];
        if it.state == BuildState::Open && it.depends.iter().all(is_built) {
            self.ready.insert((Reverse(it.chain_ms), package));
        }
    }

    fn fail_dependents(&mut self, failed: usize) {
        for package in self.packages[failed].dependents.clone() {
            let it = &mut self.packages[package];
            if it.state == BuildState::Open {
                it.state = BuildState::Failed;
                self.unfinished -= 1;
                self.fail_dependents(package);
            }
        }
    }

    /// The coordinator restarts, and its link is down for a while.
    fn restart_coordinator(&mut self) {
        self.schedule(MINUTE, Happening::Restart);
        if self.restarted_ms > 0 {
            self.dispatch.link_up(self.now);
            self.restarted_ms = 0;
        } else if self.random.chance(self.faults.coordinator) {
            self.restore();
        }
    }

    fn crashes(&mut self) -> bool {
        self.random.below(100 * self.clients.len().max(8) / 8) < self.faults.crashes
    }

    /// The coordinator ends before the last records are durable. No client knows of them.
    fn crash(&mut self) {
        self.restore();
        for package in 0..self.packages.len() {
            let is_lost = self.dispatch.current(package as PackageId).is_none();
            if self.packages[package].state == BuildState::Leased && is_lost {
                self.set(package as PackageId, BuildState::Open);
            }
        }
    }

    fn restore(&mut self) {
        self.restarted_ms = self.now;
        let records: Vec<LeaseRecord> = self.journal.values().cloned().collect();
        let times = LeaseTimes::default();
        self.dispatch = Dispatch::restore(times, no_slots(), self.now, &records, BTreeMap::new(), |_| TERMS);
    }
}

fn client(at: usize, random: &mut Random, faults: Faults) -> SimulatedClient {
    SimulatedClient {
        name: format!("client-{at}"),
        is_liar: random.chance(faults.liars),
        slowness: if random.chance(faults.slow) { 4 } else { 1 },
        slots: 1 + random.below(3),
        ..SimulatedClient::default()
    }
}

/// Prints the makespans of some builds. Returns the longest, and the number of lost attempts.
fn report(name: &str, mut builds: Vec<(f64, usize)>) -> (f64, usize) {
    builds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |percent: usize| builds[(builds.len() - 1) * percent / 100].0;
    let losses = builds.iter().map(|it| it.1).sum();
    let (median, most) = (at(50), at(100));
    println!(
        "{} builds {name}: makespan / lower bound: median {median:.2}, 99th percentile {:.2}, most {most:.2}; {losses} attempts lost",
        builds.len(),
        at(99)
    );
    (most, losses)
}

#[test]
fn every_build_ends() {
    let builds = |faults: Faults| seeds(20).map(|seed| Simulation::new(seed, faults).run()).collect();
    let (most, losses) = report("without faults", builds(CALM));
    assert!(most < 2.0, "list scheduling takes less than twice the lower bound");
    assert_eq!(losses, 0);
    report("with faults", builds(ROUGH));
}

#[test]
fn attempts_survive_the_coordinator() {
    let simulations = seeds(20).map(|seed| (seed, Simulation::new(seed, KILLS)));
    let large = (0, Simulation::with_clients(1000, Random::new(0), KILLS));
    for (seed, mut simulation) in simulations.chain([large]) {
        let (_, losses) = simulation.run();
        assert_eq!(losses, 0, "seed {seed}");
        assert!(simulation.begun.iter().all(|&count| count == 1), "seed {seed}: {:?}", simulation.begun);
    }
}
