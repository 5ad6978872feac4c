//! Tests of encoding, decoding and limits.

use super::*;
use tanto_testing::{Random, seeds};

fn text(random: &mut Random) -> String {
    ["", "a", "it's \"x\" \\ \n", "bell \u{7}", "é\u{10ffff}", "100%"][random.below(6)].to_owned()
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
    let outcome = match random.below(6) {
        0 => AttemptOutcome::Built,
        1 => AttemptOutcome::Failed { why },
        2 => AttemptOutcome::NeedsRoot { why },
        3 => AttemptOutcome::MachineFailed { why },
        4 => AttemptOutcome::OutOfMemory { why },
        _ => AttemptOutcome::ExceededTmpfs { why },
    };
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
        log: text(random),
    };
    AttemptResult {
        outcome,
        stages: (0..random.below(4)).map(|_| stage(random)).collect(),
        cpu_ms: random.number(),
        peak_kib: 2,
        disk_kib: 1,
        left: (0..random.below(3)).map(|_| text(random)).collect(),
        exit: 137,
        message: text(random),
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
    assert!(limited(AttemptResult { message: "x".repeat(MAX_TEXT + 1), ..good.clone() }));
    assert!(limited(AttemptResult { left: vec![String::new(); MAX_LIST + 1], ..good.clone() }));
    let long = AttemptResult { left: vec!["x".repeat(MAX_TEXT); 200], ..good };
    assert!(matches!(long.encode(), Err(MessageError::TooLong { .. })));
    let bytes = vec![b' '; AttemptSpec::MAX_BYTES + 1];
    assert!(matches!(AttemptSpec::decode(&bytes), Err(MessageError::TooLong { .. })));
}
