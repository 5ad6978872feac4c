//! A build to simulate, and the report on it.

use super::table::{self, SimulatedRow};
use super::{SimulatedBuild, best_order, run};
use crate::job::JobId;
use crate::schedule::{AdmissionLimits, Order, Schedule};

/// A build from a manifest or a session.
pub struct Scenario {
    /// Its jobs, without priorities.
    pub schedule: Schedule,
    /// The jobs in topological order.
    pub chain: Vec<JobId>,
    /// Description for the first line.
    pub about: String,
}

impl Scenario {
    /// Simulates the build with each number of slots, in this order (`None`: the one that a build would choose) and in
    /// ninja's.
    pub fn report(&self, order: Option<Order>, memory_kib: Option<u64>, slots: &[usize]) -> String {
        let rows = slots.iter().map(|&slots| {
            let makespan = || self.play(Some(Order::Ninja), memory_kib, slots).makespan_ms;
            let ninja_ms = (order != Some(Order::Ninja)).then(makespan);
            SimulatedRow { outcome: self.play(order, memory_kib, slots), ninja_ms }
        });
        let rows: Vec<SimulatedRow> = rows.collect();
        let work = rows.first().map(|row| table::work(&row.outcome)).unwrap_or_default();
        format!("{}; {work}\n\n{}", self.about, table::text(&rows))
    }

    fn play(&self, order: Option<Order>, memory_kib: Option<u64>, slots: usize) -> SimulatedBuild {
        let mut schedule = self.schedule.clone();
        if memory_kib.is_some() {
            schedule.limit_admission(AdmissionLimits { memory_kib, slots });
        }
        let order = order.unwrap_or_else(|| best_order(&schedule, &self.chain, slots));
        schedule.prioritize(&self.chain, order);
        run(&mut schedule, slots)
    }
}
