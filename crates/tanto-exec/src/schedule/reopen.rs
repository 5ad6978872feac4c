//! Changes to a running build: jobs that run again, are withdrawn, or get other dependencies.

use std::collections::BTreeSet;

use super::{Job, Rank, Schedule, State};
use crate::job::JobId;

impl Schedule {
    /// Makes a finished job run again. Its dependencies are forgotten and, if it was done, its dependents too: call
    /// `add_dependency` for both, then `enqueue_if_ready`.
    pub fn reopen(&mut self, job: JobId) {
        let was_done = self.state(job) == State::Done;
        self.set(job, State::Waiting);
        let it = &self.jobs[job.0 as usize].spec;
        if !it.wanted {
            self.want(job);
        } else if was_done {
            self.wanted += 1;
        }
    }

    /// Removes a dependency. Call `enqueue_if_ready` afterwards.
    pub fn remove_dependency(&mut self, job: JobId, on: JobId) {
        let dependents = &mut self.jobs[on.0 as usize].dependents;
        let before = dependents.len();
        dependents.retain(|it| it.job != job);
        let gone = before - dependents.len();
        self.jobs[job.0 as usize].missing -= u32::try_from(gone).expect("no more than were missing");
    }

    /// Makes a job complete without running, even if it was queued. No effect on a job that was already taken.
    pub fn withdraw(&mut self, job: JobId) {
        if !self.is_pending(job) || !self.is_wanted(job) {
            return;
        }
        if self.state(job) != State::Waiting {
            self.set(job, State::Waiting);
        }
        self.unwant(job);
        self.enqueue_if_ready(job);
    }

    /// Recomputes all priorities after changes to dependencies. Raised priorities are lost.
    pub fn reprioritize(&mut self) {
        let chain = self.topological_order();
        self.jobs.iter_mut().for_each(|job| job.priority = 0);
        self.propagate_priorities(&chain);
        self.ready = self.ranks(|it| it.state == State::Ready);
        for pool in 0..self.pools.len() {
            let delayed = self.ranks(|it| it.state == State::Delayed && it.spec.pool.0 as usize == pool);
            self.pools[pool].delayed = delayed;
        }
    }

    fn ranks(&self, is_one: impl Fn(&Job) -> bool) -> BTreeSet<Rank> {
        self.job_ids().filter(|job| is_one(&self.jobs[job.0 as usize])).map(|job| self.rank(job)).collect()
    }

    /// Returns all jobs, each after its dependencies.
    pub(super) fn topological_order(&self) -> Vec<JobId> {
        let mut missing: Vec<u32> = self.jobs.iter().map(|job| job.missing).collect();
        let mut chain: Vec<JobId> = self.job_ids().filter(|job| missing[job.0 as usize] == 0).collect();
        let mut at = 0;
        while let Some(job) = chain.get(at) {
            at += 1;
            for user in self.jobs[job.0 as usize].dependents.iter().map(|it| it.job) {
                let left = &mut missing[user.0 as usize];
                *left -= 1;
                chain.extend((*left == 0).then_some(user));
            }
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Cost;
    use crate::schedule::{JobSpec, Kind, Next, Order, PoolId};

    /// A chain of jobs of 10 ms.
    fn row(length: u32) -> Schedule {
        let mut schedule = Schedule::new();
        for order in 0..length {
            let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
            schedule.set_cost(job, Cost { wall_ms: 10, ..Cost::default() });
            if order > 0 {
                schedule.add_dependency(job, JobId(order - 1), 0);
            }
        }
        schedule.prioritize(&(0..length).map(JobId).collect::<Vec<_>>(), Order::Critical);
        schedule.begin();
        schedule
    }

    fn next(schedule: &mut Schedule) -> Option<u32> {
        schedule.take_next().map(|next| match next {
            Next::Start(job) | Next::NoOp(job) => job.0,
        })
    }

    #[test]
    fn a_reopened_failure_runs_again_and_unblocks() {
        let mut schedule = row(3);
        assert_eq!(next(&mut schedule), Some(0));
        schedule.failed(JobId(0));
        schedule.reopen(JobId(0));
        schedule.enqueue_if_ready(JobId(0));
        for job in 0..3 {
            assert_eq!(next(&mut schedule), Some(job));
            schedule.succeeded(JobId(job));
        }
        assert!(!schedule.has_work());
    }

    #[test]
    fn a_reopened_job_runs_before_its_dependents() {
        let mut schedule = row(2);
        assert_eq!(next(&mut schedule), Some(0));
        schedule.succeeded(JobId(0));
        schedule.reopen(JobId(0));
        schedule.add_dependency(JobId(1), JobId(0), 0);
        schedule.enqueue_if_ready(JobId(0));
        schedule.reprioritize();
        assert_eq!(schedule.priority(JobId(0)), 20);
        assert_eq!((next(&mut schedule), next(&mut schedule)), (Some(0), None));
        schedule.succeeded(JobId(0));
        assert_eq!(next(&mut schedule), Some(1));
    }

    #[test]
    fn removed_dependencies_do_not_block() {
        let mut schedule = row(2);
        schedule.remove_dependency(JobId(1), JobId(0));
        schedule.enqueue_if_ready(JobId(1));
        schedule.reprioritize();
        assert_eq!([0, 1].map(|job| schedule.priority(JobId(job))), [10, 10]);
        assert_eq!((next(&mut schedule), next(&mut schedule)), (Some(0), Some(1)));
    }

    #[test]
    fn withdrawn_jobs_become_no_ops() {
        let mut schedule = row(2);
        schedule.withdraw(JobId(0));
        assert_eq!(schedule.take_next(), Some(Next::NoOp(JobId(0))));
        schedule.succeeded(JobId(0));
        assert_eq!(schedule.take_next(), Some(Next::Start(JobId(1))));
        schedule.withdraw(JobId(1));
        schedule.succeeded(JobId(1));
        schedule.reopen(JobId(0));
        schedule.enqueue_if_ready(JobId(0));
        assert_eq!(schedule.take_next(), Some(Next::Start(JobId(0))));
    }
}
