//! `tanto bulk retry`, `skip` and `kill`: what is wanted of a build that runs is said to it; if none runs, the database is
//! changed for the next one. Does not know how a build obeys.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::control_socket::{self, Answer, Request, Unheard};
use tanto_bulk::coordinator::offline;
use tanto_bulk::coordinator::plan::Plan;
use tanto_record::database::{Change, Database};

use super::place::{self, config, look, unusable};
use super::scan::{self, Told, interrupted};
use crate::command_line::bulk::PackagesArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Builds packages again, after their directories have been scanned once more.
pub(crate) fn retry(args: &PackagesArgs) -> Stop {
    stop(obey(args, |config, packages| {
        // Nothing is scanned for nobody.
        if is_heard(config)? {
            let records = scanned(config, &packages)?;
            let request = Request::Retry { packages: packages.clone(), records };
            if let Some(answer) = say(config, &request)? {
                return Ok(answer);
            }
        }
        change(config, |plan, _| {
            let named = named(plan, &packages)?;
            let said = named.iter().map(|&it| format!("{} is built by the next build\n", plan.package(it).name));
            Ok((said.collect(), offline::retry(plan, &named)))
        })
    }))
}

/// Takes packages out of a run.
pub(crate) fn skip(args: &PackagesArgs) -> Stop {
    stop(obey(args, |config, packages| {
        if let Some(answer) = say(config, &Request::Skip(packages.clone()))? {
            return Ok(answer);
        }
        change(config, |plan, has_ended| {
            if has_ended {
                return Err("the last build has ended: there is nothing to skip".into());
            }
            let named = named(plan, &packages)?;
            let said = named.iter().map(|&it| format!("{} is not built in this run\n", plan.package(it).name));
            Ok((said.collect(), offline::skip(plan, &named)?))
        })
    }))
}

/// Ends the build of packages.
pub(crate) fn kill(args: &PackagesArgs) -> Stop {
    stop(obey(args, |config, packages| match say(config, &Request::Kill(packages))? {
        Some(answer) => Ok(answer),
        None => Ok(Answer::refused("nothing is being built")),
    }))
}

fn stop(answer: Result<Answer, Told>) -> Stop {
    match answer {
        Ok(Answer { code, out, err }) if !err.is_empty() => {
            Stop { out, code, ..Stop::failed(Door::Tanto, "error", &err) }
        }
        Ok(Answer { code, out, .. }) => Stop { out, err: Vec::new(), code },
        Err(Told::Interrupted) => interrupted(),
        Err(Told::Message(message)) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &PackagesArgs, what: impl FnOnce(&Config, Vec<String>) -> Result<Answer, Told>) -> Result<Answer, Told> {
    let text = |word: &OsString| word.to_string_lossy().trim_end_matches('/').to_owned();
    what(&config(&args.config.config)?, args.packages.iter().map(text).collect())
}

/// So long a build may take to begin to listen, or to end.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// The answer of the build that runs. None if none runs.
pub(super) fn say(config: &Config, request: &Request) -> Result<Option<Answer>, Vec<u8>> {
    // A state that was never made belongs to nobody.
    look(config)?;
    let begun = Instant::now();
    loop {
        match control_socket::ask(Path::new(&config.state), request) {
            Ok(answer) => return Ok(Some(answer)),
            Err(Unheard::Nobody) => {}
            Err(unheard) => return Err(unheard.told().into_bytes()),
        }
        if place::try_take(config)?.is_some() {
            return Ok(None);
        }
        if begun.elapsed() > PATIENCE {
            return Err(b"a bulk build is using this state, and is not building packages yet: try again then".to_vec());
        }
        std::thread::sleep(STEP);
    }
}

fn is_heard(config: &Config) -> Result<bool, Vec<u8>> {
    Ok(say(config, &Request::Status)?.is_some())
}

fn named(plan: &Plan, words: &[String]) -> Result<Vec<u32>, String> {
    let named = words.iter().map(|word| plan.named(word)).collect::<Result<Vec<Vec<u32>>, String>>()?;
    Ok(named.concat())
}

/// Changes the last run while nobody else does.
fn change(
    config: &Config,
    what: impl FnOnce(&Plan, bool) -> Result<(String, Vec<Change>), String>,
) -> Result<Answer, Told> {
    let mut state = place::take(config)?;
    let (run, plan, has_ended) = last(&state.store)?;
    match what(&plan, has_ended) {
        Err(why) => Ok(Answer::refused(why)),
        Ok((said, changes)) => {
            state.store.apply(run, &changes).map_err(|error| unusable(&error))?;
            Ok(Answer::said(said))
        }
    }
}

fn last(store: &Database) -> Result<(i64, Plan, bool), Vec<u8>> {
    let failed = |error| unusable(&error);
    let (run, ended) = store.last_run().map_err(failed)?.ok_or(b"nothing was built yet")?;
    let plan = Plan::of_rows(&store.packages(run).map_err(failed)?, &store.edges(run).map_err(failed)?);
    Ok((run, plan, ended.is_some()))
}

/// What the directories of these packages say now, and those of what they need that is not known yet.
fn scanned(config: &Config, words: &[String]) -> Result<Vec<u8>, Told> {
    let (_, plan, _) = last(&look(config)?)?;
    let mut locations: Vec<String> = Vec::new();
    for word in words {
        match plan.named(word) {
            Ok(packages) => locations.extend(packages.iter().map(|&it| plan.package(it).location.clone())),
            // A directory that nobody has built from yet.
            Err(_) if Path::new(&config.pkgsrc).join(word).join("Makefile").exists() => locations.push(word.clone()),
            Err(why) => return Err(why.into_bytes().into()),
        }
    }
    locations.sort_unstable();
    locations.dedup();
    let scratch = Scratch::make(config)?;
    let is_known = |location: &str| plan.packages.iter().any(|it| it.location == location);
    let report = scan::some(&scratch.config, &config.state, locations, &is_known)?;
    let Some((location, log)) = report.failed.first() else { return Ok(report.records) };
    Err(format!("{location} cannot be scanned:\n{}", log.trim_end()).into_bytes().into())
}

/// A state of our own for a scan beside a build that has the other one.
struct Scratch {
    dir: PathBuf,
    config: Config,
}

impl Scratch {
    fn make(config: &Config) -> Result<Scratch, Vec<u8>> {
        let dir = Path::new(&config.state).join(format!("retry.{}", std::process::id()));
        let made = tanto_sys::fs::private_files::create_dir(&dir);
        made.map_err(|error| super::files::failed("making ", dir.as_os_str().as_encoded_bytes(), &error))?;
        let state = dir.to_string_lossy().into_owned();
        Ok(Scratch { config: Config { state, reuse_scan_results: false, ..config.clone() }, dir })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
