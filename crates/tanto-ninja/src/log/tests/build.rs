//! The build log.

use std::collections::BTreeMap;

use crate::log::file::faults::limit_writes;
use crate::log::{BuildLog, Entry};

use super::{Seeded, Space, Stub, text};

/// As ninja 1.13.2 wrote it.
const V7: &[u8] = b"# ninja log v7\n\
    0\t5\t1795170371520202006\tx.o\t7dbf1f2e3cf613e2\n\
    0\t5\t1795170371520202006\ty1.o\t7dbf1f2e3cf613e2\n\
    5\t8\t1795170371529525333\tq\t5b21a2d1ed6bf0c2\n";

/// As ninja 1.11.1 wrote it for the same manifest.
const V5: &[u8] = b"# ninja log v5\n\
    0\t3\t1700000001000000000\tx.o\tfeaa10e3257d1294\n\
    0\t3\t1700000001000000000\ty1.o\tfeaa10e3257d1294\n\
    3\t6\t1700000000000000000\tq\t319a3f76d38582ba\n";

const Q_COMMAND: &[u8] = b"touch -d @1700000000 q && printf 'q: a.h sub/bb.h\\n' > q.d";

fn entry(number: u64) -> Entry {
    Entry { command_hash: number, start_ms: 1, end_ms: 2, mtime: 3 }
}

fn load(space: &Space) -> BuildLog {
    let (log, warning) = BuildLog::load(&space.log(), 7).expect("a log");
    assert_eq!(text(warning), None);
    log
}

fn open(space: &Space) -> BuildLog {
    let mut log = load(space);
    log.open(&mut |_| false).expect("open");
    log
}

fn outputs(log: &BuildLog) -> Vec<String> {
    log.entries().map(|(output, _)| String::from_utf8_lossy(output).into_owned()).collect()
}

#[test]
fn what_ninja_wrote_is_read_and_written_again() {
    for (golden, version) in [(V7, 7), (V5, 5)] {
        let space = Space::new();
        space.write(golden);
        let theirs = load(&space);
        assert_eq!(theirs.version(), version);
        assert_eq!(theirs.records_output_mtime(), version == 5);
        assert_eq!(theirs.hash_command(Q_COMMAND), theirs.lookup(b"q").expect("q").command_hash);

        let new = Space::new();
        let (mut ours, _) = BuildLog::load(&new.log(), version).expect("no log");
        ours.open(&mut |_| false).expect("open");
        let of = |output: &[u8]| *theirs.lookup(output).expect("entry");
        ours.record([b"x.o".as_slice(), b"y1.o"], of(b"x.o")).expect("record");
        ours.record([b"q".as_slice()], of(b"q")).expect("record");
        assert_eq!(new.bytes().as_deref(), Some(golden));
        assert_eq!(ours.entries().collect::<Vec<_>>(), theirs.entries().collect::<Vec<_>>());
    }
}

#[test]
fn versions_are_kept_or_started_over() {
    let cases: &[(&[u8], u32, u32, Option<&str>)] = &[
        (b"", 7, 7, None),
        (b"", 5, 5, None),
        (V5, 7, 5, None),
        (V7, 5, 7, None),
        (b"# ninja log v6\n", 7, 6, None),
        (b"# ninja log v4\n", 7, 7, Some("build log version is too old; starting over")),
        (b"# ninja log v8\n", 5, 5, Some("build log version is too new; starting over")),
        (b"rubbish", 7, 7, Some("build log version is too old; starting over")),
    ];
    for &(bytes, new, version, warning) in cases {
        let space = Space::new();
        space.write(bytes);
        let (mut log, warned) = BuildLog::load(&space.log(), new).expect("load");
        assert_eq!(text(warned).as_deref(), warning);
        assert_eq!(space.bytes().as_deref(), Some(bytes), "loading writes nothing");
        assert_eq!((log.version(), log.was_found()), (version, warning.is_none()));
        log.open(&mut |_| false).expect("open");
        assert_eq!(space.bytes().is_some(), warning.is_none(), "a log that cannot be read goes at once");
        log.record([b"new".as_slice()], entry(1)).expect("record");
        let head = format!("# ninja log v{version}\n").into_bytes();
        assert!(space.bytes().expect("a log").starts_with(&head));
        assert_eq!(load(&space).lookup(b"new"), Some(&entry(1)));
    }
}

#[test]
fn the_file_comes_with_the_first_record() {
    let space = Space::new();
    let mut log = open(&space);
    assert_eq!(space.names(), [""; 0]);
    log.record([b"a".as_slice()], entry(1)).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n1\t2\t3\ta\t1\n".as_slice()));
}

#[test]
fn closing_makes_the_file() {
    let space = Space::new();
    let mut log = load(&space);
    log.close().expect("close");
    assert_eq!(space.names(), [""; 0], "not one that may not be written");
    log.open(&mut |_| false).expect("open");
    log.close().expect("close");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n".as_slice()));
    log.record([b"a".as_slice()], entry(1)).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n1\t2\t3\ta\t1\n".as_slice()));
}

#[test]
fn what_is_not_opened_is_not_written() {
    let space = Space::new();
    space.write(V7);
    let mut log = load(&space);
    log.record([b"q".as_slice(), b"new"], entry(9)).expect("record");
    assert_eq!(log.lookup(b"q"), Some(&entry(9)));
    assert_eq!(log.lookup(b"new"), Some(&entry(9)));
    assert_eq!(space.bytes().as_deref(), Some(V7));
    assert_eq!(space.names(), ["log"]);
}

#[test]
fn a_log_cut_anywhere_keeps_its_whole_lines() {
    let all = Space::new();
    all.write(V7);
    let all = load(&all);
    for length in 0..V7.len() {
        let space = Space::new();
        space.write(&V7[..length]);
        let (mut log, warning) = BuildLog::load(&space.log(), 7).expect("load");
        // Up to the version's digit it is no log of any version.
        assert_eq!(warning.is_some(), (1..14).contains(&length), "{length}");
        let lines = V7[..length].iter().filter(|&&byte| byte == b'\n').count();
        let expected: Vec<_> = all.entries().take(lines.saturating_sub(1)).collect();
        assert_eq!(log.entries().collect::<Vec<_>>(), expected, "{length}");

        log.open(&mut |_| false).expect("open");
        log.record([b"new".as_slice()], entry(1)).expect("record");
        let again = load(&space);
        assert_eq!(again.entries().len(), expected.len() + 1, "{length}");
        assert_eq!(again.lookup(b"new"), Some(&entry(1)), "{length}");
    }
}

#[test]
fn a_flipped_bit_harms_its_own_lines_alone() {
    let starts: Vec<usize> = [0].into_iter().chain(memchr::memchr_iter(b'\n', V7).map(|end| end + 1)).collect();
    for bit in 0..V7.len() * 8 {
        let space = Space::new();
        let mut bytes = V7.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        space.write(&bytes);
        let (mut log, _) = BuildLog::load(&space.log(), 7).expect("load");
        let line = starts.iter().rposition(|&start| start <= bit / 8).expect("a line");
        let joined = V7[bit / 8] == b'\n';
        for (number, output) in [b"x.o".as_slice(), b"y1.o", b"q"].iter().enumerate() {
            let harmed = line == 0 || number + 1 == line || (joined && number == line);
            assert!(harmed || log.lookup(output).is_some(), "bit {bit}");
        }
        log.open(&mut |_| false).expect("open");
        log.record([b"new".as_slice()], entry(1)).expect("record");
        assert_eq!(load(&space).lookup(b"new"), Some(&entry(1)), "bit {bit}");
    }
}

#[test]
fn rubbish_is_no_reason_to_fail() {
    for seed in 0..200 {
        let mut random = Seeded(seed);
        let space = Space::new();
        let mut bytes = b"# ninja log v7\n".to_vec();
        bytes.extend((0..random.below(300)).map(|_| b"\n\t09afx-\0\xff"[random.below(10)]));
        space.write(&bytes);
        open(&space).record([b"new".as_slice()], entry(1)).expect("record");
        assert_eq!(load(&space).lookup(b"new"), Some(&entry(1)), "seed {seed}");
    }
}

#[test]
fn writers_learn_from_each_other() {
    let space = Space::new();
    let (mut one, mut two) = (open(&space), open(&space));
    one.record([b"a".as_slice()], entry(1)).expect("record");
    two.record([b"b".as_slice()], entry(2)).expect("record");
    one.record([b"c".as_slice(), b"b"], entry(3)).expect("record");
    assert_eq!(one.lookup(b"b"), Some(&entry(3)));
    assert_eq!(two.lookup(b"a"), Some(&entry(1)));
    two.record([b"d".as_slice()], entry(4)).expect("record");
    assert_eq!(two.lookup(b"b"), Some(&entry(3)));
    assert_eq!(load(&space).entries().collect::<Vec<_>>(), two.entries().collect::<Vec<_>>());
    assert_eq!(outputs(&two), ["a", "b", "c", "d"]);
}

#[test]
fn a_record_goes_into_the_file_that_is_there_now() {
    let space = Space::new();
    space.write(V7);
    let mut log = open(&space);
    log.record([b"a".as_slice()], entry(1)).expect("record");
    space.replace(b"# ninja log v7\n1\t2\t3\tb\t4\n");
    log.record([b"c".as_slice()], entry(2)).expect("record");
    assert_eq!(outputs(&log), ["b", "c"]);
    // Another version: it stays what it is.
    space.replace(V5);
    log.record([b"c".as_slice()], entry(2)).expect("record");
    assert_eq!((log.version(), load(&space).version()), (5, 5));
    assert_eq!(outputs(&load(&space)), ["x.o", "y1.o", "q", "c"]);
    // No log at all: it is started over.
    space.replace(b"rubbish that is longer than a header");
    log.record([b"d".as_slice()], entry(2)).expect("record");
    assert_eq!(outputs(&load(&space)), ["d"]);
    std::fs::remove_file(space.0.at("log")).expect("remove");
    log.record([b"e".as_slice()], entry(2)).expect("record");
    assert_eq!(outputs(&load(&space)), ["e"]);
    // Cut in place.
    space.write(b"# ninja log v7\n");
    log.record([b"f".as_slice()], entry(2)).expect("record");
    assert_eq!(outputs(&load(&space)), ["f"]);
}

#[test]
fn a_rewriting_process_and_an_appending_one_lose_nothing() {
    let space = Space::new();
    space.write(V7);
    let mut appends = open(&space);
    appends.record([b"a".as_slice()], entry(1)).expect("record");
    let mut rewrites = load(&space);
    appends.record([b"b".as_slice()], entry(2)).expect("record");
    rewrites.recompact(&mut |output| output == b"q").expect("recompact");
    appends.record([b"c".as_slice()], entry(3)).expect("record");
    assert_eq!(outputs(&load(&space)), ["x.o", "y1.o", "a", "b", "c"]);
}

#[test]
fn a_log_that_another_process_has_only_begun_is_not_lost() {
    let space = Space::new();
    let mut writes = open(&space);
    // As the file may look while its first bytes are written.
    space.write(b"# nin");
    let (mut log, _) = BuildLog::load(&space.log(), 7).expect("load");
    writes.record([b"a".as_slice()], entry(1)).expect("record");
    log.open(&mut |_| false).expect("open");
    assert_eq!(outputs(&load(&space)), ["a"]);
}

#[test]
fn a_full_disk_is_reported_and_leaves_whole_lines() {
    let mut space = Space::new();
    let line = b"1\t2\t3\tnew\t1\n".len();
    for room in 0..line {
        space.write(V7);
        let mut log = open(&space);
        limit_writes(Some(room));
        let error = log.record([b"new".as_slice()], entry(1)).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text.starts_with(b"Error writing to build log: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(V7));
        assert_eq!(log.lookup(b"new"), None);
        log.record([b"new".as_slice()], entry(1)).expect("there is room again");
        assert_eq!(load(&space).lookup(b"new"), Some(&entry(1)));
        space = Space::new();
    }
}

#[test]
fn a_full_device_is_reported() {
    let space = Space::new();
    let mut log = open(&space);
    std::os::unix::fs::symlink("/dev/full", space.0.at("log")).expect("link");
    let error = log.record([b"a".as_slice()], entry(1)).expect_err("a full device");
    assert_eq!(error.text, b"Error writing to build log: No space left on device");
}

#[test]
fn a_failed_recompaction_leaves_the_old_log() {
    let space = Space::new();
    space.write(V7);
    for room in 0..V7.len() {
        let mut log = load(&space);
        limit_writes(Some(room));
        let error = log.recompact(&mut |_| false).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text.starts_with(b"failed recompaction: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(V7));
        assert_eq!(space.names(), ["log"]);
    }
}

#[test]
fn a_log_is_recompacted_when_most_of_it_is_void() {
    for (rounds, outputs, shrinks) in [(34, 3, true), (33, 3, false), (3, 50, false), (4, 50, true)] {
        let space = Space::new();
        let mut log = open(&space);
        for round in 0..rounds {
            let names: Vec<Vec<u8>> = (0..outputs).map(|n| format!("o{n}").into_bytes()).collect();
            log.record(names.iter().map(Vec::as_slice), entry(round)).expect("record");
        }
        let before = space.bytes().expect("a log").len();
        assert_eq!(outputs, load(&space).entries().len());
        let mut log = load(&space);
        log.open(&mut |output| output == b"o1").expect("open");
        let after = space.bytes().expect("a log").len();
        assert_eq!(after < before, shrinks, "{rounds} rounds of {outputs}");
        assert_eq!(log.lookup(b"o1").is_none(), shrinks);
        assert_eq!(load(&space).entries().len(), outputs - usize::from(shrinks));
        assert_eq!(space.names(), ["log"]);
    }
}

#[test]
fn tools_do_nothing_where_there_is_no_log() {
    let space = Space::new();
    let mut log = load(&space);
    log.recompact(&mut |_| false).expect("recompact");
    log.restat(&mut Stub::of_mtime(Some(5)), &[]).expect("restat");
    assert_eq!(space.names(), [""; 0]);
    space.write(b"# ninja log v99\n");
    let (mut log, _) = BuildLog::load(&space.log(), 7).expect("load");
    log.recompact(&mut |_| false).expect("recompact");
    assert_eq!(space.names(), [""; 0]);
}

#[test]
fn restat_takes_the_mtimes_that_files_have() {
    let space = Space::new();
    space.write(V5);
    load(&space).restat(&mut Stub::of_mtime(Some(55)), &[b"q", b"unknown"]).expect("restat");
    let log = load(&space);
    assert_eq!(log.version(), 5);
    assert_eq!(log.lookup(b"q").map(|entry| (entry.mtime, entry.end_ms)), Some((55, 6)));
    assert_eq!(log.lookup(b"x.o").map(|entry| entry.mtime), Some(1_700_000_001_000_000_000));
    load(&space).restat(&mut Stub::of_mtime(Some(0)), &[]).expect("restat");
    assert!(load(&space).entries().all(|(_, entry)| entry.mtime == 0));
    let error = load(&space).restat(&mut Stub::of_mtime(None), &[]).expect_err("no answer");
    assert_eq!(error.text, b"failed recompaction: stat(x.o): Permission denied");
    assert_eq!(space.names(), ["log"]);
}

/// Three processes do as they like; what is in the file is what the last writer of each output said.
#[test]
fn any_order_of_writers_gives_the_last_word_to_the_last() {
    for seed in 0..100 {
        let mut random = Seeded(seed);
        let space = Space::new();
        let mut logs = [open(&space), open(&space), open(&space)];
        let mut model = BTreeMap::new();
        for step in 0..60 {
            let log = &mut logs[random.below(3)];
            let output = format!("dir/o{}", random.below(7)).into_bytes();
            match random.below(8) {
                0 => *log = open(&space),
                1 => log.close().expect("close"),
                2 if !model.is_empty() => {
                    log.recompact(&mut |dead| dead == output.as_slice()).expect("recompact");
                    if log.was_found() {
                        model.remove(&output);
                    }
                }
                _ => {
                    log.record([output.as_slice()], entry(step)).expect("record");
                    model.insert(output, entry(step));
                }
            }
        }
        let log = load(&space);
        let found: BTreeMap<_, _> = log.entries().map(|(output, entry)| (output.to_vec(), *entry)).collect();
        assert_eq!(found, model, "seed {seed}");
    }
}

/// Each thread has a log of its own, as a process would; some rewrite it under the others.
#[test]
fn writers_at_the_same_time_lose_nothing() {
    let space = Space::new();
    let write = |writer: u64| {
        for round in 0..50 {
            let mut log = open(&space);
            let output = format!("{writer}/{round}");
            log.record([output.as_bytes()], entry(writer)).expect("record");
            if writer == 0 && round % 10 == 0 {
                load(&space).recompact(&mut |_| false).expect("recompact");
            }
            log.record([output.as_bytes(), b"all"], entry(writer + 1)).expect("record");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || write(writer));
        }
    });
    let log = load(&space);
    assert_eq!(log.entries().len(), 4 * 50 + 1);
    for (writer, round) in (0..4).flat_map(|writer| (0..50).map(move |round| (writer, round))) {
        let output = format!("{writer}/{round}");
        assert_eq!(log.lookup(output.as_bytes()), Some(&entry(writer + 1)));
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let space = Space::new();
    std::fs::create_dir(space.0.at("log")).expect("mkdir");
    let error = BuildLog::load(&space.log(), 7).map(|_| ()).expect_err("a directory");
    let expected = [b"loading build log ".as_slice(), &space.log(), b": Is a directory"].concat();
    assert_eq!(error.text, expected);
}
