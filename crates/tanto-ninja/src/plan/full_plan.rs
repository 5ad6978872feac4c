//! A plan for building everything that targets need from nothing, for simulation.

use tanto_exec::job::CostLookup;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_sys::threads::ThreadLimit;

use crate::builddir;
use crate::disk::RealDisk;
use crate::error::{Error, Result};
use crate::explain::{ExplainLevel, Explanations};
use crate::graph::{Arena, Graph};
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};
use crate::load::{self, LoadOptions};
use crate::logs::{BuildLog, DepsLog};
use crate::plan::estimates::CostEstimates;
use crate::scan::Scan;
use crate::targets::{LookupOptions, collect_targets};

/// The version of a new log; none is written.
const ANY_VERSION: u32 = 7;

pub struct FullPlan {
    /// Without an order yet.
    pub schedule: Schedule,
    /// Jobs in topological order.
    pub order: Vec<JobId>,
    pub command_count: usize,
    /// Commands with a measured duration; the others have estimates.
    pub measured_count: usize,
}

struct Frame {
    edge: EdgeId,
    ins: Vec<NodeId>,
    next: usize,
}

impl FullPlan {
    /// Loads the manifest and the logs, and plans the targets (none: the default targets).
    pub fn load(manifest: &[u8], targets: &[Vec<u8>], past: CostLookup<'_>) -> Result<FullPlan> {
        let arena = Arena::new();
        let mut graph = load::load(&arena, &RealDisk, manifest, LoadOptions::default(), &mut |_| {})?;
        let builddir = builddir::path(&graph);
        let (mut log, mut deps_log) = logs(builddir, &mut graph)?;
        let mut disk = RealDisk;
        let scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::Off));
        let hints = LookupOptions { builddir, deps_log: Some(scan.deps_log), ..LookupOptions::default() };
        let targets = collect_targets(scan.graph, hints, targets)?;
        FullPlan::of(&scan, &targets, Some(past))
    }

    /// Uses only the graph and the logs, no files. Unloaded dyndep files are ignored.
    pub fn of(scan: &Scan<'_, '_>, targets: &[NodeId], past: Option<CostLookup<'_>>) -> Result<FullPlan> {
        let edges = edges_below(scan, targets)?;
        let is_command = |edge: EdgeId| !scan.graph.edge(edge).is_phony();
        let estimates = CostEstimates::new(scan, &edges, past);
        let mut pools: Map<u32, PoolId> = Map::default();
        let mut jobs: Map<EdgeId, JobId> = Map::default();
        let mut schedule = Schedule::new();
        for &edge in &edges {
            let it = scan.graph.edge(edge);
            let kind = if it.is_phony() { Kind::Phony } else { Kind::Command };
            let pool = *pools.entry(it.pool.0).or_insert_with(|| match scan.graph.pool_depth(it.pool) {
                0 => PoolId::UNLIMITED,
                depth => schedule.add_pool(depth),
            });
            let job = schedule.add(JobSpec { pool, order: edge.0, kind, wanted: true });
            schedule.set_cost(job, estimates.of(scan, edge));
            for maker in inputs(scan, edge).into_iter().filter_map(|input| scan.graph.in_edge(input)) {
                schedule.add_dependency(job, jobs[&maker], 0);
            }
            jobs.insert(edge, job);
        }
        let command_count = edges.iter().filter(|&&edge| is_command(edge)).count();
        let is_measured = |edge: &&EdgeId| is_command(**edge) && estimates.measured(scan, **edge).wall_ms > 0;
        let measured_count = edges.iter().filter(is_measured).count();
        let order = edges.iter().map(|edge| jobs[edge]).collect();
        Ok(FullPlan { schedule, order, command_count, measured_count })
    }
}

/// All edges needed for the targets, in topological order.
fn edges_below(scan: &Scan<'_, '_>, targets: &[NodeId]) -> Result<Vec<EdgeId>> {
    let mut edges = Vec::new();
    // False while the edge is on the stack.
    let mut seen: Map<EdgeId, bool> = Map::default();
    let mut stack: Vec<Frame> = Vec::new();
    let mut targets = targets.to_vec();
    targets.reverse();
    loop {
        let node = match stack.last_mut() {
            Some(frame) => match frame.ins.get(frame.next) {
                Some(&input) => {
                    frame.next += 1;
                    input
                }
                None => {
                    seen.insert(frame.edge, true);
                    edges.push(frame.edge);
                    targets.extend(scan.graph.edge(frame.edge).validations);
                    stack.pop();
                    continue;
                }
            },
            None => match targets.pop() {
                Some(target) => target,
                None => return Ok(edges),
            },
        };
        let Some(edge) = scan.graph.in_edge(node) else { continue };
        match seen.get(&edge) {
            Some(true) => {}
            Some(false) => return Err(Error::new(&[b"dependency cycle at '", scan.graph.path(node), b"'"])),
            None => {
                seen.insert(edge, false);
                stack.push(Frame { edge, ins: inputs(scan, edge), next: 0 });
            }
        }
    }
}

/// Inputs in the manifest, then discovered inputs of the last run.
fn inputs(scan: &Scan<'_, '_>, edge: EdgeId) -> Vec<NodeId> {
    let it = scan.graph.edge(edge);
    let discovered = it.outs.iter().find_map(|&out| scan.deps_log.deps(out));
    it.ins.iter().copied().chain(discovered.iter().flat_map(|deps| deps.ins())).collect()
}

fn logs(builddir: &[u8], graph: &mut Graph<'_>) -> Result<(BuildLog, DepsLog)> {
    let path = builddir::join(builddir, ".ninja_log");
    let (log, _) = BuildLog::load(&path, ANY_VERSION, graph, ThreadLimit::Auto)?;
    if !log.was_found() {
        return Err(Error::new(&[b"nothing was built here: there is no ", &path]));
    }
    let (deps_log, _) = DepsLog::load(&builddir::join(builddir, ".ninja_deps"), graph, ThreadLimit::Auto)?;
    Ok((log, deps_log))
}
