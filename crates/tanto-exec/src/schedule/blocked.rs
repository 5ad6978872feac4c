//! Jobs that can never start because a dependency failed.

use super::{Kind, Schedule, State};
use crate::job::JobId;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Blocked {
    /// A wanted command.
    pub job: JobId,
    /// The failed job; the first one if there are several.
    pub because: JobId,
}

impl Schedule {
    /// Returns all jobs that depend on a failed one, by number.
    pub fn blocked(&self) -> Vec<Blocked> {
        let mut seen = vec![false; self.jobs.len()];
        let mut found = Vec::new();
        for failed in (0..self.jobs.len() as u32).map(JobId).filter(|&job| self.state(job) == State::Failed) {
            let mut stack = vec![failed];
            while let Some(job) = stack.pop() {
                for dependent in &self.jobs[job.0 as usize].dependents {
                    let at = dependent.job.0 as usize;
                    if !std::mem::replace(&mut seen[at], true) {
                        stack.push(dependent.job);
                        let spec = &self.jobs[at].spec;
                        if spec.wanted && spec.kind == Kind::Command {
                            found.push(Blocked { job: dependent.job, because: failed });
                        }
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{JobSpec, Next, PoolId};

    /// One job per kind, each depending on the previous one.
    fn chain(kinds: &[(Kind, bool)]) -> Schedule {
        let mut schedule = Schedule::new();
        for (order, &(kind, wanted)) in (0..).zip(kinds) {
            let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind, wanted });
            if order > 0 {
                schedule.add_dependency(job, JobId(order - 1), 0);
            }
        }
        schedule.begin();
        schedule
    }

    fn fail_first(schedule: &mut Schedule) {
        assert_eq!(schedule.take_next(), Some(Next::Start(JobId(0))));
        schedule.failed(JobId(0));
    }

    #[test]
    fn transitive_dependents_are_blocked() {
        use Kind::{Command, Phony};
        let mut schedule = chain(&[(Command, true), (Phony, true), (Command, true), (Command, false), (Command, true)]);
        assert_eq!(schedule.blocked(), []);
        fail_first(&mut schedule);
        let because = JobId(0);
        assert_eq!(schedule.blocked(), [2, 4].map(|job| Blocked { job: JobId(job), because }));
    }

    #[test]
    fn the_first_failure_counts_and_others_are_not_blocked() {
        let mut schedule = Schedule::new();
        for order in 0..5 {
            schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        }
        for (job, on) in [(3, 1), (3, 0), (4, 2)] {
            schedule.add_dependency(JobId(job), JobId(on), 0);
        }
        schedule.begin();
        for _ in 0..3 {
            schedule.take_next();
        }
        schedule.failed(JobId(1));
        schedule.failed(JobId(0));
        assert_eq!(schedule.blocked(), [Blocked { job: JobId(3), because: JobId(0) }]);
    }
}
