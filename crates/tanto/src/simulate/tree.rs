//! Reads the build to simulate from a manifest, with times from its log and history.

use tanto_ninja::builddir;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::error::{Error, Result};
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::load::{self, LoadOptions};
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::plan::full_plan::FullPlan;
use tanto_ninja::scan::Scan;
use tanto_ninja::targets::{LookupOptions, collect_targets};
use tanto_record::history::History;
use tanto_sys::threads::ThreadLimit;

use super::{Build, SimulateArgs, SimulateError};
use crate::settings::EnvVars;

/// The version of a new log; none is written.
const ANY_VERSION: u32 = 7;

/// Loads the targets of the command line.
pub(super) fn load(args: &SimulateArgs) -> std::result::Result<Build, SimulateError> {
    let plan = full_plan(args)?;
    if plan.command_count == 0 {
        return Err(SimulateError::NoCommand);
    }
    let manifest = String::from_utf8_lossy(args.manifest.as_encoded_bytes());
    let (commands, measured) = (plan.command_count, plan.measured_count);
    let about = format!("{commands} commands of {manifest}, {measured} of them measured");
    Ok(Build { schedule: plan.schedule, chain: plan.order, about })
}

fn full_plan(args: &SimulateArgs) -> Result<FullPlan> {
    let arena = Arena::new();
    let mut graph =
        load::load(&arena, &RealDisk, args.manifest.as_encoded_bytes(), LoadOptions::default(), &mut |_| {})?;
    let builddir = builddir::path(&graph);
    let (mut log, mut deps_log) = logs(builddir, &mut graph)?;
    let mut disk = RealDisk;
    let scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::Off));
    let targets: Vec<Vec<u8>> = args.targets.iter().map(|target| target.as_encoded_bytes().to_vec()).collect();
    let hints = LookupOptions { builddir, deps_log: Some(scan.deps_log), ..LookupOptions::default() };
    let targets = collect_targets(scan.graph, hints, &targets)?;
    let history = History::open(&EnvVars::of_process().state(None));
    let past = |output: &[u8]| history.cost(output);
    FullPlan::of(&scan, &targets, Some(&past))
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
