//! `tanto report`: what sessions tell. Does not know how a report is made, nor how a session is read.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::job::ExecutedBy;
use tanto_exec::startup::Startup;
use tanto_ninja::canon::canonical;
use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, both, letter, name};
use tanto_record::session::{Session, Sessions};
use tanto_record::views::report::timings::{ProgramStarts, Timings, is_comparable};
use tanto_record::views::{
    html,
    report::{output, rebuilds, sessions},
    trace,
};

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::settings::Surroundings;
use crate::{commands, help};

/// So many sessions are listed: to say something of each, its file has to be read.
const LISTED: usize = 30;

/// The number of programs whose cost to start is measured, the most used first.
const MEASURED: usize = 8;

/// In so many earlier sessions another one like it is looked for.
const LOOKED_BACK: usize = 20;

/// All reports.
const REPORTS: [&str; 5] = ["sessions", "rebuilds", "timings", "trace", "output"];

static FLAGS: [Plain; 5] = [
    both(b'h', "help"),
    letter(b'C').with_value(),
    name("against").with_value(),
    name("html").with_value(),
    name("json"),
];

/// What was asked for.
struct Asked<'a> {
    what: Option<&'a [u8]>,
    session: Option<&'a [u8]>,
    dir: &'a [u8],
    against: Option<&'a [u8]>,
    html: Option<&'a [u8]>,
    json: bool,
}

/// What is printed, and what beside it.
struct Answer {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl From<Vec<u8>> for Answer {
    fn from(out: Vec<u8>) -> Answer {
        Answer { out, err: Vec::new() }
    }
}

/// What `tanto report` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    match Given::read(&FLAGS, args).map_err(Bad::with_hint) {
        Ok(given) if given.has("h") => Stop::printed(commands::find(b"report").map(help::topic).unwrap_or_default(), 0),
        given => match given.and_then(|given| answer(&asked(&given)?)) {
            Ok(Answer { out, err }) => Stop { out, err, code: 0 },
            Err(why) => Stop::failed(Door::Tanto, "error", &why),
        },
    }
}

fn asked(given: &Given) -> Result<Asked<'_>, Vec<u8>> {
    let mut words = given.operands.iter().map(Vec::as_slice);
    let asked = Asked {
        what: words.next(),
        session: words.next(),
        dir: given.value("C").unwrap_or(b"."),
        against: given.value("against"),
        html: given.value("html"),
        json: given.has("json"),
    };
    match words.next() {
        None => Ok(asked),
        Some(more) => Err([b"one at a time: what is '", more, b"'?"].concat()),
    }
}

fn answer(asked: &Asked<'_>) -> Result<Answer, Vec<u8>> {
    let all = Sessions::new(&Surroundings::of_process().state(Some(asked.dir)));
    let is_timings = asked.what == Some(b"timings");
    if !is_timings && (asked.json || asked.html.is_some() || asked.against.is_some()) {
        return Err(b"--json, --html and --against are for timings".into());
    }
    let answer = match asked.what {
        Some(b"output") => return of_commands(&all, asked),
        None => Err(b"report what? 'tanto help report' tells more".into()),
        Some(b"sessions") => Ok(listed(&all)),
        Some(b"rebuilds") => of_session(&all, asked, |_, session| Ok(rebuilds::text(session))),
        Some(b"trace") => of_session(&all, asked, |_, session| Ok(trace::json(session))),
        Some(b"timings") => of_session(&all, asked, |name, session| timings(&all, asked, name, session)),
        Some(other) => Err(modes::unknown("report", other, REPORTS)),
    };
    answer.map(Answer::from)
}

/// The output of one command, with a line about it beside, or of all commands of the last build.
fn of_commands(all: &Sessions, asked: &Asked<'_>) -> Result<Answer, Vec<u8>> {
    let color = std::io::stdout().is_terminal();
    let Some(edge) = asked.session else {
        let name = all.find(b"1")?;
        return Ok(output::all(&read(all, &name)?, &|place| all.read_output(&name, place), color).into());
    };
    let path = canonical(edge);
    // One that cannot be read keeps no other from being read.
    for name in all.list().into_iter().rev().map(|entry| entry.name).filter(|name| all.may_contain_output(name, &path))
    {
        let Ok(session) = read(all, &name) else { continue };
        if let Some(job) = output::of(&session, &path) {
            let out = output::printed(job, &|place| all.read_output(&name, place), color);
            return Ok(Answer { out, err: [name.as_bytes(), b": ", &output::head(job)].concat() });
        }
    }
    Err([b"no session has a command that made '", &path[..], b"': 'tanto report sessions' lists what is kept"].concat())
}

fn listed(all: &Sessions) -> Vec<u8> {
    let entries = all.list();
    if entries.is_empty() {
        return b"no sessions yet: builds that run commands are recorded\n".into();
    }
    let older = entries.len().saturating_sub(LISTED);
    let read: Vec<_> = entries[older..].iter().map(|entry| (&entry.name[..], read(all, &entry.name).ok())).collect();
    let mut text = sessions::list(read.iter().map(|(name, session)| (*name, session.as_ref())));
    if older > 0 {
        text.extend_from_slice(format!("and {older} older ones\n").as_bytes());
    }
    text
}

fn read(all: &Sessions, name: &str) -> Result<Session, Vec<u8>> {
    Session::read(&all.path(name)).map_err(|bad| bad.0)
}

fn of_session(
    all: &Sessions,
    asked: &Asked<'_>,
    report: impl FnOnce(&str, &Session) -> Result<Vec<u8>, Vec<u8>>,
) -> Result<Vec<u8>, Vec<u8>> {
    let name = all.find(asked.session.unwrap_or(b"1"))?;
    report(&name, &read(all, &name)?)
}

fn timings(all: &Sessions, asked: &Asked<'_>, name: &str, session: &Session) -> Result<Vec<u8>, Vec<u8>> {
    let earlier = match asked.against {
        Some(other) => Some(all.find(other).and_then(|other| Ok((read(all, &other)?, other)))?),
        None => alike(all, name, session),
    };
    let earlier = earlier.as_ref().map(|(session, name)| (&name[..], session));
    let timings = Timings::new(name, session, earlier).with_starts(starts(session));
    match (asked.html, asked.json) {
        (Some(_), true) => Err(b"--json or --html, not both".into()),
        (None, true) => Ok(timings.json()),
        (None, false) => Ok(timings.text()),
        (Some(file), false) => {
            let written = std::fs::write(OsStr::from_bytes(file), html::html(&timings));
            written.map_err(|error| [b"writing ", file, b": ", &tanto_sys::error::text(&error)[..]].concat())?;
            Ok([b"wrote ", file, b"\n"].concat())
        }
    }
}

/// The programs that the commands of a session started, as far as their cost can be measured.
fn starts(session: &Session) -> Vec<ProgramStarts> {
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
    counts.into_iter().take(MEASURED).filter_map(of).collect()
}

/// The last earlier session of much the same commands.
fn alike(all: &Sessions, name: &str, session: &Session) -> Option<(Session, String)> {
    let earlier = all.list().into_iter().rev().map(|entry| entry.name).skip_while(|other| other != name).skip(1);
    earlier.take(LOOKED_BACK).find_map(|other| {
        let read = read(all, &other).ok().filter(|other| is_comparable(session, other))?;
        Some((read, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const LINES: &str = r#"{"event":"tanto","format":2,"version":"0.1.0","began_unix_ms":0,"parallelism":2,"processors":4}
{"event":"build_started","at_ms":0}
{"event":"started","job":0,"at_ms":0,"outputs":["a"],"command":"make a"}
{"event":"finished","job":0,"start_ms":0,"end_ms":1000,"exit":0}
{"event":"build_finished","at_ms":1000}
"#;

    fn ask(place: &Scratch, args: &[&str]) -> Stop {
        let mut args: Vec<Vec<u8>> = args.iter().map(|&arg| arg.into()).collect();
        args.extend([b"-C".to_vec(), place.text().into()]);
        run(&args)
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

    fn good(stop: Stop) -> String {
        assert_eq!((stop.code, String::from_utf8_lossy(&stop.err).as_ref()), (0, ""));
        String::from_utf8(stop.out).expect("text")
    }

    #[test]
    fn each_report_is_of_the_last_session_or_of_the_one_that_is_named() {
        let place = place("report");
        assert_eq!(good(ask(&place, &["sessions"])).lines().count(), 3);
        for what in ["rebuilds", "trace", "timings"] {
            assert!(good(ask(&place, &[what])).contains("make a"), "{what}");
        }
        let names = |args: &[&str]| good(ask(&place, args)).lines().next().unwrap_or_default().to_owned();
        assert!(names(&["timings"]).ends_with("20260101-000002-000-7"));
        assert!(names(&["timings", "2"]).ends_with("20260101-000001-000-7"));
        assert!(names(&["timings", "20260101-000001"]).ends_with("20260101-000001-000-7"));
        let json = good(ask(&place, &["timings", "--json"]));
        assert!(json.contains(r#""earlier":{"session":"20260101-000001-000-7""#), "{json}");
    }

    #[test]
    fn starting_programs_is_estimated() {
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
    fn a_page_is_written_where_it_is_wanted() {
        let place = place("report-page");
        let file = place.at("page.html").display().to_string();
        assert_eq!(good(ask(&place, &["timings", "--html", &file])), format!("wrote {file}\n"));
        assert_eq!(good(ask(&place, &["timings", &format!("--html={file}")])), format!("wrote {file}\n"));
        assert!(std::fs::read_to_string(&file).expect("a page").starts_with("<!doctype html>"));
    }

    #[test]
    fn what_cannot_be_answered_is_an_error() {
        let place = place("report-errors");
        place.write(".tanto/sessions/20260101-000003-000-7.jsonl", "x\n");
        let complaint = |args: &[&str]| {
            let stop = ask(&place, args);
            assert_eq!((stop.code, stop.out.len()), (1, 0));
            String::from_utf8(stop.err).expect("text")
        };
        assert_eq!(complaint(&[]), "tanto: error: report what? 'tanto help report' tells more\n");
        assert_eq!(complaint(&["timing"]), "tanto: error: unknown report 'timing', did you mean 'timings'?\n");
        assert_eq!(complaint(&["trace", "--json"]), "tanto: error: --json, --html and --against are for timings\n");
        assert_eq!(complaint(&["trace", "7"]), "tanto: error: no session 7: there are 3\n");
        assert_eq!(complaint(&["trace", "x"]), "tanto: error: no session 'x'\n");
        assert_eq!(complaint(&["trace", "2026"]), "tanto: error: several sessions begin with '2026'\n");
        assert_eq!(complaint(&["trace", "--what"]), "tanto: error: unrecognized option '--what'\n");
        assert!(complaint(&["trace"]).contains("20260101-000003-000-7.jsonl: line 1: no JSON"));
        let empty = Scratch::new("report-empty");
        assert_eq!(
            ask(&empty, &["trace"]).err,
            b"tanto: error: no sessions yet: builds that run commands are recorded\n"
        );
    }
}
