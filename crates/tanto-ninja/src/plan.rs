//! Which edges are to run, in the schedule's terms: an edge in the plan is a job. Follows what restat takes out and
//! what dyndep files add while the build runs. Does not know how jobs are run.

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

/// The edges of a build and their jobs.
#[derive(Default)]
pub struct Plan<'p> {
    jobs: Map<EdgeId, JobId>,
    edges: Vec<EdgeId>,
    /// By ninja's pool number; pools come into the schedule with their first edge.
    pools: Map<u32, ExecPool>,
    /// Jobs, each after all that it depends on: the order of the first ctx.
    order: Vec<JobId>,
    /// What the jobs will take; not asked for where time is not what orders them.
    estimates: Option<CostEstimates<'p>>,
    /// Jobs that the build came to want after its beginning, and that have not changed anybody yet.
    newly_wanted: Vec<JobId>,
    /// So many of `edges` have been told whom to wait for.
    linked: usize,
    /// Built lazily; reset when an edge joins the plan or gets another input.
    users: OnceCell<NodeUsers>,
}

/// For each node the jobs whose edges have it as an input, whether they are done or not.
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

/// What a ctx over the graph needs beside the plan.
pub struct PlanContext<'w, 'a, 't> {
    /// What is dirty.
    pub scan: &'w mut Scan<'a, 't>,
    /// Where jobs go.
    pub schedule: &'w mut Schedule,
    /// Who hears of what joins and leaves the plan.
    pub view: &'w mut dyn View,
}

/// A planned edge whose inputs are being added.
struct Frame {
    node: NodeId,
    edge: EdgeId,
    job: JobId,
    next: usize,
}

impl<'p> Plan<'p> {
    /// The edge of a job.
    pub fn edge(&self, job: JobId) -> EdgeId {
        self.edges[job.0 as usize]
    }

    /// Adds what is needed for `target`. An error names a file that is missing and that nothing makes.
    pub fn add_target(&mut self, ctx: &mut PlanContext<'_, '_, '_>, target: NodeId) -> Result<()> {
        self.add(ctx, target, None, None)
    }

    /// Adds `start` and all below it. With `visited`, collects the edges that it came across.
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

    /// Lets the schedule begin, for so many commands at a time. Of commands that run alone, one after the other, no
    /// order saves time: theirs is ninja's, to the letter. `past` remembers what jobs cost, besides the log.
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

    /// Lets the jobs that joined the plan last wait for those that make their inputs. Only when all have joined is it
    /// known who does: a dyndep file that was loaded for one target may add to the outputs of an edge, which are the
    /// inputs of another target's.
    fn link(&mut self, scan: &Scan<'_, '_>, schedule: &mut Schedule) {
        for at in self.linked..self.edges.len() {
            for input in scan.all_ins(self.edges[at]) {
                self.depend_on_producer(scan, schedule, JobId(at as u32), input);
            }
        }
        self.linked = self.edges.len();
    }

    /// Lets the job wait for the one that makes `input`, if there is one.
    fn depend_on_producer(&self, scan: &Scan<'_, '_>, schedule: &mut Schedule, job: JobId, input: NodeId) {
        let Some(edge) = scan.graph.in_edge(input) else { return };
        let Some(&on) = self.jobs.get(&edge) else { return };
        let place = scan.graph.edge(edge).outs.iter().position(|&out| out == input);
        schedule.add_dependency(job, on, place.map_or(u32::MAX, |place| place as u32));
    }

    /// The jobs that this one waits for, or has waited for, each once.
    pub fn dependencies(&self, scan: &Scan<'_, '_>, job: JobId) -> Vec<JobId> {
        let makers = scan.all_ins(self.edge(job)).filter_map(|input| scan.graph.in_edge(input));
        let mut jobs: Vec<JobId> = makers.filter_map(|edge| self.jobs.get(&edge).copied()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Makes the node's edge a job, wanted if the node is dirty. The frame is for an edge that was not known yet.
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

    fn users(&self, scan: &Scan<'_, '_>) -> &NodeUsers {
        self.users.get_or_init(|| NodeUsers::new(&self.edges, scan))
    }

    /// Dyndep files that an edge of this build made have been loaded: looks again at all that depends on them, and
    /// adds what that now needs. Called before the edge's job is done, so that the files' users still wait.
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

    /// Edges that took the new outputs for source files now wait for the edge that makes them.
    fn add_user_dependencies(&self, ctx: &mut PlanContext<'_, '_, '_>, update: &Update) {
        for &out in &update.outs {
            for &user in self.users(ctx.scan).of(out) {
                self.depend_on_producer(ctx.scan, ctx.schedule, user, out);
            }
        }
    }

    /// Walks again whatever depends on `files`: it may be dirty now, and there may be a cycle.
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
                // What took a new output for a source file and is done by now comes too early for it.
                if ctx.schedule.state(job) != State::Done && ctx.scan.unmark(edge) {
                    let new = |out: &NodeId| dependents.insert(*out);
                    nodes.extend(ctx.scan.graph.edge(edge).outs.iter().copied().filter(new));
                }
            }
        }
        dependents
    }
}

/// A leaf that is missing, unless only a compiler or a dyndep file ever named it.
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
