//! The plan: the edges to run, as jobs in the schedule. Restat cleaning removes jobs during the build, and dyndep files
//! add some.

mod estimates;
pub mod full_plan;
mod priorities;
mod restat;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use tanto_exec::event::{Event, View};
use tanto_exec::job::CostLookup;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{JobSpec, Kind, Order, PoolId as ExecPool, Schedule, State};
use tanto_exec::simulate::best_order;

use crate::dyndep::Update;
use crate::error::{Error, Result};
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};
use crate::scan::Scan;

use self::estimates::CostEstimates;

#[derive(Default)]
pub struct Plan<'p> {
    jobs: Map<EdgeId, JobId>,
    edges: Vec<EdgeId>,
    /// By ninja's pool number. A pool is added to the schedule with its first edge.
    pools: Map<u32, ExecPool>,
    /// Jobs in topological order, as the first walk finished them.
    order: Vec<JobId>,
    /// `None` if durations do not determine the order.
    estimates: Option<CostEstimates<'p>>,
    /// Jobs wanted since the build began; their priorities were not propagated yet.
    newly_wanted: Vec<JobId>,
    /// The number of `edges` with their dependencies in the schedule.
    linked: usize,
    /// Built lazily; reset when an edge joins the plan or gets another input.
    users: OnceCell<NodeUsers>,
}

/// For each node, all jobs, finished ones included, with the node as an input.
struct NodeUsers(Map<NodeId, Vec<JobId>>);

impl NodeUsers {
    fn new(edges: &[EdgeId], scan: &Scan<'_, '_>) -> NodeUsers {
        let mut users: Map<NodeId, Vec<JobId>> = Map::default();
        for (job, &edge) in (0..).map(JobId).zip(edges) {
            for input in scan.all_ins(edge) {
                users.entry(input).or_default().push(job);
            }
        }
        NodeUsers(users)
    }

    fn of(&self, node: NodeId) -> &[JobId] {
        self.0.get(&node).map_or(&[], Vec::as_slice)
    }
}

pub struct PlanContext<'w, 'a, 't> {
    pub scan: &'w mut Scan<'a, 't>,
    pub schedule: &'w mut Schedule,
    pub view: &'w mut dyn View,
}

struct Frame {
    node: NodeId,
    edge: EdgeId,
    job: JobId,
    next: usize,
}

impl<'p> Plan<'p> {
    pub fn edge(&self, job: JobId) -> EdgeId {
        self.edges[job.0 as usize]
    }

    /// Adds `target` and everything it needs. Fails if a source is missing.
    pub fn add_target(&mut self, ctx: &mut PlanContext<'_, '_, '_>, target: NodeId) -> Result<()> {
        self.add(ctx, target, None, None)
    }

    /// Adds `start` and everything below it. Adds the visited edges to `visited`, if it is given.
    fn add(
        &mut self,
        ctx: &mut PlanContext<'_, '_, '_>,
        start: NodeId,
        dependent: Option<NodeId>,
        mut visited: Option<&mut BTreeSet<EdgeId>>,
    ) -> Result<()> {
        let mut stack = Vec::new();
        stack.extend(self.enter(ctx, start, dependent, &mut visited)?);
        while let Some(frame) = stack.last_mut() {
            let Some(input) = ctx.scan.input(frame.edge, frame.next) else {
                let frame = stack.pop().expect("the frame just seen");
                self.order.push(frame.job);
                continue;
            };
            frame.next += 1;
            let node = frame.node;
            stack.extend(self.enter(ctx, input, Some(node), &mut visited)?);
        }
        Ok(())
    }

    /// Starts the schedule with this many slots. With one slot no order saves time, so jobs run in exactly ninja's
    /// order. `past` returns costs from earlier builds.
    pub fn begin(&mut self, scan: &Scan<'_, '_>, schedule: &mut Schedule, slots: usize, past: Option<CostLookup<'p>>) {
        self.link(scan, schedule);
        let mut order = Order::Ninja;
        if slots > 1 {
            self.estimate(scan, schedule, past);
            order = best_order(schedule, &self.order, slots);
        }
        schedule.prioritize(&self.order, order);
        schedule.begin();
    }

    /// Adds dependencies for the jobs that joined last. This happens after all targets were added, because a dyndep
    /// file loaded for one target may add outputs that are inputs of another.
    fn link(&mut self, scan: &Scan<'_, '_>, schedule: &mut Schedule) {
        for at in self.linked..self.edges.len() {
            for input in scan.all_ins(self.edges[at]) {
                self.depend_on_producer(scan, schedule, JobId(at as u32), input);
            }
        }
        self.linked = self.edges.len();
    }

    fn depend_on_producer(&self, scan: &Scan<'_, '_>, schedule: &mut Schedule, job: JobId, input: NodeId) {
        let Some(edge) = scan.graph.in_edge(input) else { return };
        let Some(&on) = self.jobs.get(&edge) else { return };
        let place = scan.graph.edge(edge).outs.iter().position(|&out| out == input);
        schedule.add_dependency(job, on, place.map_or(u32::MAX, |place| place as u32));
    }

    /// The jobs that this one depends on, including finished ones, without duplicates.
    pub fn dependencies(&self, scan: &Scan<'_, '_>, job: JobId) -> Vec<JobId> {
        let makers = scan.all_ins(self.edge(job)).filter_map(|input| scan.graph.in_edge(input));
        let mut jobs: Vec<JobId> = makers.filter_map(|edge| self.jobs.get(&edge).copied()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Adds a job for the node's edge, and wants it if the node is dirty. Returns a frame for an edge that is new to
    /// the plan.
    fn enter(
        &mut self,
        ctx: &mut PlanContext<'_, '_, '_>,
        node: NodeId,
        dependent: Option<NodeId>,
        visited: &mut Option<&mut BTreeSet<EdgeId>>,
    ) -> Result<Option<Frame>> {
        let Some(edge) = ctx.scan.graph.in_edge(node) else {
            return match missing_source(ctx.scan, node, dependent) {
                Some(error) => Err(error),
                None => Ok(None),
            };
        };
        if ctx.scan.outputs_ready(edge) {
            return Ok(None);
        }
        let known = self.jobs.get(&edge).copied();
        let job = known.unwrap_or_else(|| self.add_job(ctx, edge));
        if visited.is_some() && ctx.schedule.is_wanted(job) && ctx.schedule.state(job) != State::Waiting {
            return Ok(None);
        }
        if ctx.scan.is_dirty(node) {
            self.want(ctx, edge, job);
        }
        if let Some(visited) = visited {
            visited.insert(edge);
        }
        Ok(known.is_none().then_some(Frame { node, edge, job, next: 0 }))
    }

    fn add_job(&mut self, ctx: &mut PlanContext<'_, '_, '_>, edge: EdgeId) -> JobId {
        let it = ctx.scan.graph.edge(edge);
        let kind = if it.is_phony() { Kind::Phony } else { Kind::Command };
        let depth = ctx.scan.graph.pool_depth(it.pool);
        let pool = *self.pools.entry(it.pool.0).or_insert_with(|| match depth {
            0 => ExecPool::UNLIMITED,
            depth => ctx.schedule.add_pool(depth),
        });
        let job = ctx.schedule.add(JobSpec { pool, order: edge.0, kind, wanted: false });
        assert_eq!(job.0 as usize, self.edges.len(), "the plan is the schedule's only source of jobs");
        self.jobs.insert(edge, job);
        self.edges.push(edge);
        self.users.take();
        job
    }

    fn want(&mut self, ctx: &mut PlanContext<'_, '_, '_>, edge: EdgeId, job: JobId) {
        if ctx.schedule.is_wanted(job) {
            return;
        }
        ctx.schedule.want(job);
        if let Some(estimates) = &self.estimates {
            ctx.schedule.set_cost(job, estimates.of(ctx.scan, edge));
            self.newly_wanted.push(job);
        }
        if !ctx.scan.graph.edge(edge).is_phony() {
            ctx.view.event(Event::Planned { job, expected_ms: ctx.scan.expected_ms(edge) });
        }
    }

    /// Returns whether a job of the plan uses the file.
    pub fn has_users(&self, scan: &Scan<'_, '_>, node: NodeId) -> bool {
        !self.users(scan).of(node).is_empty()
    }

    fn users(&self, scan: &Scan<'_, '_>) -> &NodeUsers {
        self.users.get_or_init(|| NodeUsers::new(&self.edges, scan))
    }

    /// Updates the plan after dyndep files were loaded that an edge of this build made: rechecks their dependents and
    /// adds new inputs. Must be called before that edge's job finishes, so that the dependents still wait.
    pub fn apply_dyndeps(
        &mut self,
        ctx: &mut PlanContext<'_, '_, '_>,
        files: &[NodeId],
        updates: &[Update],
    ) -> Result<()> {
        self.users.take();
        let planned = |plan: &Plan<'_>, scan: &Scan<'_, '_>, update: &Update| {
            plan.jobs.get(&update.edge).copied().filter(|_| !scan.outputs_ready(update.edge))
        };
        let mut visited = BTreeSet::new();
        self.refresh_dependents(ctx, files, &mut visited)?;
        for update in updates {
            if let Some(job) = planned(self, ctx.scan, update) {
                self.add_inputs(ctx, job, update, &mut visited)?;
            }
        }
        self.link(ctx.scan, ctx.schedule);
        for update in updates {
            if planned(self, ctx.scan, update).is_some() {
                self.add_user_dependencies(ctx, update);
            }
        }
        self.raise_priorities(ctx, updates);
        for edge in visited {
            ctx.schedule.enqueue_if_ready(self.jobs[&edge]);
        }
        Ok(())
    }

    fn add_inputs(
        &mut self,
        ctx: &mut PlanContext<'_, '_, '_>,
        job: JobId,
        update: &Update,
        visited: &mut BTreeSet<EdgeId>,
    ) -> Result<()> {
        let first_out = ctx.scan.graph.edge(update.edge).outs[0];
        for &input in &update.ins {
            self.add(ctx, input, Some(first_out), Some(&mut *visited))?;
            self.depend_on_producer(ctx.scan, ctx.schedule, job, input);
        }
        Ok(())
    }

    /// Makes jobs that read the new outputs, formerly sources, depend on the edge that makes them.
    fn add_user_dependencies(&self, ctx: &mut PlanContext<'_, '_, '_>, update: &Update) {
        for &out in &update.outs {
            for &user in self.users(ctx.scan).of(out) {
                self.depend_on_producer(ctx.scan, ctx.schedule, user, out);
            }
        }
    }

    /// Rechecks everything that depends on `files`: it may have become dirty, and there may be a cycle.
    fn refresh_dependents(
        &mut self,
        ctx: &mut PlanContext<'_, '_, '_>,
        files: &[NodeId],
        visited: &mut BTreeSet<EdgeId>,
    ) -> Result<()> {
        for node in self.unmark_dependents(ctx, files) {
            for validation in ctx.scan.recompute_dirty(node)? {
                let edge = ctx.scan.graph.in_edge(validation);
                if edge.is_some_and(|edge| !ctx.scan.outputs_ready(edge)) {
                    self.add(ctx, validation, None, Some(&mut *visited))?;
                }
            }
            if ctx.scan.is_dirty(node) {
                let edge = ctx.scan.graph.in_edge(node).expect("a dependent has an edge");
                self.want(ctx, edge, self.jobs[&edge]);
            }
        }
        Ok(())
    }

    fn unmark_dependents(&self, ctx: &mut PlanContext<'_, '_, '_>, files: &[NodeId]) -> BTreeSet<NodeId> {
        let users = self.users(ctx.scan);
        let mut dependents = BTreeSet::new();
        let mut nodes = files.to_vec();
        while let Some(node) = nodes.pop() {
            for &job in users.of(node) {
                let edge = self.edge(job);
                // A job that read a new output as a source and has finished cannot run again.
                if ctx.schedule.state(job) != State::Done && ctx.scan.unmark(edge) {
                    let new = |out: &NodeId| dependents.insert(*out);
                    nodes.extend(ctx.scan.graph.edge(edge).outs.iter().copied().filter(new));
                }
            }
        }
        dependents
    }
}

/// Returns the error for a missing source, unless only a depfile or dyndep file names it.
fn missing_source(scan: &Scan<'_, '_>, node: NodeId, dependent: Option<NodeId>) -> Option<Error> {
    if !scan.is_dirty(node) || scan.graph.is_discovered(node) {
        return None;
    }
    let path = scan.graph.path(node);
    let tail = b" missing and no known rule to make it";
    Some(match dependent {
        Some(by) => Error::new(&[b"'", path, b"', needed by '", scan.graph.path(by), b"',", tail]),
        None => Error::new(&[b"'", path, b"'", tail]),
    })
}
