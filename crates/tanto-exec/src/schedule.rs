//! The scheduler: a pure state machine over jobs and pools, without a clock, locks and I/O, so that a list of
//! completions replays it exactly.

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

/// Index of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u32);

impl PoolId {
    /// The default pool.
    pub const UNLIMITED: PoolId = PoolId(0);
}

/// Only commands count for progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Command,
    /// Groups other jobs.
    Phony,
}

/// Declaration of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSpec {
    pub pool: PoolId,
    /// Breaks ties of priority: the lower goes first. Unique within a schedule.
    pub order: u32,
    pub kind: Kind,
    /// Whether the job has to run. Others complete as soon as their dependencies are done.
    pub wanted: bool,
}

/// State of a job, with its precondition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A dependency is not done, or the build has not begun.
    Waiting,
    /// All dependencies are done, but the pool is full.
    Delayed,
    /// All dependencies are done, and the job need not run.
    ReadyNoOp,
    /// All dependencies are done, and the job holds a slot of its pool.
    Ready,
    /// Taken by `take_next`; the pool's slot is held.
    Running,
    /// Taken by `take_next` without having to run; holds no slot.
    RunningNoOp,
    /// Succeeded or completed without running. Dependents need not wait for it, unless it is reopened.
    Done,
    /// Dependents wait forever, unless it is reopened.
    Failed,
}

/// Result of `Schedule::take_next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Run this job, then call `succeeded` or `failed`.
    Start(JobId),
    /// Call `succeeded` at once.
    NoOp(JobId),
}

#[derive(Clone)]
struct Job {
    spec: JobSpec,
    state: State,
    cost: Cost,
    /// Expected disk usage.
    disk_kib: u64,
    /// It runs on other machines only.
    is_elsewhere: bool,
    /// Number of unfinished entries of this job in the `dependents` of others.
    missing: u32,
    priority: i64,
    dependents: Vec<Dependent>,
}

#[derive(Clone, Copy)]
struct Dependent {
    /// Index of the dependency's product, see `add_dependency`.
    product: u32,
    job: JobId,
}

#[derive(Clone)]
struct Pool {
    /// 0: unlimited.
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

/// All jobs and pools of a build.
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
    /// Returns an empty schedule with the unlimited pool.
    pub fn new() -> Self {
        let mut schedule = Schedule::default();
        schedule.add_pool(0);
        schedule
    }

    /// Adds a pool of `depth` slots; 0: unlimited.
    pub fn add_pool(&mut self, depth: u32) -> PoolId {
        let id = PoolId(u32::try_from(self.pools.len()).expect("under 2^32 pools"));
        self.pools.push(Pool { depth, in_use: 0, delayed: BTreeSet::new() });
        id
    }

    /// Adds a job, which waits until `enqueue_if_ready` or `begin`.
    pub fn add(&mut self, spec: JobSpec) -> JobId {
        let id = JobId(u32::try_from(self.jobs.len()).expect("under 2^32 jobs"));
        let job = Job {
            spec: JobSpec { wanted: false, ..spec },
            state: State::Waiting,
            cost: Cost::default(),
            disk_kib: 0,
            is_elsewhere: false,
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

    /// Makes `job` wait for `on`, unless that is done; a queued job returns to waiting. `product` is the index of the
    /// output of `on` that it waits for: dependents of lower products get the pool's slots first, then those of lower
    /// order.
    pub fn add_dependency(&mut self, job: JobId, on: JobId, product: u32) {
        if self.state(on) == State::Done || !self.is_pending(job) {
            return;
        }
        self.jobs[on.0 as usize].dependents.push(Dependent { product, job });
        self.jobs[job.0 as usize].missing += 1;
        self.set(job, State::Waiting);
    }

    /// Makes the job run.
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

    /// Makes the job complete without running.
    pub fn unwant(&mut self, job: JobId) {
        let it = &mut self.jobs[job.0 as usize];
        if it.spec.wanted {
            assert_eq!(it.state, State::Waiting, "taken out of the plan too late");
            it.spec.wanted = false;
            self.wanted -= 1;
            self.commands -= usize::from(it.spec.kind == Kind::Command);
        }
    }

    pub fn is_wanted(&self, job: JobId) -> bool {
        self.jobs[job.0 as usize].spec.wanted
    }

    pub fn state(&self, job: JobId) -> State {
        self.jobs[job.0 as usize].state
    }

    /// Returns whether the job was neither taken nor finished.
    pub fn is_pending(&self, job: JobId) -> bool {
        matches!(self.state(job), State::Waiting | State::Delayed | State::ReadyNoOp | State::Ready)
    }

    /// Returns whether there are commands to run or jobs to complete. Groups alone do not count.
    pub fn has_work(&self) -> bool {
        // Completing a job may still add to the plan.
        self.wanted > 0 && self.commands > 0 || self.has_noop()
    }

    /// Returns the number of commands that have yet to run, unless they turn out to be up to date.
    pub fn command_count(&self) -> usize {
        self.commands
    }

    /// Begins the build: queues all jobs without pending dependencies.
    pub fn begin(&mut self) {
        self.begun = true;
        let free: Vec<JobId> = self.job_ids().filter(|&job| self.is_free(job)).collect();
        // All become delayed first, so that a pool's slots go to the highest priorities.
        for &job in &free {
            self.enqueue(job);
        }
        for pool in 0..self.pools.len() {
            self.refill(pool);
        }
    }

    /// Queues a job without pending dependencies. For jobs that were added or wanted after `begin`.
    pub fn enqueue_if_ready(&mut self, job: JobId) {
        if self.begun && self.is_free(job) {
            self.enqueue(job);
            self.refill(self.jobs[job.0 as usize].spec.pool.0 as usize);
        }
    }

    pub fn has_next(&self) -> bool {
        !self.ready.is_empty() || !self.noops.is_empty()
    }

    /// Returns whether a job can complete without a slot of the runner.
    pub fn has_noop(&self) -> bool {
        !self.noops.is_empty()
    }

    /// Enables admission control. Call before the first `take_next`.
    pub fn limit_admission(&mut self, limits: AdmissionLimits) {
        self.admission = Some(AdmissionControl::new(limits));
    }

    pub fn has_admission_limits(&self) -> bool {
        self.admission.is_some()
    }

    pub fn update_resources(&mut self, reading: ResourceSample) {
        if let Some(admission) = &mut self.admission {
            admission.update_resources(reading);
        }
    }

    /// Records the current memory use of a running job, in KiB.
    pub fn update_memory(&mut self, job: JobId, kib: u64) {
        if let Some(admission) = &mut self.admission {
            admission.update_memory(job, kib);
        }
    }

    /// Returns why the last `take_next` returned `None` although jobs were ready.
    pub fn throttle_reason(&self) -> Option<ThrottleReason> {
        self.admission.as_ref().filter(|_| !self.ready.is_empty())?.throttled
    }

    /// Takes the next job: those that need not run first. `None`: wait for the end of a job or a new resource sample.
    pub fn take_next(&mut self) -> Option<Next> {
        if let Some(&job) = self.noops.last() {
            self.set(job, State::RunningNoOp);
            return Some(Next::NoOp(job));
        }
        let job = self.choose()?;
        self.set(job, State::Running);
        Some(Next::Start(job))
    }

    /// Returns the ready jobs that have to run, the most urgent first.
    pub fn ready_jobs(&self) -> impl Iterator<Item = JobId> {
        self.ready.iter().map(|rank| rank.job)
    }

    /// Takes a ready job that runs on another machine: it uses no resources of this one.
    pub fn take_elsewhere(&mut self, job: JobId) {
        self.set(job, State::Running);
        if let Some(admission) = &mut self.admission {
            admission.ended(job);
        }
    }

    /// Leaves a job to other machines: only `take_elsewhere` takes it.
    pub fn set_elsewhere(&mut self, job: JobId, is_elsewhere: bool) {
        self.jobs[job.0 as usize].is_elsewhere = is_elsewhere;
    }

    fn choose(&mut self) -> Option<JobId> {
        let jobs = &self.jobs;
        let mut here = self.ready.iter().filter(|rank| !jobs[rank.job.0 as usize].is_elsewhere);
        let Some(admission) = &mut self.admission else { return Some(here.next()?.job) };
        admission.choose(here.map(|rank| {
            let it = &jobs[rank.job.0 as usize];
            let needs_kib = (it.spec.kind == Kind::Command).then_some(u64::from(it.cost.memory_kib));
            Candidate { job: rank.job, needs_kib, disk_kib: it.disk_kib }
        }))
    }

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

    /// Completes a job: frees its slot and releases its dependents.
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

    /// Marks a job as failed: frees its slot. Its dependents never become ready.
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

    /// Changes the state of a job; checks the transition and updates all queues. No other function sets a state.
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
