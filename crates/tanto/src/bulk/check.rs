//! `tanto bulk check`: which binary packages would have to be built, and why. Builds nothing.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::coordinator::up_to_date::predict;
use tanto_exec::event::{Event, View};
use tanto_record::database::Database;

use super::build::no_plan;
use super::place::{config, look, try_take, unusable};
use super::scan::{Told, interrupted};
use super::{phases, site};
use crate::command_line::bulk::CheckArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What is out of date, and why.
pub(crate) fn run(args: &CheckArgs) -> Stop {
    match obey(args) {
        Ok(stop) => stop,
        Err(Told::Interrupted) => interrupted(),
        Err(Told::Message(message)) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &CheckArgs) -> Result<Stop, Told> {
    let config = config(&args.config.config)?;
    let (mut plan, store, err) = match (args.resolved.as_deref(), try_take(&config)?) {
        (None, None) => of_running(&config)?,
        (file, Some(state)) => of_source(&config, file, state.store)?,
        (file, None) => of_source(&config, file, look(&config)?)?,
    };
    phases::check(&config, &store, &mut plan, args.cutoff)?;
    let why = predict(&plan).map_err(|bad| no_plan(&bad))?;
    let findings: Vec<Finding<'_>> = plan.all().map(|it| Finding::new(&plan, it, &why)).collect();
    let out = if args.json { json(&findings) } else { text(&findings) };
    Ok(Stop { out: out.into_bytes(), err, code: 0 })
}

/// All packages, as if none was ever built; the database; what the user should know of the scan.
type Asked = (Plan, Database, Vec<u8>);

fn of_source(config: &Config, file: Option<&Path>, store: Database) -> Result<Asked, Told> {
    let spaces = if file.is_some() { None } else { site::enter(config, None)? };
    let (source, store) = phases::source(config, spaces.as_ref(), file, store, &mut Silent)?;
    let plan = source.packages(config)?.plan()?;
    Ok((plan, store, source.complaints()))
}

/// The packages of the build that has the state: nobody else may scan meanwhile.
fn of_running(config: &Config) -> Result<Asked, Told> {
    let store = look(config)?;
    let failed = |error| unusable(&error);
    let run = store.last_run().map_err(failed)?.map_or(0, |(run, _)| run);
    let mut rows = store.packages(run).map_err(failed)?;
    // Each is looked at as if nothing had become of it yet.
    for row in rows
        .iter_mut()
        .filter(|row| ![State::Prefailed, State::IndirectPrefailed].iter().any(|it| it.name() == row.state))
    {
        (row.state, row.why) = (State::Open.name().into(), String::new());
    }
    if rows.is_empty() {
        return Err(b"a bulk build has begun, and does not know its packages yet: wait for it".to_vec().into());
    }
    let plan = Plan::of_rows(&rows, &store.edges(run).map_err(failed)?);
    Ok((plan, store, Vec::new()))
}

/// What is printed is the answer, and nothing else.
struct Silent;

impl View for Silent {
    fn event(&mut self, _: Event<'_>) {}
}

/// What is known of a package.
struct Finding<'a> {
    name: &'a str,
    location: &'a str,
    what: What,
    why: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    UpToDate,
    OutOfDate,
    /// It cannot be built.
    Prefailed,
}

impl What {
    const ALL: [What; 3] = [What::UpToDate, What::OutOfDate, What::Prefailed];

    fn name(self) -> &'static str {
        match self {
            What::UpToDate => "up-to-date",
            What::OutOfDate => "out-of-date",
            What::Prefailed => "prefailed",
        }
    }
}

impl<'a> Finding<'a> {
    fn new(plan: &'a Plan, package: u32, why: &'a [Option<String>]) -> Finding<'a> {
        let it = plan.package(package);
        let (what, why) = match (&why[package as usize], it.state()) {
            (_, State::Prefailed | State::IndirectPrefailed) => (What::Prefailed, it.why()),
            (Some(why), _) => (What::OutOfDate, &**why),
            (None, _) => (What::UpToDate, ""),
        };
        Finding { name: &it.name, location: &it.location, what, why }
    }
}

fn text(findings: &[Finding<'_>]) -> String {
    let mut text = String::new();
    for Finding { name, location, why, .. } in findings.iter().filter(|it| it.what == What::OutOfDate) {
        let _ = writeln!(text, "{name} ({location}): {why}");
    }
    let count = |what| findings.iter().filter(|it| it.what == what).count();
    let counts = What::ALL.map(|what| format!(", {} {}", count(what), what.name()));
    let _ = writeln!(text, "{} packages{}", findings.len(), counts.concat());
    text
}

fn json(findings: &[Finding<'_>]) -> String {
    let object =
        |it: &Finding<'_>| json!({"name": it.name, "location": it.location, "state": it.what.name(), "why": it.why});
    let packages: Vec<_> = findings.iter().map(object).collect();
    format!("{:#}\n", json!({"packages": packages}))
}
