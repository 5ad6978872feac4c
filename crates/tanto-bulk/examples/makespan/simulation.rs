//! A build on simulated clients: the real schedule and dispatch, a virtual clock, and clients that are lost.

use std::collections::BTreeMap;

use tanto_bulk::coordinator::dispatch::lease::LeaseTerms;
use tanto_bulk::coordinator::dispatch::{
    ClientIndex, Dispatch, DispatchEffect, LeaseTimes, LocalSlots, NextState, PackageNeeds, ThisMachine,
};
use tanto_bulk::coordinator::needs::ResourceNeeds;
use tanto_bulk::resolve::PackageId;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{Next, Schedule};
use tanto_protocol::{
    AttemptSpec, ConnectionId, Environment, Heartbeat, Hello, InstanceId, Lease, LeaseAction, LeaseId, LeaseProgress,
    ResultAnswer, Role, Roles, TokenIdentity, WorkRequest,
};
use tanto_testing::Random;

use super::graph::{Graph, STABLE_LABEL};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
/// One way of a message.
const LATENCY_MS: i64 = 50;
const BEAT_MS: i64 = 20 * SECOND;
/// The mean time between two losses of a client.
const LOSS_MS: f64 = 60.0 * MINUTE as f64;
/// A client that is cut off is back by then.
const CUT_OFF_MS: i64 = 2 * MINUTE;
/// A client that has ended is replaced by then.
const REPLACED_MS: i64 = 5 * MINUTE;
/// One client of so many is never lost, and has the label that longer packages need.
const STABLE: usize = 2;
const LONGEST_UNSTABLE_MS: u64 = 20 * MINUTE as u64;
/// Resources of a client; packages need none.
const PLENTY_KIB: u64 = 1 << 30;

#[derive(Clone, Copy)]
pub struct Conditions {
    pub clients: usize,
    pub has_losses: bool,
    /// All clients have the same speed; otherwise, half of them are twice as fast.
    pub are_equal: bool,
}

pub struct Outcome {
    /// The makespan divided by its lower bound: all work at all speeds, or the longest path at the highest speed.
    pub ratio: f64,
    /// Attempts that were lost.
    pub lost: usize,
    /// Packages that were lost too often.
    pub failed: usize,
}

#[derive(Clone, Copy)]
enum Happening {
    Beat(usize, u64),
    AttemptArrives(usize, u64),
    AttemptEnds(usize, u64),
    Loss(usize),
    Return(usize),
    Turn,
}

struct Client {
    token: TokenIdentity,
    speed: i64,
    is_stable: bool,
    instance: u64,
    connection: Option<ConnectionId>,
    is_cut_off: bool,
    requests: u64,
    /// It has asked for work and has no answer.
    asks: bool,
    beats: u64,
    running: Option<u64>,
    /// Its result has not arrived.
    held: Option<u64>,
}

pub struct Simulation<'a> {
    graph: &'a Graph,
    conditions: Conditions,
    random: Random,
    now: i64,
    /// By their times; the second number orders those of the same time.
    events: BTreeMap<(i64, u64), Happening>,
    scheduled: u64,
    schedule: Schedule,
    dispatch: Dispatch,
    clients: Vec<Client>,
    /// The package of each lease.
    leases: Vec<PackageId>,
    connections: u64,
    /// The client of each relayed work request, its instance, and the number of the request.
    relayed: Vec<(usize, u64, u64)>,
    turn_ms: i64,
    leased: usize,
    lost: usize,
    failed: usize,
}

impl<'a> Simulation<'a> {
    pub fn new(graph: &'a Graph, conditions: Conditions, seed: u64) -> Simulation<'a> {
        let mut slots = LocalSlots::new(1);
        slots.take(None);
        let mut dispatch = Dispatch::new(LeaseTimes::default(), slots, 0);
        dispatch.link_up(0);
        Simulation {
            graph,
            conditions,
            random: Random::new(seed),
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            schedule: graph.plan.schedule(&graph.times_ms).expect("the graph has no cycle"),
            dispatch,
            clients: (0..conditions.clients).map(|at| Client::new(at, conditions)).collect(),
            leases: Vec::new(),
            connections: 0,
            relayed: Vec::new(),
            turn_ms: i64::MAX,
            leased: 0,
            lost: 0,
            failed: 0,
        }
    }

    pub fn run(mut self) -> Outcome {
        let bound_ms = self.lower_bound_ms();
        self.schedule.begin();
        for client in 0..self.clients.len() {
            self.hello(client);
            self.plan_loss(client);
        }
        self.turn();
        while self.leased > 0 || self.schedule.has_next() {
            let ((at, _), event) = self.events.pop_first().expect("something happens");
            self.now = at;
            self.handle(event);
        }
        Outcome { ratio: self.now as f64 / bound_ms, lost: self.lost, failed: self.failed }
    }

    fn lower_bound_ms(&self) -> f64 {
        let speeds: i64 = self.clients.iter().map(|it| it.speed).sum();
        let fastest = self.clients.iter().map(|it| it.speed).max().unwrap_or(1);
        let jobs = (0..self.graph.times_ms.len() as u32).map(JobId);
        let work: u64 = jobs.filter(|&it| self.schedule.is_wanted(it)).map(|it| self.schedule.expected_ms(it)).sum();
        let path = self.schedule.critical_path_ms() as f64 / fastest as f64;
        path.max(work as f64 / speeds as f64)
    }

    fn schedule(&mut self, after_ms: i64, event: Happening) {
        self.scheduled += 1;
        self.events.insert((self.now + after_ms, self.scheduled), event);
    }

    fn handle(&mut self, event: Happening) {
        match event {
            Happening::Beat(client, instance) if self.clients[client].instance == instance => {
                self.schedule(BEAT_MS, Happening::Beat(client, instance));
                self.beat(client);
            }
            Happening::AttemptArrives(client, lease) if self.clients[client].running == Some(lease) => {
                self.beat(client);
                let ms = self.graph.times_ms[self.leases[lease as usize] as usize] as i64;
                let takes_ms = ms / self.clients[client].speed;
                self.schedule(takes_ms + LATENCY_MS, Happening::AttemptEnds(client, lease));
            }
            Happening::AttemptEnds(client, lease) if self.clients[client].running == Some(lease) => {
                let it = &mut self.clients[client];
                (it.running, it.held) = (None, Some(lease));
                self.deliver(client);
            }
            Happening::Loss(client) => self.lose(client),
            Happening::Return(client) => self.come_back(client),
            Happening::Turn => self.turn_ms = i64::MAX,
            _ => return,
        }
        self.turn();
    }

    // The clients.

    fn hello(&mut self, client: usize) {
        self.connections += 1;
        let connection = ConnectionId(u128::from(self.connections).to_be_bytes());
        let it = &mut self.clients[client];
        let hello = it.hello();
        let answer = self.dispatch.hello(self.now, &it.token, &hello, &Environment::new(), connection);
        answer.expect("the client may connect");
        (it.connection, it.requests, it.beats, it.asks) = (Some(connection), 0, 0, false);
        let instance = it.instance;
        self.schedule(client as i64 % BEAT_MS, Happening::Beat(client, instance));
        self.ask(client);
    }

    fn is_reachable(&self, client: usize) -> Option<ConnectionId> {
        self.clients[client].connection.filter(|_| !self.clients[client].is_cut_off)
    }

    /// Asks for work, unless the client builds or waits.
    fn ask(&mut self, client: usize) {
        let Some(connection) = self.is_reachable(client) else { return };
        let it = &mut self.clients[client];
        if it.running.is_some() || it.held.is_some() || it.asks {
            return;
        }
        (it.requests, it.asks) = (it.requests + 1, true);
        let instance = it.instance;
        self.send_work_request(client, connection, instance);
    }

    fn send_work_request(&mut self, client: usize, connection: ConnectionId, instance: u64) {
        let it = &self.clients[client];
        let request = WorkRequest {
            connection,
            number: it.requests,
            slots: 1,
            memory_kib: PLENTY_KIB,
            disk_kib: PLENTY_KIB,
            wait_ms: 30_000,
        };
        let relayed = self.relayed.len() as u64;
        self.relayed.push((client, instance, it.requests));
        self.dispatch.work(self.now, &it.token, &request, relayed).expect("the connection exists");
    }

    fn beat(&mut self, client: usize) {
        let Some(connection) = self.is_reachable(client) else { return };
        let it = &mut self.clients[client];
        it.beats += 1;
        let lease = it.running.or(it.held);
        let progress = |number| LeaseProgress { cpu_ms: it.beats, ..LeaseProgress::new(lease_id(number)) };
        let leases = lease.map(progress).into_iter().collect();
        let (memory_kib, disk_kib) = (PLENTY_KIB, PLENTY_KIB);
        let beat = Heartbeat { connection, number: it.beats, memory_kib, disk_kib, leases };
        let answer = self.dispatch.heartbeat(self.now, &it.token, &beat).expect("the connection exists");
        if answer.leases.iter().any(|it| it.action == LeaseAction::Supersede) {
            (it.running, it.held) = (None, None);
        }
        self.ask(client);
    }

    /// Sends the result that the client holds.
    fn deliver(&mut self, client: usize) {
        let Some(connection) = self.is_reachable(client) else { return };
        let it = &mut self.clients[client];
        let Some(lease) = it.held.take() else { return };
        let answer = self.dispatch.result(self.now, &it.token, connection, lease_id(lease), Vec::new);
        assert!(matches!(answer, Ok(ResultAnswer::Pending | ResultAnswer::Superseded)), "{answer:?}");
        self.ask(client);
    }

    fn plan_loss(&mut self, client: usize) {
        if self.conditions.has_losses && !self.clients[client].is_stable {
            let uniform = (self.random.number() >> 11) as f64 / (1_u64 << 53) as f64;
            let after_ms = -LOSS_MS * (1.0 - uniform).ln();
            self.schedule(after_ms as i64 + 1, Happening::Loss(client));
        }
    }

    /// Half of the losses interrupt the connection only; the others end the client.
    fn lose(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if self.random.chance(50) {
            it.is_cut_off = true;
            let after_ms = 1 + self.random.below(CUT_OFF_MS as usize) as i64;
            self.schedule(after_ms, Happening::Return(client));
        } else {
            it.instance += 1;
            (it.connection, it.running, it.held) = (None, None, None);
            let after_ms = 1 + self.random.below(REPLACED_MS as usize) as i64;
            self.schedule(after_ms, Happening::Return(client));
        }
    }

    fn come_back(&mut self, client: usize) {
        self.plan_loss(client);
        self.clients[client].is_cut_off = false;
        let Some(connection) = self.clients[client].connection else { return self.hello(client) };
        self.beat(client);
        self.deliver(client);
        // The answer to its request may be lost.
        if self.clients[client].asks {
            let instance = self.clients[client].instance;
            self.send_work_request(client, connection, instance);
        }
    }

    // The coordinator.

    fn turn(&mut self) {
        self.dispatch.tick(self.now);
        self.apply_effects();
        while self.schedule.has_noop() {
            if let Some(Next::NoOp(job)) = self.schedule.take_next() {
                self.schedule.succeeded(job);
            }
        }
        self.start_packages();
        for (relayed, answer) in self.dispatch.take_answers(self.now, "nothing is ready") {
            let leases = answer.map_or_else(|_| Vec::new(), |answer| answer.leases);
            self.answer_work(relayed as usize, leases);
        }
        self.apply_effects();
        let deadline = self.dispatch.next_deadline().unwrap_or(i64::MAX).max(self.now + 1);
        if deadline < self.turn_ms {
            self.turn_ms = deadline;
            self.schedule(deadline - self.now, Happening::Turn);
        }
    }

    fn answer_work(&mut self, relayed: usize, leases: Vec<Lease>) {
        let (client, instance, number) = self.relayed[relayed];
        let it = &mut self.clients[client];
        // A client waits for the answer to its last request only.
        if it.is_cut_off || !it.asks || (it.instance, it.requests) != (instance, number) {
            return;
        }
        it.asks = false;
        match leases.first() {
            Some(lease) => {
                let number = u128::from_be_bytes(lease.lease.0) as u64;
                it.running = Some(number);
                self.schedule(LATENCY_MS, Happening::AttemptArrives(client, number));
            }
            None => self.ask(client),
        }
    }

    fn needs(&self, package: PackageId) -> PackageNeeds<'a> {
        let is_long = self.conditions.has_losses && self.graph.times_ms[package as usize] > LONGEST_UNSTABLE_MS;
        PackageNeeds {
            package,
            usage: ResourceNeeds::default(),
            root: false,
            labels: if is_long { &self.graph.long_package_labels } else { &[] },
            trusted: None,
            excluded: &[],
            long_lived: false,
            this_machine: ThisMachine::Now,
        }
    }

    fn start_packages(&mut self) {
        if !self.dispatch.has_free_client() {
            return;
        }
        let ready = self.schedule.ready_jobs().map(|JobId(package)| package);
        for package in self.dispatch.candidates(ready, |package| self.needs(package)) {
            let needs = self.needs(package);
            let Some(ClientIndex::Remote(client)) = self.dispatch.choose(self.now, &needs) else { continue };
            let number = self.leases.len() as u64;
            self.leases.push(package);
            self.leased += 1;
            self.schedule.take_elsewhere(JobId(package));
            let spec = AttemptSpec { attempt: 1, ..AttemptSpec::default() };
            let lease = Lease {
                lease: lease_id(number),
                spec,
                tree: None,
                packages: Vec::new(),
                distfiles: Vec::new(),
                features: Vec::new(),
            };
            let terms = LeaseTerms { needs: ResourceNeeds::default(), idle_ms: 60 * MINUTE, total_ms: i64::MAX / 4 };
            self.dispatch.offer(self.now, client, package, lease, terms);
        }
    }

    fn apply_effects(&mut self) {
        drop(self.dispatch.take_records());
        for effect in self.dispatch.take_effects() {
            match effect {
                DispatchEffect::Reported { lease, package, client, .. } => self.accept(lease, package, client),
                DispatchEffect::Ended { package, cause, next, .. } => {
                    self.leased -= 1;
                    self.lost += usize::from(cause.is_loss());
                    self.schedule.failed(JobId(package));
                    match next {
                        NextState::Open => {
                            self.schedule.reopen(JobId(package));
                            self.schedule.enqueue_if_ready(JobId(package));
                        }
                        NextState::Failed | NextState::Killed => self.failed += 1,
                    }
                }
                _ => {}
            }
        }
    }

    fn accept(&mut self, lease: LeaseId, package: PackageId, client: ClientIndex) {
        self.leased -= 1;
        let began_ms = self.dispatch.lease(lease).map_or(self.now, |it| it.began_ms);
        let (expected_ms, took_ms) = (self.schedule.expected_ms(JobId(package)), self.now - began_ms);
        self.dispatch.record_success(client, expected_ms, took_ms.unsigned_abs());
        self.dispatch.accepted(lease);
        self.schedule.succeeded(JobId(package));
    }
}

impl Client {
    fn new(at: usize, conditions: Conditions) -> Client {
        Client {
            token: TokenIdentity { id: format!("client-{at}"), roles: Roles(vec![Role::Build]) },
            speed: if conditions.are_equal || at % 2 == 1 { 1 } else { 2 },
            is_stable: at.is_multiple_of(STABLE),
            instance: 0,
            connection: None,
            is_cut_off: false,
            requests: 0,
            asks: false,
            beats: 0,
            running: None,
            held: None,
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            version: "1".into(),
            name: self.token.id.clone(),
            instance: InstanceId(u128::from(self.instance).to_be_bytes()),
            replace: true,
            slots: 1,
            cpus: 1,
            memory_kib: PLENTY_KIB,
            disk_kib: PLENTY_KIB,
            environment: Environment::new(),
            labels: self.is_stable.then(|| STABLE_LABEL.to_owned()).into_iter().collect(),
            root: true,
            running: Vec::new(),
            held: Vec::new(),
        }
    }
}

fn lease_id(number: u64) -> LeaseId {
    LeaseId(u128::from(number).to_be_bytes())
}
