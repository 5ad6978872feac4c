//! Tests: events are read as they were written, and invalid lines are refused.

use std::collections::HashMap;

use tanto_exec::event::Event;
use tanto_exec::job::report::TerminationReason;
use tanto_sys::cgroup::StallTimes;
use tanto_testing::{Random, each_variant};

use tanto_exec::job::{CacheOutcome, CacheUse, Cost};

use super::*;

impl Kept {
    /// The event; `info` says what the job of a finished command is.
    fn event<'a>(&'a self, info: &'a JobInfo) -> Event<'a> {
        match self {
            Kept::Planned { job, expected_ms } => Event::Planned { job: *job, expected_ms: *expected_ms },
            Kept::Unplanned { job, expected_ms } => Event::Unplanned { job: *job, expected_ms: *expected_ms },
            Kept::BuildStarted { at_ms, downstream_ms } => Event::BuildStarted { at_ms: *at_ms, downstream_ms },
            Kept::Started { job, info, at_ms } => Event::Started { job: *job, info, at_ms: *at_ms },
            Kept::NothingToRun { job, info, at_ms } => Event::NothingToRun { job: *job, info, at_ms: *at_ms },
            Kept::Finished(it) => Event::Finished {
                job: it.job,
                info,
                start_ms: it.start_ms,
                end_ms: it.end_ms,
                exit: it.exit,
                output: &it.output,
                usage: it.usage,
                executed_by: it.executed_by,
                cache: it.cache.as_ref(),
            },
            Kept::Skipped { job, outputs, because } => Event::Skipped { job: *job, outputs, because: *because },
            Kept::Stage { job, stage, at_ms } => {
                Event::Stage { job: *job, stage: std::str::from_utf8(stage).unwrap(), at_ms: *at_ms }
            }
            Kept::StateCounts { .. } => unreachable!("it has a test of its own"),
            Kept::Sampled { job, at_ms, sample: load } => Event::Sampled { job: *job, at_ms: *at_ms, sample: *load },
            Kept::Terminated { job, termination } => Event::Terminated { job: *job, info, termination },
            Kept::LeftBehind { job, processes, killed } => {
                Event::LeftBehind { job: *job, info, processes, killed: *killed }
            }
            Kept::Throttled { reason: why, at_ms } => Event::Throttled { reason: *why, at_ms: *at_ms },
            Kept::BuildFinished { at_ms } => Event::BuildFinished { at_ms: *at_ms },
            Kept::Notice { level, text } => Event::Notice { level: *level, text },
        }
    }
}

fn text(random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 8] =
        [b"a", b"foo.o ", b"\n", b"\"", b"\xff\xfe", "\u{20ac}".as_bytes(), b"\0", b"\xf4\x8f\x9e\x80"];
    (0..random.below(5)).map(|_| *random.pick(&PIECES)).collect::<Vec<_>>().concat()
}

fn texts(random: &mut Random) -> Vec<Vec<u8>> {
    (0..random.below(3)).map(|_| text(random)).collect()
}

fn info(random: &mut Random) -> JobInfo {
    JobInfo {
        command: text(random),
        description: text(random),
        outputs: texts(random),
        console: random.chance(20),
        why: texts(random),
        after: (0..random.below(4)).map(|_| JobId(random.number() as u32)).collect(),
    }
}

fn seen(random: &mut Random) -> Vec<ProcessInfo> {
    let one = |_| ProcessInfo {
        pid: random.number() as u32,
        depth: 2,
        state: b'S',
        cpu_ms: random.number(),
        memory_kib: 0,
        command: text(random),
        directory: random.chance(50).then(|| text(random)),
    };
    (0..2).map(one).collect()
}

fn some_reason(random: &mut Random, after_ms: i64) -> TerminationReason {
    let limit_kib = random.number();
    *random.pick(&[
        TerminationReason::Hung { after_ms },
        TerminationReason::Timeout { after_ms: 1 },
        TerminationReason::CpuTime { after_ms },
        TerminationReason::Memory { limit_kib },
        TerminationReason::Output { limit_bytes: limit_kib },
        TerminationReason::Disk { limit_kib },
        TerminationReason::Requested,
    ])
}

fn some_throttle_reason(random: &mut Random, job: JobId) -> Option<ThrottleReason> {
    let reasons = [
        None,
        Some(ThrottleReason::Memory { job, needs_kib: random.number(), available_kib: 0 }),
        Some(ThrottleReason::Disk { job, needs_kib: 0, available_kib: random.number() }),
        Some(ThrottleReason::MemoryPressure),
        Some(ThrottleReason::CpuPressure),
        Some(ThrottleReason::LoadAverage),
    ];
    *random.pick(&reasons)
}

fn some_event(random: &mut Random) -> Kept {
    let job = JobId(random.number() as u32);
    let at_ms = (random.number() >> 30) as i64;
    let (executed_by, cache) = execution(random);
    let expected_ms = random.chance(50).then_some(-at_ms);
    match random.below(14) {
        0 => Kept::Planned { job, expected_ms },
        1 => Kept::Unplanned { job, expected_ms },
        2 => {
            let downstream_ms = (0..random.below(3)).map(|_| 1 + (random.number() >> 30)).collect();
            Kept::BuildStarted { at_ms, downstream_ms }
        }
        3 => Kept::Started { job, info: info(random), at_ms },
        4 => Kept::NothingToRun { job, info: info(random), at_ms },
        5 => Kept::BuildFinished { at_ms },
        8 => Kept::Sampled {
            job,
            at_ms,
            sample: JobSample { processes: 3, cpu_ms: random.number(), memory_kib: 7, files_kib: None },
        },
        9 => {
            let reason = some_reason(random, at_ms);
            let termination = Termination { reason, processes: seen(random), killed: random.chance(50) };
            Kept::Terminated { job, termination }
        }
        12 => Kept::Stage { job, stage: b"build".to_vec(), at_ms },
        10 => Kept::LeftBehind { job, processes: seen(random), killed: random.chance(50) },
        11 => Kept::Throttled { reason: some_throttle_reason(random, job), at_ms },
        7 => Kept::Skipped { job, outputs: texts(random), because: JobId(3) },
        6 => {
            let level = *random.pick(&[Level::Info, Level::Warning, Level::Error, Level::Explain]);
            Kept::Notice { level, text: text(random) }
        }
        _ => Kept::Finished(Finished {
            job,
            start_ms: at_ms / 2,
            end_ms: at_ms,
            exit: *random.pick(&[Exit::Code(0), Exit::Code(255), Exit::Signal(9), Exit::Dumped(11)]),
            output: text(random),
            left_out: 0,
            place: None,
            usage: Usage {
                user_us: random.number(),
                system_us: 0,
                max_rss_kib: random.number() >> 40,
                read_bytes: random.number(),
                written_bytes: u64::MAX,
                waits: [None, Some(StallTimes { io_us: 0, cpu_us: random.number() })][random.below(2)],
            },
            executed_by,
            cache,
        }),
    }
}

/// A consistent pair.
fn execution(random: &mut Random) -> (ExecutedBy, Option<CacheUse>) {
    let executed_by = [ExecutedBy::Process, ExecutedBy::Fork, ExecutedBy::Checkpoint][random.below(3)];
    match [None, Some(cache_use(random))][random.below(2)].clone() {
        Some(cache) if matches!(cache.outcome, CacheOutcome::Hit(_)) => (ExecutedBy::Cache, Some(cache)),
        cache => (executed_by, cache),
    }
}

fn cache_use(random: &mut Random) -> CacheUse {
    let cost = Cost { wall_ms: 7, cpu_ms: random.below(100) as u32, memory_kib: 0 };
    let outcome =
        *random.pick(&[CacheOutcome::Hit(cost), CacheOutcome::New, CacheOutcome::Changed, CacheOutcome::NotCacheable]);
    CacheUse { outcome, reason: "option -x".into(), depends_on_root: random.chance(50) }
}

#[test]
fn state_counts_have_names() {
    let mut out = Vec::new();
    let counts = [("open", 12), ("running", 0), ("done", 3)];
    Encoder::WHOLE.event(&mut out, &Event::StateCounts { counts: &counts, at_ms: 7 });
    assert_eq!(out, b"{\"event\":\"state_counts\",\"at_ms\":7,\"counts\":{\"open\":12,\"done\":3}}\n");
    let counts = vec![(b"done".to_vec(), 3), (b"open".to_vec(), 12)];
    assert_eq!(line(&out[..out.len() - 1]), Ok(Line::Event(Kept::StateCounts { counts, at_ms: 7 })));
}

fn encoded(encoder: Encoder, kept: &Kept) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.event(&mut out, &kept.event(&JobInfo::default()));
    assert_eq!(out.pop(), Some(b'\n'));
    assert!(!out.contains(&b'\n'));
    out
}

#[test]
fn events_round_trip() {
    for seed in 0..5000 {
        let kept = some_event(&mut Random::new(seed));
        assert_eq!(line(&encoded(Encoder::WHOLE, &kept)), Ok(Line::Event(kept)), "seed {seed}");
    }
}

#[test]
fn the_head_round_trips() {
    let mut random = Random::new(1);
    let head = Head {
        version: b"0.1.0".into(),
        began_unix_ms: 1_700_000_000_000,
        dir: b"/a\xff".into(),
        targets: texts(&mut random),
        manifest: true,
        parallelism: 0,
        processors: 8,
    };
    let mut out = Vec::new();
    Encoder::WHOLE.head(&mut out, &head);
    assert_eq!(line(out.trim_ascii_end()), Ok(Line::Head(head)));
}

#[test]
fn lines_match_the_documentation() {
    let started = Kept::Started {
        job: JobId(3),
        info: JobInfo {
            command: b"cc -c a.c".into(),
            description: b"CC a.o".into(),
            outputs: vec![b"a.o".into()],
            console: false,
            why: vec![b"output a.o doesn't exist".into()],
            after: vec![JobId(1), JobId(2)],
        },
        at_ms: 12,
    };
    let expected = r#"{"event":"started","job":3,"at_ms":12,"description":"CC a.o","outputs":["a.o"],"command":"cc -c a.c","why":["output a.o doesn't exist"],"after":[1,2]}"#;
    assert_eq!(String::from_utf8(encoded(Encoder::WHOLE, &started)).as_deref(), Ok(expected));
    let brief = Encoder { brief: true, ..Encoder::WHOLE };
    assert_eq!(encoded(brief, &started), br#"{"event":"started","job":3,"at_ms":12,"after":[1,2]}"#);
    let finished = Finished {
        job: JobId(3),
        start_ms: 12,
        end_ms: 40,
        exit: Exit::Dumped(11),
        output: b"0123456789".into(),
        left_out: 0,
        place: None,
        usage: Usage { user_us: 900, ..Usage::default() },
        executed_by: ExecutedBy::Checkpoint,
        cache: None,
    };
    let encoder = Encoder { most_output: 5, brief: false };
    let expected = r#"{"event":"finished","job":3,"start_ms":12,"end_ms":40,"signal":11,"core":true,"user_us":900,"in_process":true,"checkpoint":true,"left_out":5,"output":"01789"}"#;
    assert_eq!(String::from_utf8(encoded(encoder, &Kept::Finished(finished))).as_deref(), Ok(expected));
}

#[test]
fn format_1_is_still_read() {
    let pairs = [
        (
            r#"{"event":"build_started","at_ms":1,"behind_ms":[2]}"#,
            r#"{"event":"build_started","at_ms":1,"downstream_ms":[2]}"#,
        ),
        (r#"{"event":"grouped","job":1,"at_ms":2}"#, r#"{"event":"nothing_to_run","job":1,"at_ms":2}"#),
        (
            r#"{"event":"looked","job":1,"at_ms":2,"processes":3,"cpu_ms":4,"memory_kib":5}"#,
            r#"{"event":"sampled","job":1,"at_ms":2,"processes":3,"cpu_ms":4,"memory_kib":5}"#,
        ),
        (
            r#"{"event":"stopped","job":1,"why":"too_long","after_ms":2}"#,
            r#"{"event":"terminated","job":1,"reason":"timeout","after_ms":2}"#,
        ),
        (
            r#"{"event":"stopped","job":1,"why":"printed","most":2}"#,
            r#"{"event":"terminated","job":1,"reason":"output","limit_bytes":2}"#,
        ),
        (
            r#"{"event":"stopped","job":1,"why":"memory","most_kib":2}"#,
            r#"{"event":"terminated","job":1,"reason":"memory","limit_kib":2}"#,
        ),
        (r#"{"event":"left","job":1}"#, r#"{"event":"left_behind","job":1}"#),
        (
            r#"{"event":"held","at_ms":1,"why":"disk","job":2,"needs_kib":3,"left_kib":4}"#,
            r#"{"event":"throttled","at_ms":1,"reason":"disk","job":2,"needs_kib":3,"available_kib":4}"#,
        ),
        (r#"{"event":"held","at_ms":1,"why":"load"}"#, r#"{"event":"throttled","at_ms":1,"reason":"load_average"}"#),
        (
            r#"{"event":"standing","at_ms":1,"counts":{"open":2}}"#,
            r#"{"event":"state_counts","at_ms":1,"counts":{"open":2}}"#,
        ),
    ];
    for (old, new) in pairs {
        let decoded = line(old.as_bytes());
        assert!(matches!(decoded, Ok(Line::Event(_))), "{old}");
        assert_eq!(decoded, line(new.as_bytes()), "{old}");
    }
    let head =
        |format| format!(r#"{{"event":"tanto","format":{format},"began_unix_ms":0,"parallelism":1,"processors":1}}"#);
    assert_eq!(line(head(1).as_bytes()), line(head(2).as_bytes()));
}

#[test]
fn unknown_fields_and_events_are_skipped() {
    assert_eq!(line(br#"{"event":"noticed","job":1}"#), Ok(Line::Unknown));
    assert_eq!(line(br#"{"event":"notice","level":"loud","text":"x"}"#), Ok(Line::Unknown));
    let known = line(br#"{"new":{"a":[1.5,null]},"event":"build_started","at_ms":1}"#);
    assert_eq!(known, Ok(Line::Event(Kept::BuildStarted { at_ms: 1, downstream_ms: Vec::new() })));
}

#[test]
fn invalid_lines_are_refused() {
    let cases: HashMap<&str, &str> = HashMap::from([
        ("[]", "no object"),
        ("{}", "no \"event\""),
        (r#"{"event":"tanto","format":3}"#, "format 3; this Tanto reads 1 to 2"),
        (r#"{"event":"started","job":-1}"#, "\"job\" is not a number from 0 to 4294967295"),
        (r#"{"event":"started","job":1,"outputs":[1],"at_ms":1}"#, "\"outputs\" is not a list of strings"),
        (
            r#"{"event":"build_started","at_ms":1e300}"#,
            "\"at_ms\" is not a number from -1099511627776 to 1099511627776",
        ),
    ]);
    for (text, wrong) in cases {
        assert_eq!(line(text.as_bytes()), Err(Wrong(wrong.into())), "{text}");
    }
    assert!(line(b"{\"event\":\"noti").is_err_and(|wrong| wrong.0.starts_with("no JSON: ")));
    assert!(line(&[b'['; 100_000]).is_err());
}

#[test]
fn hostile_lines_are_harmless() {
    let seeds: Vec<String> = (0..200)
        .map(|seed| String::from_utf8(encoded(Encoder::WHOLE, &some_event(&mut Random::new(seed)))).expect("UTF-8"))
        .collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    each_variant(&seeds, b"{}[]\",:0-\\u", 20_000, |text| drop(line(text)));
}
