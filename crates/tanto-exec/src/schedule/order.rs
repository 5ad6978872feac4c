//! In which order jobs go that could all go at once. Does not know who measured them.

use std::cmp::Reverse;

use super::{Kind, Rank, Schedule, State};
use crate::cost::Cost;
use crate::job::JobId;

/// What makes a job more urgent than another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The time that the longest chain of jobs takes that begins with it, by what each is expected to take.
    Critical,
    /// The number of commands of that chain, as with ninja.
    Ninja,
    /// Nothing: as they stand in the manifest.
    Manifest,
}

impl Schedule {
    /// Says what a job will take. For one that joins while the build runs, its own time is where its priority begins.
    pub fn expect(&mut self, job: JobId, cost: Cost) {
        self.jobs[job.0 as usize].cost = cost;
        if self.begun {
            self.raise(job, 0);
        }
    }

    /// What the job is expected to take.
    pub fn cost(&self, job: JobId) -> Cost {
        self.jobs[job.0 as usize].cost
    }

    /// Gives each job its priority. `chain` holds each job after all that it depends on. Only before the build begins.
    pub fn prioritise(&mut self, chain: &[JobId], order: Order) {
        assert!(!self.begun, "priorities are set before the build begins");
        for &job in chain.iter().rev() {
            let dependents = &self.jobs[job.0 as usize].dependents;
            let behind = dependents.iter().map(|it| self.jobs[it.job.0 as usize].priority).max().unwrap_or(0);
            self.jobs[job.0 as usize].priority = behind + self.weight(job, order);
        }
    }

    /// The job turned out to be needed by one of this priority: it goes before it, and its own time before that. Its
    /// new priority, if that is higher than it was.
    pub fn raise(&mut self, job: JobId, behind: i64) -> Option<i64> {
        let priority = behind + self.weight(job, Order::Critical);
        if priority <= self.priority(job) || !self.is_pending(job) {
            return None;
        }
        let (old, state) = (self.rank(job), self.state(job));
        self.jobs[job.0 as usize].priority = priority;
        let new = Rank { priority: Reverse(priority), ..old };
        let pool = self.jobs[job.0 as usize].spec.pool.0 as usize;
        let queue = match state {
            State::Ready => Some(&mut self.ready),
            State::Delayed => Some(&mut self.pools[pool].delayed),
            _ => None,
        };
        if let Some(queue) = queue {
            queue.remove(&old);
            queue.insert(new);
        }
        Some(priority)
    }

    /// How urgent the job is: of two that could go, that with the higher number goes first.
    pub fn priority(&self, job: JobId) -> i64 {
        self.jobs[job.0 as usize].priority
    }

    /// What a job adds to the chains that it is in.
    fn weight(&self, job: JobId, order: Order) -> i64 {
        let it = &self.jobs[job.0 as usize];
        match (order, it.spec.kind) {
            (_, Kind::Phony) | (Order::Manifest, _) => 0,
            (Order::Ninja, Kind::Command) => 1,
            (Order::Critical, Kind::Command) if !it.spec.wanted => 0,
            // However fast it was, it is a step.
            (Order::Critical, Kind::Command) => i64::from(it.cost.wall_ms).max(1),
        }
    }
}
