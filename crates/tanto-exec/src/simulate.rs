//! Builds that nobody runs: a schedule against a clock that jumps from one end to the next. Each command takes what it
//! is expected to take. Does not know where that is known from.

pub mod shared;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::job::JobId;
use crate::schedule::{Next, Order, Schedule};

/// With more jobs than this, to look ahead takes longer than it may save.
const MOST_JOBS: usize = 20_000;
/// Where all work is done in less, in milliseconds, no order is worth a look ahead.
const LITTLE_WORK: u64 = 2_000;
/// A forecast this near to the bound, in percent, cannot be improved by much.
const NEAR: u64 = 1;

/// What became of a build that nobody ran. Times are milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimulatedBuild {
    /// Commands at a time, at most.
    pub slots: usize,
    /// From the first start to the last end.
    pub makespan_ms: u64,
    /// What all commands took, together.
    pub work_ms: u64,
    /// What the longest chain of commands took.
    pub critical_path_ms: u64,
    /// What the commands of the busiest pool took, on as many slots as it has.
    pub pool_ms: u64,
    /// How many commands ran.
    pub commands: usize,
}

impl SimulatedBuild {
    /// No order is faster than this on so many slots: the longest chain, all work on all slots, or a pool's on its own.
    pub fn lower_bound_ms(&self) -> u64 {
        self.critical_path_ms.max(self.pool_ms).max(self.work_ms.div_ceil(self.slots as u64))
    }

    /// The makespan as a multiple of the bound; 1 is perfect.
    pub fn ratio(&self) -> f64 {
        self.makespan_ms as f64 / self.lower_bound_ms().max(1) as f64
    }

    /// The time that slots stood empty, all together.
    pub fn idle_ms(&self) -> u64 {
        self.makespan_ms.saturating_mul(self.slots as u64).saturating_sub(self.work_ms)
    }
}

/// The order in which the build is over first, as far as can be told: by time unless another is better. The longest
/// chain first is a good rule, but no more than that: for some builds the count of commands is a better one. `chain` is
/// that of `Schedule::prioritise`.
pub fn best_order(schedule: &Schedule, chain: &[JobId], slots: usize) -> Order {
    let work_ms: u64 = chain.iter().map(|&job| schedule.expected_ms(job)).sum();
    if chain.len() > MOST_JOBS || work_ms < LITTLE_WORK {
        return Order::Critical;
    }
    let forecast = |order| {
        let mut schedule = schedule.clone();
        schedule.prioritize(chain, order);
        run(&mut schedule, slots)
    };
    let first = forecast(Order::Critical);
    let (mut best, mut least) = (Order::Critical, first.makespan_ms);
    for order in [Order::Pooled, Order::Ninja] {
        let is_near = least * 100 <= first.lower_bound_ms() * (100 + NEAR);
        if !is_near && (order != Order::Pooled || schedule.has_pools()) {
            let makespan_ms = forecast(order).makespan_ms;
            if makespan_ms < least {
                (best, least) = (order, makespan_ms);
            }
        }
    }
    best
}

/// Runs a schedule that has its order and has not begun. `slots` are 1 or more.
pub fn run(schedule: &mut Schedule, slots: usize) -> SimulatedBuild {
    let bounds = (schedule.critical_path_ms(), schedule.busiest_pool_ms());
    play(schedule, slots, bounds, Schedule::expected_ms)
}

/// The same where the order rests on wrong expectations: `truth` has the same jobs, and expects of each what it takes.
pub fn run_against(truth: &Schedule, schedule: &mut Schedule, slots: usize) -> SimulatedBuild {
    let bounds = (truth.critical_path_ms(), truth.busiest_pool_ms());
    play(schedule, slots, bounds, |_, job| truth.expected_ms(job))
}

fn play(
    schedule: &mut Schedule,
    slots: usize,
    (path_ms, pool_ms): (u64, u64),
    takes: impl Fn(&Schedule, JobId) -> u64,
) -> SimulatedBuild {
    let mut it = SimulatedBuild { slots, makespan_ms: 0, work_ms: 0, critical_path_ms: path_ms, pool_ms, commands: 0 };
    let mut running: BinaryHeap<Reverse<(u64, JobId)>> = BinaryHeap::new();
    schedule.begin();
    loop {
        while schedule.has_noop() || running.len() < slots && schedule.has_next() {
            match schedule.take_next() {
                Some(Next::Start(job)) if schedule.expected_ms(job) > 0 => {
                    let takes = takes(schedule, job);
                    it.work_ms += takes;
                    it.commands += 1;
                    running.push(Reverse((it.makespan_ms + takes, job)));
                }
                Some(Next::Start(job) | Next::NoOp(job)) => schedule.succeeded(job),
                None => break,
            }
        }
        let Some(Reverse((end, job))) = running.pop() else { return it };
        it.makespan_ms = end;
        schedule.succeeded(job);
    }
}
