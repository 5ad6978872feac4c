//! Job costs, and priorities after dyndep files have added dependencies.

use std::collections::BinaryHeap;

use tanto_exec::job::CostLookup;
use tanto_exec::job::JobId;
use tanto_exec::schedule::Schedule;

use super::estimates::CostEstimates;
use super::{Plan, PlanContext};
use crate::dyndep::Update;
use crate::scan::Scan;

/// Limits the propagation of priorities to this many steps per job in the plan. Stopping early only affects the order.
const STEPS_PER_JOB: usize = 4;

impl<'p> Plan<'p> {
    pub(super) fn estimate(&mut self, scan: &Scan<'_, '_>, schedule: &mut Schedule, past: Option<CostLookup<'p>>) {
        let wanted = |&(job, _): &(JobId, _)| schedule.is_wanted(job);
        let jobs: Vec<_> = (0..).map(JobId).zip(self.edges.iter().copied()).filter(wanted).collect();
        let edges: Vec<_> = jobs.iter().map(|&(_, edge)| edge).collect();
        let estimates = CostEstimates::new(scan, &edges, past);
        jobs.iter().for_each(|&(job, edge)| schedule.set_cost(job, estimates.of(scan, edge)));
        self.estimates = Some(estimates);
    }

    /// Gives producers of inputs at least the priority of the jobs that need them, after dyndep files have added
    /// dependencies.
    pub(super) fn raise_priorities(&mut self, ctx: &mut PlanContext<'_, '_, '_>, updates: &[Update]) {
        let newly_wanted = std::mem::take(&mut self.newly_wanted);
        if self.estimates.is_none() {
            return;
        }
        let updated = updates.iter().filter_map(|update| self.jobs.get(&update.edge).copied());
        let users = updates.iter().flat_map(|update| &update.outs).flat_map(|&out| self.users(ctx.scan).of(out));
        let changed = newly_wanted.into_iter().chain(updated).chain(users.copied());
        let mut urgent: BinaryHeap<_> = changed.map(|job| (ctx.schedule.priority(job), job)).collect();
        let mut steps = STEPS_PER_JOB * self.edges.len();
        while let Some((priority, job)) = urgent.pop() {
            if steps == 0 {
                return;
            }
            steps -= 1;
            if priority == ctx.schedule.priority(job) {
                urgent.extend(self.raise_inputs(ctx, job, priority));
            }
        }
    }

    /// Raises the priority of the jobs that make this job's inputs; returns those that had a lower one.
    fn raise_inputs(&self, ctx: &mut PlanContext<'_, '_, '_>, job: JobId, priority: i64) -> Vec<(i64, JobId)> {
        let edges = ctx.scan.all_ins(self.edge(job)).filter_map(|input| ctx.scan.graph.in_edge(input));
        let jobs = edges.filter_map(|edge| self.jobs.get(&edge).copied());
        jobs.filter_map(|on| ctx.schedule.raise(on, priority).map(|raised| (raised, on))).collect()
    }
}
