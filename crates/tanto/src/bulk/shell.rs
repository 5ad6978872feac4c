//! `tanto bulk shell`: a shell in the sandbox of a package, as its stages saw it.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tanto_bulk::attempt::build_settings::Site;
use tanto_bulk::attempt::stages::visit::Visit;
use tanto_bulk::config::{Config, NO_SANDBOX};
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::resolve::{self, depends_of};
use tanto_record::database::PackageRow as Row;
use tanto_sys::fs::{dir_tree, lock};
use tanto_sys::process::lifecycle;
use tanto_sys::terminal;

use super::build::no_plan;
use super::files::failed;
use super::place::{config, look, unusable};
use super::report::with_records;
use super::{ask, findings, meta, site};
use crate::command_line::bulk::ShellArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Runs the shell, and exits as it does.
pub(crate) fn run(args: &ShellArgs) -> Stop {
    match obey(args) {
        Ok(code) => Stop { out: Vec::new(), err: Vec::new(), code },
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &ShellArgs) -> Result<u8, Vec<u8>> {
    let config = config(&args.config.config)?;
    if config.sandbox == NO_SANDBOX {
        let why = "packages are built without a sandbox (sandbox = \"none\"): there is none to open a shell in";
        return Err(why.into());
    }
    let row = row(&config, args.package.as_bytes())?;
    let (plan, package) = planned(&config, &row)?;
    let (own, _lock) = own_state(&config)?;
    let spaces = site::enter(&own, Some(&config.state))?;
    // Job tokens come from a build, and there is none.
    let site = Site { makes: None, ..site::of(&own, spaces.as_deref())? };
    let visit = Visit::new(&site, &plan, package).ok_or(b"there is no sandbox")?;
    let code = visited(&visit, &config, &row, args.command.as_deref());
    // What cannot be removed now is removed by the next shell.
    let _ = shell(&visit.end(), None);
    for name in ["clients", "makes"] {
        let _ = dir_tree::remove(&Path::new(&own.state).join(name));
    }
    code
}

fn row(config: &Config, word: &[u8]) -> Result<Row, Vec<u8>> {
    let store = look(config)?;
    let failed = |error| unusable(&error);
    let (run, _) = store.last_run().map_err(failed)?.ok_or(b"nothing was built yet")?;
    let row = ask::find(&store.packages(run).map_err(failed)?, word)?.clone();
    if row.state != State::Failed.name() {
        eprintln!("tanto: {} is {}: its sandbox is made as if it was to be built", row.name, row.state);
    }
    Ok(row)
}

/// The package as it was built last, with all others.
fn planned(config: &Config, row: &Row) -> Result<(Plan, resolve::Package), Vec<u8>> {
    with_records(config, |records| {
        let path = meta::dir(config).join(meta::PRESOLVE);
        let unknown = |unknown| findings::unknown(path.as_os_str().as_encoded_bytes(), &unknown);
        let plan = Plan::new(records, &depends_of(records).map_err(unknown)?).map_err(|bad| no_plan(&bad))?;
        let package = plan.all().find(|&it| plan.package(it).name == row.name);
        let lost = || format!("{} does not say how {} is built: build again", path.display(), row.name).into_bytes();
        package.map(|package| (plan, package)).ok_or_else(lost)
    })
}

/// As many shells may be open at a time.
const MOST: usize = 64;

/// The configuration with a state directory of its own: shells, and a build, may run at the same time. It is ours as long
/// as the file is open.
fn own_state(config: &Config) -> Result<(Config, File), Vec<u8>> {
    let wrong = |dir: &Path, error| failed("making ", dir.as_os_str().as_encoded_bytes(), &error);
    let all = Path::new(&config.state).join("shells");
    for number in 1..=MOST {
        let dir = all.join(number.to_string());
        fs::create_dir_all(&dir).map_err(|error| wrong(&dir, error))?;
        let file = lock::open_lock_file(&dir.join("lock")).map_err(|error| wrong(&dir, error))?;
        if lock::try_lock_exclusive(&file).map_err(|error| wrong(&dir, error))? {
            // Layers are those of a build, which may throw some away: pkg_add installs what is needed.
            let state = dir.to_string_lossy().into_owned();
            return Ok((Config { state, layers: false, ..config.clone() }, file));
        }
    }
    Err(format!("{MOST} shells are open: end one of them").into_bytes())
}

fn visited(visit: &Visit<'_>, config: &Config, row: &Row, command: Option<&str>) -> Result<u8, Vec<u8>> {
    let wrong = |error| failed("", b"the sandbox", &error);
    for (stage, line) in visit.begin().map_err(wrong)? {
        let status = shell(&line, None).map_err(wrong)?;
        if !status.success() {
            return Err(format!("{stage} failed for {}: {status}", row.name).into_bytes());
        }
    }
    restore(visit, config, row)?;
    // Ctrl-C is for the shell.
    lifecycle::obey_termination_signals(false);
    let status = Command::new("/bin/sh").arg("-c").arg(visit.shell(command)).status();
    terminal::take_foreground();
    lifecycle::obey_termination_signals(true);
    Ok(status.map_err(wrong)?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Unpacks what was kept when the package failed.
fn restore(visit: &Visit<'_>, config: &Config, row: &Row) -> Result<(), Vec<u8>> {
    let kept = |name: &str| Some(Path::new(&config.bulklog).join(&row.name).join(name)).filter(|path| path.is_file());
    match kept("wrkdir.tar.gz") {
        Some(archive) => unpack(&visit.unpack_wrkdir(), &archive)?,
        None => eprintln!("tanto: its work directory was not kept (keep_wrkdir = true keeps it): it is empty"),
    }
    kept("prefix.tar.gz").map_or(Ok(()), |archive| unpack(&visit.unpack_prefix(), &archive))
}

fn unpack(line: &str, archive: &PathBuf) -> Result<(), Vec<u8>> {
    let wrong = |error| failed("unpacking ", archive.as_os_str().as_encoded_bytes(), &error);
    let status = shell(line, Some(File::open(archive).map_err(wrong)?)).map_err(wrong)?;
    if status.success() { Ok(()) } else { Err(wrong(io::Error::other(status.to_string()))) }
}

/// Runs a line before or after the shell. What it prints is no answer.
fn shell(line: &str, input: Option<File>) -> io::Result<ExitStatus> {
    use std::os::fd::AsFd;
    let output = io::stderr().as_fd().try_clone_to_owned()?;
    let input = input.map_or_else(Stdio::null, Stdio::from);
    Command::new("/bin/sh").args(["-c", line]).stdin(input).stdout(output).status()
}
