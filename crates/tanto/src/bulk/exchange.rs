//! `tanto bulk import` and `export`: pbulk's own files, in a directory such as its `meta`. Does not know what a scan or a
//! build makes of them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::state::{PackageState, State};
use tanto_bulk::package::records;
use tanto_bulk::resolve::depends_of;
use tanto_bulk::tree::scan;
use tanto_record::database::Database;
use tanto_sys::fs::file;

use super::build::{no_plan, now_ms};
use super::files::{check, failed, open};
use super::place::{config, look, take, unusable};
use super::{findings, meta, pbulk};
use crate::command_line::bulk::{ConfigArg, ExportArgs, ImportArgs};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// The scan of all directories.
const PSCAN: &str = "pscan";
/// Packages that are done, a name in each line.
const SUCCESS: &str = "success";
/// Those that have failed.
const ERROR: &str = "error";
/// Why a package has failed of which nothing else is known.
const IMPORTED: &str = "it had failed when it was imported";

/// Takes over what pbulk knows: its configuration if a file is named, otherwise what it has scanned and built.
pub(crate) fn import(args: &ImportArgs) -> Stop {
    if args.from.is_file() {
        return match pbulk::import(&args.from, &args.config.config) {
            Ok(told) => Stop::printed(told, 0),
            Err(message) => Stop::failed(Door::Tanto, "error", &message),
        };
    }
    let dir = &args.from;
    answer(&args.config, |config| {
        let mut state = take(config)?;
        let mut told = String::new();
        if dir.join(PSCAN).exists() {
            told += &import_scan(config, &mut state.store, &dir.join(PSCAN))?;
        }
        if dir.join(meta::PRESOLVE).exists() {
            told += &import_states(config, &mut state.store, dir)?;
        }
        if told.is_empty() {
            return Err(format!("there is neither {PSCAN} nor {} in {}", meta::PRESOLVE, dir.display()).into_bytes());
        }
        Ok(told)
    })
}

/// Writes what pbulk would have written.
pub(crate) fn export(args: &ExportArgs) -> Stop {
    let dir = &args.dir;
    answer(&args.config, |config| {
        let store = look(config)?;
        fs::create_dir_all(dir).map_err(|error| failed("making ", dir.as_os_str().as_encoded_bytes(), &error))?;
        let mut told = String::new();
        let mut write = |name: &str, content: &[u8]| {
            let path = dir.join(name);
            file::write_atomically(&path, |file| file.write_all(content))
                .map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))?;
            told += &format!("{}\n", path.display());
            Ok::<(), Vec<u8>>(())
        };
        // What was built from a file was perhaps never scanned.
        if let Ok(report) = scan::known(config, &store) {
            write(PSCAN, &report.records)?;
        }
        if let Some((path, map)) = meta::kept(config)? {
            write(meta::PRESOLVE, &map)?;
            check(&path, &map)?;
        }
        if let Some((run, _)) = store.last_run().map_err(|error| unusable(&error))? {
            let packages = store.packages(run).map_err(|error| unusable(&error))?;
            for (name, state) in [(SUCCESS, State::Done), (ERROR, State::Failed)] {
                let of_it = packages.iter().filter(|it| it.state == state.name());
                let lines: String = of_it.map(|it| format!("{}\n", it.name)).collect();
                write(name, lines.as_bytes())?;
            }
        }
        Ok(told)
    })
}

fn answer(args: &ConfigArg, act: impl FnOnce(&Config) -> Result<String, Vec<u8>>) -> Stop {
    match config(&args.config).and_then(|config| act(&config)) {
        Ok(told) => Stop::printed(told, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// What directories have said. It was said when the file was written, or before.
fn import_scan(config: &Config, store: &mut Database, path: &Path) -> Result<String, Vec<u8>> {
    let data = fs::metadata(path).map_err(|error| failed("reading ", bytes(path), &error))?;
    let made_ns = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
    let map = open(bytes(path))?;
    let records = records::read(&map).map_err(|bad| findings::bad_scan(bytes(path), bad))?;
    let imported = scan::import(config, store, &records, made_ns).map_err(|bad| bad.told(config).into_bytes())?;
    check(bytes(path), &map)?;
    let scan::Imported { directories, stand } = imported;
    Ok(format!("{} packages of {directories} directories; {stand} need not be scanned again\n", records.len()))
}

/// What became of packages, as a run that `tanto bulk build` goes on with.
fn import_states(config: &Config, store: &mut Database, dir: &Path) -> Result<String, Vec<u8>> {
    let path = dir.join(meta::PRESOLVE);
    let map = open(bytes(&path))?;
    let records = records::read(&map).map_err(|bad| findings::bad_scan(bytes(&path), bad))?;
    let depends = depends_of(&records).map_err(|unknown| findings::unknown(bytes(&path), &unknown))?;
    let mut plan = Plan::new(&records, &depends).map_err(|bad| no_plan(&bad))?;
    check(bytes(&path), &map)?;
    let mut states: HashMap<String, PackageState> = HashMap::new();
    for (name, state, why) in [(SUCCESS, State::Done, ""), (ERROR, State::Failed, IMPORTED)] {
        let state = PackageState::restore(state, why);
        states.extend(named(&plan, &dir.join(name))?.into_iter().map(|package| (package, state.clone())));
    }
    plan.resume(|package| states.get(package).cloned());
    meta::keep(config, &records, &depends)?;
    let run = store.begin_run(now_ms()).map_err(|error| unusable(&error))?;
    store.apply(run, &plan.rows().collect::<Vec<_>>()).map_err(|error| unusable(&error))?;
    let count = |state| plan.packages.iter().filter(|it| it.state() == state).count();
    let (done, failed) = (count(State::Done), count(State::Failed));
    Ok(format!("a bulk build of {} packages, {done} done, {failed} failed\n", plan.packages.len()))
}

/// The packages that a file names, if it is there.
fn named(plan: &Plan, path: &Path) -> Result<Vec<String>, Vec<u8>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let known: HashSet<&str> = plan.packages.iter().map(|it| &*it.name).collect();
    let map = open(bytes(path))?;
    let mut packages = Vec::new();
    for (number, line) in (1..).zip(map.split(|&byte| byte == b'\n')).filter(|(_, line)| !line.is_empty()) {
        match std::str::from_utf8(line).ok().filter(|name| known.contains(name)) {
            Some(name) => packages.push(name.to_owned()),
            None => {
                let place = format!(":{number}: there is no package '");
                return Err([bytes(path), place.as_bytes(), line, b"'"].concat());
            }
        }
    }
    check(bytes(path), &map)?;
    Ok(packages)
}
