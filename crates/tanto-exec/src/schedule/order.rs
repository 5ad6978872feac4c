//! Priorities of ready jobs.

use std::cmp::Reverse;

use super::{Job, Kind, Rank, Schedule, State};
use crate::job::Cost;
use crate::job::JobId;

/// What priorities are computed from.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Order {
    /// Expected duration of the longest chain of jobs that starts with the job.
    Critical,
    /// The same, and jobs in a limited pool also count the rest of their pool, which waits for the same slots.
    Pooled,
    /// Number of commands in that chain, as in ninja.
    Ninja,
    /// Order of the manifest.
    #[default]
    Manifest,
}

impl Schedule {
    /// Sets the expected cost of a job, which may be running. For a job that joined during the build, its duration is
    /// its initial priority.
    pub fn set_cost(&mut self, job: JobId, cost: Cost) {
        self.jobs[job.0 as usize].cost = cost;
        self.update_expected(job);
        if self.begun {
            self.raise(job, 0);
        }
    }

    /// Sets the expected disk usage of a job, in KiB.
    pub fn set_disk_need(&mut self, job: JobId, kib: u64) {
        self.jobs[job.0 as usize].disk_kib = kib;
        self.update_expected(job);
    }

    fn update_expected(&mut self, job: JobId) {
        if let Some(admission) = &mut self.admission {
            let it = &self.jobs[job.0 as usize];
            admission.update_expected(job, u64::from(it.cost.memory_kib), it.disk_kib);
        }
    }

    pub fn cost(&self, job: JobId) -> Cost {
        self.jobs[job.0 as usize].cost
    }

    /// Computes all priorities. `chain` has each job after its dependencies. Call before `begin`.
    pub fn prioritize(&mut self, chain: &[JobId], order: Order) {
        assert!(!self.begun, "priorities are set before the build begins");
        self.order = order;
        self.jobs.iter_mut().for_each(|job| job.priority = 0);
        self.propagate_priorities(chain);
        if order == Order::Pooled {
            (1..self.pools.len()).for_each(|pool| self.raise_pool_priorities(pool, chain));
            self.propagate_priorities(chain);
        }
    }

    /// Adds each job's own weight to the highest priority of its dependents.
    pub(super) fn propagate_priorities(&mut self, chain: &[JobId]) {
        for &job in chain.iter().rev() {
            let it = &self.jobs[job.0 as usize];
            let behind = it.dependents.iter().map(|it| self.jobs[it.job.0 as usize].priority).max().unwrap_or(0);
            let priority = it.priority.max(behind + self.weight(job));
            self.jobs[job.0 as usize].priority = priority;
        }
    }

    /// Jobs of a pool wait for each other: the first one counts the time of all later ones, divided by the number of
    /// slots.
    fn raise_pool_priorities(&mut self, pool: usize, chain: &[JobId]) {
        let slots = i64::from(self.pools[pool].depth.max(1));
        let is_in = |job: &JobId| self.jobs[job.0 as usize].spec.pool.0 as usize == pool;
        let mut queue: Vec<JobId> = chain.iter().copied().filter(is_in).collect();
        queue.sort_by_key(|&job| (self.priority(job), Reverse(self.jobs[job.0 as usize].spec.order)));
        let mut behind = 0;
        for job in queue {
            let weight = self.weight(job);
            let it = &mut self.jobs[job.0 as usize];
            it.priority = it.priority.max(weight + behind / slots);
            behind += weight;
        }
    }

    /// Raises a job above a dependent of priority `behind` that was found during the build. Returns the new priority if
    /// it is higher.
    pub fn raise(&mut self, job: JobId, behind: i64) -> Option<i64> {
        let priority = behind + self.weight(job);
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

    /// Returns the expected duration; 0 if the job has no command or need not run.
    pub fn expected_ms(&self, job: JobId) -> u64 {
        let it = &self.jobs[job.0 as usize];
        // Even the fastest command is a step of a chain.
        if it.spec.wanted && it.spec.kind == Kind::Command { u64::from(it.cost.wall_ms).max(1) } else { 0 }
    }

    /// Returns whether any wanted command is expected to take this long.
    pub fn has_job_expecting(&self, wall_ms: u32) -> bool {
        let is_one = |job: &Job| job.spec.wanted && job.spec.kind == Kind::Command && job.cost.wall_ms >= wall_ms;
        self.jobs.iter().any(is_one)
    }

    /// Returns by job number the expected duration of the longest chain of commands that depends on it. Call before the
    /// first `take_next`.
    pub fn downstream_ms(&self) -> Vec<u64> {
        self.downstream_of(|job| self.expected_ms(job))
    }

    /// The same with other durations.
    fn downstream_of(&self, takes: impl Fn(JobId) -> u64) -> Vec<u64> {
        let chain = self.topological_order();
        let mut behind: Vec<u64> = vec![0; self.jobs.len()];
        for job in chain.into_iter().rev() {
            let users = self.jobs[job.0 as usize].dependents.iter().map(|it| it.job);
            let longest = users.map(|user| behind[user.0 as usize] + takes(user)).max();
            behind[job.0 as usize] = longest.unwrap_or(0);
        }
        behind
    }

    /// Returns the expected duration of the longest chain of commands. Call before the first `take_next`.
    pub fn critical_path_ms(&self) -> u64 {
        self.critical_path_of(|job| self.expected_ms(job))
    }

    /// The same with other durations.
    pub fn critical_path_of(&self, takes: impl Fn(JobId) -> u64) -> u64 {
        let chains = self.job_ids().zip(self.downstream_of(&takes)).map(|(job, behind)| behind + takes(job));
        chains.max().unwrap_or(0)
    }

    /// Returns the total duration of the busiest pool's commands, divided by its slots.
    pub fn busiest_pool_ms(&self) -> u64 {
        let mut work: Vec<u64> = vec![0; self.pools.len()];
        self.job_ids().for_each(|job| work[self.jobs[job.0 as usize].spec.pool.0 as usize] += self.expected_ms(job));
        let limited = work.iter().zip(&self.pools).filter(|(_, pool)| pool.depth > 0);
        limited.map(|(work, pool)| work.div_ceil(u64::from(pool.depth))).max().unwrap_or(0)
    }

    pub fn has_pools(&self) -> bool {
        self.pools.iter().any(|pool| pool.depth > 0)
    }

    /// Returns the priority of a job; higher goes first.
    pub fn priority(&self, job: JobId) -> i64 {
        self.jobs[job.0 as usize].priority
    }

    /// Returns the highest priority of all ready jobs.
    pub fn next_priority(&self) -> Option<i64> {
        self.ready.first().map(|rank| rank.priority.0)
    }

    fn weight(&self, job: JobId) -> i64 {
        match self.order {
            Order::Manifest => 0,
            Order::Ninja => i64::from(self.jobs[job.0 as usize].spec.kind == Kind::Command),
            Order::Critical | Order::Pooled => self.expected_ms(job) as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{JobSpec, PoolId};

    #[test]
    fn downstream_time_includes_all_dependents() {
        let mut schedule = Schedule::new();
        let mut add = |kind, wanted, wall_ms| {
            let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order: 0, kind, wanted });
            schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
            job
        };
        let [start, long, short] = [20, 300, 40].map(|ms| add(Kind::Command, true, ms));
        let (group, not_dirty) = (add(Kind::Phony, true, 0), add(Kind::Command, false, 9000));
        let end = add(Kind::Command, true, 5);
        let pairs =
            [(long, start), (short, start), (group, long), (group, short), (not_dirty, group), (end, not_dirty)];
        pairs.into_iter().for_each(|(job, on)| schedule.add_dependency(job, on, 0));
        let before = schedule.downstream_ms();
        assert_eq!(before, [305, 5, 5, 5, 5, 0]);
        assert_eq!(schedule.critical_path_ms(), 325);
        schedule.begin();
        assert_eq!(schedule.downstream_ms(), before, "it is asked for when jobs are queued too");
    }
}
