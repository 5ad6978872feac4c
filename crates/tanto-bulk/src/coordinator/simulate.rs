//! Simulates a bulk build: its packages as jobs of a schedule, with a simulated clock.

pub mod forecast;

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{JobSpec, Kind, Order, PoolId, Schedule};
use tanto_exec::simulate::{self, SimulatedBuild};

use crate::resolve::{PackageId, cycle};

/// Packages and their dependencies.
pub struct PackageSimulation {
    schedule: Schedule,
    /// In topological order.
    order: Vec<JobId>,
}

impl PackageSimulation {
    /// The error is a dependency cycle.
    pub fn new<'a>(
        count: usize,
        depends: impl Fn(PackageId) -> &'a [PackageId],
    ) -> Result<PackageSimulation, Vec<PackageId>> {
        let mut schedule = Schedule::new();
        for order in 0..count as u32 {
            schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        }
        for package in 0..count as u32 {
            depends(package).iter().for_each(|&needed| schedule.add_dependency(JobId(package), JobId(needed), 0));
        }
        let order = topological_order(count, depends)?;
        Ok(PackageSimulation { schedule, order })
    }

    /// Simulates a build. `expected` durations order the packages; `takes` are the real ones, in milliseconds.
    pub fn run(&self, slots: usize, expected: &[u64], takes: &[u64]) -> SimulatedBuild {
        let mut real = self.schedule.clone();
        expect(&mut real, takes);
        let mut schedule = self.schedule.clone();
        expect(&mut schedule, expected);
        schedule.prioritize(&self.order, Order::Critical);
        simulate::run_against(&real, &mut schedule, slots)
    }
}

fn expect(schedule: &mut Schedule, times: &[u64]) {
    for (job, &ms) in (0..).zip(times) {
        let wall_ms = u32::try_from(ms).unwrap_or(u32::MAX);
        schedule.set_cost(JobId(job), Cost { wall_ms, ..Cost::default() });
    }
}

/// Returns all packages in topological order. The error is a cycle.
pub(crate) fn topological_order<'a>(
    count: usize,
    depends: impl Fn(PackageId) -> &'a [PackageId],
) -> Result<Vec<JobId>, Vec<PackageId>> {
    let mut missing = vec![0_u32; count];
    let mut users: Vec<Vec<PackageId>> = vec![Vec::new(); count];
    for package in 0..count as u32 {
        for &needed in depends(package) {
            missing[package as usize] += 1;
            users[needed as usize].push(package);
        }
    }
    let mut order: Vec<JobId> = (0..count as u32).filter(|&it| missing[it as usize] == 0).map(JobId).collect();
    let mut at = 0;
    while let Some(&JobId(package)) = order.get(at) {
        at += 1;
        for &user in &users[package as usize] {
            missing[user as usize] -= 1;
            order.extend((missing[user as usize] == 0).then_some(JobId(user)));
        }
    }
    if order.len() < count {
        return Err(cycle::find(count, depends).unwrap_or_default());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(slots: usize, expected: &[u64]) -> (u64, u64) {
        // 3 needs 0; 0 and 3 are the long chain.
        let depends: [&[PackageId]; 4] = [&[], &[], &[], &[0]];
        let outcome =
            PackageSimulation::new(4, |it| depends[it as usize]).unwrap().run(slots, expected, &[10, 20, 20, 30]);
        (outcome.makespan_ms, outcome.lower_bound_ms())
    }

    #[test]
    fn longest_chain_starts_first() {
        assert_eq!(play(2, &[10, 20, 20, 30]), (40, 40));
        assert_eq!(play(1, &[10, 20, 20, 30]), (80, 80));
    }

    #[test]
    fn wrong_estimates_cost_time() {
        assert_eq!(play(2, &[1, 20, 20, 1]), (60, 40));
    }

    #[test]
    fn cycle_cannot_be_simulated() {
        assert_eq!(PackageSimulation::new(2, |it| if it == 0 { &[1] } else { &[0] }).err(), Some(vec![0, 1]));
    }
}
