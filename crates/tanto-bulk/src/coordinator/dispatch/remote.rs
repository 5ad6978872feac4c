//! Clients on other machines: their connections, work requests and speed.

use std::collections::BTreeSet;

use tanto_protocol::{ConnectionId, Hello, InstanceId, Lease, LeaseId, WorkAnswer, WorkRequest};

use super::RelayedAnswer;
use super::health::Health;
use crate::coordinator::needs::ResourceNeeds;

/// Most repetitions of a work request that wait at the same time.
pub(super) const MAX_REPEATS: usize = 8;
/// A speed is measured against this much time at speed 1.
const SPEED_PRIOR_MS: u64 = 600_000;

/// A client on another machine. Its name and token identify it; it exists while it has leases or a connection, and after.
#[derive(Clone, Debug)]
pub struct RemoteClient {
    pub name: String,
    /// The public identifier of its token.
    pub token: String,
    /// The roles of its token.
    pub roles: String,
    pub root: bool,
    pub labels: Vec<String>,
    pub slots: u32,
    /// Memory and disk space when it said hello.
    pub capacity: ResourceNeeds,
    /// Free memory and disk space as last reported.
    pub free: ResourceNeeds,
    /// It gets no more leases.
    pub draining: bool,
    /// It gets no more leases in this build, and its packages are built again.
    pub distrusted: bool,
    /// Its last process.
    last_instance: Option<InstanceId>,
    /// It has been silent for too long.
    pub silent: bool,
    pub work: ClientWork,
    /// When it was last heard, on the link's clock.
    pub(super) seen_ms: i64,
    pub(super) connection: Option<ClientConnection>,
    pub(super) health: Health,
    /// Those that have not ended.
    pub(super) leases: BTreeSet<LeaseId>,
}

/// What a client has built, in this run and in earlier ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClientWork {
    /// Packages built in this run.
    pub built: u64,
    /// Expected durations of the packages that it has built, if they are known.
    pub expected_ms: u64,
    /// The durations of these packages.
    pub took_ms: u64,
}

/// A client's process between `hello` and `bye`.
#[derive(Clone, Debug)]
pub(super) struct ClientConnection {
    pub id: ConnectionId,
    pub instance: InstanceId,
    /// When it began, on the link's clock.
    pub since_ms: i64,
    /// The number of the last heartbeat.
    pub heartbeat: u64,
    pub poll: Option<Poll>,
}

/// The last work request of a connection.
#[derive(Clone, Debug)]
pub(super) struct Poll {
    pub number: u64,
    /// The numbers of relayed requests that wait for the answer.
    pub waiting: Vec<u64>,
    pub slots: u32,
    pub until_ms: i64,
    /// Leases for the answer.
    pub leases: Vec<Lease>,
    /// `None` until it is answered.
    pub answer: Option<WorkAnswer>,
}

impl RemoteClient {
    pub(super) fn new(name: &str, token: &str, work: ClientWork, now: i64) -> RemoteClient {
        RemoteClient {
            name: name.to_owned(),
            token: token.to_owned(),
            roles: String::new(),
            root: false,
            labels: Vec::new(),
            slots: 0,
            capacity: ResourceNeeds::default(),
            free: ResourceNeeds::default(),
            draining: false,
            distrusted: false,
            last_instance: None,
            silent: false,
            work,
            seen_ms: now,
            connection: None,
            health: Health::default(),
            leases: BTreeSet::new(),
        }
    }

    /// Begins a connection, which replaces the one before.
    pub(super) fn connect(&mut self, now: i64, hello: &Hello, id: ConnectionId) {
        self.root = hello.root;
        self.labels.clone_from(&hello.labels);
        self.slots = hello.slots;
        self.capacity = ResourceNeeds { memory_kib: hello.memory_kib, disk_kib: hello.disk_kib };
        self.free = self.capacity;
        (self.silent, self.seen_ms) = (false, now);
        let instance = hello.instance;
        let is_new = self.last_instance.replace(instance) != Some(instance);
        // A client that was started again takes part again.
        self.draining &= !is_new;
        self.connection = Some(ClientConnection { id, instance, since_ms: now, heartbeat: 0, poll: None });
    }

    /// Whether it is connected and was heard lately.
    pub fn is_live(&self) -> bool {
        self.connection.is_some() && !self.silent
    }

    /// Whether it has all these labels.
    pub fn has_labels(&self, labels: &[String]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    /// Whether it may get leases.
    pub fn is_enabled(&self) -> bool {
        self.is_live() && !self.draining && !self.distrusted && !self.health.is_disabled()
    }

    /// Whether repeated failures have disabled it.
    pub fn is_disabled(&self) -> bool {
        self.health.is_disabled()
    }

    pub(super) fn poll(&mut self) -> Option<&mut Poll> {
        self.connection.as_mut()?.poll.as_mut()
    }

    pub(super) fn last_poll(&self) -> Option<&Poll> {
        self.connection.as_ref()?.poll.as_ref()
    }

    /// Slots that the waiting work request has left.
    pub(super) fn free_slots(&self) -> usize {
        self.last_poll().filter(|_| self.is_enabled()).map_or(0, Poll::free_slots)
    }

    /// Records the duration of a package that was built.
    pub(super) fn record_built(&mut self, expected_ms: u64, took_ms: u64) {
        self.health.record_success();
        let work = &mut self.work;
        work.built += 1;
        if expected_ms > 0 {
            work.expected_ms = work.expected_ms.saturating_add(expected_ms);
            work.took_ms = work.took_ms.saturating_add(took_ms);
        }
    }

    /// Returns the speed in thousandths of the expected one.
    pub fn speed(&self) -> u64 {
        let [expected, took] = [self.work.expected_ms, self.work.took_ms].map(|ms| ms.saturating_add(SPEED_PRIOR_MS));
        u64::try_from(u128::from(expected) * 1000 / u128::from(took)).unwrap_or(u64::MAX)
    }
}

impl Poll {
    pub(super) fn new(now: i64, longest_ms: i64, request: &WorkRequest, relayed: u64) -> Poll {
        let wait_ms = i64::try_from(request.wait_ms).unwrap_or(i64::MAX).min(longest_ms);
        Poll {
            number: request.number,
            waiting: vec![relayed],
            slots: request.slots,
            until_ms: now.saturating_add(wait_ms),
            leases: Vec::new(),
            answer: None,
        }
    }

    /// Slots without a lease, if the client still waits.
    pub(super) fn free_slots(&self) -> usize {
        if self.waiting.is_empty() { 0 } else { (self.slots as usize).saturating_sub(self.leases.len()) }
    }

    /// Answers the request: with its leases, or with the reason why there are none.
    pub(super) fn answer(&mut self, reason: &str) -> Vec<RelayedAnswer> {
        let leases = std::mem::take(&mut self.leases);
        let reason = if leases.is_empty() { reason } else { "" };
        let answer = WorkAnswer { leases, reason: reason.to_owned() };
        let answers = self.waiting.drain(..).map(|relayed| (relayed, Ok(answer.clone()))).collect();
        self.answer = Some(answer);
        answers
    }
}
