//! Simulated builds whose jobs are parallel builds themselves, which share one pool of job tokens.

use std::collections::BTreeMap;

use super::SimulatedBuild;
use crate::job::JobId;
use crate::jobserver::token_allocation::{Demand, Request, allocate};
use crate::schedule::{Next, Schedule};

/// Work of a job: a serial part, then a parallel one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Parts {
    pub serial_ms: u64,
    /// Duration with one token; divided by the number of tokens.
    pub parallel_ms: u64,
}

impl Parts {
    /// Returns the duration of both parts with this number of tokens.
    pub fn duration_ms(self, tokens: usize) -> u64 {
        self.serial_ms + self.parallel_ms.div_ceil(tokens as u64)
    }
}

/// How tokens are assigned. Each running job has at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Free tokens go to the running or waiting job of the highest priority that can use them.
    Pool,
    /// Each job has this many tokens, whether or not it can use them.
    Fixed(usize),
}

struct Running {
    priority: i64,
    left: Parts,
    tokens: usize,
}

impl Running {
    fn ends_in(&self) -> u64 {
        match self.left.serial_ms {
            0 => self.left.parallel_ms.div_ceil(self.tokens as u64),
            alone_ms => alone_ms,
        }
    }

    fn is_alone(&self) -> bool {
        self.left.serial_ms > 0
    }

    fn pass(&mut self, ms: u64) {
        match self.left.serial_ms {
            0 => self.left.parallel_ms = self.left.parallel_ms.saturating_sub(ms * self.tokens as u64),
            _ => self.left.serial_ms -= ms,
        }
    }
}

/// Simulates a prioritized schedule that has not begun. `tokens` is at least 1; `parts` has the work of each job.
pub fn run(schedule: &mut Schedule, tokens: usize, sharing: Sharing, parts: &[Parts]) -> SimulatedBuild {
    let path_ms = schedule.critical_path_of(|job| parts[job.0 as usize].duration_ms(tokens));
    let mut it = SimulatedBuild {
        slots: tokens,
        makespan_ms: 0,
        work_ms: 0,
        critical_path_ms: path_ms,
        pool_ms: 0,
        commands: 0,
    };
    let mut running: BTreeMap<JobId, Running> = BTreeMap::new();
    schedule.begin();
    loop {
        while let Some(job) = next(schedule, &mut running, tokens, sharing) {
            let left = parts[job.0 as usize];
            it.work_ms += left.duration_ms(1);
            it.commands += 1;
            running.insert(job, Running { priority: schedule.priority(job), left, tokens: sharing.least() });
        }
        let Some(ms) = running.values().map(Running::ends_in).min() else { return it };
        it.makespan_ms += ms;
        running.values_mut().for_each(|job| job.pass(ms));
        running.retain(|&job, it| {
            let goes_on = it.left != Parts::default();
            if !goes_on {
                schedule.succeeded(job);
            }
            goes_on
        });
    }
}

impl Sharing {
    fn least(self) -> usize {
        match self {
            Sharing::Pool => 1,
            Sharing::Fixed(tokens) => tokens,
        }
    }
}

/// Allocates the tokens among running and waiting jobs, and takes the next job if it gets one.
fn next(
    schedule: &mut Schedule,
    running: &mut BTreeMap<JobId, Running>,
    tokens: usize,
    sharing: Sharing,
) -> Option<JobId> {
    let begins = match sharing {
        Sharing::Fixed(least) => schedule.has_next() && (running.len() + 1) * least <= tokens.max(least),
        Sharing::Pool => share_out(running, tokens, schedule.next_priority()),
    };
    match begins.then(|| schedule.take_next())?? {
        Next::Start(job) | Next::NoOp(job) => Some(job),
    }
}

/// Allocates tokens, and returns whether a job of this priority may start.
fn share_out(running: &mut BTreeMap<JobId, Running>, tokens: usize, waiting: Option<i64>) -> bool {
    let most = |job: &Running| if job.is_alone() { 0 } else { tokens };
    let claims =
        running.values().map(|job| Request { demand: Demand::Certain, priority: job.priority, max: most(job) });
    // Ties go to the waiting job: when it is done, it releases others, whose tokens help later.
    let claims: Vec<Request> = waiting
        .map(|urgency| Request { demand: Demand::Certain, priority: urgency, max: 1 })
        .into_iter()
        .chain(claims)
        .collect();
    let mut shares = allocate(tokens.saturating_sub(running.len()), &claims).into_iter();
    let begins = waiting.is_some() && shares.next() == Some(1);
    running.values_mut().zip(shares).for_each(|(job, more)| job.tokens = 1 + more);
    begins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Cost;
    use crate::schedule::{JobSpec, Kind, Order, PoolId};

    /// Jobs with their parts in seconds and their dependencies.
    fn play(tokens: usize, sharing: Sharing, jobs: &[(u64, u64, &[u32])]) -> (u64, u64) {
        let mut schedule = Schedule::new();
        let parts = |&(alone, shared, _): &(u64, u64, _)| Parts { serial_ms: alone * 1000, parallel_ms: shared * 1000 };
        let parts: Vec<Parts> = jobs.iter().map(parts).collect();
        for (order, it) in (0..).zip(&parts) {
            let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
            schedule.set_cost(job, Cost { wall_ms: it.duration_ms(tokens) as u32, ..Cost::default() });
        }
        for (job, (.., needs)) in (0..).zip(jobs) {
            needs.iter().for_each(|&on| schedule.add_dependency(JobId(job), JobId(on), 0));
        }
        let chain: Vec<JobId> = (0..jobs.len() as u32).map(JobId).collect();
        schedule.prioritize(&chain, Order::Critical);
        let outcome = run(&mut schedule, tokens, sharing, &parts);
        assert_eq!(outcome.commands, jobs.len());
        (outcome.makespan_ms / 1000, outcome.lower_bound_ms() / 1000)
    }

    #[test]
    fn one_alone_has_all_tokens() {
        let job: [(u64, u64, &[u32]); 1] = [(10, 80, &[])];
        assert_eq!(play(8, Sharing::Pool, &job), (20, 20));
        assert_eq!(play(8, Sharing::Fixed(4), &job), (30, 20));
        assert_eq!(play(1, Sharing::Pool, &job), (90, 90));
        assert_eq!(play(2, Sharing::Fixed(4), &job), (30, 50), "one runs in any case");
    }

    #[test]
    fn fixed_shares_stand_idle_where_a_pool_does_not() {
        let jobs: [(u64, u64, &[u32]); 3] = [(40, 0, &[]), (40, 0, &[]), (0, 80, &[])];
        assert_eq!(play(4, Sharing::Pool, &jobs), (40, 40));
        assert_eq!(play(4, Sharing::Fixed(2), &jobs), (80, 40));
    }

    #[test]
    fn the_most_urgent_has_what_it_can_use() {
        // Job 0 releases 1; job 2 can wait.
        let jobs: [(u64, u64, &[u32]); 3] = [(0, 40, &[]), (30, 0, &[0]), (0, 60, &[])];
        assert_eq!(play(4, Sharing::Pool, &jobs), (40, 40));
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(play(4, Sharing::Pool, &[(0, 0, &[]), (1, 0, &[0])]), (1, 1));
        assert_eq!(play(4, Sharing::Pool, &[]), (0, 0));
    }
}
