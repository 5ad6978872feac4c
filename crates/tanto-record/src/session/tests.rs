//! Tests of names and limits of sessions.

use super::*;
use tanto_sys::fs::state_dir::StateLocation;
use tanto_testing::Scratch;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn names_are_times() {
    let table = [
        (0, "19700101-000000-000-7"),
        (951_782_399, "20000228-235959-000-7"),
        (951_782_400, "20000229-000000-000-7"),
        (951_868_800, "20000301-000000-000-7"),
        (1_709_164_800, "20240229-000000-000-7"),
        (1_735_689_599, "20241231-235959-000-7"),
        (4_107_542_400, "21000301-000000-000-7"),
    ];
    for (seconds, expected) in table {
        assert_eq!(name(at(seconds), 7), expected);
        assert!(is_name(expected));
    }
    for other in
        ["", "x", "20000228-235959-000", "20000228-235959-000-", "2000022-2359590-000-7", "a0000228-235959-000-7"]
    {
        assert!(!is_name(other), "{other}");
    }
}

#[test]
fn files_are_private_and_unique() {
    use std::os::unix::fs::MetadataExt;
    let place = Scratch::new("sessions");
    let sessions = Sessions::new(&StateDirs::in_tree(place.path()));
    assert_eq!(sessions.list(), []);
    sessions.create(at(1_000_000)).unwrap().write_all(b"abc").unwrap();
    sessions.create(at(1_000_000)).unwrap();
    place.write(".tanto/sessions/other", "");
    let list = sessions.list();
    assert_eq!(list.iter().map(|entry| entry.length).collect::<Vec<_>>(), [3, 0]);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&sessions.path(&list[0].name)), mode(&place.at(".tanto/sessions"))), (0o600, 0o700));
}

#[test]
fn old_sessions_are_removed() {
    let place = Scratch::new("sessions-old");
    let sessions = Sessions::new(&StateDirs::in_tree(place.path()));
    for day in 0..5 {
        sessions.create(at(day * 86_400)).unwrap();
    }
    place.write(".tanto/sessions/readme.jsonl", "");
    sessions.create(at(32 * 86_400)).unwrap();
    let names: Vec<_> = sessions.list().into_iter().map(|entry| entry.name[..8].to_owned()).collect();
    assert_eq!(names, ["19700103", "19700104", "19700105", "19700202"]);
    assert!(place.at(".tanto/sessions/readme.jsonl").exists(), "no session");
}

#[test]
fn sessions_beyond_the_limits_are_removed() {
    let place = Scratch::new("sessions-many");
    let sessions = Sessions::new(&StateDirs::in_tree(place.path()));
    for second in 0..MOST_FILES as u64 + 20 {
        sessions.create(at(second)).unwrap();
    }
    let list = sessions.list();
    assert_eq!((list.len(), &list[0].name[..15]), (MOST_FILES, "19700101-000020"));
    fs::File::create(sessions.path(&list[450].name)).unwrap().set_len(MOST_BYTES + 1).unwrap();
    sessions.create(at(2000)).unwrap();
    assert_eq!(sessions.list().len(), 50, "the large one goes, and those before it");
}

#[test]
fn a_directory_writable_by_others_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = Scratch::new("sessions-open");
    let sessions = Sessions::new(&StateDirs::in_tree(place.path()));
    sessions.create(at(1)).unwrap();
    fs::set_permissions(place.at(".tanto/sessions"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(sessions.create(at(2)).is_err());
}

#[test]
fn both_state_directories_are_listed() {
    let (place, cache) = (Scratch::new("sessions-both"), Scratch::new("sessions-cache"));
    let state = |written| StateDirs::of(place.path(), Some(cache.path()), written);
    let [tree, cached] = [StateLocation::Tree, StateLocation::Cache].map(|written| Sessions::new(&state(written)));
    let mut paths = Vec::new();
    for (second, sessions) in [&cached, &tree, &cached].into_iter().enumerate() {
        paths.push(sessions.create(at(second as u64)).unwrap().path().to_path_buf());
    }
    for sessions in [&tree, &cached] {
        let found: Vec<_> = sessions.list().iter().map(|entry| sessions.path(&entry.name)).collect();
        assert_eq!(found, paths);
        assert!(sessions.find(b"1").unwrap().starts_with("19700101-000002"));
    }
    let in_tree = paths.iter().filter(|path| path.starts_with(place.at(".tanto"))).count();
    assert_eq!(in_tree, 1);
}

const HEAD: &str = r#"{"event":"tanto","format":2,"version":"0.1.0","began_unix_ms":0,"parallelism":2,"processors":2}"#;

fn read(lines: &str) -> Result<Session, String> {
    let text = format!("{HEAD}\n{lines}");
    Session::parse(text.as_bytes()).map_err(|bad| String::from_utf8_lossy(&bad.0).into_owned())
}

#[test]
fn events_are_grouped_by_job() {
    let session = read(
        r#"{"event":"planned","job":0,"expected_ms":5}
{"event":"planned","job":1}
{"event":"planned","job":2}
{"event":"build_started","at_ms":10}
{"event":"started","job":0,"at_ms":11,"command":"c"}
{"event":"unplanned","job":1}
{"event":"something","job":1}
{"event":"finished","job":0,"start_ms":11,"end_ms":31,"exit":0,"user_us":7000,"system_us":1000}
{"event":"nothing_to_run","job":3,"at_ms":32,"outputs":["all"],"after":[0]}
{"event":"started","job":4,"at_ms":33}
"#,
    )
    .unwrap();
    assert_eq!((session.started_ms, session.finished_ms, session.end_ms()), (10, None, 33));
    assert_eq!(session.plan.len(), 1, "job 2 never ran");
    let jobs: Vec<_> = session.jobs.iter().map(|job| (job.wall_ms(), job.cpu_ms(), job.is_group)).collect();
    assert_eq!(jobs, [(20, 8, false), (0, 0, true), (0, 0, false)]);
    assert_eq!((session.jobs[0].expected_ms, session.jobs[1].title()), (Some(5), &b"all"[..]));
    assert_eq!(session.commands().count(), 2);
}

#[test]
fn an_incomplete_line_is_ignored() {
    let whole = r#"{"event":"build_started","at_ms":10}"#;
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end]).unwrap().started_ms, 0);
    }
    assert_eq!(read(whole).unwrap().started_ms, 0, "its end is missing");
    assert_eq!(read(&format!("{whole}\n")).unwrap().started_ms, 10);
}

#[test]
fn impossible_events_are_refused() {
    let cases = [
        ("{}\n", "line 2: no \"event\""),
        (
            "{\"event\":\"finished\",\"job\":1,\"start_ms\":0,\"end_ms\":0,\"exit\":0}\n",
            "line 2: job 1 ends without running",
        ),
        (
            "{\"event\":\"started\",\"job\":1,\"at_ms\":0}\n{\"event\":\"nothing_to_run\",\"job\":1,\"at_ms\":0}\n",
            "line 3: job 1 starts twice",
        ),
        (&format!("{HEAD}\n"), "line 2: unexpected second head line"),
    ];
    for (lines, expected) in cases {
        assert_eq!(read(lines).unwrap_err(), expected);
    }
    let bad = |text: &str| String::from_utf8(Session::parse(text.as_bytes()).unwrap_err().0).unwrap();
    assert_eq!(bad(""), "not a session file: empty");
    assert!(bad("{\"event\":\"build_started\",\"at_ms\":1}\n").starts_with("line 1: not a session file"));
    assert!(bad("binary\n").starts_with("line 1: no JSON"));
}

#[test]
fn lines_are_limited() {
    let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    assert_eq!(Session::parse(endless).unwrap_err().0, b"line 1: longer than 64 MiB");
}
