//! Tests: rows are read as they were written, and damaged databases are refused.

use std::os::unix::fs::PermissionsExt;

use tanto_testing::Scratch;

use super::*;

fn package(number: u32, state: &str) -> PackageRow {
    PackageRow {
        package: number,
        job: number,
        name: format!("p{number}-1"),
        location: format!("devel/p{number}"),
        state: state.into(),
        detail: String::new(),
        why: String::new(),
    }
}

fn attempt(ended_ms: Option<i64>) -> AttemptRow {
    let outcome = if ended_ms.is_some() { "done" } else { "" };
    AttemptRow {
        job: 1,
        attempt: 1,
        client: "local".into(),
        began_ms: 5,
        ended_ms,
        outcome: outcome.into(),
        why: String::new(),
    }
}

fn stage(name: &str) -> StageRow {
    StageRow {
        job: 1,
        attempt: 1,
        stage: name.into(),
        began_ms: 6,
        wall_ms: 7,
        cpu_ms: 8,
        peak_kib: 9,
        read_bytes: 10,
        written_bytes: 11,
        waits: Some(tanto_sys::cgroup::StallTimes { io_us: 12, cpu_us: 13 }),
        exit: 130,
        log: "logs/p1-1/build".into(),
    }
}

#[test]
fn rows_round_trip() {
    let place = Scratch::new("store");
    let path = place.at("db");
    let mut store = Database::open(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(store.last_run().unwrap(), None);
    let run = store.begin_run(3).unwrap();
    let cost = CostRow {
        name: "p1-1".into(),
        location: "devel/p1".into(),
        at_ms: 1,
        wall_ms: 2,
        cpu_ms: 3,
        peak_kib: 4,
        disk_kib: 5,
    };
    let expected = EstimateRow { package: 1, wall_ms: 9, basis: "known".into() };
    let scanned = ScanRow {
        location: "devel/p1".into(),
        key: vec![0, 255],
        records: vec![b'\n'],
        failed: Some("no".into()),
        wall_ms: 7,
    };
    let stamp = Stamp { device: u64::MAX, inode: 1, bytes: 2, mtime_ns: -3, ctime_ns: 4 };
    let digested = DigestRow { path: b"/x\xff".into(), stamp, digest: vec![9; 32], asks: true };
    let changes = [
        Change::Package(package(0, "open")),
        Change::Package(package(1, "open")),
        Change::Edge { package: 0, needs: 1 },
        Change::Edgeless { package: 0 },
        Change::Edge { package: 1, needs: 0 },
        Change::State { package: 0, state: "failed", detail: "skipped", why: "it hung".into() },
        Change::Content { name: "p1-1".into(), written_ns: 7, since_ns: 3 },
        Change::Due { package: 1, why: "first".into() },
        Change::Due { package: 1, why: "it was not built yet".into() },
        Change::Attempt(attempt(None)),
        Change::Stage(stage("build")),
        Change::Attempt(attempt(Some(20))),
        Change::File(FileRow { name: "p1-1".into(), path: "p1-1.tgz".into(), bytes: 1 << 40, digest: vec![1] }),
        Change::Cost(cost.clone()),
        Change::Expected(expected.clone()),
        Change::Scanned(scanned.clone()),
        Change::Digested(digested.clone()),
    ];
    store.apply(run, &changes).unwrap();
    drop(store);
    let mut store = Database::open(&path).unwrap();
    assert_eq!(store.last_run().unwrap(), Some((run, None)));
    let failed = PackageRow { detail: "skipped".into(), why: "it hung".into(), ..package(0, "failed") };
    assert_eq!(store.packages(run).unwrap(), [failed, package(1, "open")]);
    assert_eq!(store.edges(run).unwrap(), [(1, 0)]);
    assert_eq!(store.due(run).unwrap(), [(1, "it was not built yet".into())]);
    assert_eq!(store.contents().unwrap(), [("p1-1".into(), 7, 3)]);
    assert_eq!(store.attempts(run).unwrap(), [attempt(Some(20))]);
    assert_eq!(store.stages(run).unwrap(), [stage("build")]);
    assert_eq!((store.costs().unwrap(), store.scanned().unwrap()), (vec![cost], vec![scanned.clone()]));
    assert_eq!(store.digests().unwrap(), [digested]);
    store.forget_scans().unwrap();
    assert_eq!(store.scanned().unwrap(), [ScanRow { key: Vec::new(), ..scanned }]);
    assert_eq!(store.expected(run).unwrap(), [expected]);
    assert_eq!(store.runs().unwrap(), [RunRow { run, began_ms: 3, ended_ms: None }]);
    store.apply(run, &[Change::Ended { at_ms: 30 }]).unwrap();
    assert_eq!(store.last_run().unwrap(), Some((run, Some(30))));
    assert_eq!(store.begin_run(40).unwrap(), run + 1);
    assert_eq!(store.packages(run + 1).unwrap(), []);
}

#[test]
fn leases_keep_their_beginning_and_count_as_work_of_their_client() {
    let place = Scratch::new("store-leases");
    let mut store = Database::open(&place.at("db")).unwrap();
    let lease = |attempt: u32, state: &str, tree: &str| LeaseRow {
        lease: format!("{attempt:032x}"),
        job: 1,
        attempt,
        client: "node1".into(),
        token: "t".into(),
        began_ms: 5,
        state: state.into(),
        cause: String::new(),
        tree: tree.into(),
        environment: "e".into(),
    };
    let row = |attempt, outcome: &str| AttemptRow {
        job: 1,
        attempt,
        client: "node1".into(),
        began_ms: 5,
        ended_ms: Some(20),
        outcome: outcome.into(),
        why: String::new(),
    };
    for _ in 0..2 {
        let run = store.begin_run(0).unwrap();
        let changes = [
            Change::Lease(lease(1, "offered", "x")),
            Change::Lease(lease(2, "offered", "x")),
            Change::Lease(lease(2, "settled", "another")),
            Change::Attempt(row(1, "machine")),
            Change::Attempt(row(2, "done")),
            // On this machine.
            Change::Attempt(row(3, "done")),
            Change::Expected(EstimateRow { package: 1, wall_ms: 40, basis: "known".into() }),
        ];
        store.apply(run, &changes).unwrap();
        assert_eq!(store.leases(run).unwrap(), [lease(1, "offered", "x"), lease(2, "settled", "x")]);
    }
    let work = |built: u64, runs: u64| ClientWorkRow {
        client: "node1".into(),
        built,
        expected_ms: 40 * runs,
        took_ms: 15 * runs,
    };
    assert_eq!(store.client_work(2, 5).unwrap(), [work(1, 2)]);
    assert_eq!(store.client_work(2, 1).unwrap(), [work(1, 1)]);
    assert_eq!(store.client_work(3, 3).unwrap(), [work(0, 2)]);
}

#[test]
fn builds_are_kept_in_their_order_and_tokens_are_distrusted() {
    let place = Scratch::new("store-provenance");
    let mut store = Database::open(&place.at("db")).unwrap();
    let built = |attempt: u32, name: &str, digest| ProvenanceRow {
        job: 1,
        attempt,
        name: name.into(),
        client: "node1".into(),
        token: "t".into(),
        tree: "x".into(),
        environment: "e".into(),
        digest,
        dependencies: 3,
        built_with: vec![[1; 32], [2; 32]],
        // The clock was set back.
        began_ms: 50 - i64::from(attempt),
        ended_ms: 60 - i64::from(attempt),
    };
    let rows = [built(2, "b-1", None), built(1, "a-1", Some([7; 32])), built(3, "b-1", Some([8; 32]))];
    let lease = |lease: &str, client: &str, token: &str| {
        Change::Lease(LeaseRow {
            lease: lease.into(),
            job: 1,
            attempt: 1,
            client: client.into(),
            token: token.into(),
            began_ms: 5,
            state: "settled".into(),
            cause: String::new(),
            tree: String::new(),
            environment: String::new(),
        })
    };
    let run = store.begin_run(0).unwrap();
    assert!(!store.has_provenance().unwrap());
    let changes: Vec<Change> = rows.iter().cloned().map(Change::Built).collect();
    store.apply(run, &changes).unwrap();
    let mut all = Vec::new();
    assert!(store.has_provenance().unwrap());
    store.each_provenance(|row| all.push(row)).unwrap();
    assert_eq!(all, rows);
    assert_eq!(store.provenance_of("b-1").unwrap().as_ref(), Some(&rows[2]));
    assert_eq!(store.provenance_of("c-1").unwrap(), None);
    let leases =
        [lease("1", "node1", "t"), lease("2", "node1", "u"), lease("3", "node2", "v"), lease("4", "node1", "t")];
    store.apply(run, &leases).unwrap();
    assert_eq!(["node1", "node3"].map(|client| store.has_had_leases(client).unwrap()), [true, false]);
    assert_eq!(store.distrusted_tokens().unwrap(), [""; 0]);
    for at_ms in [1, 2] {
        store.apply(run, &[Change::Distrusted { client: "node1".into(), at_ms }]).unwrap();
        assert_eq!(store.distrusted_tokens().unwrap(), ["t", "u"]);
    }
}

#[test]
fn the_last_verification_of_a_package_counts() {
    let place = Scratch::new("store-verification");
    let mut store = Database::open(&place.at("db")).unwrap();
    let row = |attempt, result: &str| VerificationRow {
        job: 3,
        attempt,
        name: "a-1".into(),
        digest: [attempt as u8; 32],
        first: "node1".into(),
        second: "node2".into(),
        third: String::new(),
        result: result.into(),
        suspect: "node2".into(),
        detail: "bin/a (content)".into(),
        at_ms: 5,
    };
    let (first, second) = (store.begin_run(0).unwrap(), store.begin_run(1).unwrap());
    let changes = [row(1, "open"), row(2, "open"), row(1, "equal")].map(Change::Verification);
    store.apply(first, &changes).unwrap();
    assert_eq!(store.verifications(first).unwrap(), [row(1, "equal"), row(2, "open")]);
    assert_eq!(store.verification_of("a-1").unwrap(), Some(row(2, "open")));
    store.apply(second, &[Change::Verification(row(1, "differs"))]).unwrap();
    assert_eq!(store.verification_of("a-1").unwrap(), Some(row(1, "differs")));
    assert_eq!(store.verification_of("b-1").unwrap(), None);
}

#[test]
fn options_of_the_last_build_are_kept() {
    let place = Scratch::new("store-options");
    let mut store = Database::open(&place.at("db")).unwrap();
    let run = store.begin_run(0).unwrap();
    let options = |options: &str, is_new| Change::Options { name: "p-1".into(), options: options.into(), is_new };
    for (change, known) in [(options("a", false), "a"), (options("b", true), "b"), (options("c", false), "b")] {
        store.apply(run, &[change]).unwrap();
        assert_eq!(store.options().unwrap(), [("p-1".to_owned(), known.to_owned())]);
    }
}

#[test]
fn changes_are_written_in_one_transaction() {
    let place = Scratch::new("store-whole");
    let mut store = Database::open(&place.at("db")).unwrap();
    let run = store.begin_run(0).unwrap();
    // There is no such run.
    assert!(store.apply(run, &[Change::Package(package(0, "open"))]).is_ok());
    assert!(store.apply(run + 1, &[Change::Package(package(1, "open"))]).is_err());
    assert!(store.packages(run + 1).unwrap().is_empty());
}

#[test]
fn a_later_format_is_refused() {
    let place = Scratch::new("store-later");
    let path = place.at("db");
    drop(Database::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(Database::open(&path).unwrap_err().to_string(), "written by another version of Tanto (format 99)");
}

#[test]
fn an_older_database_is_migrated() {
    let place = Scratch::new("store-older");
    let path = place.at("db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema::MIGRATIONS[0]).unwrap();
    old.execute("INSERT INTO scan VALUES ('a/b', x'00', x'', NULL)", []).unwrap();
    old.execute("INSERT INTO run VALUES (1, 0, 9)", []).unwrap();
    old.execute("INSERT INTO stage VALUES (1, 1, 1, 'build', 6, 7, 8, 9, 10, 11, 130, 'logs/p1-1/build')", []).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let store = Database::open(&path).unwrap();
    let scanned = store.scanned().unwrap();
    assert_eq!((scanned.len(), &*scanned[0].location, scanned[0].wall_ms), (1, "a/b", 0));
    assert!(store.digests().unwrap().is_empty());
    assert_eq!(store.stages(1).unwrap(), [StageRow { waits: None, ..stage("build") }]);
}

#[test]
fn renamed_columns_and_reasons_keep_their_meaning() {
    let place = Scratch::new("store-renamed");
    let path = place.at("db");
    let old = Connection::open(&path).unwrap();
    schema::MIGRATIONS[..7].iter().for_each(|step| old.execute_batch(step).unwrap());
    for row in [
        "run VALUES (1, 0, 9)",
        "package VALUES (1, 0, 0, 'p-1', 'a/p', 'failed', 'it hung')",
        "package VALUES (1, 1, 1, 'q-1', 'a/q', 'open', 'it was interrupted on the way to its place')",
        "package VALUES (1, 2, 2, 'r-1', 'a/r', 'open', 'the user wants it to be built again')",
        "package VALUES (1, 3, 3, 's-1', 'a/s', 'done', 'it was up to date')",
        "package VALUES (1, 4, 4, 't-1', 'a/t', 'prefailed', 'skipped by the user')",
        "package VALUES (1, 5, 5, 'u-1', 'a/u', 'done', 'a process was left')",
        "package VALUES (1, 6, 6, 'v-1', 'a/v', 'failed', 'it was up to date')",
        "edge VALUES (1, 0, 1)",
        "attempt VALUES (1, 0, 1, 'here', 0, 9, 'failed', 'no space')",
        "due VALUES (1, 0, 'new')",
        "expected VALUES (1, 0, 7, 'history')",
        "digest VALUES (x'61', 1, 2, 3, 4, 5, x'00', 1)",
    ] {
        old.execute(&format!("INSERT INTO {row}"), []).unwrap();
    }
    old.pragma_update(None, "user_version", 7).unwrap();
    drop(old);
    let store = Database::open(&path).unwrap();
    assert_eq!((&*store.packages(1).unwrap()[0].why, &*store.attempts(1).unwrap()[0].why), ("it hung", "no space"));
    let details: Vec<String> = store.packages(1).unwrap().into_iter().map(|row| row.detail).collect();
    assert_eq!(details, ["", "interrupted", "requested", "up-to-date", "skipped", "", ""]);
    assert_eq!((store.edges(1).unwrap(), store.due(1).unwrap()), (vec![(0, 1)], vec![(0, "new".to_owned())]));
    assert_eq!((store.expected(1).unwrap()[0].wall_ms, store.digests().unwrap()[0].asks), (7, true));
}

#[test]
fn other_files_are_refused() {
    let place = Scratch::new("store-other");
    let path = place.at("db");
    std::fs::write(&path, "x".repeat(5000)).unwrap();
    assert!(matches!(Database::open(&path), Err(DatabaseError::Damaged(_))));
    assert_eq!(std::fs::read(&path).unwrap().len(), 5000, "it is left alone");
    assert!(Database::open(&place.at("no/db")).is_err());
}

#[test]
fn a_full_disk_is_reported_and_changes_nothing() {
    let place = Scratch::new("store-full");
    let mut store = Database::open(&place.at("db")).unwrap();
    let run = store.begin_run(0).unwrap();
    let pages: i64 = store.db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.db.pragma_update(None, "max_page_count", pages + 2).unwrap();
    let many: Vec<Change> = (0..10_000).map(|number| Change::Package(package(number, "open"))).collect();
    assert!(matches!(store.apply(run, &many), Err(DatabaseError::Full)));
    assert_eq!(store.packages(run).unwrap(), []);
    store.db.pragma_update(None, "max_page_count", 1 << 30).unwrap();
    store.apply(run, &many).unwrap();
    assert_eq!(store.packages(run).unwrap().len(), many.len());
}

/// A database with a non-empty write-ahead log, as after a kill, with these bytes in the middle.
fn killed(place: &Scratch, damage: &[u8]) -> std::path::PathBuf {
    let mut store = Database::open(&place.at("db")).unwrap();
    let run = store.begin_run(0).unwrap();
    let packages: Vec<Change> = (0..2000).map(|number| Change::Package(package(number, "open"))).collect();
    store.apply(run, &packages).unwrap();
    store.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    store.apply(run, &[Change::Ended { at_ms: 7 }]).unwrap();
    for name in ["db", "db-wal"] {
        std::fs::copy(place.at(name), place.at(&format!("killed-{name}"))).unwrap();
    }
    let killed = place.at("killed-db");
    let mut content = std::fs::read(&killed).unwrap();
    let middle = content.len() / 2;
    content[middle..middle + damage.len()].copy_from_slice(damage);
    std::fs::write(&killed, content).unwrap();
    killed
}

#[test]
fn a_database_that_was_not_closed_is_checked() {
    let place = Scratch::new("store-killed");
    assert!(Database::open(&killed(&place, b"")).unwrap().last_run().unwrap().unwrap().1.is_some());
    let place = Scratch::new("store-damaged");
    let damaged = killed(&place, &[0xa5; 16384]);
    let found = Database::open(&damaged).map(drop).unwrap_err();
    assert!(matches!(found, DatabaseError::Damaged(_)), "{found:?}");
    let message = found.to_string();
    assert!(message.starts_with("damaged (") && message.contains("delete the files 'db', 'db-wal'"), "{message}");
}

#[test]
fn other_files_count_as_damaged() {
    let place = Scratch::new("store-nonsense");
    drop(Database::open(&place.at("db")).unwrap());
    let mut content = std::fs::read(place.at("db")).unwrap();
    content[..64].fill(b'x');
    std::fs::write(place.at("db"), &content).unwrap();
    for found in [Database::open(&place.at("db")).map(drop), Database::open_read_only(&place.at("db")).map(drop)] {
        assert!(matches!(found, Err(DatabaseError::Damaged(_))), "{found:?}");
    }
}
