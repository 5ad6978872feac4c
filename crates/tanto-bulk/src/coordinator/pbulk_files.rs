//! Imports and exports pbulk's own files, as in its directory `meta`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tanto_record::database::Database;
use tanto_sys::fs::file;

use super::now_ms;
use super::plan::Plan;
use super::state::{PackageState, State};
use super::state_dir;
use crate::config::Config;
use crate::error::BulkError;
use crate::package::input_file::InputFile;
use crate::resolve::meta_dir::{self, PRESOLVE, resolved_depends};
use crate::tree::scan;

/// The scan of all directories.
const PSCAN: &str = "pscan";
/// Names of done packages, one in each line.
const SUCCESS: &str = "success";
/// Names of failed packages.
const ERROR: &str = "error";
/// The reason of imported failures.
const IMPORTED: &str = "it failed before the import";

/// Imports scans and package states. Returns a message.
pub fn import(config: &Config, dir: &Path) -> Result<String, BulkError> {
    let mut state = state_dir::take(config)?;
    let mut text = String::new();
    if dir.join(PSCAN).exists() {
        text += &import_scan(config, &mut state.store, &dir.join(PSCAN))?;
    }
    if dir.join(PRESOLVE).exists() {
        text += &import_states(config, &mut state.store, dir)?;
    }
    if text.is_empty() {
        return Err(format!("there is neither {PSCAN} nor {PRESOLVE} in {}", dir.display()).into());
    }
    Ok(text)
}

/// Writes pbulk's files. Returns their paths, one in each line.
pub fn export(config: &Config, dir: &Path) -> Result<String, BulkError> {
    let store = state_dir::open_read_only(config)?;
    fs::create_dir_all(dir).map_err(BulkError::io("making ", dir))?;
    let mut text = String::new();
    let mut write = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        file::write_atomically(&path, |file| file.write_all(content)).map_err(BulkError::io("writing ", &path))?;
        text += &format!("{}\n", path.display());
        Ok::<(), BulkError>(())
    };
    // Packages that were built from a file may never have been scanned.
    if let Ok(report) = scan::known(config, &store) {
        write(PSCAN, &report.records)?;
    }
    if let Some(file) = meta_dir::presolve(config)? {
        write(PRESOLVE, file.bytes())?;
        file.check()?;
    }
    if let Some((run, _)) = store.last_run()? {
        let packages = store.packages(run)?;
        for (name, state) in [(SUCCESS, State::Done), (ERROR, State::Failed)] {
            let in_state = packages.iter().filter(|it| it.state == state.name());
            let lines: String = in_state.map(|it| format!("{}\n", it.name)).collect();
            write(name, lines.as_bytes())?;
        }
    }
    Ok(text)
}

/// Imports a scan, with the mtime of its file.
fn import_scan(config: &Config, store: &mut Database, path: &Path) -> Result<String, BulkError> {
    let data = fs::metadata(path).map_err(BulkError::io("reading ", path))?;
    let made_ns = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
    let file = InputFile::open(path)?;
    let records = file.records()?;
    let imported = scan::import(config, store, &records, made_ns)?;
    file.check()?;
    let scan::Imported { directories, stand } = imported;
    Ok(format!("{} packages of {directories} directories; {stand} need no scan\n", records.len()))
}

/// Imports package states as a run that `tanto bulk build` resumes.
fn import_states(config: &Config, store: &mut Database, dir: &Path) -> Result<String, BulkError> {
    let file = InputFile::open(&dir.join(PRESOLVE))?;
    let records = file.records()?;
    let depends = resolved_depends(&file, &records)?;
    let mut plan = Plan::new(&records, &depends)?;
    file.check()?;
    let mut states: HashMap<String, PackageState> = HashMap::new();
    for (name, state, why) in [(SUCCESS, State::Done, ""), (ERROR, State::Failed, IMPORTED)] {
        let state = PackageState::of(state, why.to_owned());
        states.extend(listed(&plan, &dir.join(name))?.into_iter().map(|package| (package, state.clone())));
    }
    plan.resume(|package| states.get(package).cloned());
    meta_dir::write_presolve(config, &records, &depends)?;
    let run = store.begin_run(now_ms())?;
    store.apply(run, &plan.rows().collect::<Vec<_>>())?;
    let count = |state| plan.packages.iter().filter(|it| it.state() == state).count();
    let (done, failed) = (count(State::Done), count(State::Failed));
    Ok(format!("a bulk build of {} packages, {done} done, {failed} failed\n", plan.packages.len()))
}

/// Reads a list of packages; an absent file is empty.
fn listed(plan: &Plan, path: &Path) -> Result<Vec<String>, BulkError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let known: HashSet<&str> = plan.packages.iter().map(|it| &*it.name).collect();
    let file = InputFile::open(path)?;
    let mut packages = Vec::new();
    for (number, line) in (1..).zip(file.bytes().split(|&byte| byte == b'\n')).filter(|(_, line)| !line.is_empty()) {
        match std::str::from_utf8(line).ok().filter(|name| known.contains(name)) {
            Some(name) => packages.push(name.to_owned()),
            None => {
                let name = String::from_utf8_lossy(line);
                return Err(format!("{}:{number}: there is no package '{name}'", path.display()).into());
            }
        }
    }
    file.check()?;
    Ok(packages)
}
