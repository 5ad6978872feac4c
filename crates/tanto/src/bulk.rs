//! `tanto bulk`: the entry function of each subcommand.

mod check;
mod config;
pub(crate) mod enter;
mod resolve;
mod scan;
mod simulate;
mod status;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tanto_bulk::attempt::distfiles::Fetch;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::bulk_build::{self, BuildEnd, BuildRequest};
use tanto_bulk::coordinator::control_socket::Response;
use tanto_bulk::coordinator::install_artifact::Delivery;
use tanto_bulk::coordinator::queries::LastRun;
use tanto_bulk::coordinator::{debug_shell, pbulk_files, requests};
use tanto_bulk::error::{BulkError, cause};
use tanto_bulk::publish::publication;
use tanto_bulk::publish::sign::process;
use tanto_bulk::report::machine;
use tanto_bulk::resolve::meta_dir::with_presolve;
use tanto_sys::fs::file;
use tanto_sys::process::lifecycle;

pub(crate) use self::check::run as check;
use self::config::{CONFIG, read_config};
pub(crate) use self::resolve::run as resolve;
pub(crate) use self::scan::run as scan;
pub(crate) use self::simulate::run as simulate;
pub(crate) use self::status::run as status;
use crate::command_line::bulk::{
    BulkBuildArgs, BulkReportArgs, ExportArgs, ImportArgs, LogArgs, PackageArgs, PackagesArgs, PublishArgs, ShellArgs,
};
use crate::invocation::Invocation;
use crate::ninja::view::{self, Display};
use crate::output::CommandOutput;
use crate::settings;
use crate::settings::EnvVars;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// The exit code of a stage that failed for a reason of the machine.
const MACHINE_FAILED: u8 = 126;

fn failed(error: &BulkError) -> CommandOutput {
    let code = if matches!(error, BulkError::Interrupted) { INTERRUPTED } else { 1 };
    CommandOutput { code, ..CommandOutput::failed(Invocation::Tanto, "error", error.to_string().as_bytes()) }
}

fn printed(result: Result<String, BulkError>) -> CommandOutput {
    result.map_or_else(|error| failed(&error), |text| CommandOutput::printed(text, 0))
}

/// The view of phases that run commands, with the settings of `tanto build`.
fn shown() -> Result<Display, BulkError> {
    let options = settings::options(Invocation::Tanto, &[], &EnvVars::of_process(), &mut |_| {});
    let options = options.map_err(|error| {
        let output = error.output(Invocation::Tanto, b"tanto bulk", String::new);
        String::from_utf8_lossy(&output.err).trim_end().to_owned()
    })?;
    view::create(&options).map_err(|_| "the status format is malformed".into())
}

pub(crate) fn init(dir: &Path) -> CommandOutput {
    let path = dir.join(CONFIG);
    let write = || {
        fs::create_dir_all(dir)?;
        File::create_new(&path)?.write_all(Config::default().text().as_bytes())
    };
    let written = write().map_err(BulkError::io("writing ", &path));
    printed(written.map(|()| format!("{}: set 'pkgsrc' to the tree, then run 'tanto bulk scan'\n", path.display())))
}

pub(crate) fn build(args: &BulkBuildArgs) -> CommandOutput {
    let request = BuildRequest { resolved: args.resolved.as_deref(), again: args.again, cutoff: args.cutoff };
    match read_config(&args.config.config).and_then(|config| bulk_build::run(&config, request, &shown)) {
        Err(error) => failed(&error),
        Ok(report) => {
            let (code, hint) = match report.end {
                BuildEnd::AllBuilt => (0, ""),
                BuildEnd::SomeFailed => (1, ""),
                BuildEnd::Interrupted => {
                    (INTERRUPTED, "tanto: error: interrupted: run 'tanto bulk build' to continue\n")
                }
            };
            CommandOutput { out: report.summary.into_bytes(), err: (report.warnings + hint).into_bytes(), code }
        }
    }
}

pub(crate) fn why(args: &PackageArgs) -> CommandOutput {
    let why = |config| LastRun::read(&config)?.why(&args.package.to_string_lossy());
    printed(read_config(&args.config.config).and_then(why))
}

pub(crate) fn log(args: &LogArgs) -> CommandOutput {
    let log = |config| LastRun::read(&config)?.log(&config, &args.package.to_string_lossy(), args.stage.as_deref());
    printed(read_config(&args.config.config).and_then(log))
}

pub(crate) fn shell(args: &ShellArgs) -> CommandOutput {
    let run = |config| debug_shell::run(&config, &args.package.to_string_lossy(), args.command.as_deref());
    match read_config(&args.config.config).and_then(run) {
        Ok(code) => CommandOutput { code, ..CommandOutput::default() },
        Err(error) => failed(&error),
    }
}

pub(crate) fn retry(args: &PackagesArgs) -> CommandOutput {
    answered(args, requests::retry)
}

pub(crate) fn skip(args: &PackagesArgs) -> CommandOutput {
    answered(args, requests::skip)
}

pub(crate) fn kill(args: &PackagesArgs) -> CommandOutput {
    answered(args, requests::kill)
}

fn answered(args: &PackagesArgs, request: fn(&Config, Vec<String>) -> Result<Response, BulkError>) -> CommandOutput {
    let packages = args.packages.iter().map(|word| word.to_string_lossy().trim_end_matches('/').to_owned());
    match read_config(&args.config.config).and_then(|config| request(&config, packages.collect())) {
        Ok(Response { code, out, err }) if !err.is_empty() => {
            CommandOutput { out, code, ..CommandOutput::failed(Invocation::Tanto, "error", &err) }
        }
        Ok(Response { code, out, .. }) => CommandOutput { out, err: Vec::new(), code },
        Err(error) => failed(&error),
    }
}

pub(crate) fn report(args: &BulkReportArgs) -> CommandOutput {
    let report = || {
        let config = read_config(&args.config.config)?;
        let rows = publication::rows(&config)?;
        with_presolve(&config, |records| {
            if args.pbulk {
                return Ok(machine::report(&rows, records));
            }
            let report = publication::report(&rows, records);
            match &args.html {
                Some(path) => {
                    let written = file::write_atomically(path, |file| file.write_all(report.html().as_bytes()));
                    written.map(|()| Vec::new()).map_err(BulkError::io("writing ", path))
                }
                None if args.json => Ok(report.json()),
                None => Ok(report.text().into_bytes()),
            }
        })
    };
    report().map_or_else(|error| failed(&error), |out| CommandOutput::printed(out, 0))
}

pub(crate) fn publish(args: &PublishArgs) -> CommandOutput {
    let mut log = String::new();
    let publish = |config| publication::publish(&config, args.unfinished, &mut log);
    let published = read_config(&args.config.config).and_then(publish);
    let stop = published.map_or_else(|error| failed(&error), |()| CommandOutput::default());
    CommandOutput { out: log.into_bytes(), ..stop }
}

pub(crate) fn import(args: &ImportArgs) -> CommandOutput {
    let (from, to) = (&args.from, &args.config.config);
    printed(match from.is_file() {
        true => tanto_bulk::config::pbulk::import(from, to),
        false => read_config(to).and_then(|config| pbulk_files::import(&config, from)),
    })
}

pub(crate) fn export(args: &ExportArgs) -> CommandOutput {
    printed(read_config(&args.config.config).and_then(|config| pbulk_files::export(&config, &args.dir)))
}

/// Moves a package to its place, and exits like the hook that failed.
pub(crate) fn deliver(args: &[Vec<u8>]) -> CommandOutput {
    let Some(delivery) = Delivery::read(args) else { return internal("deliver") };
    exit_of("the package", lifecycle::exit_with_parent().and_then(|()| delivery.run()))
}

/// Fetches missing distfiles, and exits like the command that failed.
pub(crate) fn fetch(args: &[Vec<u8>]) -> CommandOutput {
    let Some(fetch) = Fetch::read(args) else { return internal("fetch") };
    exit_of("the distfiles", lifecycle::exit_with_parent().and_then(|()| fetch.run()))
}

/// Runs the signer, with `sign_command` and `sign_public_key` as arguments.
pub(crate) fn signer(args: &[Vec<u8>]) -> CommandOutput {
    let [command, keys] = args else { return internal("signer") };
    let Ok(command) = std::str::from_utf8(command) else { return internal("signer") };
    printed(process::serve(command, file::path(keys)).map(|()| String::new()))
}

fn internal(name: &str) -> CommandOutput {
    CommandOutput::failed(Invocation::Tanto, "error", format!("'tanto bulk {name}' is internal").as_bytes())
}

fn exit_of(object: &str, result: io::Result<i32>) -> CommandOutput {
    match result {
        Ok(code) => CommandOutput { code: u8::try_from(code).unwrap_or(u8::MAX), ..CommandOutput::default() },
        Err(error) => {
            let message = format!("{object}: {}", cause(&error));
            CommandOutput {
                code: MACHINE_FAILED,
                ..CommandOutput::failed(Invocation::Tanto, "error", message.as_bytes())
            }
        }
    }
}
