//! Preparation: ends and removes the leftovers of a killed build.

use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use tanto_exec::job::report::ProcessInfo;
use tanto_exec::monitor::orphans;
use tanto_exec::sandbox::SandboxDir;
use tanto_sys::fs::dir_tree;

use super::phase_file::{self, Phase};
use super::state_dir::StateDir;
use super::workdirs::Workdirs;
use crate::attempt::distfiles::leftovers;
use crate::attempt::environment::Environment;
use crate::attempt::preflight;
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::package::ALL;

/// Cleans up with the state locked and makes this process the owner of the state. Enters a mount namespace if sandboxes
/// are configured.
pub fn prepare(config: &Config, state: &mut StateDir) -> Result<Option<Rc<Environment>>, BulkError> {
    phase_file::begin(config, Phase::Prepare);
    if let Some(killed) = state.lock.owner() {
        let (ended, remaining) = orphans::end(killed).map_err(BulkError::of("looking for processes"))?;
        if !remaining.is_empty() {
            return Err(format!("cannot end processes of a killed build: {}", commands(&remaining)).into());
        }
        if !ended.is_empty() {
            report(&format!("ended processes: {}", commands(&ended)));
        }
    }
    remove_partial_files(config);
    state.lock.own().map_err(BulkError::of("writing the lock"))?;
    remove_workdirs(config)?;
    // Some files of an unprivileged user's sandboxes can be removed only by root in a user namespace.
    let environment = Environment::enter(config, None)?;
    remove_sandboxes(config)?;
    Ok(environment)
}

fn report(done: &str) {
    eprintln!("tanto: cleaning up after a killed build: {done}");
}

/// Reports a removal. A failure is not an error: the next use of the file reports it.
fn report_removal(object: &str, result: io::Result<()>) {
    match result {
        Ok(()) => report(&format!("removed {object}")),
        Err(error) => report(&format!("cannot remove {object}: {}", cause(&error))),
    }
}

/// Limits of a list of processes: bytes of each command, and commands.
const MAX_COMMAND: usize = 80;
const MAX_COMMANDS: usize = 5;

fn commands(processes: &[ProcessInfo]) -> String {
    let line =
        |it: &ProcessInfo| String::from_utf8_lossy(&it.command[..it.command.len().min(MAX_COMMAND)]).into_owned();
    let mut lines: Vec<String> = processes.iter().take(MAX_COMMANDS).map(line).collect();
    lines.extend(processes.len().checked_sub(MAX_COMMANDS).filter(|&more| more > 0).map(|more| format!("{more} more")));
    lines.join(", ")
}

/// Removes partial packages and distfiles, except those that another process holds open.
fn remove_partial_files(config: &Config) {
    let all = Path::new(&config.packages).join(ALL);
    for (kind, dir) in [("package", &*all), ("distfile", Path::new(&config.distdir))] {
        for (path, _kept_away) in leftovers(dir) {
            report_removal(&format!("the partial {kind} {}", path.display()), fs::remove_file(&path));
        }
    }
}

/// Removes work directories of packages that were built without a sandbox.
fn remove_workdirs(config: &Config) -> Result<(), BulkError> {
    let workdirs = Workdirs::of(&config.state);
    let failed = |error| BulkError::io("the list of work directories in ", &config.state)(error);
    for package in workdirs.all().map_err(failed)? {
        if let Some(dir) = workdirs.get(&package).filter(|dir| dir.exists()) {
            let result = match preflight::may_be_removed(&dir, config) {
                true => dir_tree::remove(&dir),
                false => Err(io::Error::other("it contains files of other users")),
            };
            report_removal(&format!("the work directory of {package}, {}", dir.display()), result);
        }
        if workdirs.get(&package).is_none_or(|dir| !dir.exists()) {
            workdirs.forget(&package).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes files of sandboxes. The kernel removed the mounts with their process.
fn remove_sandboxes(config: &Config) -> Result<(), BulkError> {
    let dir = Path::new(&config.state).join("clients");
    let names = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(BulkError::io("reading ", &dir))?,
    };
    // A cleanly left sandbox has no scratch directory.
    let count = names.flatten().filter(|entry| SandboxDir::new(entry.path()).scratch().exists()).count();
    if count > 0 {
        let sandboxes = if count == 1 { "a sandbox".into() } else { format!("{count} sandboxes") };
        report_removal(&format!("the files of {sandboxes}, {}", dir.display()), dir_tree::remove(&dir));
    }
    Ok(())
}
