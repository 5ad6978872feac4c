//! Tests of the deps log.

use std::collections::BTreeMap;

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::graph::{Arena, Graph};
use crate::ids::NodeId;
use crate::load::{self, LoadOptions};
use crate::logs::file::faults::limit_writes;
use crate::logs::{DepsLog, is_deps_entry_live};

use super::{LogDir, Seeded, Stub, text};

const HEADER: &[u8] = b"# ninjadeps\n\x04\0\0\0";

/// Written by ninja 1.11.1 and 1.13.2.
const GOLDEN: &[u8] = b"# ninjadeps\n\x04\0\0\0\
    \x08\0\0\0x.o\0\xff\xff\xff\xff\
    \x08\0\0\0a.h\0\xfe\xff\xff\xff\
    \x0c\0\0\0sub/bb.h\xfd\xff\xff\xff\
    \x14\0\0\x80\0\0\0\0\0\0\x2a\x36\xfe\x9c\x97\x17\x01\0\0\0\x02\0\0\0\
    \x08\0\0\0y1.o\xfc\xff\xff\xff\
    \x14\0\0\x80\x03\0\0\0\0\xca\xc4\x71\xfe\x9c\x97\x17\x01\0\0\0\x02\0\0\0\
    \x08\0\0\0q\0\0\0\xfb\xff\xff\xff\
    \x14\0\0\x80\x04\0\0\0\0\0\x2a\x36\xfe\x9c\x97\x17\x01\0\0\0\x02\0\0\0";

/// The ends of the golden log's records.
const ENDS: [usize; 9] = [16, 28, 40, 56, 80, 92, 116, 128, 152];

const SECOND: Mtime = 1_000_000_000;

/// A log with the graph of its process.
struct Process<'t> {
    graph: Graph<'t>,
    log: DepsLog,
}

impl<'t> Process<'t> {
    fn load(arena: &'t Arena, space: &LogDir) -> (Self, Option<String>) {
        let mut graph = arena.empty();
        let (log, warning) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
        (Process { graph, log }, text(warning))
    }

    fn open(arena: &'t Arena, space: &LogDir) -> Self {
        let (mut process, _) = Self::load(arena, space);
        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        process
    }

    fn record(&mut self, output: &str, mtime: Mtime, ins: &[&str]) -> crate::error::Result<()> {
        let ins: Vec<NodeId> = ins.iter().map(|path| self.graph.intern(path.as_bytes())).collect();
        let output = self.graph.intern(output.as_bytes());
        self.log.record(&mut self.graph, output, mtime, &ins)
    }

    /// Output, mtime and inputs of each current record, in id order.
    fn all(&self) -> Vec<(String, Mtime, Vec<String>)> {
        let path = |node| String::from_utf8_lossy(self.graph.path(node)).into_owned();
        let known = self.log.nodes().iter().filter_map(|&node| Some((node, self.log.deps(node)?)));
        known.map(|(node, deps)| (path(node), deps.mtime, deps.ins().map(path).collect())).collect()
    }
}

/// The records that a new process reads.
fn reloaded(space: &LogDir) -> Vec<(String, Mtime, Vec<String>)> {
    let arena = Arena::new();
    let (process, warning) = Process::load(&arena, space);
    assert_eq!(warning, None);
    process.all()
}

fn deps(output: &str, mtime: Mtime, ins: &[&str]) -> (String, Mtime, Vec<String>) {
    (output.into(), mtime, ins.iter().map(|&path| path.into()).collect())
}

fn path_record(path: &[u8], id: u32) -> Vec<u8> {
    let mut padded = path.to_vec();
    padded.resize(path.len().next_multiple_of(4), 0);
    [&(padded.len() as u32 + 4).to_le_bytes(), padded.as_slice(), &(!id).to_le_bytes()].concat()
}

fn deps_record(words: &[u32]) -> Vec<u8> {
    let head = (4 * words.len() as u32) | 1 << 31;
    [head].iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

fn graph_of<'t>(arena: &'t Arena, manifest: &'static [u8]) -> Graph<'t> {
    let disk = Stub { mtime: None, content: manifest };
    load::load(arena, &disk, b"build.ninja", LoadOptions::default(), &mut |_| {}).expect("a manifest")
}

#[test]
fn logs_of_ninja_are_read() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(GOLDEN);
    let mut graph = graph_of(&arena, b"build all: phony a.h\n");
    let known = graph.lookup(b"a.h").expect("a node");
    let (log, warning) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
    assert_eq!(text(warning), None);
    let process = Process { graph, log };
    let headers = ["a.h", "sub/bb.h"];
    let expected = [
        deps("x.o", 1_700_000_000 * SECOND, &headers),
        deps("y1.o", 1_700_000_001 * SECOND, &headers),
        deps("q", 1_700_000_000 * SECOND, &headers),
    ];
    assert_eq!(process.all(), expected);
    assert!(!process.graph.is_discovered(known));
    let found = process.graph.lookup(b"sub/bb.h").expect("a node");
    assert!(process.graph.is_discovered(found));
    assert_eq!(process.log.deps(found).map(|deps| deps.mtime), None);
    let reader = process.log.first_reader(known).expect("a reader");
    assert_eq!(process.graph.path(reader), b"x.o");
    assert_eq!(process.log.first_reader(reader), None);
}

#[test]
fn logs_of_ninja_are_rewritten_identically() {
    let (arena, space) = (Arena::new(), LogDir::new());
    let mut process = Process::open(&arena, &space);
    assert_eq!(space.names(), [""; 0], "the file comes with the first record");
    let headers = ["a.h", "sub/bb.h"];
    process.record("x.o", 1_700_000_000 * SECOND, &headers).expect("record");
    process.record("y1.o", 1_700_000_001 * SECOND, &headers).expect("record");
    process.record("q", 1_700_000_000 * SECOND, &headers).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(GOLDEN));
    // An unchanged record is not written again.
    process.record("y1.o", 1_700_000_001 * SECOND, &headers).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(GOLDEN));
    process.record("y1.o", 1_700_000_001 * SECOND, &["sub/bb.h", "a.h"]).expect("record");
    assert_eq!(space.bytes().expect("a log").len(), GOLDEN.len() + 24);
    assert_eq!(process.all(), reloaded(&space));
}

#[test]
fn unusual_records_are_read_back() {
    let (arena, space) = (Arena::new(), LogDir::new());
    let mut process = Process::open(&arena, &space);
    process.record("none", -1, &[]).expect("record");
    process.record("self", Mtime::MIN, &["self", "h", "self", "h"]).expect("record");
    process.record("self", Mtime::MAX, &["h"]).expect("record");
    let expected = [deps("none", -1, &[]), deps("self", Mtime::MAX, &["h"])];
    assert_eq!(process.all(), expected);
    assert_eq!(reloaded(&space), expected);
}

#[test]
fn close_creates_the_file() {
    let (arena, space) = (Arena::new(), LogDir::new());
    let (mut process, _) = Process::load(&arena, &space);
    process.log.close(&mut process.graph).expect("close");
    assert_eq!(space.names(), [""; 0], "not one that may not be written");
    process.log.open(&mut process.graph, &mut |_| false).expect("open");
    process.log.close(&mut process.graph).expect("close");
    assert_eq!(space.bytes().as_deref(), Some(HEADER));
    process.record("a", 1, &["b"]).expect("record");
    assert_eq!(reloaded(&space), [deps("a", 1, &["b"])]);
}

#[test]
fn unopened_log_is_not_written() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(&GOLDEN[..GOLDEN.len() - 1]);
    let (mut process, warning) = Process::load(&arena, &space);
    assert_eq!(warning.as_deref(), Some("premature end of file; recovering"));
    process.record("new", 1, &["a.h"]).expect("record");
    assert_eq!(process.all().last(), Some(&deps("new", 1, &["a.h"])));
    assert_eq!(space.bytes().as_deref(), Some(&GOLDEN[..GOLDEN.len() - 1]));
    assert_eq!(space.names(), ["log"]);
}

#[test]
fn unsupported_file_starts_over() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "bad deps log signature or version; starting over"),
        (b"# ninjadeps\n\x05\0\0\0", "bad deps log signature or version; starting over"),
        (b"# ninjadeps\n\x03\0\0\0", "bad deps log signature or version; starting over"),
        (b"# ninjadeps\n\x04\0\0", "bad deps log signature or version; starting over"),
        (b"# ninjadepz\n\x04\0\0\0 and more", "bad deps log signature or version; starting over"),
        (b"# ninjadeps\n\x01\0\0\0 and more", "deps log version change; rebuilding"),
    ];
    for (bytes, expected) in cases {
        let (arena, space) = (Arena::new(), LogDir::new());
        space.write(bytes);
        let (mut process, warning) = Process::load(&arena, &space);
        assert_eq!(warning.as_deref(), Some(*expected));
        assert_eq!(space.bytes().as_deref(), Some(*bytes), "loading writes nothing");
        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        assert_eq!(space.names(), [""; 0]);
        process.record("a", 1, &["b"]).expect("record");
        assert_eq!(reloaded(&space), [deps("a", 1, &["b"])]);

        space.write(bytes);
        let (mut process, _) = Process::load(&arena, &space);
        process.log.recompact(&mut process.graph, &mut |_| false).expect("recompact");
        assert_eq!(space.names(), [""; 0]);
    }
}

#[test]
fn truncated_log_keeps_its_complete_records() {
    for length in HEADER.len()..GOLDEN.len() {
        let (arena, space) = (Arena::new(), LogDir::new());
        space.write(&GOLDEN[..length]);
        let (mut process, warning) = Process::load(&arena, &space);
        assert_eq!(warning.is_some(), !ENDS.contains(&length), "{length}");
        let sound = *ENDS.iter().rfind(|&&end| end <= length).expect("the header");
        let whole = [80, 116, 152].iter().filter(|&&end| end <= length).count();
        assert_eq!(process.all().len(), whole, "{length}");
        assert_eq!(space.bytes().map(|bytes| bytes.len()), Some(length), "loading writes nothing");

        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        assert_eq!(space.bytes().as_deref(), Some(&GOLDEN[..sound]), "{length}");
        process.record("new", 1, &["a.h", "z"]).expect("record");
        assert_eq!(reloaded(&space), process.all(), "{length}");
        assert_eq!(process.all().len(), whole + 1, "{length}");
    }
}

#[test]
fn flipped_bit_does_not_affect_earlier_records() {
    for bit in 0..GOLDEN.len() * 8 {
        let (arena, space) = (Arena::new(), LogDir::new());
        let mut bytes = GOLDEN.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        space.write(&bytes);
        let (mut process, warning) = Process::load(&arena, &space);
        let whole = if bit / 8 < 16 { 0 } else { [80, 116, 152].iter().filter(|&&end| end <= bit / 8).count() };
        assert!(process.all().len() >= whole, "bit {bit}");
        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        let saved = space.bytes().map_or(0, |bytes| bytes.len());
        assert!(warning.is_some() || saved == GOLDEN.len(), "bit {bit}");
        assert!(saved >= ENDS.iter().rfind(|&&end| end <= bit / 8).copied().unwrap_or(0), "bit {bit}");
        process.record("new", 1, &["a.h", "z"]).expect("record");
        assert_eq!(reloaded(&space), process.all(), "bit {bit}");
        assert!(process.all().contains(&deps("new", 1, &["a.h", "z"])), "bit {bit}");
    }
}

#[test]
fn invalid_record_ends_the_log() {
    let long = path_record(&vec![b'x'; 1 << 19], 5);
    let cases: Vec<Vec<u8>> = vec![
        deps_record(&[5, 0, 0]),        // An output without a path.
        deps_record(&[u32::MAX, 0, 0]), // A negative one.
        deps_record(&[0, 0, 0, 5]),     // An input without a path.
        deps_record(&[0, 0, 0, u32::MAX]),
        deps_record(&[0, 0]), // No whole mtime.
        deps_record(&[]),
        deps_record(&vec![0; 1 << 17]),                                  // Too long.
        [&(13u32 | 1 << 31).to_le_bytes(), [0; 13].as_slice()].concat(), // Not a number of words.
        path_record(b"new", 6),                                          // Somebody else's id.
        path_record(b"new", 0),
        path_record(b"a.h", 5), // A path that has an id.
        path_record(b"", 5),
        path_record(b"\0\0\0", 5),
        path_record(b"a\0b", 5),                           // No file's name.
        [&3u32.to_le_bytes(), b"abc".as_slice()].concat(), // No room for an id.
        0u32.to_le_bytes().to_vec(),
        long,
        u32::MAX.to_le_bytes().to_vec(),
        0x7fff_ffffu32.to_le_bytes().to_vec(),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let (arena, space) = (Arena::new(), LogDir::new());
        // Valid records after it are dropped, since their ids may be wrong.
        let behind = deps_record(&[0, 7, 0]);
        space.write(&[GOLDEN, &case, &behind].concat());
        let (mut process, warning) = Process::load(&arena, &space);
        assert_eq!(warning.as_deref(), Some("premature end of file; recovering"), "case {number}");
        assert_eq!(process.all()[0].1, 1_700_000_000 * SECOND, "case {number}");
        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        assert_eq!(space.bytes().as_deref(), Some(GOLDEN), "case {number}");
        process.record("new", 1, &["z"]).expect("record");
        assert_eq!(reloaded(&space), process.all(), "case {number}");
    }
}

#[test]
fn random_bytes_do_not_panic() {
    for seed in 0..300 {
        let (arena, space) = (Arena::new(), LogDir::new());
        let mut random = Seeded(seed);
        let mut bytes = HEADER.to_vec();
        for _ in 0..random.below(40) {
            match random.below(3) {
                0 => bytes.extend(path_record(&[b'a' + random.below(26) as u8], random.below(6) as u32)),
                1 => bytes.extend(deps_record(&[0, 1, 2, random.below(5) as u32][..random.below(5)])),
                _ => bytes.push(random.below(256) as u8),
            }
        }
        space.write(&bytes);
        let mut process = Process::open(&arena, &space);
        process.record("new", 1, &["a", "z"]).expect("record");
        assert_eq!(reloaded(&space), process.all(), "seed {seed}");
    }
}

#[test]
fn oversized_records_are_refused() {
    let (arena, space) = (Arena::new(), LogDir::new());
    let mut process = Process::open(&arena, &space);
    process.record("a", 1, &["b"]).expect("record");
    let before = space.bytes();
    let too_long = "Error writing to deps log: Numerical result out of range";
    // Ninja's limit is 2^19 - 1 bytes: 131,071 words, three of which are output and mtime.
    assert_eq!(process.record("a", 2, &vec!["c"; 131_069]).expect_err("too many").to_string(), too_long);
    assert_eq!(process.record("a", 2, &[&"x".repeat((1 << 19) - 7)]).expect_err("too long").to_string(), too_long);
    assert_eq!(space.bytes(), before);
    process.record("a", 2, &vec!["c"; 131_068]).expect("just fits");
    process.record("a", 3, &[&"x".repeat((1 << 19) - 8)]).expect("just fits");
    assert_eq!(reloaded(&space), process.all());
}

#[test]
fn writers_read_appended_records() {
    let (arenas, space) = ([Arena::new(), Arena::new()], LogDir::new());
    let mut one = Process::open(&arenas[0], &space);
    let mut two = Process::open(&arenas[1], &space);
    one.record("a", 1, &["h"]).expect("record");
    two.record("b", 2, &["i", "h"]).expect("record");
    one.record("c", 3, &["h", "j"]).expect("record");
    two.record("a", 4, &["j"]).expect("record");
    let expected = [deps("a", 4, &["j"]), deps("b", 2, &["i", "h"]), deps("c", 3, &["h", "j"])];
    assert_eq!(two.all(), expected);
    assert_eq!(reloaded(&space), expected);
}

#[test]
fn record_is_written_to_a_replaced_file() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(GOLDEN);
    let mut process = Process::open(&arena, &space);
    process.record("new", 1, &["a.h"]).expect("record");
    space.replace(&[HEADER, &path_record(b"q", 0), &deps_record(&[0, 5, 0])].concat());
    process.record("new", 2, &["a.h"]).expect("record");
    assert_eq!(process.all(), [deps("q", 5, &[]), deps("new", 2, &["a.h"])]);
    assert_eq!(reloaded(&space), process.all());
    // Not a log: starts over.
    space.replace(b"rubbish that is longer than a header");
    process.record("new", 2, &["a.h"]).expect("record");
    assert_eq!(reloaded(&space), [deps("new", 2, &["a.h"])]);
    std::fs::remove_file(space.0.at("log")).expect("remove");
    process.record("new", 2, &["a.h"]).expect("record");
    assert_eq!(reloaded(&space), [deps("new", 2, &["a.h"])]);
    // Truncated in place.
    space.write(HEADER);
    process.record("new", 2, &["a.h"]).expect("record");
    assert_eq!(reloaded(&space), [deps("new", 2, &["a.h"])]);
    // Another process assigned the same id: its record is dropped.
    let bytes = space.bytes().expect("a log");
    space.write(&[bytes.as_slice(), &path_record(b"theirs", 0)].concat());
    process.record("more", 3, &["theirs"]).expect("record");
    assert_eq!(reloaded(&space), [deps("new", 2, &["a.h"]), deps("more", 3, &["theirs"])]);
}

#[test]
fn log_with_only_a_header_is_adopted() {
    let (arenas, space) = ([Arena::new(), Arena::new()], LogDir::new());
    let mut writes = Process::open(&arenas[0], &space);
    // The file before its first record.
    space.write(b"");
    let mut graph = arenas[1].empty();
    let (mut log, _) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
    writes.record("a", 1, &["h"]).expect("record");
    log.open(&mut graph, &mut |_| false).expect("open");
    assert_eq!(reloaded(&space), [deps("a", 1, &["h"])]);
}

#[test]
fn full_disk_is_reported_and_leaves_complete_records() {
    let written = path_record(b"new", 5).len() + path_record(b"z", 6).len() + deps_record(&[0; 5]).len();
    for room in 0..written {
        let (arena, space) = (Arena::new(), LogDir::new());
        space.write(GOLDEN);
        let mut process = Process::open(&arena, &space);
        let before = process.all();
        limit_writes(Some(room));
        let error = process.record("new", 1, &["a.h", "z"]).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text().starts_with(b"Error writing to deps log: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(GOLDEN));
        assert_eq!(process.all(), before);
        process.record("other", 1, &["z"]).expect("there is room again");
        assert_eq!(reloaded(&space), process.all());
    }
}

#[test]
fn the_last_queued_record_of_an_output_counts() {
    let space = LogDir::new();
    let arena = Arena::new();
    let mut process = Process::open(&arena, &space);
    process.record("x", 1, &["a", "a"]).unwrap();
    let [x, y, a, b] = ["x", "y", "a", "b"].map(|path| process.graph.intern(path.as_bytes()));
    for (output, mtime, ins) in [(x, 2, vec![b]), (y, 3, vec![a, b]), (x, 1, vec![a, a])] {
        process.log.note(output, mtime, ins);
    }
    process.log.flush(&mut process.graph).unwrap();
    let expected = [deps("x", 1, &["a", "a"]), deps("y", 3, &["a", "b"])];
    assert_eq!((process.all(), reloaded(&space)), (expected.to_vec(), expected.to_vec()));
}

#[test]
fn many_queued_records_are_all_written() {
    let space = LogDir::new();
    let arena = Arena::new();
    let mut process = Process::open(&arena, &space);
    let ins: Vec<NodeId> = (0..1000).map(|number| process.graph.intern(format!("h{number}").as_bytes())).collect();
    let outputs: Vec<NodeId> = (0..700).map(|number| process.graph.intern(format!("o{number}").as_bytes())).collect();
    outputs.iter().for_each(|&output| process.log.note(output, 5, ins.clone()));
    process.log.flush(&mut process.graph).unwrap();
    let found = reloaded(&space);
    assert_eq!((found.len(), &found), (700, &process.all()));
    assert!(found.iter().all(|(_, mtime, ins)| *mtime == 5 && ins.len() == 1000));
}

#[test]
fn recompaction_keeps_outputs_of_deps_edges() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(GOLDEN);
    let rules = b"rule cc\n  command = cc\n  deps = $how\nbuild y1.o: cc\n  how = gcc\nbuild x.o: cc\n";
    let mut graph = graph_of(&arena, rules);
    let (log, _) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
    let mut process = Process { graph, log };
    let live = |path: &[u8]| is_deps_entry_live(&process.graph, process.graph.lookup(path).expect("a node"));
    assert!(live(b"y1.o") && !live(b"x.o") && !live(b"q") && !live(b"a.h"));
    process.log.recompact(&mut process.graph, &mut |_| false).expect("recompact");
    let expected = [deps("y1.o", 1_700_000_001 * SECOND, &["a.h", "sub/bb.h"])];
    assert_eq!(process.all(), expected);
    assert_eq!(reloaded(&space), expected);
    assert_eq!(space.names(), ["log"]);
    // Ids are renumbered without gaps.
    process.log.open(&mut process.graph, &mut |_| false).expect("open");
    process.record("z", 1, &["a.h"]).expect("record");
    assert_eq!(reloaded(&space), process.all());
}

#[test]
fn recompaction_keeps_outputs_of_other_manifests_while_they_exist() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(GOLDEN);
    let rules = b"rule cc\n  command = cc\n  deps = $how\nbuild y1.o: cc\n";
    let mut graph = graph_of(&arena, rules);
    let (mut log, _) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
    let mut asked = Vec::new();
    let mut exists = |path: &[u8]| {
        asked.push(path.to_vec());
        path == b"x.o"
    };
    log.recompact(&mut graph, &mut exists).expect("recompact");
    // The edge of y1.o no longer has deps, so its record is dropped although the file may exist.
    let saved: Vec<_> = reloaded(&space).into_iter().map(|(output, ..)| output).collect();
    assert_eq!(saved, ["x.o"]);
    assert!(!asked.contains(&b"y1.o".to_vec()), "{asked:?}");
}

#[test]
fn failed_recompaction_keeps_the_old_log() {
    let (arena, space) = (Arena::new(), LogDir::new());
    space.write(GOLDEN);
    for room in 0..HEADER.len() {
        let (mut process, _) = Process::load(&arena, &space);
        limit_writes(Some(room));
        let error = process.log.recompact(&mut process.graph, &mut |_| false).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text().starts_with(b"failed recompaction: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(GOLDEN));
        assert_eq!(space.names(), ["log"]);
        assert_eq!(reloaded(&space), process.all());
    }
}

#[test]
fn log_with_mostly_superseded_records_is_recompacted() {
    for (rounds, outputs, shrinks) in [(334, 3, true), (333, 3, false), (3, 500, false), (4, 500, true)] {
        let (arena, space) = (Arena::new(), LogDir::new());
        let mut process = Process::open(&arena, &space);
        for round in 1..=rounds {
            for output in 0..outputs {
                process.record(&format!("o{output}"), round, &["h"]).expect("record");
            }
        }
        let before = process.all();
        let mut manifest = String::from("rule cc\n  command = cc\n  deps = gcc\n");
        for output in (0..outputs).filter(|&output| output != 1) {
            manifest += &format!("build o{output}: cc\n");
        }
        let mut graph = graph_of(&arena, manifest.leak().as_bytes());
        let (log, _) = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("load");
        let mut process = Process { graph, log };
        process.log.open(&mut process.graph, &mut |_| false).expect("open");
        let expected: Vec<_> = before.into_iter().filter(|(name, ..)| !shrinks || name != "o1").collect();
        assert_eq!(process.all(), expected, "{rounds} rounds of {outputs}");
        assert_eq!(reloaded(&space), expected);
        assert_eq!(space.names(), ["log"]);
    }
}

#[test]
fn tools_do_nothing_without_a_log() {
    let (arena, space) = (Arena::new(), LogDir::new());
    let (mut process, _) = Process::load(&arena, &space);
    process.log.recompact(&mut process.graph, &mut |_| false).expect("recompact");
    assert_eq!(space.names(), [""; 0]);
}

/// Three processes write in random order; for each output, the last record counts.
#[test]
fn last_writer_wins_in_any_order() {
    for seed in 0..100 {
        let (arena, space) = (Arena::new(), LogDir::new());
        let mut random = Seeded(seed);
        let mut processes = [(); 3].map(|()| Process::open(&arena, &space));
        let mut model = BTreeMap::new();
        for step in 1..60 {
            let process = &mut processes[random.below(3)];
            let output = format!("o{}", random.below(7));
            match random.below(8) {
                0 => *process = Process::open(&arena, &space),
                1 => process.log.close(&mut process.graph).expect("close"),
                _ => {
                    let ins: Vec<String> = (0..random.below(5)).map(|_| format!("h{}", random.below(9))).collect();
                    let refs: Vec<&str> = ins.iter().map(String::as_str).collect();
                    process.record(&output, step, &refs).expect("record");
                    model.insert(output, (step, ins));
                }
            }
        }
        let found: BTreeMap<_, _> = reloaded(&space).into_iter().map(|(o, mtime, ins)| (o, (mtime, ins))).collect();
        assert_eq!(found, model, "seed {seed}");
    }
}

/// Each thread has its own log and graph, like a process.
#[test]
fn concurrent_writers_lose_nothing() {
    let space = LogDir::new();
    let write = |writer: i64| {
        let arena = Arena::new();
        let mut process = Process::open(&arena, &space);
        for round in 0..50 {
            process.record(&format!("{writer}/{round}"), writer, &["h", &format!("{round}.h")]).expect("record");
            process.record("all", writer * 50 + round, &["h"]).expect("record");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || write(writer));
        }
    });
    let all = reloaded(&space);
    assert_eq!(all.len(), 4 * 50 + 1);
    for (writer, round) in (0..4).flat_map(|writer| (0..50).map(move |round| (writer, round))) {
        let header = format!("{round}.h");
        assert!(all.contains(&deps(&format!("{writer}/{round}"), writer, &["h", &header])));
    }
}
