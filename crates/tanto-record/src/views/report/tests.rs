//! Tests of the reports.

use serde_json::Value;

use super::timings::{ProgramStarts, Timings, is_comparable};
use super::*;
use crate::views::{html, trace};

/// Two parallel compilers, a group, and a linker that fails.
const LINES: &str = r#"{"event":"tanto","format":2,"version":"0.1.0","began_unix_ms":1795193867000,"dir":"/b","targets":[],"parallelism":2,"processors":4}
{"event":"build_started","at_ms":100}
{"event":"started","job":0,"at_ms":100,"description":"CC a.o","outputs":["a.o"],"command":"cc a.c","why":["b.h is dirty","output a.o older than most recent input a.c (1 vs 2)"]}
{"event":"started","job":1,"at_ms":100,"description":"CC b.o","outputs":["b.o"],"command":"cc b.c"}
{"event":"finished","job":0,"start_ms":100,"end_ms":1100,"exit":0,"user_us":900000,"system_us":100000,"max_rss_kib":2048}
{"event":"started","job":2,"at_ms":1100,"outputs":["c.o"],"command":"A=1 /usr/bin/cc c.c"}
{"event":"finished","job":1,"start_ms":100,"end_ms":1600,"exit":0,"user_us":1000000}
{"event":"finished","job":2,"start_ms":1100,"end_ms":1350,"exit":0}
{"event":"nothing_to_run","job":3,"at_ms":1600,"outputs":["objects"],"after":[0,1,2]}
{"event":"started","job":4,"at_ms":1600,"description":"Linking C program p</script>","outputs":["p"],"command":"ld","after":[3]}
{"event":"finished","job":4,"start_ms":1600,"end_ms":2100,"signal":9,"output":"no\n"}
{"event":"build_finished","at_ms":2100}
"#;

fn session() -> Session {
    Session::parse(LINES.as_bytes()).expect("a sound session")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn commands_get_lanes() {
    let lanes = lanes::lanes(&session());
    assert_eq!((lanes.of, lanes.count), (vec![Some(0), Some(1), Some(0), None, Some(0)], 2));
}

#[test]
fn the_critical_path_goes_through_groups() {
    let (path, total) = timings::critical_path(&session());
    assert_eq!((path, total), (vec![1, 4], 2000));
    let empty = LINES.lines().take(1).map(|line| format!("{line}\n")).collect::<String>();
    assert_eq!(timings::critical_path(&Session::parse(empty.as_bytes()).expect("a session")), (Vec::new(), 0));
}

#[test]
fn dependency_cycles_are_harmless() {
    let lines = LINES.replace(r#""command":"cc a.c""#, r#""command":"cc a.c","after":[0,4,99]"#);
    let session = Session::parse(lines.as_bytes()).expect("a sound session");
    assert_eq!(timings::critical_path(&session).1, 2000);
}

#[test]
fn commands_that_did_not_end_have_no_processor_time() {
    let cut = LINES.lines().take(6).map(|line| format!("{line}\n")).collect::<String>();
    let session = Session::parse(cut.as_bytes()).expect("a session");
    let timings = Timings::new("s", &session, None);
    let kinds = parsed(&timings.json())["kinds"].clone();
    let kind = |name: &str| kinds.as_array().expect("a list").iter().find(|kind| kind["name"] == name).expect("a kind");
    // One of two compilers ended.
    assert_eq!((&kind("CC")["cpu_ms"], &kind("CC")["unfinished"]), (&1000.into(), &1.into()));
    assert_eq!((kind("cc").get("cpu_ms"), &kind("cc")["unfinished"]), (None, &1.into()));
    let text = text(timings.text());
    let by_kind = text.split("By kind").nth(1).expect("a part");
    let line = by_kind.lines().find(|line| line.ends_with(" cc")).expect("a line");
    assert_eq!(line.split_whitespace().nth(line.split_whitespace().count() - 3), Some("?"), "{line}");
}

#[test]
fn startup_costs_are_summed() {
    let session = session();
    let starts =
        |program: &str, started, avoided, each_us| ProgramStarts { program: program.into(), started, avoided, each_us };
    let all = vec![starts("/bin/sh", 2, 0, 500), starts("/usr/bin/clang", 100, 50, 20_000)];
    let timings = Timings::new("s", &session, None).with_starts(all);
    let text = text(timings.text());
    assert!(text.contains("Starting programs: an estimated 2.0 s of processor time, 100.0 % of all."), "{text}");
    assert!(text.contains(" Forks saved 1.0 s."), "{text}");
    let lines: Vec<_> = text.lines().skip_while(|line| !line.contains("EACH")).skip(1).take(2).collect();
    assert!(lines[0].contains("20.0 ms") && lines[0].ends_with("/usr/bin/clang"), "{text}");
    assert!(lines[1].contains("1.0 ms") && lines[1].ends_with("/bin/sh"), "{text}");
    let json = parsed(&timings.json());
    assert_eq!((&json["starting_us"], &json["starting_saved_us"]), (&2_001_000.into(), &1_000_000.into()));
    assert!(!Timings::new("s", &session, None).text().windows(8).any(|part| part == b"Starting"));
}

#[test]
fn rule_kinds_are_extracted() {
    let session = session();
    let kinds: Vec<String> = session.commands().map(|job| text(command_kind(job))).collect();
    assert_eq!(kinds, ["CC", "CC", "cc", "Linking C program"]);
}

#[test]
fn results_are_described() {
    let result_of = |lines: String| build_result(&Session::parse(lines.as_bytes()).expect("a session")).describe();
    assert_eq!(result_of(LINES.into()), "1 failed");
    assert_eq!(result_of(LINES.replace("\"signal\":9", "\"exit\":0")), "done");
    assert_eq!(result_of(LINES.lines().take(3).map(|line| format!("{line}\n")).collect()), "no end");
    let without = |lines: &str, event: &str| -> String {
        lines.lines().filter(|line| !line.contains(event)).map(|line| format!("{line}\n")).collect()
    };
    let running = without(LINES, "\"finished\",\"job\":4");
    assert_eq!(result_of(running.clone()), "interrupted");
    let failed = running.replacen("\"exit\":0", "\"exit\":1", 1);
    assert_eq!(result_of(failed), "interrupted, 1 failed");
    let planned = "{\"event\":\"planned\",\"job\":4}\n{\"event\":\"build_started\"";
    let waiting = without(&running, "\"started\",\"job\":4").replacen("{\"event\":\"build_started\"", planned, 1);
    assert_eq!(result_of(waiting), "stopped");
}

#[test]
fn rebuilds_are_explained() {
    let expected = "2026-11-20 16:57:47 (UTC), 1 failed: 4 commands ran to build the default targets\n\n\
                    CC a.o\n    `a.c` is newer than `a.o`\n    `b.h` is rebuilt\n\n\
                    CC b.o\n    no reason recorded\n\n\
                    A=1 /usr/bin/cc c.c\n    no reason recorded\n\n\
                    Linking C program p</script>\n    no reason recorded\n";
    assert_eq!(text(rebuilds::text(&session())), expected);
}

/// The same with terminated commands, processes left behind and throttling.
fn troubled() -> Session {
    let hung = r#"{"event":"terminated","job":4,"reason":"hung","after_ms":400,"killed":true}"#;
    let left = r#"{"event":"left_behind","job":0,"processes":[{"pid":7,"depth":0,"state":"S","command":"serve -d"},{"pid":8,"depth":0,"state":"S","command":"sleep 9"}]}"#;
    let after = |line: &str, more: &[&str]| format!("{line}\n{}\n", more.join("\n"));
    let held = |at, why| format!("{{\"event\":\"throttled\",\"at_ms\":{at}{why}}}");
    let memory = held(1350, r#","reason":"memory","job":4,"needs_kib":9,"available_kib":1"#);
    let lines: String = LINES
        .lines()
        .map(|line| match line {
            line if line.contains(r#""end_ms":1350"#) => {
                after(line, &[&memory, &held(1500, r#","reason":"load_average""#)])
            }
            line if line.contains("nothing_to_run") => after(line, &[&held(1600, "")]),
            line if line.contains(r#""event":"finished","job":4"#) => {
                after(line, &[hung, left, &held(2090, r#","reason":"load_average""#)])
            }
            line => after(line, &[]).trim_end().to_owned() + "\n",
        })
        .collect();
    Session::parse(lines.as_bytes()).expect("a sound session")
}

#[test]
fn problems_are_reported() {
    let session = troubled();
    let hung = "hung: no new process, no processor time and no output for 0.4s; it had to be killed";
    let rebuilds = text(rebuilds::text(&session));
    let held = "\nnothing more was started for 150 ms: not enough memory\n\
                nothing more was started for 110 ms: the load average is too high\n";
    assert!(rebuilds.ends_with(&format!("    {hung}\n{held}")), "{rebuilds}");
    assert!(rebuilds.contains("    left 2 processes behind: serve -d, sleep 9\n"), "{rebuilds}");
    let timings = Timings::new("now", &session, None);
    let text = text(timings.text());
    let rows = [
        format!("500 ms  Linking C program p</script>  {hung}\n"),
        "\n150 ms      150 ms      1  not enough memory\n".into(),
        "\n110 ms      110 ms      2  the load average is too high\n".into(),
    ];
    rows.iter().for_each(|row| assert!(text.contains(row), "{row}: {text}"));
    let json = parsed(&timings.json());
    let pause = &json["throttled"][1];
    let numbers = ["start_ms", "wall_ms", "idle_ms"].map(|name| pause[name].as_i64());
    assert_eq!((numbers, pause["reason"].as_str()), ([Some(1400), Some(100), Some(100)], Some("load_average")));
    let link = &json["jobs"][2];
    assert_eq!((link["result"].as_str(), link["terminated"]["reason"].as_str()), (Some("hung"), Some("hung")));
    assert_eq!(json["jobs"][1]["left_behind"]["commands"][0].as_str(), Some("serve -d"));
}

#[test]
fn a_good_build_reports_no_problems() {
    let session = session();
    let text = text([rebuilds::text(&session), Timings::new("now", &session, None).text()].concat());
    assert!(!text.contains("started") && !text.contains("behind"), "{text}");
}

#[test]
fn each_session_has_a_line() {
    let session = session();
    let list = [("x", Some(&session)), ("y", None)];
    let expected = "   SESSION  BEGAN (UTC)           TIME  COMMANDS  RESULT    OF\n\
                    2  x        2026-11-20 16:57:47  2.0 s         4  1 failed  the default targets\n\
                    1  y        cannot be read\n";
    assert_eq!(text(session_list(list.into_iter())), expected);
}

#[test]
fn timings_are_complete() {
    let (session, mut other) = (session(), session());
    other.jobs[0].end.as_mut().expect("it ended").end_ms -= 900;
    assert!(is_comparable(&session, &other));
    let timings = Timings::new("now", &session, Some(("then", &other)));
    let text = text(timings.text());
    for part in
        ["at a time   1.62 of 2", "1.5 s  1.0 s", "CC b.o", "Critical path: 2.0 s in 2 commands", "+0.9 s  CC a.o"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = parsed(&timings.json());
    assert_eq!((json["wall_ms"].as_i64(), json["lanes"].as_i64()), (Some(2000), Some(2)));
    assert_eq!(json["critical_path"], serde_json::from_str::<Value>("[1,4]").expect("JSON"));
    assert_eq!(json["jobs"][0]["title"].as_str(), Some("CC b.o"));
    let part = |name: &str, at: usize| json[name][at].as_i64();
    assert_eq!((part("running_percent", 0), part("running_percent", 599)), (Some(200), Some(100)));
    assert_eq!((part("cpu_percent", 0), part("cpu_percent", 599)), (Some(167), Some(0)));
}

#[test]
fn failed_commands_have_output_and_unfinished_ones_no_times() {
    let mut session = session();
    session.jobs[1].end = None;
    let timings = Timings::new("now", &session, None);
    let json = parsed(&timings.json());
    let jobs = json["jobs"].as_array().expect("a list");
    let job = |is: &str| jobs.iter().find(|job| job[is].as_bool() == Some(true)).expect("one");
    assert_eq!((job("failed")["output"].as_str(), job("failed")["result"].as_str()), (Some("no\n"), Some("signal 9")));
    assert!(job("unfinished")["output"].is_null() && job("unfinished")["failed"].is_null());
    let text = text(timings.text());
    assert!(text.lines().any(|line| line.contains(" so far") && line.contains(" ? ")), "{text}");
}

#[test]
fn data_in_a_page_cannot_close_the_script() {
    let session = session();
    let page = text(html::html(&Timings::new("now", &session, None)));
    assert_eq!(page.matches("</script>").count(), 2, "the data's end and the program's");
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    assert_eq!(parsed(data.as_bytes())["jobs"][2]["title"].as_str(), Some("Linking C program p</script>"));
    assert!(!page.contains("@STYLE@") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_trace_has_a_thread_for_each_lane() {
    let json = parsed(&trace::json(&session()));
    let events = json["traceEvents"].as_array().expect("a list");
    assert_eq!(events.len(), 2 + 4);
    let link = &events[5];
    assert_eq!(
        (link["ts"].as_i64(), link["dur"].as_i64(), link["tid"].as_i64()),
        (Some(1_500_000), Some(500_000), Some(1))
    );
    assert_eq!(link["args"]["result"].as_str(), Some("signal 9"));
}

#[test]
fn a_build_without_commands_has_reports_too() {
    let lines: String = LINES.lines().take(2).map(|line| format!("{line}\n")).collect();
    let session = Session::parse(lines.as_bytes()).expect("a session");
    let timings = Timings::new("x", &session, None);
    assert!(!timings.text().is_empty() && parsed(&timings.json()).is_object());
    assert!(parsed(&trace::json(&session))["traceEvents"].is_array() && !rebuilds::text(&session).is_empty());
}
