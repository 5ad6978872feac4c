//! Preparation: what a build has left that was killed is ended and removed, and the user hears what that was. Does not know
//! what is done next.

use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use tanto_bulk::attempt::distfiles::left;
use tanto_bulk::attempt::workdirs::Works;
use tanto_bulk::config::Config;
use tanto_exec::job::report::ProcessInfo;
use tanto_exec::monitor::orphans;
use tanto_exec::sandbox::SandboxDir;
use tanto_sys::error;
use tanto_sys::fs::dir_tree;

use super::files::failed;
use super::place::State;
use super::progress::{self, Phase};
use super::site::{self, Spaces};

/// With the state to ourselves, before anything is started. From then on this process is the one that could leave something;
/// if there are to be sandboxes, it is in namespaces of its own.
pub(super) fn prepare(config: &Config, state: &mut State) -> Result<Option<Rc<Spaces>>, Vec<u8>> {
    progress::begin(config, Phase::Prepare);
    if let Some(killed) = state.lock.owner() {
        let (ended, remain) = orphans::end(killed).map_err(|error| failed("looking for ", b"processes", &error))?;
        if !remain.is_empty() {
            return Err(format!("a build was killed, and what it has left does not end: {}", lines(&remain)).into());
        }
        if !ended.is_empty() {
            tell(&format!("ended what it was doing: {}", lines(&ended)));
        }
    }
    halves(config);
    state.lock.own().map_err(|error| failed("writing ", b"the lock", &error))?;
    works(config)?;
    // Of an ordinary user's sandboxes some things can be removed only by who is root there.
    let spaces = site::enter(config, None)?;
    clients(config)?;
    Ok(spaces)
}

fn tell(what: &str) {
    eprintln!("tanto: an earlier build has left something: {what}");
}

/// What cannot be removed need not be in the way: whom it is, will say so.
fn told(what: &str, done: io::Result<()>) {
    match done {
        Ok(()) => tell(&format!("removed {what}")),
        Err(wrong) => tell(&format!("{what}, which stays: {}", String::from_utf8_lossy(&error::text(&wrong)))),
    }
}

/// Of a process's command line, and of processes, so much is told.
const MOST_LINE: usize = 80;
const MOST_LINES: usize = 5;

fn lines(processes: &[ProcessInfo]) -> String {
    let line =
        |seen: &ProcessInfo| String::from_utf8_lossy(&seen.command[..seen.command.len().min(MOST_LINE)]).into_owned();
    let mut told: Vec<String> = processes.iter().take(MOST_LINES).map(line).collect();
    told.extend(processes.len().checked_sub(MOST_LINES).filter(|&more| more > 0).map(|more| format!("{more} more")));
    told.join(", ")
}

/// Packages and distfiles that were on their way to their places. Others may be bringing some to these directories: of those
/// that somebody has, none is removed.
fn halves(config: &Config) {
    let all = Path::new(&config.packages).join("All");
    for (what, dir) in [("a package", &*all), ("a distfile", Path::new(&config.distdir))] {
        for (path, _kept_away) in left(dir) {
            told(&format!("{what} that is not whole, {}", path.display()), fs::remove_file(&path));
        }
    }
}

/// Work directories of packages that were built in the machine itself.
fn works(config: &Config) -> Result<(), Vec<u8>> {
    let works = Works::of(&config.state);
    let wrong = |error| failed("the notes on work directories in ", config.state.as_bytes(), &error);
    for package in works.all().map_err(wrong)? {
        if let Some(dir) = works.get(&package).filter(|dir| dir.exists()) {
            let what = format!("the work directory of {package}, {}", dir.display());
            let is_all = site::may_be_removed(&dir, config);
            let free = is_all.then_some(()).ok_or_else(|| io::Error::other("something else is in it"));
            told(&what, free.and_then(|()| dir_tree::remove(&dir)));
        }
        if works.get(&package).is_none_or(|dir| !dir.exists()) {
            works.forget(&package).map_err(wrong)?;
        }
    }
    Ok(())
}

/// What packages wrote in sandboxes. What was mounted there is gone with who had mounted it.
fn clients(config: &Config) -> Result<(), Vec<u8>> {
    let dir = Path::new(&config.state).join("clients");
    // Those that were left in order have none any more.
    let count = names(&dir)?.iter().filter(|name| SandboxDir::new(dir.join(name)).scratch().exists()).count();
    if count > 0 {
        let what = if count == 1 { "a sandbox".into() } else { format!("{count} sandboxes") };
        told(&format!("what was written in {what}, {}", dir.display()), dir_tree::remove(&dir));
    }
    Ok(())
}

/// What lies in a directory, in order; nothing if it is not there.
fn names(dir: &Path) -> Result<Vec<String>, Vec<u8>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed("reading ", dir.as_os_str().as_encoded_bytes(), &error))?,
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}
