//! `tanto bulk check`: which binary packages would have to be built, and why.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;
use tanto_exec::command_output::CommandOutput;
use tanto_record::database::Database;

use super::phases::{self, NoView, PackageSource};
use super::plan::Plan;
use super::state::State;
use super::state_dir;
use super::up_to_date::predict;
use crate::attempt::environment::Environment;
use crate::config::Config;
use crate::error::BulkError;

/// The packages to check, and the form of the answer.
#[derive(Clone, Copy, Default)]
pub struct CheckRequest<'a> {
    /// A resolved scan; `None` scans the tree.
    pub resolved: Option<&'a Path>,
    pub json: bool,
    /// Assumes that a rebuilt package may be unchanged.
    pub cutoff: bool,
}

/// Lists the packages that would be built.
pub fn check(config: &Config, request: CheckRequest<'_>) -> Result<CommandOutput, BulkError> {
    let (mut plan, store, warnings) = match (request.resolved, state_dir::try_take(config)?) {
        (None, None) => running_plan(config)?,
        (file, Some(state)) => new_plan(config, file, state.store)?,
        (file, None) => new_plan(config, file, state_dir::open_read_only(config)?)?,
    };
    phases::check(config, &store, &mut plan, request.cutoff)?;
    let why = predict(&plan)?;
    let findings: Vec<Finding<'_>> = plan.all().map(|it| Finding::new(&plan, it, &why)).collect();
    let out = if request.json { json(&findings) } else { text(&findings) };
    Ok(CommandOutput { out: out.into_bytes(), err: warnings.into_bytes(), code: 0 })
}

/// A plan as if nothing was built yet, the database, and warnings of the scan.
type NewPlan = (Plan, Database, String);

fn new_plan(config: &Config, file: Option<&Path>, store: Database) -> Result<NewPlan, BulkError> {
    let environment = if file.is_some() { None } else { Environment::enter(config, None)? };
    let (source, store) = PackageSource::read(config, environment.as_ref(), file, store, &mut NoView)?;
    let plan = source.packages(config)?.plan()?;
    Ok((plan, store, source.warnings()))
}

/// Plans the packages of the running build, which has the state: no other process may scan.
fn running_plan(config: &Config) -> Result<NewPlan, BulkError> {
    let store = state_dir::open_read_only(config)?;
    let run = store.last_run()?.map_or(0, |(run, _)| run);
    let mut rows = store.packages(run)?;
    if rows.is_empty() {
        return Err("the running build has not resolved its packages yet: try again later".into());
    }
    let prefailed = [State::Prefailed, State::IndirectPrefailed].map(State::name);
    for row in rows.iter_mut().filter(|row| !prefailed.contains(&&*row.state)) {
        (row.state, row.why) = (State::Open.name().into(), String::new());
    }
    let plan = Plan::from_rows(&rows, &store.edges(run)?);
    Ok((plan, store, String::new()))
}

struct Finding<'a> {
    name: &'a str,
    location: &'a str,
    verdict: Verdict,
    why: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    UpToDate,
    OutOfDate,
    Prefailed,
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::UpToDate, Verdict::OutOfDate, Verdict::Prefailed];

    fn name(self) -> &'static str {
        match self {
            Verdict::UpToDate => "up-to-date",
            Verdict::OutOfDate => "out-of-date",
            Verdict::Prefailed => "prefailed",
        }
    }
}

impl<'a> Finding<'a> {
    fn new(plan: &'a Plan, package: u32, why: &'a [Option<String>]) -> Finding<'a> {
        let it = plan.package(package);
        let (verdict, why) = match (&why[package as usize], it.state()) {
            (_, State::Prefailed | State::IndirectPrefailed) => (Verdict::Prefailed, it.why()),
            (Some(why), _) => (Verdict::OutOfDate, &**why),
            (None, _) => (Verdict::UpToDate, ""),
        };
        Finding { name: &it.name, location: &it.location, verdict, why }
    }
}

fn text(findings: &[Finding<'_>]) -> String {
    let mut text = String::new();
    for Finding { name, location, why, .. } in findings.iter().filter(|it| it.verdict == Verdict::OutOfDate) {
        let _ = writeln!(text, "{name} ({location}): {why}");
    }
    let count = |verdict| findings.iter().filter(|it| it.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| format!(", {} {}", count(verdict), verdict.name()));
    let _ = writeln!(text, "{} packages{}", findings.len(), counts.concat());
    text
}

fn json(findings: &[Finding<'_>]) -> String {
    let object =
        |it: &Finding<'_>| json!({"name": it.name, "location": it.location, "state": it.verdict.name(), "why": it.why});
    let packages: Vec<_> = findings.iter().map(object).collect();
    format!("{:#}\n", json!({"packages": packages}))
}
