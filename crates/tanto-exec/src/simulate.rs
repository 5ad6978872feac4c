//! Simulated builds: a schedule against a virtual clock. Each command takes its expected time.

pub mod scenario;
pub mod table;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::job::JobId;
use crate::schedule::{Next, Order, Schedule};

/// Above this number of jobs, simulating takes longer than it saves.
const MOST_JOBS: usize = 20_000;
/// Below this total work in milliseconds, the order does not matter.
const LITTLE_WORK: u64 = 2_000;
/// A makespan within this percentage of the lower bound is good enough.
const NEAR: u64 = 1;

/// Result of a simulated build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimulatedBuild {
    pub slots: usize,
    pub makespan_ms: u64,
    /// Total duration of all commands.
    pub work_ms: u64,
    pub critical_path_ms: u64,
    /// Total duration of the busiest pool's commands, divided by its slots.
    pub pool_ms: u64,
    pub commands: usize,
}

impl SimulatedBuild {
    /// Returns the lower bound of the makespan for any order: the critical path, all work on all slots, or the busiest
    /// pool.
    pub fn lower_bound_ms(&self) -> u64 {
        self.critical_path_ms.max(self.pool_ms).max(self.work_ms.div_ceil(self.slots as u64))
    }

    /// Returns the makespan as a multiple of the lower bound.
    pub fn ratio(&self) -> f64 {
        self.makespan_ms as f64 / self.lower_bound_ms().max(1) as f64
    }

    /// Returns the total idle time of all slots.
    pub fn idle_ms(&self) -> u64 {
        self.makespan_ms.saturating_mul(self.slots as u64).saturating_sub(self.work_ms)
    }
}

/// Returns 1, 2, 4 ... 64, and the number of processors.
pub fn usual_slots(processors: usize) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..7).map(|power| 1 << power).chain([processors.max(1)]).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Returns the order with the shortest simulated makespan. The critical path is the default; for some builds, counting
/// commands is better. `chain` is that of `Schedule::prioritize`.
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

/// Simulates a prioritized schedule that has not begun. `slots` is at least 1.
pub fn run(schedule: &mut Schedule, slots: usize) -> SimulatedBuild {
    let bounds = (schedule.critical_path_ms(), schedule.busiest_pool_ms());
    play(schedule, slots, bounds, Schedule::expected_ms)
}

/// The same with wrong expectations: `truth` has the same jobs with their actual costs.
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
