//! `tanto report`: prints reports on recorded builds.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::job::ExecutedBy;
use tanto_exec::startup::Startup;
use tanto_ninja::canon::canonical;
use tanto_record::session::{FindSessionError, Session, SessionError, Sessions};
use tanto_record::views::report::timings::{ProgramStarts, Timings, is_comparable};
use tanto_record::views::{
    html,
    report::{output, rebuilds, session_list},
    trace,
};

use crate::settings::EnvVars;

/// Number of sessions listed. The file of each has to be read.
const MAX_LISTED: usize = 30;

/// Number of programs whose startup cost is measured, the most used first.
const MAX_MEASURED: usize = 8;

/// Number of earlier sessions that are searched for a comparable one.
const MAX_SEARCHED: usize = 20;

/// Report why commands ran, where time went, and their output
///
/// Reads the sessions that builds have left in .tanto/sessions and, for builds under the name ninja, in the user's cache.
/// A session is named by its number (1 is the last one), its name, or the beginning of its name.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct ReportArgs {
    /// Build directory
    #[arg(short = 'C', value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    dir: Option<OsString>,
    #[command(subcommand)]
    command: ReportCommand,
}

#[derive(Subcommand, Debug)]
enum ReportCommand {
    /// List the recorded builds
    Sessions,
    /// Explain why each command ran; list terminated commands and leftover processes
    Rebuilds(SessionArg),
    /// Show where the time went
    ///
    /// Shows the slowest commands, the critical path, why slots were idle, and the changes since the last build
    /// of the same commands.
    Timings(TimingsArgs),
    /// Print a build for the trace viewers of Chrome and Perfetto
    Trace(SessionArg),
    /// Print the output of commands, also of those that are up to date
    ///
    /// With FILE, prints the output of the last run of the command that makes it. Without FILE, prints the output
    /// of all commands of the last build that failed or printed something.
    Output {
        /// Output file of a command
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<OsString>,
    },
}

#[derive(Args, Debug)]
struct SessionArg {
    /// Number or name of a session
    #[arg(default_value = "1")]
    session: OsString,
}

#[derive(Args, Debug)]
struct TimingsArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Compare with this session
    #[arg(long, value_name = "SESSION")]
    against: Option<OsString>,
    /// Write an HTML page to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "json", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Find(#[from] FindSessionError),
    #[error(transparent)]
    Read(#[from] SessionError),
    #[error("no session has a command that made '{0}': 'tanto report sessions' lists the sessions")]
    NoOutput(String),
    #[error("writing {path}: {cause}")]
    Write { path: String, cause: String },
}

pub fn run(args: &ReportArgs) -> CommandOutput {
    report(args).unwrap_or_else(|error| CommandOutput::failed(error.to_string()))
}

fn report(args: &ReportArgs) -> Result<CommandOutput, ReportError> {
    let dir = args.dir.as_deref().unwrap_or(OsStr::new("."));
    let all = Sessions::new(&EnvVars::of_process().state(Some(dir.as_bytes())));
    let text = match &args.command {
        ReportCommand::Output { file } => return command_output(&all, file.as_deref().map(OsStr::as_bytes)),
        ReportCommand::Sessions => listed(&all),
        ReportCommand::Rebuilds(session) => rebuilds::text(&find(&all, session)?.1),
        ReportCommand::Trace(session) => trace::json(&find(&all, session)?.1),
        ReportCommand::Timings(args) => timings(&all, args)?,
    };
    Ok(CommandOutput::printed(text, 0))
}

/// Returns the name and the content of a session.
fn find(all: &Sessions, arg: &SessionArg) -> Result<(String, Session), ReportError> {
    let name = all.find(arg.session.as_bytes())?;
    let session = read(all, &name)?;
    Ok((name, session))
}

/// The output of one command, with a line about it on standard error; without a file, of all commands of the last
/// build.
fn command_output(all: &Sessions, file: Option<&[u8]>) -> Result<CommandOutput, ReportError> {
    let color = std::io::stdout().is_terminal();
    let Some(file) = file else {
        let name = all.find(b"1")?;
        let text = output::all(&read(all, &name)?, &|place| all.read_output(&name, place), color);
        return Ok(CommandOutput::printed(text, 0));
    };
    let path = canonical(file);
    // Unreadable sessions are skipped.
    for name in all.list().into_iter().rev().map(|entry| entry.name).filter(|name| all.may_contain_output(name, &path))
    {
        let Ok(session) = read(all, &name) else { continue };
        if let Some(job) = output::of(&session, &path) {
            let out = output::printed(job, &|place| all.read_output(&name, place), color);
            let err = [name.as_bytes(), b": ", &output::head(job)].concat();
            return Ok(CommandOutput { out, err, code: 0 });
        }
    }
    Err(ReportError::NoOutput(String::from_utf8_lossy(&path).into_owned()))
}

fn listed(all: &Sessions) -> Vec<u8> {
    let entries = all.list();
    if entries.is_empty() {
        return b"no sessions yet: builds that run commands are recorded\n".into();
    }
    let older = entries.len().saturating_sub(MAX_LISTED);
    let read: Vec<_> = entries[older..].iter().map(|entry| (&entry.name[..], read(all, &entry.name).ok())).collect();
    let mut text = session_list(read.iter().map(|(name, session)| (*name, session.as_ref())));
    if older > 0 {
        text.extend_from_slice(format!("and {older} older ones\n").as_bytes());
    }
    text
}

fn read(all: &Sessions, name: &str) -> Result<Session, SessionError> {
    Session::read(&all.path(name))
}

fn timings(all: &Sessions, args: &TimingsArgs) -> Result<Vec<u8>, ReportError> {
    let (name, session) = find(all, &args.session)?;
    let earlier = match &args.against {
        Some(other) => {
            let other = all.find(other.as_bytes())?;
            Some((read(all, &other)?, other))
        }
        None => comparable(all, &name, &session),
    };
    let earlier = earlier.as_ref().map(|(session, name)| (&name[..], session));
    let timings = Timings::new(&name, &session, earlier).with_starts(program_starts(&session));
    let Some(file) = &args.html else {
        return Ok(if args.json { timings.json() } else { timings.text() });
    };
    std::fs::write(file, html::html(&timings)).map_err(|error| ReportError::Write {
        path: file.display().to_string(),
        cause: String::from_utf8_lossy(&tanto_sys::error::text(&error)).into_owned(),
    })?;
    Ok([b"wrote ", file.as_os_str().as_bytes(), b"\n"].concat())
}

/// The programs that the commands of a session started, with their startup costs.
fn program_starts(session: &Session) -> Vec<ProgramStarts> {
    let dir = Path::new(OsStr::from_bytes(&session.head.dir));
    let mut startup = Startup::in_own_environment();
    let mut counts: HashMap<PathBuf, (u64, u64)> = HashMap::new();
    for job in session.commands() {
        let Some(program) = startup.program_of(&job.info.command, dir) else { continue };
        let (started, avoided) = counts.entry(program).or_default();
        *(if job.executed_by() == ExecutedBy::Process { started } else { avoided }) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(program, (started, avoided))| (Reverse(started + avoided), program.clone()));
    let of = |(program, (started, avoided)): (PathBuf, _)| {
        let each_us = startup.cost_us(&program)?;
        Some(ProgramStarts { program: program.into_os_string().into_vec(), started, avoided, each_us })
    };
    counts.into_iter().take(MAX_MEASURED).filter_map(of).collect()
}

/// The last earlier session with mostly the same commands.
fn comparable(all: &Sessions, name: &str, session: &Session) -> Option<(Session, String)> {
    let earlier = all.list().into_iter().rev().map(|entry| entry.name).skip_while(|other| other != name).skip(1);
    earlier.take(MAX_SEARCHED).find_map(|other| {
        let read = read(all, &other).ok().filter(|other| is_comparable(session, other))?;
        Some((read, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use tanto_testing::Scratch;

    const LINES: &str = r#"{"event":"tanto","format":2,"version":"0.1.0","began_unix_ms":0,"parallelism":2,"processors":4}
{"event":"build_started","at_ms":0}
{"event":"started","job":0,"at_ms":0,"outputs":["a"],"command":"make a"}
{"event":"finished","job":0,"start_ms":0,"end_ms":1000,"exit":0}
{"event":"build_finished","at_ms":1000}
"#;

    fn ask(place: &Scratch, args: &[&str]) -> CommandOutput {
        let mut args: Vec<Vec<u8>> = args.iter().map(|&arg| arg.into()).collect();
        args.splice(0..0, [b"report".to_vec(), b"-C".to_vec(), place.text().into()]);
        command_line::dispatch(&args)
    }

    fn place(name: &str) -> Scratch {
        use std::os::unix::fs::PermissionsExt;
        let place = Scratch::new(name);
        for second in [1, 2] {
            let path = format!(".tanto/sessions/20260101-00000{second}-000-7.jsonl");
            place.write(&path, LINES);
            std::fs::set_permissions(place.at(&path), std::fs::Permissions::from_mode(0o600)).expect("it is ours");
        }
        place
    }

    fn good(stop: CommandOutput) -> String {
        assert_eq!((stop.code, String::from_utf8_lossy(&stop.err).as_ref()), (0, ""));
        String::from_utf8(stop.out).expect("text")
    }

    #[test]
    fn reports_take_the_last_or_the_named_session() {
        let place = place("report");
        assert_eq!(good(ask(&place, &["sessions"])).lines().count(), 3);
        for report in ["rebuilds", "trace", "timings"] {
            assert!(good(ask(&place, &[report])).contains("make a"), "{report}");
        }
        let names = |args: &[&str]| good(ask(&place, args)).lines().next().unwrap_or_default().to_owned();
        assert!(names(&["timings"]).ends_with("20260101-000002-000-7"));
        assert!(names(&["timings", "2"]).ends_with("20260101-000001-000-7"));
        assert!(names(&["timings", "20260101-000001"]).ends_with("20260101-000001-000-7"));
        let json = good(ask(&place, &["timings", "--json"]));
        assert!(json.contains(r#""earlier":{"session":"20260101-000001-000-7""#), "{json}");
    }

    #[test]
    fn startup_costs_of_programs_are_reported() {
        let place = place("report-starts");
        let program = "/usr/bin/env";
        let lines = LINES.replace("make a", program);
        let worker = lines.replace("\"end_ms\":1000", "\"end_ms\":1000,\"in_process\":true");
        for (second, lines) in [(1, lines), (2, worker)] {
            place.write(&format!(".tanto/sessions/20260101-00000{second}-000-7.jsonl"), lines);
        }
        let json = |number: &str| -> serde_json::Value {
            serde_json::from_str(&good(ask(&place, &["timings", number, "--json"]))).expect("JSON")
        };
        let (worker, process) = (json("1"), json("2"));
        let counts = |json: &serde_json::Value| {
            let starts = &json["starts"][0];
            assert_eq!(starts["program"], program);
            [starts["started"].as_u64(), starts["avoided"].as_u64()].map(Option::unwrap)
        };
        assert_eq!((counts(&process), counts(&worker)), ([1, 0], [0, 1]));
        assert_eq!(process["starting_us"], process["starts"][0]["each_us"]);
        assert_eq!((&process["starting_saved_us"], &worker["starting_us"]), (&0.into(), &0.into()));
    }

    #[test]
    fn html_page_is_written() {
        let place = place("report-page");
        let file = place.at("page.html").display().to_string();
        assert_eq!(good(ask(&place, &["timings", "--html", &file])), format!("wrote {file}\n"));
        assert_eq!(good(ask(&place, &["timings", &format!("--html={file}")])), format!("wrote {file}\n"));
        assert!(std::fs::read_to_string(&file).expect("a page").starts_with("<!doctype html>"));
    }

    #[test]
    fn invalid_requests_are_errors() {
        let place = place("report-errors");
        place.write(".tanto/sessions/20260101-000003-000-7.jsonl", "x\n");
        let complaint = |args: &[&str]| {
            let stop = ask(&place, args);
            assert_eq!((stop.code, stop.out.len()), (1, 0));
            String::from_utf8(stop.err).expect("text")
        };
        assert!(complaint(&[]).contains("requires a subcommand"));
        assert!(
            complaint(&["timing"]).starts_with("tanto: error: unknown command 'timing', did you mean 'timings'?\n")
        );
        assert!(complaint(&["trace", "--json"]).starts_with("tanto: error: unexpected argument '--json'"));
        assert_eq!(complaint(&["trace", "7"]), "tanto: error: no session 7: there are 3\n");
        assert_eq!(complaint(&["trace", "x"]), "tanto: error: no session 'x'\n");
        assert_eq!(complaint(&["trace", "2026"]), "tanto: error: several sessions begin with '2026'\n");
        assert!(complaint(&["trace", "--unknown"]).starts_with("tanto: error: unexpected argument '--unknown'"));
        assert!(complaint(&["trace"]).contains("20260101-000003-000-7.jsonl: line 1: no JSON"));
        let empty = Scratch::new("report-empty");
        assert_eq!(
            ask(&empty, &["trace"]).err,
            b"tanto: error: no sessions yet: builds that run commands are recorded\n"
        );
    }
}
