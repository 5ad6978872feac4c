//! Tests of the state machine of clients and leases.

mod exploration;
mod leases;
mod placement;
mod simulation;
mod verification;

use tanto_protocol::{
    AttemptSpec, ConnectionId, Digest, Environment, Heartbeat, Hello, InstanceId, Lease, LeaseId, LeaseProgress, Role,
    Roles, TokenIdentity, WorkAnswer, WorkRequest,
};

use super::lease::{LeaseRecord, LeaseTerms};
use super::{ClientIndex, Dispatch, LeaseTimes, LocalSlots, PackageNeeds, RunningAttempt, ThisMachine};
use crate::coordinator::needs::ResourceNeeds;
use crate::resolve::PackageId;

const GIB: u64 = 1 << 20;
const MINUTE: i64 = 60_000;

const TERMS: LeaseTerms = LeaseTerms {
    needs: ResourceNeeds { memory_kib: GIB, disk_kib: GIB },
    idle_ms: 120 * MINUTE,
    total_ms: 600 * MINUTE,
};

/// A machine without local slots, whose link is up.
fn dispatch() -> Dispatch {
    let mut dispatch = Dispatch::new(LeaseTimes::default(), no_slots(), 0);
    dispatch.link_up(0);
    dispatch
}

/// One slot that is always busy.
fn no_slots() -> LocalSlots {
    let mut slots = LocalSlots::new(1);
    slots.take(None);
    slots
}

fn token(id: &str) -> TokenIdentity {
    TokenIdentity { id: id.into(), roles: Roles(vec![Role::Build]) }
}

fn id(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

fn lease_id(number: u64) -> LeaseId {
    LeaseId(id(number))
}

fn connection_id(number: u64) -> ConnectionId {
    ConnectionId(id(number))
}

fn hello(name: &str, instance: u64, running: &[u64]) -> Hello {
    Hello {
        version: "1".into(),
        name: name.into(),
        instance: InstanceId(id(instance)),
        replace: false,
        slots: 2,
        cpus: 8,
        memory_kib: 16 * GIB,
        disk_kib: 100 * GIB,
        environment: Environment::new(),
        labels: vec![],
        root: false,
        running: running.iter().map(|&lease| lease_id(lease)).collect(),
        held: vec![],
    }
}

fn work(connection: u64, number: u64, slots: u32) -> WorkRequest {
    WorkRequest {
        connection: connection_id(connection),
        number,
        slots,
        memory_kib: 16 * GIB,
        disk_kib: 100 * GIB,
        wait_ms: 20_000,
    }
}

fn progress(lease: u64, stage: &str, cpu_ms: u64) -> LeaseProgress {
    LeaseProgress { stage: stage.into(), cpu_ms, ..LeaseProgress::new(lease_id(lease)) }
}

fn heartbeat(connection: u64, number: u64, leases: Vec<LeaseProgress>) -> Heartbeat {
    let (memory_kib, disk_kib) = (16 * GIB, 100 * GIB);
    Heartbeat { connection: connection_id(connection), number, memory_kib, disk_kib, leases }
}

fn needs(package: PackageId) -> PackageNeeds<'static> {
    PackageNeeds {
        package,
        usage: TERMS.needs,
        root: false,
        labels: &[],
        trusted: None,
        excluded: &[],
        long_lived: false,
        this_machine: ThisMachine::Now,
    }
}

fn lease(number: u64, attempt: u32) -> Lease {
    let spec = AttemptSpec { attempt, name: "a-1".into(), location: "a/a".into(), ..AttemptSpec::default() };
    Lease {
        lease: lease_id(number),
        spec,
        tree: Some(tree(number)),
        packages: vec![],
        distfiles: vec![],
        features: vec![],
    }
}

/// The tree of a lease.
fn tree(number: u64) -> Digest {
    let mut tree = Digest([0; 32]);
    tree.0[..8].copy_from_slice(&number.to_le_bytes());
    tree
}

/// Connects client `name` with its own token.
fn connect(dispatch: &mut Dispatch, now_ms: i64, name: &str, connection: u64) -> ClientIndex {
    let answer =
        dispatch.hello(now_ms, &token(name), &hello(name, 1, &[]), &Environment::new(), connection_id(connection));
    assert!(answer.is_ok(), "{answer:?}");
    ClientIndex::Remote(dispatch.find_client(name, name).unwrap())
}

/// Chooses a client for a package and gives it a lease.
fn start(dispatch: &mut Dispatch, now_ms: i64, package: PackageId, lease_number: u64) -> Option<usize> {
    let ClientIndex::Remote(client) = dispatch.choose(now_ms, &needs(package))? else { return None };
    dispatch.offer(now_ms, client, package, lease(lease_number, 1), TERMS);
    Some(client)
}

/// The numbers of the leases in an answer.
fn leases_of(answer: &WorkAnswer) -> Vec<u64> {
    answer.leases.iter().map(|it| u128::from_be_bytes(it.lease.0) as u64).collect()
}

/// The last record of each lease.
fn latest(records: &[LeaseRecord]) -> Vec<LeaseRecord> {
    let last: std::collections::BTreeMap<LeaseId, &LeaseRecord> = records.iter().map(|it| (it.lease, it)).collect();
    last.into_values().cloned().collect()
}
