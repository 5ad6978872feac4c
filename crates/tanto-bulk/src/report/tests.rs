//! Reports of a small run.

use super::*;
use crate::coordinator::verification::VerificationResult;
use crate::package::records;
use tanto_sys::cgroup::StallTimes;

const LOG: &str = "cc x.c\nx.c:1:2: error: <no> & \"no\"\n*** Error code 1\n";

fn package(package: u32, name: &str, state: &str, why: &str) -> PackageRow {
    let location = format!("devel/{}", name.split('-').next().unwrap_or_default());
    PackageRow {
        package,
        job: package,
        name: name.into(),
        location,
        state: state.into(),
        detail: String::new(),
        why: why.into(),
    }
}

fn attempt(job: u32, attempt: u32, from_ms: i64, until_ms: i64, outcome: &str) -> AttemptRow {
    let why = if outcome == "machine" { "the disk is full" } else { "" };
    let ended_ms = Some(until_ms);
    AttemptRow {
        job,
        attempt,
        client: "local".into(),
        began_ms: from_ms,
        ended_ms,
        outcome: outcome.into(),
        why: why.into(),
    }
}

const NAMES: [&str; 6] = ["base-1", "lib-2", "user-1", "far-1", "skip-1", "leaf-1"];

fn stage(job: u32, name: &str, wall_ms: u64, exit: i32) -> StageRow {
    StageRow {
        job,
        attempt: 1,
        stage: name.into(),
        began_ms: 0,
        wall_ms,
        cpu_ms: wall_ms / 2,
        peak_kib: 2048,
        read_bytes: 1,
        written_bytes: 2,
        waits: (job != 5).then_some(StallTimes { io_us: 500_000, cpu_us: wall_ms * 250 }),
        exit,
        log: format!("/logs/{}/1/{name}.log", NAMES[job as usize]),
    }
}

fn verified(name: &str, clients: [&str; 3], result: VerificationResult, suspect: &str) -> VerificationRow {
    let [first, second, third] = clients.map(str::to_owned);
    VerificationRow {
        job: 0,
        attempt: 1,
        name: name.into(),
        digest: [0; 32],
        first,
        second,
        third,
        result: result.name().into(),
        suspect: suspect.into(),
        detail: "bin/a (content)".into(),
        at_ms: 0,
    }
}

/// lib needs base and failed; user and far need lib; skip is excluded.
fn rows() -> RunRows {
    let expected = |package, wall_ms, basis: &str| EstimateRow { package, wall_ms, basis: basis.into() };
    let run = RunRow { run: 2, began_ms: 1_498_826_040_000, ended_ms: Some(1_498_826_100_000) };
    let before =
        vec![package(0, "base-1", "failed", ""), package(1, "lib-1", "done", ""), package(2, "old-1", "done", "")];
    RunRows {
        run,
        packages: vec![
            package(0, "base-1", "done", "build left processes running: sleep 9"),
            package(1, "lib-2", "failed", "build exited with 1"),
            package(2, "user-1", "indirect-failed", "it needs lib-2, which failed"),
            package(3, "far-1", "indirect-failed", "it needs lib-2, which failed"),
            package(4, "skip-1", "prefailed", "\"not <here>\""),
            package(5, "leaf-1", "failed", "configure not finished after 2h"),
        ],
        edges: vec![(1, 0), (2, 1), (3, 2), (5, 0)],
        attempts: vec![
            attempt(0, 1, 0, 1000, "machine"),
            attempt(0, 2, 1000, 4000, "done"),
            attempt(1, 1, 4000, 9000, "failed"),
            attempt(5, 1, 4000, 6000, "failed"),
        ],
        stages: vec![
            stage(0, "build", 3000, 0),
            stage(1, "configure", 1000, 0),
            stage(1, "build", 4000, 1),
            stage(1, "clean", 10, 0),
            stage(5, "configure", 2000, 143),
        ],
        expected: vec![expected(0, 1500, "model"), expected(1, 10, "known"), expected(5, 10, "known")],
        verifications: vec![
            verified("base-1", ["x", "y", ""], VerificationResult::Equal, ""),
            verified("lib-2", ["x", "y", "z"], VerificationResult::Differs, "y"),
        ],
        earlier: Some((RunRow { run: 1, began_ms: 0, ended_ms: None }, before)),
    }
}

fn with_report(check: impl FnOnce(&Report<'_>)) {
    let rows = rows();
    let text = b"PKGNAME=lib-2\nPKG_LOCATION=devel/lib\nMAINTAINER=lib@example.org\n";
    let records = records::read(text).unwrap();
    check(&Report::new(&rows, &records, |path| (path == "/logs/lib-2/1/build.log").then(|| LOG.into())));
}

#[test]
fn most_blocking_failure_comes_first() {
    with_report(|report| {
        let rows: Vec<_> = report.failures.iter().map(|it| (it.package, it.blocks, &*it.stage, &*it.log)).collect();
        assert_eq!(rows, [(1, 2, "build", "/logs/lib-2/1/build.log"), (5, 0, "configure", "")]);
        let found = report.failures[0].found.as_ref().unwrap();
        assert_eq!((found.kind.name(), &*found.lines[0]), ("compiler", "x.c:1:2: error: <no> & \"no\""));
        assert_eq!(report.masked, [Excluded { package: 4, blocks: 0 }]);
        let changes = report.changes.as_ref().unwrap();
        let names = |all: &[changes::Change]| all.iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!((names(&changes.broken), names(&changes.fixed)), ("lib-2".into(), "base-1".into()));
        assert_eq!((names(&changes.new), names(&changes.gone)), ("user-1 far-1 skip-1 leaf-1".into(), "old-1".into()));
    });
}

#[test]
fn costs_are_compared_with_bound_and_estimates() {
    with_report(|report| {
        let span = &report.costs.span;
        assert_eq!((span.wall_ms, span.clients, span.work_ms), (9000, 2, 11_000));
        assert_eq!((&*span.chain, span.bound_ms()), (&[(0, 4000), (1, 5000)][..], 9000));
        assert_eq!(span.ratio(), Some(1.0));
        let stages: Vec<_> =
            report.costs.stages.iter().map(|it| (&*it.name, it.count, it.failed, it.wall_ms)).collect();
        assert_eq!(stages, [("configure", 2, 1, 3000), ("build", 2, 1, 7000), ("clean", 1, 0, 10)]);
        let longest: Vec<_> = report.costs.packages.iter().map(|it| (it.package, it.wall_ms, it.cpu_ms)).collect();
        assert_eq!(longest, [(1, 5000, 2505), (0, 4000, 1500), (5, 2000, 1000)]);
        let [known, guessed] = &report.costs.estimates;
        assert_eq!((known.count, guessed.count, guessed.median), (0, 1, Some(2.0)), "what failed tells nothing");
        assert_eq!(report.retries.len(), 1);
    });
}

#[test]
fn all_formats_agree() {
    with_report(|report| {
        // Ignores column widths.
        let text = report.text().split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "began 2017-06-30 12:34 (UTC)",
            "indirect-failed 2",
            "lib-2 devel/lib lib@example.org build exited with 1 (compiler); 2 packages need it | x.c:1:2: error: <no>",
            " /logs/lib-2/1/build.log ",
            "1 broken: lib-2 (failed) 1 fixed: base-1",
            "base-1 1 local the disk is full",
            "1 of 2 packages are the same lib-2 the package of y differs from those of x and z: bin/a (content)",
            "Built, but base-1 build left processes running: sleep 9",
            "time 9.0 s, 1.000 x the lower bound",
            "guessed: half of 1 within a factor of 2.00",
            "5.0 s 2.5 s 1.5 s 1.2 s 2 MiB 10 ms lib-2",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let html = report.html();
        assert!(html.contains("x.c:1:2: error: &lt;no&gt; &amp; &quot;no&quot;") && !html.contains("<no>"), "{html}");
        assert!(html.contains("<td>the package of y differs from") && !html.contains("y has made the same"));
        assert!(html.contains("<a href=\"../lib-2/1/build.log\">build.log</a>") && !html.contains("<script"));
        assert_eq!((html.matches("<rect class=\"failed\"").count(), html.matches("<rect").count()), (2, 4));
        let json = String::from_utf8(report.json()).unwrap();
        for part in [
            "\"run\":2,\"began_ms\":1498826040000,",
            "\"counts\":{\"done\":1,\"failed\":2,",
            "\"bound_ms\":9000,",
            "\"package\":\"lib-2\",\"location\":\"devel/lib\",\"maintainer\":\"lib@example.org\"",
            "\"blocks\":2,\"kind\":\"compiler\",\"lines\":[\"x.c:1:2: error: <no> & \\\"no\\\"\"]",
            "\"changes\":{\"since\":1,\"broken\":[{\"package\":\"lib-2\",\"then\":\"done\",\"now\":\"failed\"}]",
            "\"package\":\"lib-2\",\"result\":\"differs\",\"first\":\"x\",\"second\":\"y\",\"third\":\"z\",\"suspect\":\"y\"",
            "\"guessed\":{\"count\":1,\"median_percent\":200}",
            "\"io_wait_ms\":1500,\"cpu_wait_ms\":1252,\"expected_ms\":10",
        ] {
            assert!(json.contains(part), "{part}\n{json}");
        }
    });
}

#[test]
fn unknown_waiting_times_are_noted() {
    with_report(|report| {
        let waits: Vec<_> = report.costs.packages.iter().map(|it| it.waits).collect();
        let of = |io_us, cpu_us| Some(StallTimes { io_us, cpu_us });
        assert_eq!(waits, [of(1_500_000, 1_252_500), of(500_000, 750_000), None]);
        assert!(!report.text().contains("were not recorded"));
    });
    let mut rows = rows();
    rows.stages.iter_mut().for_each(|stage| stage.waits = None);
    let report = Report::new(&rows, &[], |_| None);
    let json = String::from_utf8(report.json()).unwrap();
    assert!(report.text().contains("I/O WAIT and CPU WAIT were not recorded"));
    assert!(report.html().contains("were not recorded") && !json.contains("io_wait_ms"));
}

#[test]
fn pbulk_format_is_written() {
    let rows = rows();
    let text = "PKGNAME=lib-2\nPKG_LOCATION=devel/lib\nDEPENDS=base-1\nPKGNAME=none-1\nPKG_LOCATION=a/b\n";
    let records = records::read(text.as_bytes()).unwrap();
    let report = machine::report(&rows, &records);
    assert_eq!(
        String::from_utf8(report).unwrap(),
        "PKGNAME=lib-2\nPKG_LOCATION=devel/lib\nDEPENDS=base-1\nPKG_DEPTH=3\nBUILD_STATUS=failed\n"
    );
    assert!(machine::pbuild(&rows).starts_with(b"base-1|done||5\nlib-2|failed||3\n"));
    let machine = machine::Machine { platform: "Linux 6/x86_64".into(), compiler: "gcc".into(), base_url: "u".into() };
    assert_eq!(
        machine::status_file(&rows, &machine),
        "PLATFORM=Linux 6/x86_64\nCOMPILER=gcc\nBUILD_START_ISO=2017-06-30 12:34\nBUILD_START_DIR=20170630.1234\n\
         BASE_URL=u\nBUILD_END_ISO=2017-06-30 12:35\n"
    );
}

#[test]
fn empty_run_has_an_empty_report() {
    let run = RunRow { run: 1, began_ms: 0, ended_ms: None };
    let none = RunRows {
        run,
        packages: vec![],
        edges: vec![],
        attempts: vec![],
        stages: vec![],
        expected: vec![],
        verifications: vec![],
        earlier: None,
    };
    let report = Report::new(&none, &[], |_| None);
    assert!(report.text().contains("not yet, or it was killed"));
    assert!(!report.html().contains("<svg") && report.json().starts_with(b"{\"run\":1,"));
}
