//! Opens a shell in the sandbox of a package, as its stages saw it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tanto_protocol::AttemptSpec;
use tanto_record::database::PackageRow;
use tanto_sys::fs::{dir_tree, lock};
use tanto_sys::process::lifecycle;
use tanto_sys::terminal;

use super::plan::Plan;
use super::queries::LastRun;
use super::state::State;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::directory::{AttemptDir, PREFIX_ARCHIVE, WRKDIR_ARCHIVE};
use crate::attempt::environment::{self, Environment};
use crate::attempt::stages::visit::Visit;
use crate::config::{Config, NO_SANDBOX};
use crate::error::BulkError;
use crate::resolve::meta_dir::{PRESOLVE, with_presolve};
use crate::resolve::{self, depends_of};

/// Runs a shell, or a command in its place, and returns its exit code.
pub fn run(config: &Config, word: &str, command: Option<&str>) -> Result<u8, BulkError> {
    if config.sandbox == NO_SANDBOX {
        return Err(
            "packages are built without a sandbox (sandbox = \"none\"): there is none to open a shell in".into()
        );
    }
    let last = LastRun::read(config)?;
    let row = last.find(word)?.clone();
    if row.state != State::Failed.name() {
        eprintln!("tanto: {} is {}: opening a sandbox like that of its build", row.name, row.state);
    }
    let (plan, package) = planned(config, &row)?;
    let (own, _lock) = own_state(config)?;
    let environment = Environment::enter(&own, Some(&config.state))?;
    // Job tokens come from a running build.
    let settings = BuildSettings { make_wrappers: None, ..environment::settings(&own, environment.as_deref())? };
    // Paths are those of the last attempt.
    let attempt = last.attempts_of(&row)?.last().map_or(1, |it| it.attempt);
    let spec = AttemptSpec { attempt, ..plan.attempt_spec(package, &settings, true) };
    let visit = Visit::new(&settings, spec).ok_or("there is no sandbox")?;
    let code = visited(&visit, config, &row, command);
    // Leftovers are removed by the next shell.
    let _ = shell(&visit.end(), None);
    for name in ["clients", "makes"] {
        let _ = dir_tree::remove(&Path::new(&own.state).join(name));
    }
    code
}

/// Plans the last run again, and finds the package.
fn planned(config: &Config, row: &PackageRow) -> Result<(Plan, resolve::PackageId), BulkError> {
    with_presolve(config, |records| {
        let path = config.meta_dir().join(PRESOLVE);
        let depends = depends_of(records).map_err(|error| format!("{}: {error}", path.display()))?;
        let plan = Plan::new(records, &depends)?;
        let package = plan.all().find(|&it| plan.package(it).name == row.name);
        let missing = || format!("{} does not contain {}: build again", path.display(), row.name);
        Ok(package.map(|package| (plan, package)).ok_or_else(missing)?)
    })
}

/// The limit of open shells.
const MAX_SHELLS: usize = 64;

/// Returns the configuration with a state directory of its own, so that a build and other shells can run at the same time.
/// It is locked as long as the file is open.
fn own_state(config: &Config) -> Result<(Config, File), BulkError> {
    let all = Path::new(&config.state).join("shells");
    for number in 1..=MAX_SHELLS {
        let dir = all.join(number.to_string());
        fs::create_dir_all(&dir).map_err(BulkError::io("making ", &dir))?;
        let file = lock::open_lock_file(&dir.join("lock")).map_err(BulkError::io("making ", &dir))?;
        if lock::try_lock_exclusive(&file).map_err(BulkError::io("making ", &dir))? {
            // Layers belong to a build, which may remove some: pkg_add installs dependencies.
            let state = dir.to_string_lossy().into_owned();
            return Ok((Config { state, layers: false, ..config.clone() }, file));
        }
    }
    Err(format!("{MAX_SHELLS} shells are open: exit one of them").into())
}

fn visited(visit: &Visit<'_>, config: &Config, row: &PackageRow, command: Option<&str>) -> Result<u8, BulkError> {
    let wrong = |error| BulkError::of("the sandbox")(error);
    for (stage, line) in visit.begin().map_err(wrong)? {
        let status = shell(&line, None).map_err(wrong)?;
        if !status.success() {
            return Err(format!("{stage} failed for {}: {status}", row.name).into());
        }
    }
    restore(visit, config, row)?;
    // The shell handles Ctrl-C.
    lifecycle::obey_termination_signals(false);
    let status = Command::new("/bin/sh").arg("-c").arg(visit.shell(command)).status();
    terminal::take_foreground();
    lifecycle::obey_termination_signals(true);
    Ok(status.map_err(wrong)?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Unpacks the archives that were kept when the package failed.
fn restore(visit: &Visit<'_>, config: &Config, row: &PackageRow) -> Result<(), BulkError> {
    let dir = AttemptDir::with_archive(&config.bulklog, &row.name);
    let kept = |name: &str| dir.as_ref().map(|dir| dir.file(name)).filter(|path| path.is_file());
    match kept(WRKDIR_ARCHIVE) {
        Some(archive) => unpack(&visit.unpack_wrkdir(), &archive)?,
        None => eprintln!("tanto: the work directory is empty; set keep_wrkdir = true to keep it when a package fails"),
    }
    kept(PREFIX_ARCHIVE).map_or(Ok(()), |archive| unpack(&visit.unpack_prefix(), &archive))
}

fn unpack(line: &str, archive: &PathBuf) -> Result<(), BulkError> {
    let wrong = |error| BulkError::io("unpacking ", archive)(error);
    let status = shell(line, Some(File::open(archive).map_err(wrong)?)).map_err(wrong)?;
    if status.success() { Ok(()) } else { Err(wrong(io::Error::other(status.to_string()))) }
}

/// Runs a command before or after the shell, with its output on standard error.
fn shell(line: &str, input: Option<File>) -> io::Result<ExitStatus> {
    let output = io::stderr().as_fd().try_clone_to_owned()?;
    let input = input.map_or_else(Stdio::null, Stdio::from);
    Command::new("/bin/sh").args(["-c", line]).stdin(input).stdout(output).status()
}
