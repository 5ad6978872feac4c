//! `tanto report`: prints reports on recorded builds.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_ninja::canon::canonical;
use tanto_record::session::Sessions;
use tanto_record::views::report::recorded::{self, ReportError, TimingsForm};
use tanto_record::views::report::{cache, rebuilds};
use tanto_record::views::trace;

use crate::settings::EnvVars;

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
    /// List hits and misses of the cache, with the reasons for misses
    Cache(SessionArg),
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

pub fn run(args: &ReportArgs) -> CommandOutput {
    report(args).unwrap_or_else(|error| CommandOutput::failed(error.to_string()))
}

fn report(args: &ReportArgs) -> Result<CommandOutput, ReportError> {
    let dir = args.dir.as_deref().unwrap_or(OsStr::new("."));
    let all = Sessions::new(&EnvVars::of_process().state(Some(dir.as_bytes())));
    let text = match &args.command {
        ReportCommand::Output { file } => {
            let file = file.as_deref().map(|file| canonical(file.as_bytes()));
            return recorded::command_output(&all, file.as_deref(), io::stdout().is_terminal());
        }
        ReportCommand::Sessions => recorded::listed(&all),
        ReportCommand::Rebuilds(arg) => rebuilds::text(&recorded::find(&all, arg.session.as_bytes())?.1),
        ReportCommand::Cache(arg) => cache::text(&recorded::find(&all, arg.session.as_bytes())?.1),
        ReportCommand::Trace(arg) => trace::json(&recorded::find(&all, arg.session.as_bytes())?.1),
        ReportCommand::Timings(TimingsArgs { session, against, html, json }) => {
            let form = match html {
                Some(file) => TimingsForm::Html(file),
                None if *json => TimingsForm::Json,
                None => TimingsForm::Text,
            };
            recorded::timings(&all, session.session.as_bytes(), against.as_deref().map(OsStr::as_bytes), form)?
        }
    };
    Ok(CommandOutput::printed(text, 0))
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
    fn uses_of_the_cache_are_counted_and_explained() {
        let place = place("report-cache");
        assert!(good(ask(&place, &["cache"])).contains("--cache=on"), "a build without a cache");
        let mut lines: Vec<String> = LINES.lines().map(String::from).collect();
        let end = lines.pop().expect("the end of the build");
        lines.truncate(2);
        for (job, fields) in [
            r#""cache":"hit","saved_ms":3000,"saved_cpu_ms":2000,"saved_kib":1"#,
            r#""cache":"changed","depends_on_root":true"#,
            r#""cache":"new","cache_reason":"it asked for the date or the time""#,
            r#""cache":"not cacheable","cache_reason":"links""#,
            r#""cache":"not cacheable","cache_reason":"links""#,
        ]
        .into_iter()
        .enumerate()
        {
            lines.push(format!(
                r#"{{"event":"started","job":{job},"at_ms":0,"outputs":["o{job}"],"command":"c{job}"}}"#
            ));
            lines.push(format!(r#"{{"event":"finished","job":{job},"start_ms":0,"end_ms":9,"exit":0,{fields}}}"#));
        }
        lines.push(end);
        place.write(".tanto/sessions/20260101-000002-000-7.jsonl", lines.join("\n") + "\n");
        let said = good(ask(&place, &["cache"]));
        let expected = "\
hits 1, misses 4: 1 with other inputs, 1 new, 2 not cacheable
2.0 s of processor time saved
1 result cannot be used in other checkouts, because it may contain the path of this one: add -ffile-prefix-map=PATH=. (docs/cache.md has other reasons)

not cacheable
    2 links (c3, c4)

not stored
    1 it asked for the date or the time (c2)
";
        assert_eq!(said.split_once('\n').map(|(_, rest)| rest), Some(expected), "{said}");
        let json = good(ask(&place, &["timings", "--json"]));
        assert_eq!(json.matches(r#""from_cache":true"#).count(), 1, "{json}");
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
