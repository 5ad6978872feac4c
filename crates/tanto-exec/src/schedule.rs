//! The scheduler: a pure state machine over jobs and pools. It has no clock, no lock and no I/O, so that a list of
//! completions replays it exactly. It does not know what a job does.

mod admission;
mod blocked;
mod order;
mod reopen;

use std::collections::BTreeSet;

use crate::job::Cost;
use crate::job::JobId;

use self::admission::{AdmissionControl, Candidate};
pub use self::blocked::Blocked;

pub use self::admission::{AdmissionLimits, MAX_TIMES_PASSED_OVER, ResourceSample, ThrottleReason};
pub use self::order::Order;

/// A pool of one schedule; pool 0 is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u32);

impl PoolId {
    /// The pool without a limit, in which a job is unless it says otherwise.
    pub const UNLIMITED: PoolId = PoolId(0);
}

/// Whether a job has a command, which is what progress counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It runs something.
    Command,
    /// It only groups others.
    Phony,
}

/// What a job is when it joins the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// Its pool.
    pub pool: PoolId,
    /// Breaks ties of priority: the lower goes first. Unique in one schedule.
    pub order: u32,
    /// Has it a command?
    pub kind: Kind,
    /// Is it to run? A job that is not passes on as soon as what it waits for is done.
    pub wanted: bool,
}

/// Where a job stands. Each state says what has to be true to be in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Something that it depends on is not done (or the build has not begun).
    Waiting,
    /// All it depends on is done, but its pool is full.
    Delayed,
    /// All it depends on is done, but nobody wants it to run: it waits to be handed out for passing.
    ReadyNoOp,
    /// All it depends on is done, it holds its pool's slot and waits for its turn.
    Ready,
    /// `hand_out` gave it out; its pool's slot is held.
    Running,
    /// `hand_out` gave it out as unwanted; it holds no slot.
    RunningNoOp,
    /// It succeeded or passed: its dependents need not wait for it, unless it is opened again.
    Done,
    /// It failed: its dependents wait for ever, unless it is opened again.
    Failed,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Run this job, then report `succeeded` or `failed`.
    Start(JobId),
    /// Nobody wants this job to run: report `succeeded` at once.
    NoOp(JobId),
}

#[derive(Clone)]
struct Job {
    spec: JobSpec,
    state: State,
    /// What it will take, as far as anybody can tell.
    cost: Cost,
    /// What it may write to the disk, in KiB.
    disk_kib: u64,
    /// How many entries in others' `dependents` name this job and are not done.
    missing: u32,
    priority: i64,
    dependents: Vec<Dependent>,
}

/// A job that waits for another one.
#[derive(Clone, Copy)]
struct Dependent {
    /// For which of the other's products.
    product: u32,
    job: JobId,
}

#[derive(Clone)]
struct Pool {
    /// 0: no limit.
    depth: u32,
    in_use: u32,
    delayed: BTreeSet<Rank>,
}

/// Highest priority first, then lowest order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: std::cmp::Reverse<i64>,
    order: u32,
    job: JobId,
}

/// The state of all jobs of a build.
#[derive(Clone, Default)]
pub struct Schedule {
    jobs: Vec<Job>,
    pools: Vec<Pool>,
    ready: BTreeSet<Rank>,
    noops: Vec<JobId>,
    order: Order,
    admission: Option<AdmissionControl>,
    wanted: usize,
    commands: usize,
    begun: bool,
}

impl Schedule {
    /// An empty schedule with the unlimited pool.
    pub fn new() -> Self {
        let mut schedule = Schedule::default();
        schedule.add_pool(0);
        schedule
    }

    /// Adds a pool for `depth` jobs at a time; 0 means no limit.
    pub fn add_pool(&mut self, depth: u32) -> PoolId {
        let id = PoolId(u32::try_from(self.pools.len()).expect("under 2^32 pools"));
        self.pools.push(Pool { depth, in_use: 0, delayed: BTreeSet::new() });
        id
    }

    /// Adds a job. It waits until `settle` (or, before the build begins, `begin`) looks at it.
    pub fn add(&mut self, spec: JobSpec) -> JobId {
        let id = JobId(u32::try_from(self.jobs.len()).expect("under 2^32 jobs"));
        let job = Job {
            spec: JobSpec { wanted: false, ..spec },
            state: State::Waiting,
            cost: Cost::default(),
            disk_kib: 0,
            missing: 0,
            priority: 0,
            dependents: Vec::new(),
        };
        self.jobs.push(job);
        if spec.wanted {
            self.want(id);
        }
        id
    }

    /// `job` may not go before `on` is done. A dependency that is done already does not count; a job that was only
    /// queued goes back to waiting. `product` says for which of `on`'s products it waits: where several jobs want the
    /// last slot of a pool when `on` is done, the one with the lowest gets it, and then the one with the lowest order.
    pub fn add_dependency(&mut self, job: JobId, on: JobId, product: u32) {
        if self.state(on) == State::Done || !self.is_pending(job) {
            return;
        }
        self.jobs[on.0 as usize].dependents.push(Dependent { product, job });
        self.jobs[job.0 as usize].missing += 1;
        self.set(job, State::Waiting);
    }

    /// The job is to run after all.
    pub fn want(&mut self, job: JobId) {
        if self.is_wanted(job) {
            return;
        }
        let was_idle = self.state(job) == State::ReadyNoOp;
        if was_idle {
            self.set(job, State::Waiting);
        }
        let it = &mut self.jobs[job.0 as usize];
        assert_eq!(it.state, State::Waiting, "wanted too late");
        it.spec.wanted = true;
        self.wanted += 1;
        self.commands += usize::from(it.spec.kind == Kind::Command);
        if was_idle {
            self.enqueue_if_ready(job);
        }
    }

    /// The job need not run: it will pass when what it waits for is done.
    pub fn unwant(&mut self, job: JobId) {
        let it = &mut self.jobs[job.0 as usize];
        if it.spec.wanted {
            assert_eq!(it.state, State::Waiting, "taken out of the plan too late");
            it.spec.wanted = false;
            self.wanted -= 1;
            self.commands -= usize::from(it.spec.kind == Kind::Command);
        }
    }

    /// Is the job wanted?
    pub fn is_wanted(&self, job: JobId) -> bool {
        self.jobs[job.0 as usize].spec.wanted
    }

    /// Where the job stands.
    pub fn state(&self, job: JobId) -> State {
        self.jobs[job.0 as usize].state
    }

    /// The job has been neither handed out nor finished.
    pub fn is_pending(&self, job: JobId) -> bool {
        matches!(self.state(job), State::Waiting | State::Delayed | State::ReadyNoOp | State::Ready)
    }

    /// Is there anything to run, or to pass? Groups alone do not count.
    pub fn has_work(&self) -> bool {
        // What passes may still add to the plan.
        self.wanted > 0 && self.commands > 0 || self.has_noop()
    }

    /// Queues every job that waits for nothing.
    pub fn begin(&mut self) {
        self.begun = true;
        let free: Vec<JobId> = self.job_ids().filter(|&job| self.is_free(job)).collect();
        // All are delayed first, so that a pool's slots go to the highest priorities.
        for &job in &free {
            self.enqueue(job);
        }
        for pool in 0..self.pools.len() {
            self.refill(pool);
        }
    }

    /// Queues the job if it waits for nothing; to be called for jobs added, or made wanted, after `begin`.
    pub fn enqueue_if_ready(&mut self, job: JobId) {
        if self.begun && self.is_free(job) {
            self.enqueue(job);
            self.refill(self.jobs[job.0 as usize].spec.pool.0 as usize);
        }
    }

    /// Is there a job to hand out?
    pub fn has_next(&self) -> bool {
        !self.ready.is_empty() || !self.noops.is_empty()
    }

    /// Is there a job to pass, which takes no slot of a runner?
    pub fn has_noop(&self) -> bool {
        !self.noops.is_empty()
    }

    /// From now on what jobs take together is limited. Only before anything is handed out.
    pub fn limit_admission(&mut self, limits: AdmissionLimits) {
        self.admission = Some(AdmissionControl::new(limits));
    }

    /// Does what the machine says matter?
    pub fn has_admission_limits(&self) -> bool {
        self.admission.is_some()
    }

    /// What the machine says now.
    pub fn update_resources(&mut self, reading: ResourceSample) {
        if let Some(admission) = &mut self.admission {
            admission.update_resources(reading);
        }
    }

    /// A running job holds so much memory now, in KiB.
    pub fn update_memory(&mut self, job: JobId, kib: u64) {
        if let Some(admission) = &mut self.admission {
            admission.update_memory(job, kib);
        }
    }

    /// Why the last `hand_out` handed out nothing, if there was something.
    pub fn throttle_reason(&self) -> Option<ThrottleReason> {
        self.admission.as_ref().filter(|_| !self.ready.is_empty())?.throttled
    }

    /// Hands out the next job: what passes goes before what runs. Nothing, if it is better to wait until one that runs
    /// has ended or the machine says something else.
    pub fn take_next(&mut self) -> Option<Next> {
        if let Some(&job) = self.noops.last() {
            self.set(job, State::RunningNoOp);
            return Some(Next::NoOp(job));
        }
        let job = self.choose()?;
        self.set(job, State::Running);
        Some(Next::Start(job))
    }

    fn choose(&mut self) -> Option<JobId> {
        let Some(admission) = &mut self.admission else { return Some(self.ready.first()?.job) };
        let jobs = &self.jobs;
        admission.choose(self.ready.iter().map(|rank| {
            let it = &jobs[rank.job.0 as usize];
            let needs_kib = (it.spec.kind == Kind::Command).then_some(u64::from(it.cost.memory_kib));
            Candidate { job: rank.job, needs_kib, disk_kib: it.disk_kib }
        }))
    }

    /// The rations follow what becomes of a command.
    fn update_admission(&mut self, job: JobId, from: State, to: State) {
        let Some(admission) = &mut self.admission else { return };
        let it = &self.jobs[job.0 as usize];
        if from == State::Ready {
            admission.dequeued(job);
        }
        if to == State::Running && it.spec.kind == Kind::Command {
            admission.started(job, u64::from(it.cost.memory_kib), it.disk_kib);
        } else if from == State::Running {
            admission.ended(job);
        }
    }

    /// The job is done: frees its pool's slot and releases its dependents.
    pub fn succeeded(&mut self, job: JobId) {
        let held_slot = self.state(job) == State::Running;
        if held_slot {
            self.wanted -= 1;
        }
        self.set(job, State::Done);
        let mut dependents = std::mem::take(&mut self.jobs[job.0 as usize].dependents);
        dependents.sort_by_key(|it| (it.product, self.jobs[it.job.0 as usize].spec.order));
        dependents.iter().for_each(|it| self.jobs[it.job.0 as usize].missing -= 1);
        for &Dependent { job, .. } in &dependents {
            if self.is_free(job) {
                self.enqueue(job);
                self.refill(self.jobs[job.0 as usize].spec.pool.0 as usize);
            }
        }
    }

    /// The job failed: frees its pool's slot; its dependents never become ready.
    pub fn failed(&mut self, job: JobId) {
        assert_eq!(self.state(job), State::Running, "a job failed that did not run");
        self.set(job, State::Failed);
    }

    fn job_ids(&self) -> impl Iterator<Item = JobId> + use<> {
        (0..self.jobs.len() as u32).map(JobId)
    }

    fn is_free(&self, job: JobId) -> bool {
        let it = &self.jobs[job.0 as usize];
        it.state == State::Waiting && it.missing == 0
    }

    fn enqueue(&mut self, job: JobId) {
        if self.is_wanted(job) {
            self.set(job, State::Delayed);
        } else {
            self.set(job, State::ReadyNoOp);
        }
    }

    /// Moves delayed jobs to ready while the pool has slots.
    fn refill(&mut self, pool: usize) {
        while let Some(&rank) = self.pools[pool].delayed.first() {
            let it = &self.pools[pool];
            if it.depth != 0 && it.in_use >= it.depth {
                break;
            }
            self.set(rank.job, State::Ready);
        }
    }

    fn rank(&self, job: JobId) -> Rank {
        let it = &self.jobs[job.0 as usize];
        Rank { priority: std::cmp::Reverse(it.priority), order: it.spec.order, job }
    }

    /// The one place where a job changes its state: leaves what the old one means, enters what the new one means.
    fn set(&mut self, job: JobId, to: State) {
        let (rank, from) = (self.rank(job), self.state(job));
        let pool = self.jobs[job.0 as usize].spec.pool.0 as usize;
        assert!(Self::allowed(from, to), "job {job:?} cannot go from {from:?} to {to:?}");
        let holds_slot = |state| matches!(state, State::Ready | State::Running);
        match from {
            State::Delayed => assert!(self.pools[pool].delayed.remove(&rank)),
            State::Ready => assert!(self.ready.remove(&rank)),
            State::ReadyNoOp => {
                let at = self.noops.iter().rposition(|&idle| idle == job);
                self.noops.remove(at.expect("an idle job is listed"));
            }
            _ => {}
        }
        match to {
            State::Delayed => assert!(self.pools[pool].delayed.insert(rank)),
            State::Ready => assert!(self.ready.insert(rank)),
            State::ReadyNoOp => self.noops.push(job),
            _ => {}
        }
        self.jobs[job.0 as usize].state = to;
        self.update_admission(job, from, to);
        if holds_slot(to) && !holds_slot(from) {
            self.pools[pool].in_use += 1;
        }
        if holds_slot(from) && !holds_slot(to) {
            self.pools[pool].in_use -= 1;
            self.refill(pool);
        }
    }

    fn allowed(from: State, to: State) -> bool {
        use State::{Delayed, Done, Failed, Ready, ReadyNoOp, Running, RunningNoOp, Waiting};
        matches!(
            (from, to),
            (Waiting, Waiting | Delayed | ReadyNoOp)
                | (Delayed, Ready | Waiting)
                | (ReadyNoOp, RunningNoOp | Waiting)
                | (Ready, Running | Waiting)
                | (Running, Done | Failed)
                | (RunningNoOp, Done)
                | (Done | Failed, Waiting)
        )
    }
}
