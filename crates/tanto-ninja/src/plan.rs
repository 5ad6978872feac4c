//! Which edges are to run, in the schedule's terms: an edge in the plan is a job. Follows what restat takes out and
//! what dyndep files add while the build runs. Does not know how jobs are run.

mod estimates;
pub mod full_plan;
mod urgency;

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

use self::estimates::Estimates;

/// The edges of a build and their jobs.
#[derive(Default)]
pub struct Plan<'p> {
    jobs: Map<EdgeId, JobId>,
    edges: Vec<EdgeId>,
    /// By ninja's pool number; pools come into the schedule with their first edge.
    pools: Map<u32, ExecPool>,
    /// Jobs, each after all that it depends on: the order of the first walk.
    order: Vec<JobId>,
    /// What the jobs will take; not asked for where time is not what orders them.
    estimates: Option<Estimates<'p>>,
    /// Jobs that the build came to want after its beginning, and that have not hurried anybody yet.
    woken: Vec<JobId>,
    /// So many of `edges` have been told whom to wait for.
    linked: usize,
    /// Made when first needed; void when an edge joins the plan or gets another input.
    users: OnceCell<Users>,
}

/// For each node the jobs whose edges have it as an input, whether they are done or not.
struct Users(Map<NodeId, Vec<JobId>>);

impl Users {
    fn new(edges: &[EdgeId], scan: &Scan<'_, '_>) -> Users {
        let mut users: Map<NodeId, Vec<JobId>> = Map::default();
        for (job, &edge) in (0..).map(JobId).zip(edges) {
            for input in scan.all_ins(edge) {
                users.entry(input).or_default().push(job);
            }
        }
        Users(users)
    }

    fn of(&self, node: NodeId) -> &[JobId] {
        self.0.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// What a walk over the graph needs beside the plan.
pub struct Walk<'w, 'a, 't> {
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
    pub fn add_target(&mut self, walk: &mut Walk<'_, '_, '_>, target: NodeId) -> Result<()> {
        self.add(walk, target, None, None)
    }

    /// Adds `start` and all below it. With `met`, collects the edges that it came across.
    fn add(
        &mut self,
        walk: &mut Walk<'_, '_, '_>,
        start: NodeId,
        dependent: Option<NodeId>,
        mut met: Option<&mut BTreeSet<EdgeId>>,
    ) -> Result<()> {
        let mut stack = Vec::new();
        stack.extend(self.enter(walk, start, dependent, &mut met)?);
        while let Some(frame) = stack.last_mut() {
            let Some(input) = walk.scan.input(frame.edge, frame.next) else {
                let frame = stack.pop().expect("the frame just seen");
                self.order.push(frame.job);
                continue;
            };
            frame.next += 1;
            let node = frame.node;
            stack.extend(self.enter(walk, input, Some(node), &mut met)?);
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
                self.wait_for(scan, schedule, JobId(at as u32), input);
            }
        }
        self.linked = self.edges.len();
    }

    /// Lets the job wait for the one that makes `input`, if there is one.
    fn wait_for(&self, scan: &Scan<'_, '_>, schedule: &mut Schedule, job: JobId, input: NodeId) {
        let Some(edge) = scan.graph.in_edge(input) else { return };
        let Some(&on) = self.jobs.get(&edge) else { return };
        let place = scan.graph.edge(edge).outs.iter().position(|&out| out == input);
        schedule.add_dependency(job, on, place.map_or(u32::MAX, |place| place as u32));
    }

    /// The jobs that this one waits for, or has waited for, each once.
    pub fn after(&self, scan: &Scan<'_, '_>, job: JobId) -> Vec<JobId> {
        let makers = scan.all_ins(self.edge(job)).filter_map(|input| scan.graph.in_edge(input));
        let mut jobs: Vec<JobId> = makers.filter_map(|edge| self.jobs.get(&edge).copied()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Makes the node's edge a job, wanted if the node is dirty. The frame is for an edge that was not known yet.
    fn enter(
        &mut self,
        walk: &mut Walk<'_, '_, '_>,
        node: NodeId,
        dependent: Option<NodeId>,
        met: &mut Option<&mut BTreeSet<EdgeId>>,
    ) -> Result<Option<Frame>> {
        let Some(edge) = walk.scan.graph.in_edge(node) else {
            return match missing_source(walk.scan, node, dependent) {
                Some(error) => Err(error),
                None => Ok(None),
            };
        };
        if walk.scan.outputs_ready(edge) {
            return Ok(None);
        }
        let known = self.jobs.get(&edge).copied();
        let job = known.unwrap_or_else(|| self.add_job(walk, edge));
        if met.is_some() && walk.schedule.is_wanted(job) && walk.schedule.state(job) != State::Waiting {
            return Ok(None);
        }
        if walk.scan.is_dirty(node) {
            self.want(walk, edge, job);
        }
        if let Some(met) = met {
            met.insert(edge);
        }
        Ok(known.is_none().then_some(Frame { node, edge, job, next: 0 }))
    }

    fn add_job(&mut self, walk: &mut Walk<'_, '_, '_>, edge: EdgeId) -> JobId {
        let it = walk.scan.graph.edge(edge);
        let kind = if it.is_phony() { Kind::Phony } else { Kind::Command };
        let depth = walk.scan.graph.pool_depth(it.pool);
        let pool = *self.pools.entry(it.pool.0).or_insert_with(|| match depth {
            0 => ExecPool::UNLIMITED,
            depth => walk.schedule.add_pool(depth),
        });
        let job = walk.schedule.add(JobSpec { pool, order: edge.0, kind, wanted: false });
        assert_eq!(job.0 as usize, self.edges.len(), "the plan is the schedule's only source of jobs");
        self.jobs.insert(edge, job);
        self.edges.push(edge);
        self.users.take();
        job
    }

    fn want(&mut self, walk: &mut Walk<'_, '_, '_>, edge: EdgeId, job: JobId) {
        if walk.schedule.is_wanted(job) {
            return;
        }
        walk.schedule.want(job);
        if let Some(estimates) = &self.estimates {
            walk.schedule.set_cost(job, estimates.of(walk.scan, edge));
            self.woken.push(job);
        }
        if !walk.scan.graph.edge(edge).is_phony() {
            walk.view.event(Event::Planned { job, expected_ms: walk.scan.expected_ms(edge) });
        }
    }

    fn users(&self, scan: &Scan<'_, '_>) -> &Users {
        self.users.get_or_init(|| Users::new(&self.edges, scan))
    }

    /// The node did not change though its edge ran (restat): takes out of the plan what is not dirty any more.
    pub fn clean(&self, walk: &mut Walk<'_, '_, '_>, node: NodeId) -> Result<()> {
        let users = self.users(walk.scan);
        let mut nodes = vec![node];
        while let Some(node) = nodes.pop() {
            walk.scan.set_clean(node);
            for &job in users.of(node) {
                if self.clean_job(walk, job)? {
                    nodes.extend(walk.scan.graph.edge(self.edge(job)).outs);
                }
            }
        }
        Ok(())
    }

    /// Takes the job out of the plan if none of its inputs is dirty and its outputs are good. True if it did.
    fn clean_job(&self, walk: &mut Walk<'_, '_, '_>, job: JobId) -> Result<bool> {
        let edge = self.edge(job);
        // A job that did not wait for the node (a dyndep file named it later) may have run.
        let waits = walk.schedule.is_wanted(job) && walk.schedule.state(job) == State::Waiting;
        if !waits || walk.scan.deps_missing(edge) {
            return Ok(false);
        }
        if walk.scan.dirtying_ins(edge).any(|input| walk.scan.is_dirty(input)) {
            return Ok(false);
        }
        let newest = newest_of(walk.scan, edge);
        if walk.scan.outputs_dirty(edge, newest)? {
            return Ok(false);
        }
        walk.schedule.unwant(job);
        if !walk.scan.graph.edge(edge).is_phony() {
            walk.view.event(Event::Unplanned { job, expected_ms: walk.scan.expected_ms(edge) });
        }
        Ok(true)
    }

    /// Dyndep files that an edge of this build made have been loaded: looks again at all that depends on them, and
    /// adds what that now needs. Called before the edge's job is done, so that the files' users still wait.
    pub fn dyndeps_loaded(&mut self, walk: &mut Walk<'_, '_, '_>, files: &[NodeId], updates: &[Update]) -> Result<()> {
        self.users.take();
        let planned = |plan: &Plan<'_>, scan: &Scan<'_, '_>, update: &Update| {
            plan.jobs.get(&update.edge).copied().filter(|_| !scan.outputs_ready(update.edge))
        };
        let mut met = BTreeSet::new();
        self.refresh_dependents(walk, files, &mut met)?;
        for update in updates {
            if let Some(job) = planned(self, walk.scan, update) {
                self.add_inputs(walk, job, update, &mut met)?;
            }
        }
        self.link(walk.scan, walk.schedule);
        for update in updates {
            if planned(self, walk.scan, update).is_some() {
                self.let_users_wait(walk, update);
            }
        }
        self.hurry(walk, updates);
        for edge in met {
            walk.schedule.enqueue_if_ready(self.jobs[&edge]);
        }
        Ok(())
    }

    fn add_inputs(
        &mut self,
        walk: &mut Walk<'_, '_, '_>,
        job: JobId,
        update: &Update,
        met: &mut BTreeSet<EdgeId>,
    ) -> Result<()> {
        let first_out = walk.scan.graph.edge(update.edge).outs[0];
        for &input in &update.ins {
            self.add(walk, input, Some(first_out), Some(&mut *met))?;
            self.wait_for(walk.scan, walk.schedule, job, input);
        }
        Ok(())
    }

    /// Edges that took the new outputs for source files now wait for the edge that makes them.
    fn let_users_wait(&self, walk: &mut Walk<'_, '_, '_>, update: &Update) {
        for &out in &update.outs {
            for &user in self.users(walk.scan).of(out) {
                self.wait_for(walk.scan, walk.schedule, user, out);
            }
        }
    }

    /// Walks again whatever depends on `files`: it may be dirty now, and there may be a cycle.
    fn refresh_dependents(
        &mut self,
        walk: &mut Walk<'_, '_, '_>,
        files: &[NodeId],
        met: &mut BTreeSet<EdgeId>,
    ) -> Result<()> {
        for node in self.unmark_dependents(walk, files) {
            for validation in walk.scan.recompute(node)? {
                let edge = walk.scan.graph.in_edge(validation);
                if edge.is_some_and(|edge| !walk.scan.outputs_ready(edge)) {
                    self.add(walk, validation, None, Some(&mut *met))?;
                }
            }
            if walk.scan.is_dirty(node) {
                let edge = walk.scan.graph.in_edge(node).expect("a dependent has an edge");
                self.want(walk, edge, self.jobs[&edge]);
            }
        }
        Ok(())
    }

    fn unmark_dependents(&self, walk: &mut Walk<'_, '_, '_>, files: &[NodeId]) -> BTreeSet<NodeId> {
        let users = self.users(walk.scan);
        let mut dependents = BTreeSet::new();
        let mut nodes = files.to_vec();
        while let Some(node) = nodes.pop() {
            for &job in users.of(node) {
                let edge = self.edge(job);
                // What took a new output for a source file and is done by now comes too early for it.
                if walk.schedule.state(job) != State::Done && walk.scan.unmark(edge) {
                    let new = |out: &NodeId| dependents.insert(*out);
                    nodes.extend(walk.scan.graph.edge(edge).outs.iter().copied().filter(new));
                }
            }
        }
        dependents
    }
}

/// The first of the edge's newest inputs.
fn newest_of(scan: &Scan<'_, '_>, edge: EdgeId) -> Option<NodeId> {
    scan.dirtying_ins(edge).reduce(|newest, input| if scan.mtime(input) > scan.mtime(newest) { input } else { newest })
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
