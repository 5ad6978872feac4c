//! Carries out `tanto bulk retry`, `skip`, `kill`, `clients`, `drain` and `distrust`: asks the running build, or changes the database for the next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tanto_record::database::Change;
use tanto_sys::fs::private_files;

use super::control_socket::{self, AskError, Request, Response};
use super::phases::scan_some;
use super::plan::Plan;
use super::pushed_tree::{self, IfAbsent};
use super::queries::LastRun;
use super::{distrusted, now_ms, offline, state_dir};
use crate::config::Config;
use crate::error::BulkError;

/// Rescans the directories of packages and builds them again.
pub fn retry(config: &Config, packages: Vec<String>) -> Result<Response, BulkError> {
    // Without a running build, the next one scans.
    if ask(config, &Request::Status)?.is_some() {
        pushed_tree::update(config, IfAbsent::Fail)?;
        let records = rescan(config, &packages)?;
        let request = Request::Retry { packages: packages.clone(), records };
        if let Some(answer) = ask(config, &request)? {
            return Ok(answer);
        }
    }
    change_offline(config, |plan, _| {
        let named = named(plan, &packages)?;
        let lines = named.iter().map(|&it| format!("the next build will build {}\n", plan.package(it).name));
        Ok((lines.collect(), offline::retry(plan, &named)))
    })
}

/// Excludes packages from the run.
pub fn skip(config: &Config, packages: Vec<String>) -> Result<Response, BulkError> {
    if let Some(answer) = ask(config, &Request::Skip(packages.clone()))? {
        return Ok(answer);
    }
    change_offline(config, |plan, has_ended| {
        if has_ended {
            return Err("the last build has ended: there is nothing to skip".into());
        }
        let named = named(plan, &packages)?;
        let lines = named.iter().map(|&it| format!("{} will not be built in this run\n", plan.package(it).name));
        Ok((lines.collect(), offline::skip(plan, &named)?))
    })
}

/// Kills running attempts.
pub fn kill(config: &Config, packages: Vec<String>) -> Result<Response, BulkError> {
    let answer = ask(config, &Request::Kill(packages))?;
    Ok(answer.unwrap_or_else(|| Response::refused("nothing is being built")))
}

/// Lists the clients on other machines.
pub fn clients(config: &Config) -> Result<Response, BulkError> {
    let answer = ask(config, &Request::Clients)?;
    Ok(answer.unwrap_or_else(|| Response::refused("nothing is being built")))
}

/// Gives a client on another machine no more packages.
pub fn drain(config: &Config, client: String) -> Result<Response, BulkError> {
    let answer = ask(config, &Request::Drain(client))?;
    Ok(answer.unwrap_or_else(|| Response::refused("nothing is being built")))
}

/// Returns whether a client has ever got packages.
pub fn has_had_packages(config: &Config, client: &str) -> Result<bool, BulkError> {
    Ok(state_dir::open_read_only(config)?.has_had_leases(client)?)
}

/// Has everything built again that a client on another machine has built, and that was built with that. The client gets no
/// more packages of a running build.
pub fn distrust(config: &Config, client: &str) -> Result<Response, BulkError> {
    let request = |packages| Request::Distrust { client: client.to_owned(), packages };
    if let Some(stopped) = ask(config, &request(Vec::new()))? {
        // The database has all packages of the client.
        let packages = distrusted::packages(&state_dir::open_read_only(config)?)?;
        match ask(config, &request(packages.into_iter().collect()))? {
            _ if stopped.code != 0 => return Ok(stopped),
            Some(answer) => return Ok(answer),
            // It has ended meanwhile.
            None => {}
        }
    }
    distrust_offline(config, client)
}

fn distrust_offline(config: &Config, client: &str) -> Result<Response, BulkError> {
    let mut store = state_dir::take(config)?.store;
    let (run, _) = store.last_run()?.ok_or(BulkError::NothingBuilt)?;
    store.apply(run, &[Change::Distrusted { client: client.to_owned(), at_ms: now_ms() }])?;
    let names = distrusted::packages(&store)?;
    let mut last = LastRun::of(store)?;
    let plan = last.plan()?;
    let (again, changes) = offline::distrust(&plan, &distrusted::with_dependents(&plan, &names));
    last.store.apply(run, &changes)?;
    let lines = again.iter().map(|&it| format!("the next build will build {}\n", plan.package(it).name));
    Ok(Response::ok(lines.collect::<String>()))
}

/// How long a build may take to begin to listen, or to end.
const TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Asks the running build; `None` if none runs.
fn ask(config: &Config, request: &Request) -> Result<Option<Response>, BulkError> {
    state_dir::open_read_only(config)?;
    let started = Instant::now();
    loop {
        match control_socket::ask(Path::new(&config.state), request) {
            Ok(answer) => return Ok(Some(answer)),
            Err(AskError::NoBuild) => {}
            Err(error) => return Err(error.message().into()),
        }
        if state_dir::try_take(config)?.is_some() {
            return Ok(None);
        }
        if started.elapsed() > TIMEOUT {
            return Err("a bulk build is using this state and is not building packages yet: try again later".into());
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

fn named(plan: &Plan, words: &[String]) -> Result<Vec<u32>, String> {
    let named = words.iter().map(|word| plan.find(word)).collect::<Result<Vec<Vec<u32>>, String>>()?;
    Ok(named.concat())
}

/// Changes the last run with the state locked.
fn change_offline(
    config: &Config,
    change: impl FnOnce(&Plan, bool) -> Result<(String, Vec<Change>), String>,
) -> Result<Response, BulkError> {
    let state = state_dir::take(config)?;
    let mut last = LastRun::of(state.store)?;
    match change(&last.plan()?, last.has_ended) {
        Err(why) => Ok(Response::refused(why)),
        Ok((text, changes)) => {
            last.store.apply(last.run, &changes)?;
            Ok(Response::ok(text))
        }
    }
}

/// Scans the directories of packages, and those of dependencies that are not known yet. Returns their records.
fn rescan(config: &Config, words: &[String]) -> Result<Vec<u8>, BulkError> {
    let plan = LastRun::read(config)?.plan()?;
    let mut locations: Vec<String> = Vec::new();
    for word in words {
        match plan.find(word) {
            Ok(packages) => locations.extend(packages.iter().map(|&it| plan.package(it).location.clone())),
            // A directory without packages so far.
            Err(_) if Path::new(&config.pkgsrc).join(word).join("Makefile").exists() => locations.push(word.clone()),
            Err(why) => return Err(why.into()),
        }
    }
    locations.sort_unstable();
    locations.dedup();
    let scratch = ScratchState::make(config)?;
    let is_known = |location: &str| plan.packages.iter().any(|it| it.location == location);
    let report = scan_some(&scratch.config, &config.state, locations, &is_known)?;
    let Some((location, log)) = report.failed.first() else { return Ok(report.records) };
    Err(format!("{location} cannot be scanned:\n{}", log.trim_end()).into())
}

/// A temporary state directory for a scan beside a running build.
struct ScratchState {
    dir: PathBuf,
    config: Config,
}

impl ScratchState {
    fn make(config: &Config) -> Result<ScratchState, BulkError> {
        let dir = Path::new(&config.state).join(format!("retry.{}", std::process::id()));
        private_files::create_dir(&dir).map_err(BulkError::io("making ", &dir))?;
        let state = dir.to_string_lossy().into_owned();
        Ok(ScratchState { config: Config { state, reuse_scan_results: false, ..config.clone() }, dir })
    }
}

impl Drop for ScratchState {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
