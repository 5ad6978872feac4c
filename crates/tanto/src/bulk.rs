//! `tanto bulk`: runs its subcommands.

mod args;
mod client;
mod push_tree;
mod server;
mod token;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use tanto_bulk::attempt::distfiles::Fetch;
use tanto_bulk::attempt::enter;
use tanto_bulk::config::file::create_config;
use tanto_bulk::config::{Config, pbulk};
use tanto_bulk::coordinator::bulk_build::{self, BuildEnd, BuildReport, BuildRequest};
use tanto_bulk::coordinator::check::{CheckRequest, check};
use tanto_bulk::coordinator::control_socket::Response;
use tanto_bulk::coordinator::farm::starter;
use tanto_bulk::coordinator::install_artifact::PackageInstall;
use tanto_bulk::coordinator::queries::LastRun;
use tanto_bulk::coordinator::simulate::forecast::{ForecastRequest, forecast};
use tanto_bulk::coordinator::{acceptance, debug_shell, follow, pbulk_files, phases, requests, status_screen};
use tanto_bulk::error::{BulkError, cause};
use tanto_bulk::publish::publication::{self, ReportForm};
use tanto_bulk::publish::sign::process;
use tanto_bulk::resolve::resolved_scan::{ResolveRequest, resolve_scans};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::simulate::usual_slots;
use tanto_record::views::display::Display;
use tanto_serve::server_dir;
use tanto_sys::fs::file;
use tanto_sys::machine::cpu;
use tanto_sys::process::lifecycle;

pub use self::args::BulkCommand;
use self::args::{BulkReportArgs, BulkSimulateArgs, InternalArgs, NamedClientArgs, PackagesArgs, PublishArgs};
use crate::invocation::Invocation;
use crate::ninja::view;
use crate::settings;
use crate::settings::EnvVars;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// The exit code of a stage that failed for a reason of the machine.
const MACHINE_FAILED: u8 = 126;

pub fn run(command: BulkCommand) -> CommandOutput {
    execute(command).unwrap_or_else(|error| failed(&error))
}

fn execute(command: BulkCommand) -> Result<CommandOutput, BulkError> {
    let text = match command {
        BulkCommand::Init(args) => create_config(&args.dir)?,
        BulkCommand::Scan(args) => {
            return phases::scan_tree(&args.config.read()?, args.verify_scan, args.output.as_deref(), &mut shown()?);
        }
        BulkCommand::Resolve(args) => {
            let (output, missing) = (args.output.as_deref(), args.missing.as_deref());
            return resolve_scans(ResolveRequest { scans: &args.scans, output, missing, partial: args.partial });
        }
        BulkCommand::Check(args) => {
            let resolved = args.resolved.as_deref();
            return check(&args.config.read()?, CheckRequest { resolved, json: args.json, cutoff: args.cutoff });
        }
        BulkCommand::Build(args) => {
            let resolved = args.resolved.as_deref();
            let request = BuildRequest { resolved, again: args.again, cutoff: args.cutoff };
            let config = args.config.read()?;
            server::start(&config, &args.config.config)?;
            return bulk_build::run(&config, request, &shown).map(built);
        }
        BulkCommand::Status(args) => status_screen::show(&args.config.read()?, args.watch)?,
        BulkCommand::Why(args) => {
            let config = args.config.read()?;
            LastRun::read(&config)?.why(&config, &args.package.to_string_lossy())?
        }
        BulkCommand::Log(args) => {
            let config = args.config.read()?;
            if args.follow {
                return follow::follow(&config, &args.package.to_string_lossy())
                    .map(|end| CommandOutput { err: end.into_bytes(), ..CommandOutput::default() });
            }
            LastRun::read(&config)?.log(&config, &args.package.to_string_lossy(), args.stage.as_deref())?
        }
        BulkCommand::Shell(args) => {
            let (package, command) = (args.package.to_string_lossy(), args.command.as_deref());
            let code = debug_shell::run(&args.config.read()?, &package, command)?;
            return Ok(CommandOutput::default().with_code(code));
        }
        BulkCommand::Retry(args) => return request(&args, requests::retry),
        BulkCommand::Skip(args) => return request(&args, requests::skip),
        BulkCommand::Kill(args) => return request(&args, requests::kill),
        BulkCommand::Report(args) => return report(&args),
        BulkCommand::Publish(args) => return Ok(publish(&args)),
        BulkCommand::Import(args) if args.from.is_file() => pbulk::import(&args.from, &args.config.config)?,
        BulkCommand::Import(args) => pbulk_files::import(&args.config.read()?, &args.from)?,
        BulkCommand::Export(args) => pbulk_files::export(&args.config.read()?, &args.dir)?,
        BulkCommand::Simulate(args) => simulate(&args)?,
        BulkCommand::Serve(args) => return server::serve(&args.config.read()?).map(|()| CommandOutput::default()),
        BulkCommand::Token(command) => token::run(&command)?,
        BulkCommand::Client(args) => return client::run(&args),
        BulkCommand::PushTree(args) => push_tree::run(&args)?,
        BulkCommand::Clients(args) => return requests::clients(&args.config.read()?).map(answered),
        BulkCommand::Drain(args) => return requests::drain(&args.config.read()?, args.name).map(answered),
        BulkCommand::Distrust(args) => return distrust(&args),
        BulkCommand::Enter(args) => return Ok(run_internal_command(b"enter", args)),
        BulkCommand::Fetch(args) => return Ok(run_internal_command(b"fetch", args)),
        BulkCommand::Deliver(args) => return Ok(run_internal_command(b"deliver", args)),
        BulkCommand::Starter(args) => return Ok(run_internal_command(b"starter", args)),
        BulkCommand::Accept(args) => return Ok(run_internal_command(b"accept", args)),
        BulkCommand::Inspect(args) => return Ok(run_internal_command(b"inspect", args)),
        BulkCommand::Signer(args) => return Ok(run_internal_command(b"signer", args)),
        BulkCommand::Renew(args) => return Ok(run_internal_command(b"renew", args)),
    };
    Ok(CommandOutput::printed(text, 0))
}

fn run_internal_command(name: &[u8], args: InternalArgs) -> CommandOutput {
    let args: Vec<Vec<u8>> = args.args.into_iter().map(OsString::into_vec).collect();
    run_internal(name, &args).unwrap_or_default()
}

/// Runs a command that Tanto itself starts for each package, without parsing by clap. `None` for other names.
pub fn run_internal(name: &[u8], args: &[Vec<u8>]) -> Option<CommandOutput> {
    let output = match name {
        b"enter" => enter::run(args).map(with_status),
        b"fetch" => {
            let run = |fetch: Fetch| lifecycle::exit_with_parent().and_then(|()| fetch.run());
            Fetch::read(args).map(run).map(|result| exit_of("the distfiles", result))
        }
        b"deliver" => {
            let run = |install: PackageInstall| lifecycle::exit_with_parent().and_then(|()| install.run());
            PackageInstall::read(args).map(run).map(|result| exit_of("the package", result))
        }
        b"accept" => args.is_empty().then(|| ended(acceptance::accept())),
        b"inspect" => args.is_empty().then(|| ended(acceptance::inspect_packages())),
        b"signer" => serve_signer(args),
        b"starter" => serve_starter(args),
        b"renew" => renew_certificate(args),
        _ => return None,
    };
    let refusal = || CommandOutput::failed(format!("'tanto bulk {}' is internal", String::from_utf8_lossy(name)));
    Some(output.unwrap_or_else(refusal))
}

/// Runs the signer, with `sign_command` and `sign_public_key` as arguments.
fn serve_signer(args: &[Vec<u8>]) -> Option<CommandOutput> {
    let [command, keys] = args else { return None };
    let served = process::serve(std::str::from_utf8(command).ok()?, file::path(keys));
    Some(served.map_or_else(|error| failed(&error), |()| CommandOutput::default()))
}

/// Runs `client_start`, with the state directory, the join file and the command as arguments.
fn serve_starter(args: &[Vec<u8>]) -> Option<CommandOutput> {
    let [state, join, command] = args else { return None };
    let served = starter::serve(file::path(state), file::path(join), std::str::from_utf8(command).ok()?);
    Some(served.map_or_else(|error| failed(&error), |()| CommandOutput::default()))
}

/// Replaces an old certificate of a server, with its directory as argument.
fn renew_certificate(args: &[Vec<u8>]) -> Option<CommandOutput> {
    let [dir] = args else { return None };
    let renewed = server_dir::renew_old(file::path(dir));
    Some(renewed.map_or_else(|error| CommandOutput::failed(error.to_string()), |()| CommandOutput::default()))
}

fn ended(result: io::Result<()>) -> CommandOutput {
    result.map_or_else(|error| CommandOutput::failed(cause(&error)), |()| CommandOutput::default())
}

fn with_status(code: i32) -> CommandOutput {
    CommandOutput::default().with_code(u8::try_from(code).unwrap_or(u8::MAX))
}

fn exit_of(object: &str, result: io::Result<i32>) -> CommandOutput {
    let failed = |error| CommandOutput::failed(format!("{object}: {}", cause(&error))).with_code(MACHINE_FAILED);
    result.map_or_else(failed, with_status)
}

fn failed(error: &BulkError) -> CommandOutput {
    let code = if matches!(error, BulkError::Interrupted) { INTERRUPTED } else { 1 };
    CommandOutput::failed(error.to_string()).with_code(code)
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

fn built(report: BuildReport) -> CommandOutput {
    let (code, hint) = match report.end {
        BuildEnd::AllBuilt => (0, ""),
        BuildEnd::SomeFailed => (1, ""),
        BuildEnd::Interrupted => (INTERRUPTED, "tanto: error: interrupted: run 'tanto bulk build' to continue\n"),
    };
    CommandOutput { out: report.summary.into_bytes(), err: (report.warnings + hint).into_bytes(), code }
}

/// Sends a request to the running build; without one, retry and skip change the last run.
fn request(
    args: &PackagesArgs,
    request: fn(&Config, Vec<String>) -> Result<Response, BulkError>,
) -> Result<CommandOutput, BulkError> {
    let packages = args.packages.iter().map(|word| word.to_string_lossy().trim_end_matches('/').to_owned());
    request(&args.config.read()?, packages.collect()).map(answered)
}

/// Revokes the token of a client, and has its packages built again.
fn distrust(args: &NamedClientArgs) -> Result<CommandOutput, BulkError> {
    let (config, name) = (args.config.read()?, &args.name);
    let revoked = token::revoke_client(&config, name)?;
    if revoked.is_empty() && !requests::has_had_packages(&config, name)? {
        return Err(format!("there is no client '{name}'").into());
    }
    let output = requests::distrust(&config, name).map_or_else(|error| failed(&error), answered);
    Ok(CommandOutput { out: [revoked.into_bytes(), output.out].concat(), ..output })
}

/// The answer of a running build.
fn answered(Response { code, out, err }: Response) -> CommandOutput {
    let err = if err.is_empty() { err } else { CommandOutput::failed(err).err };
    CommandOutput { out, err, code }
}

fn report(args: &BulkReportArgs) -> Result<CommandOutput, BulkError> {
    let form = match &args.html {
        Some(path) => ReportForm::Html(path),
        None if args.pbulk => ReportForm::Pbulk,
        None if args.json => ReportForm::Json,
        None => ReportForm::Text,
    };
    Ok(CommandOutput::printed(publication::print(&args.config.read()?, form)?, 0))
}

/// Prints the finished steps even if a later one fails.
fn publish(args: &PublishArgs) -> CommandOutput {
    let mut log = String::new();
    let published = args.config.read().and_then(|config| publication::publish(&config, args.unfinished, &mut log));
    let output = published.map_or_else(|error| failed(&error), |()| CommandOutput::default());
    CommandOutput { out: log.into_bytes(), ..output }
}

fn simulate(args: &BulkSimulateArgs) -> Result<String, BulkError> {
    let usual = || usual_slots(cpu::count());
    forecast(ForecastRequest {
        resolved: &args.resolved,
        times: &args.times,
        known: args.known.as_deref(),
        pkgsrc: args.pkgsrc.as_deref(),
        slots: &args.jobs.as_ref().map_or_else(usual, |jobs| jobs.0.clone()),
    })
}
