//! Tests of encoding, decoding and limits.

use super::*;
use tanto_testing::{Random, seeds};

fn text(random: &mut Random) -> String {
    ["", "a", "it's \"x\" \\ \n", "bell \u{7}", "é\u{10ffff}", "100%"][random.below(6)].to_owned()
}

fn log(random: &mut Random) -> String {
    ["", "build.log"][random.below(2)].to_owned()
}

fn built(name: &str, file: &str) -> BuiltPackage {
    BuiltPackage { name: name.into(), file: file.into() }
}

fn names(random: &mut Random) -> Vec<String> {
    (0..random.below(4)).map(|at| format!("lib{at}-1.0nb2")).collect()
}

fn spec(random: &mut Random) -> AttemptSpec {
    AttemptSpec {
        attempt: random.below(9) as u32,
        name: "py311-x+-1.2~a,b@c=d:e_f".into(),
        location: "devel/py-x".into(),
        arguments: (0..random.below(3)).map(|_| text(random)).collect(),
        bootstrap: random.below(2) == 0,
        user_destdir: random.below(2) == 0,
        usergroup_phase: text(random),
        depends: names(random),
        indirect: names(random),
        scratch_memory: (random.below(2) == 0).then(|| random.number()),
        expected_disk_kib: random.number(),
        is_last: random.below(2) == 0,
    }
}

fn result(random: &mut Random) -> AttemptResult {
    let why = text(random);
    let outcome = match random.below(7) {
        0 => AttemptOutcome::Built,
        1 => AttemptOutcome::Failed { why },
        2 => AttemptOutcome::NeedsRoot { why },
        3 => AttemptOutcome::MachineFailed { why },
        4 => AttemptOutcome::OutOfMemory { why },
        5 => AttemptOutcome::TreeChanged { why },
        _ => AttemptOutcome::ExceededTmpfs { why },
    };
    let made = if outcome == AttemptOutcome::Built { 1 + random.below(3) } else { 0 };
    let packages = (0..made).map(|at| built(&format!("lib{at}-1"), &format!("lib{at}-1.tgz"))).collect();
    let stage = |random: &mut Random| StageResult {
        stage: "client-clean".into(),
        after_ms: random.number(),
        wall_ms: random.number(),
        cpu_ms: 3,
        peak_kib: 4,
        read_bytes: u64::MAX,
        written_bytes: 0,
        waits: (random.below(2) == 0).then_some(StageWaits { io_us: 1, cpu_us: 2 }),
        exit: random.below(200) as i32,
        log: log(random),
    };
    AttemptResult {
        outcome,
        packages,
        stages: (0..random.below(4)).map(|_| stage(random)).collect(),
        cpu_ms: random.number(),
        peak_kib: 2,
        disk_kib: 1,
        left: (0..random.below(3)).map(|_| text(random)).collect(),
        exit: 137,
        output: text(random),
        log: log(random),
    }
}

#[test]
fn messages_are_decoded_as_they_were_encoded() {
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let (spec, result) = (spec(&mut random), result(&mut random));
        assert_eq!(AttemptSpec::decode(&spec.encode().unwrap()), Ok(spec));
        assert_eq!(AttemptResult::decode(&result.encode().unwrap()), Ok(result));
    }
}

#[test]
fn unknown_fields_are_ignored_and_other_versions_refused() {
    let spec = spec(&mut Random::new(1));
    let encoded = String::from_utf8(spec.encode().unwrap()).unwrap();
    let newer = encoded.replace("\"attempt\"", "\"color\":[{\"a\":1}],\"attempt\"");
    assert_eq!(AttemptSpec::decode(newer.as_bytes()), Ok(spec));
    let other = br#"{"protocol":2,"body":[]}"#;
    let error = AttemptSpec::decode(other).unwrap_err();
    assert_eq!(
        (error.to_string(), error),
        ("the message has protocol version 2, not 1".into(), MessageError::Version(2))
    );
    assert!(matches!(AttemptSpec::decode(b"{"), Err(MessageError::Malformed(_))));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["", "..", "a/b", "-x", "a b", "a'b", "a\nb", "x$y"] {
        let bad = AttemptSpec { name: name.into(), ..spec(&mut Random::new(2)) };
        assert_eq!(bad.encode(), Err(MessageError::Name { field: "name" }), "{name:?}");
    }
    for location in ["/etc", "a/../b", "a//b", "a/"] {
        let bad = AttemptSpec { location: location.into(), ..spec(&mut Random::new(2)) };
        assert_eq!(bad.encode(), Err(MessageError::Name { field: "location" }), "{location}");
    }
    let bad = AttemptSpec { indirect: vec!["../x".into()], ..spec(&mut Random::new(2)) };
    assert_eq!(bad.encode(), Err(MessageError::Name { field: "indirect" }));
}

#[test]
fn all_sizes_have_limits() {
    let good = result(&mut Random::new(3));
    let limited = |bad: AttemptResult| matches!(bad.encode(), Err(MessageError::Limit { .. }));
    assert!(limited(AttemptResult { output: "x".repeat(MAX_TEXT + 1), ..good.clone() }));
    assert!(limited(AttemptResult { left: vec![String::new(); MAX_LIST + 1], ..good.clone() }));
    let long = AttemptResult { left: vec!["x".repeat(MAX_TEXT); 200], ..good };
    assert!(matches!(long.encode(), Err(MessageError::TooLong { .. })));
    let bytes = vec![b' '; AttemptSpec::MAX_BYTES + 1];
    assert!(matches!(AttemptSpec::decode(&bytes), Err(MessageError::TooLong { .. })));
}

/// A result with these packages.
fn built_result(packages: Vec<BuiltPackage>) -> AttemptResult {
    AttemptResult { packages, ..AttemptResult::of(AttemptOutcome::Built) }
}

#[test]
fn files_of_a_result_are_in_the_directory_of_the_attempt() {
    let good = built_result(vec![built("a-1", "a-1.tgz")]);
    assert!(good.encode().is_ok());
    for file in ["", "..", "../a-1.tgz", "/a-1.tgz", "sub/a-1.tgz", "-a"] {
        let bad = built_result(vec![built("a-1", file)]);
        assert_eq!(bad.encode(), Err(MessageError::Name { field: "packages.file" }), "{file:?}");
        if !file.is_empty() {
            let bad = AttemptResult { log: file.into(), ..good.clone() };
            assert_eq!(bad.encode(), Err(MessageError::Name { field: "log" }), "{file:?}");
        }
    }
    let mut random = Random::new(4);
    let mut with_stages = result(&mut random);
    while with_stages.stages.is_empty() {
        with_stages = result(&mut random);
    }
    with_stages.stages[0].log = "/logs/a-1/1/build.log".into();
    assert_eq!(with_stages.encode(), Err(MessageError::Name { field: "log" }));
}

#[test]
fn built_attempts_list_each_package_once() {
    let two = built_result(vec![built("a-1", "a-1.tgz"), built("a-doc-1", "a-doc-1.tgz")]);
    assert_eq!(AttemptResult::decode(&two.encode().unwrap()), Ok(two.clone()));
    assert_eq!(two.package("a-doc-1").map(|it| &*it.file), Some("a-doc-1.tgz"));
    assert_eq!(two.package("a"), None);
    let failed = AttemptOutcome::Failed { why: String::new() };
    for bad in [
        built_result(Vec::new()),
        built_result(vec![built("a-1", "a-1.tgz"), built("a-1", "b-1.tgz")]),
        built_result(vec![built("a-1", "a-1.tgz"), built("b-1", "a-1.tgz")]),
        AttemptResult { outcome: failed, ..two },
    ] {
        assert_eq!(bad.encode(), Err(MessageError::Packages));
    }
    let many = (0..=MAX_PACKAGES).map(|at| built(&format!("a-{at}"), &format!("a-{at}.tgz"))).collect();
    assert_eq!(built_result(many).encode(), Err(MessageError::Limit { field: "packages" }));
}
