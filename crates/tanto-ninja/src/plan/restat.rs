//! Restat cleaning: removes jobs from the plan when a command leaves its output unchanged.

use tanto_exec::event::Event;
use tanto_exec::job::JobId;
use tanto_exec::schedule::State;

use super::{Plan, PlanContext};
use crate::error::Result;
use crate::ids::{EdgeId, NodeId};
use crate::scan::Scan;

impl Plan<'_> {
    /// Marks an output that its command left unchanged as clean, and removes jobs that are no longer dirty from the
    /// plan.
    pub fn clean_node(&self, ctx: &mut PlanContext<'_, '_, '_>, node: NodeId) -> Result<()> {
        let users = self.users(ctx.scan);
        let mut nodes = vec![node];
        while let Some(node) = nodes.pop() {
            ctx.scan.set_clean(node);
            for &job in users.of(node) {
                if self.clean_job(ctx, job)? {
                    nodes.extend(ctx.scan.graph.edge(self.edge(job)).outs);
                }
            }
        }
        Ok(())
    }

    /// Removes the job from the plan if no input is dirty and its outputs are up to date. Returns whether it did.
    fn clean_job(&self, ctx: &mut PlanContext<'_, '_, '_>, job: JobId) -> Result<bool> {
        let edge = self.edge(job);
        // A job may have run before a dyndep file added this node as its input.
        let waits = ctx.schedule.is_wanted(job) && ctx.schedule.state(job) == State::Waiting;
        if !waits || ctx.scan.must_run(edge) {
            return Ok(false);
        }
        if ctx.scan.dirtying_ins(edge).any(|input| ctx.scan.is_dirty(input)) {
            return Ok(false);
        }
        let newest = newest_of(ctx.scan, edge);
        if ctx.scan.is_out_of_date(edge, newest)? {
            return Ok(false);
        }
        ctx.schedule.unwant(job);
        if !ctx.scan.graph.edge(edge).is_phony() {
            ctx.view.event(Event::Unplanned { job, expected_ms: ctx.scan.expected_ms(edge) });
        }
        Ok(true)
    }
}

/// The first of the newest inputs.
fn newest_of(scan: &Scan<'_, '_>, edge: EdgeId) -> Option<NodeId> {
    scan.dirtying_ins(edge).reduce(|newest, input| if scan.mtime(input) > scan.mtime(newest) { input } else { newest })
}
