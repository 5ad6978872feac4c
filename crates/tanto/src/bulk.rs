//! `tanto bulk`: runs its subcommands.

mod args;
mod check;
mod config;
mod enter;
mod resolve;
mod scan;
mod simulate;
mod status;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use tanto_bulk::attempt::distfiles::Fetch;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::bulk_build::{self, BuildEnd, BuildRequest};
use tanto_bulk::coordinator::control_socket::Response;
use tanto_bulk::coordinator::install_artifact::PackageInstall;
use tanto_bulk::coordinator::queries::LastRun;
use tanto_bulk::coordinator::{debug_shell, pbulk_files, requests};
use tanto_bulk::error::{BulkError, cause};
use tanto_bulk::publish::publication;
use tanto_bulk::publish::sign::process;
use tanto_bulk::report::machine;
use tanto_bulk::resolve::meta_dir::with_presolve;
use tanto_sys::fs::file;
use tanto_sys::process::lifecycle;

pub use self::args::BulkCommand;
use self::args::{
    BulkBuildArgs, BulkReportArgs, ExportArgs, ImportArgs, InternalArgs, LogArgs, PackageArgs, PackagesArgs,
    PublishArgs, ShellArgs,
};
use self::config::{CONFIG, read_config};
use crate::invocation::Invocation;
use crate::ninja::view::{self, Display};
use crate::output::CommandOutput;
use crate::settings;
use crate::settings::EnvVars;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// The exit code of a stage that failed for a reason of the machine.
const MACHINE_FAILED: u8 = 126;

pub fn run(command: BulkCommand) -> CommandOutput {
    match command {
        BulkCommand::Init(args) => init(&args.dir),
        BulkCommand::Scan(args) => scan::run(&args),
        BulkCommand::Resolve(args) => resolve::run(&args),
        BulkCommand::Check(args) => check::run(&args),
        BulkCommand::Build(args) => build(&args),
        BulkCommand::Status(args) => status::run(&args),
        BulkCommand::Why(args) => why(&args),
        BulkCommand::Log(args) => log(&args),
        BulkCommand::Shell(args) => shell(&args),
        BulkCommand::Retry(args) => request(&args, requests::retry),
        BulkCommand::Skip(args) => request(&args, requests::skip),
        BulkCommand::Kill(args) => request(&args, requests::kill),
        BulkCommand::Report(args) => report(&args),
        BulkCommand::Publish(args) => publish(&args),
        BulkCommand::Import(args) => import(&args),
        BulkCommand::Export(args) => export(&args),
        BulkCommand::Simulate(args) => simulate::run(&args),
        BulkCommand::Enter(args) => run_internal_command(b"enter", args),
        BulkCommand::Fetch(args) => run_internal_command(b"fetch", args),
        BulkCommand::Deliver(args) => run_internal_command(b"deliver", args),
        BulkCommand::Signer(args) => run_internal_command(b"signer", args),
    }
}

fn run_internal_command(name: &[u8], args: InternalArgs) -> CommandOutput {
    let args: Vec<Vec<u8>> = args.args.into_iter().map(OsString::into_vec).collect();
    run_internal(name, &args).unwrap_or_default()
}

/// Runs a command that Tanto itself starts for each package, without parsing by clap. `None` for other names.
pub fn run_internal(name: &[u8], args: &[Vec<u8>]) -> Option<CommandOutput> {
    match name {
        b"enter" => Some(enter::run(args)),
        b"fetch" => Some(fetch(args)),
        b"deliver" => Some(deliver(args)),
        b"signer" => Some(signer(args)),
        _ => None,
    }
}

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

fn init(dir: &Path) -> CommandOutput {
    let path = dir.join(CONFIG);
    let write = || {
        fs::create_dir_all(dir)?;
        File::create_new(&path)?.write_all(Config::default().text().as_bytes())
    };
    let written = write().map_err(BulkError::io("writing ", &path));
    printed(written.map(|()| format!("{}: set 'pkgsrc' to the tree, then run 'tanto bulk scan'\n", path.display())))
}

fn build(args: &BulkBuildArgs) -> CommandOutput {
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

fn why(args: &PackageArgs) -> CommandOutput {
    let why = |config| LastRun::read(&config)?.why(&args.package.to_string_lossy());
    printed(read_config(&args.config.config).and_then(why))
}

fn log(args: &LogArgs) -> CommandOutput {
    let log = |config| LastRun::read(&config)?.log(&config, &args.package.to_string_lossy(), args.stage.as_deref());
    printed(read_config(&args.config.config).and_then(log))
}

fn shell(args: &ShellArgs) -> CommandOutput {
    let run = |config| debug_shell::run(&config, &args.package.to_string_lossy(), args.command.as_deref());
    match read_config(&args.config.config).and_then(run) {
        Ok(code) => CommandOutput { code, ..CommandOutput::default() },
        Err(error) => failed(&error),
    }
}

/// Sends a request to the running build; without one, retry and skip change the last run.
fn request(args: &PackagesArgs, request: fn(&Config, Vec<String>) -> Result<Response, BulkError>) -> CommandOutput {
    let packages = args.packages.iter().map(|word| word.to_string_lossy().trim_end_matches('/').to_owned());
    match read_config(&args.config.config).and_then(|config| request(&config, packages.collect())) {
        Ok(Response { code, out, err }) if !err.is_empty() => {
            CommandOutput { out, code, ..CommandOutput::failed(Invocation::Tanto, "error", &err) }
        }
        Ok(Response { code, out, .. }) => CommandOutput { out, err: Vec::new(), code },
        Err(error) => failed(&error),
    }
}

fn report(args: &BulkReportArgs) -> CommandOutput {
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

fn publish(args: &PublishArgs) -> CommandOutput {
    let mut log = String::new();
    let publish = |config| publication::publish(&config, args.unfinished, &mut log);
    let published = read_config(&args.config.config).and_then(publish);
    let stop = published.map_or_else(|error| failed(&error), |()| CommandOutput::default());
    CommandOutput { out: log.into_bytes(), ..stop }
}

fn import(args: &ImportArgs) -> CommandOutput {
    let (from, to) = (&args.from, &args.config.config);
    printed(match from.is_file() {
        true => tanto_bulk::config::pbulk::import(from, to),
        false => read_config(to).and_then(|config| pbulk_files::import(&config, from)),
    })
}

fn export(args: &ExportArgs) -> CommandOutput {
    printed(read_config(&args.config.config).and_then(|config| pbulk_files::export(&config, &args.dir)))
}

/// Moves a package to its place, and exits like the hook that failed.
fn deliver(args: &[Vec<u8>]) -> CommandOutput {
    let Some(install) = PackageInstall::read(args) else { return internal("deliver") };
    exit_of("the package", lifecycle::exit_with_parent().and_then(|()| install.run()))
}

/// Fetches missing distfiles, and exits like the command that failed.
fn fetch(args: &[Vec<u8>]) -> CommandOutput {
    let Some(fetch) = Fetch::read(args) else { return internal("fetch") };
    exit_of("the distfiles", lifecycle::exit_with_parent().and_then(|()| fetch.run()))
}

/// Runs the signer, with `sign_command` and `sign_public_key` as arguments.
fn signer(args: &[Vec<u8>]) -> CommandOutput {
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
