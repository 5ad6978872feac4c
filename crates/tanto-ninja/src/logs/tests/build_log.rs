//! Tests of the build log.

use std::collections::BTreeMap;

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::Graph;
use crate::logs::file::faults::limit_writes;
use crate::logs::{BuildLog, Entry};

use super::{LogDir, Seeded, Stub, graph_with, text};

/// Written by ninja 1.13.2.
const V7: &[u8] = b"# ninja log v7\n\
    0\t5\t1795170371520202006\tx.o\t7dbf1f2e3cf613e2\n\
    0\t5\t1795170371520202006\ty1.o\t7dbf1f2e3cf613e2\n\
    5\t8\t1795170371529525333\tq\t5b21a2d1ed6bf0c2\n";

/// Written by ninja 1.11.1 for the same manifest.
const V5: &[u8] = b"# ninja log v5\n\
    0\t3\t1700000001000000000\tx.o\tfeaa10e3257d1294\n\
    0\t3\t1700000001000000000\ty1.o\tfeaa10e3257d1294\n\
    3\t6\t1700000000000000000\tq\t319a3f76d38582ba\n";

const Q_COMMAND: &[u8] = b"touch -d @1700000000 q && printf 'q: a.h sub/bb.h\\n' > q.d";

fn entry(number: u64) -> Entry {
    Entry { command_hash: number, start_ms: 1, end_ms: 2, mtime: 3 }
}

/// A log with the graph of its process.
struct Process {
    graph: Graph<'static>,
    log: BuildLog,
}

impl Process {
    /// Some outputs are nodes before the log is loaded, others become nodes later.
    fn load(space: &LogDir, new_version: u32) -> (Process, Option<String>) {
        let graph = graph_with(&["x.o", "a", "c", "o1", "o4", "dir/o1", "dir/o2", "0/7", "all"]);
        let (log, warning) = BuildLog::load(&space.log(), new_version, &graph, ThreadLimit::ONE).expect("a log");
        (Process { graph, log }, text(warning))
    }

    fn lookup(&mut self, output: &[u8]) -> Option<Entry> {
        let node = self.graph.intern(output);
        self.log.lookup(&self.graph, node)
    }

    fn entries(&self) -> Vec<(&[u8], Entry)> {
        self.log.entries(&self.graph).collect()
    }

    fn outputs(&self) -> Vec<String> {
        self.entries().iter().map(|(output, _)| String::from_utf8_lossy(output).into_owned()).collect()
    }

    fn open(&mut self, is_obsolete: impl Fn(&[u8]) -> bool) -> Result<()> {
        self.log.open(&self.graph, &mut |output| is_obsolete(output))
    }

    fn record(&mut self, outputs: &[&str], entry: Entry) -> Result<()> {
        self.log.record(&self.graph, outputs.iter().map(|output| output.as_bytes()), entry)
    }

    fn recompact(&mut self, is_obsolete: impl Fn(&[u8]) -> bool) -> Result<()> {
        self.log.recompact(&self.graph, &mut |output| is_obsolete(output))
    }

    fn restat(&mut self, mtime: Option<Mtime>, outputs: &[&[u8]]) -> Result<()> {
        self.log.restat(&self.graph, &mut Stub::of_mtime(mtime), outputs)
    }

    fn close(&mut self) -> Result<()> {
        self.log.close(&self.graph)
    }
}

fn load(space: &LogDir) -> Process {
    let (log, warning) = Process::load(space, 7);
    assert_eq!(warning, None);
    log
}

fn open(space: &LogDir) -> Process {
    let mut log = load(space);
    log.open(|_| false).expect("open");
    log
}

#[test]
fn logs_of_ninja_are_read_and_rewritten() {
    for (golden, version) in [(V7, 7), (V5, 5)] {
        let space = LogDir::new();
        space.write(golden);
        let mut theirs = load(&space);
        assert_eq!(theirs.log.version(), version);
        assert_eq!(theirs.log.records_output_mtime(), version == 5);
        assert_eq!(theirs.log.hash_command(Q_COMMAND), theirs.lookup(b"q").expect("q").command_hash);

        let new = LogDir::new();
        let (mut ours, _) = Process::load(&new, version);
        ours.open(|_| false).expect("open");
        let mut of = |output: &[u8]| theirs.lookup(output).expect("entry");
        ours.record(&["x.o", "y1.o"], of(b"x.o")).expect("record");
        ours.record(&["q"], of(b"q")).expect("record");
        assert_eq!(new.bytes().as_deref(), Some(golden));
        assert_eq!(ours.entries(), theirs.entries());
    }
}

#[test]
fn supported_versions_are_kept_and_others_start_over() {
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
        let space = LogDir::new();
        space.write(bytes);
        let (mut log, warned) = Process::load(&space, new);
        assert_eq!(warned.as_deref(), warning);
        assert_eq!(space.bytes().as_deref(), Some(bytes), "loading writes nothing");
        assert_eq!((log.log.version(), log.log.was_found()), (version, warning.is_none()));
        log.open(|_| false).expect("open");
        assert_eq!(space.bytes().is_some(), warning.is_none(), "a log that cannot be read goes at once");
        log.record(&["new"], entry(1)).expect("record");
        let head = format!("# ninja log v{version}\n").into_bytes();
        assert!(space.bytes().expect("a log").starts_with(&head));
        assert_eq!(load(&space).lookup(b"new"), Some(entry(1)));
    }
}

#[test]
fn first_record_creates_the_file() {
    let space = LogDir::new();
    let mut log = open(&space);
    assert_eq!(space.names(), [""; 0]);
    log.record(&["a"], entry(1)).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n1\t2\t3\ta\t1\n".as_slice()));
}

#[test]
fn close_creates_the_file() {
    let space = LogDir::new();
    let mut log = load(&space);
    log.close().expect("close");
    assert_eq!(space.names(), [""; 0], "not one that may not be written");
    log.open(|_| false).expect("open");
    log.close().expect("close");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n".as_slice()));
    log.record(&["a"], entry(1)).expect("record");
    assert_eq!(space.bytes().as_deref(), Some(b"# ninja log v7\n1\t2\t3\ta\t1\n".as_slice()));
}

#[test]
fn unopened_log_is_not_written() {
    let space = LogDir::new();
    space.write(V7);
    let mut log = load(&space);
    log.record(&["q", "new"], entry(9)).expect("record");
    assert_eq!(log.lookup(b"q"), Some(entry(9)));
    assert_eq!(log.lookup(b"new"), Some(entry(9)));
    assert_eq!(space.bytes().as_deref(), Some(V7));
    assert_eq!(space.names(), ["log"]);
}

#[test]
fn truncated_log_keeps_its_complete_lines() {
    let all = LogDir::new();
    all.write(V7);
    let all = load(&all);
    for length in 0..V7.len() {
        let space = LogDir::new();
        space.write(&V7[..length]);
        let (mut log, warning) = Process::load(&space, 7);
        // Up to the digit of the version, the header is invalid.
        assert_eq!(warning.is_some(), (1..14).contains(&length), "{length}");
        let lines = V7[..length].iter().filter(|&&byte| byte == b'\n').count();
        let expected: Vec<_> = all.entries().into_iter().take(lines.saturating_sub(1)).collect();
        assert_eq!(log.entries(), expected, "{length}");

        log.open(|_| false).expect("open");
        log.record(&["new"], entry(1)).expect("record");
        let mut again = load(&space);
        assert_eq!(again.entries().len(), expected.len() + 1, "{length}");
        assert_eq!(again.lookup(b"new"), Some(entry(1)), "{length}");
    }
}

#[test]
fn flipped_bit_affects_only_its_line() {
    let starts: Vec<usize> = [0].into_iter().chain(memchr::memchr_iter(b'\n', V7).map(|end| end + 1)).collect();
    for bit in 0..V7.len() * 8 {
        let space = LogDir::new();
        let mut bytes = V7.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        space.write(&bytes);
        let (mut log, _) = Process::load(&space, 7);
        let line = starts.iter().rposition(|&start| start <= bit / 8).expect("a line");
        let joined = V7[bit / 8] == b'\n';
        for (number, output) in [b"x.o".as_slice(), b"y1.o", b"q"].iter().enumerate() {
            let harmed = line == 0 || number + 1 == line || (joined && number == line);
            assert!(harmed || log.lookup(output).is_some(), "bit {bit}");
        }
        log.open(|_| false).expect("open");
        log.record(&["new"], entry(1)).expect("record");
        assert_eq!(load(&space).lookup(b"new"), Some(entry(1)), "bit {bit}");
    }
}

#[test]
fn random_bytes_do_not_panic() {
    for seed in 0..200 {
        let mut random = Seeded(seed);
        let space = LogDir::new();
        let mut bytes = b"# ninja log v7\n".to_vec();
        bytes.extend((0..random.below(300)).map(|_| b"\n\t09afx-\0\xff"[random.below(10)]));
        space.write(&bytes);
        open(&space).record(&["new"], entry(1)).expect("record");
        assert_eq!(load(&space).lookup(b"new"), Some(entry(1)), "seed {seed}");
    }
}

#[test]
fn writers_read_appended_records() {
    let space = LogDir::new();
    let (mut one, mut two) = (open(&space), open(&space));
    one.record(&["a"], entry(1)).expect("record");
    two.record(&["b"], entry(2)).expect("record");
    one.record(&["c", "b"], entry(3)).expect("record");
    assert_eq!(one.lookup(b"b"), Some(entry(3)));
    assert_eq!(two.lookup(b"a"), Some(entry(1)));
    two.record(&["d"], entry(4)).expect("record");
    assert_eq!(two.lookup(b"b"), Some(entry(3)));
    assert_eq!(load(&space).entries(), two.entries());
    assert_eq!(two.outputs(), ["a", "b", "c", "d"]);
}

#[test]
fn record_is_written_to_a_replaced_file() {
    let space = LogDir::new();
    space.write(V7);
    let mut log = open(&space);
    log.record(&["a"], entry(1)).expect("record");
    space.replace(b"# ninja log v7\n1\t2\t3\tb\t4\n");
    log.record(&["c"], entry(2)).expect("record");
    assert_eq!(log.outputs(), ["b", "c"]);
    // Another version is kept.
    space.replace(V5);
    log.record(&["c"], entry(2)).expect("record");
    assert_eq!((log.log.version(), load(&space).log.version()), (5, 5));
    assert_eq!(load(&space).outputs(), ["x.o", "y1.o", "q", "c"]);
    // Not a log: starts over.
    space.replace(b"rubbish that is longer than a header");
    log.record(&["d"], entry(2)).expect("record");
    assert_eq!(load(&space).outputs(), ["d"]);
    std::fs::remove_file(space.0.at("log")).expect("remove");
    log.record(&["e"], entry(2)).expect("record");
    assert_eq!(load(&space).outputs(), ["e"]);
    // Truncated in place.
    space.write(b"# ninja log v7\n");
    log.record(&["f"], entry(2)).expect("record");
    assert_eq!(load(&space).outputs(), ["f"]);
}

#[test]
fn rewriting_and_appending_processes_lose_nothing() {
    let space = LogDir::new();
    space.write(V7);
    let mut appends = open(&space);
    appends.record(&["a"], entry(1)).expect("record");
    let mut rewrites = load(&space);
    appends.record(&["b"], entry(2)).expect("record");
    rewrites.recompact(|output| output == b"q").expect("recompact");
    appends.record(&["c"], entry(3)).expect("record");
    assert_eq!(load(&space).outputs(), ["x.o", "y1.o", "a", "b", "c"]);
}

#[test]
fn log_with_only_a_header_is_adopted() {
    let space = LogDir::new();
    let mut writes = open(&space);
    // The file while its first bytes are being written.
    space.write(b"# nin");
    let (mut log, _) = Process::load(&space, 7);
    writes.record(&["a"], entry(1)).expect("record");
    log.open(|_| false).expect("open");
    assert_eq!(load(&space).outputs(), ["a"]);
}

#[test]
fn full_disk_is_reported_and_leaves_complete_lines() {
    let mut space = LogDir::new();
    let line = b"1\t2\t3\tnew\t1\n".len();
    for room in 0..line {
        space.write(V7);
        let mut log = open(&space);
        limit_writes(Some(room));
        let error = log.record(&["new"], entry(1)).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text().starts_with(b"Error writing to build log: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(V7));
        assert_eq!(log.lookup(b"new"), None);
        log.record(&["new"], entry(1)).expect("there is room again");
        assert_eq!(load(&space).lookup(b"new"), Some(entry(1)));
        space = LogDir::new();
    }
}

#[test]
fn queued_entries_are_written_by_flush() {
    let space = LogDir::new();
    let mut log = open(&space);
    let note = |log: &mut Process, outputs: &[&'static str], number| {
        log.log.note(outputs.iter().map(|output| output.as_bytes()), entry(number));
    };
    note(&mut log, &["a", "b"], 1);
    note(&mut log, &["c"], 2);
    assert_eq!((space.bytes(), log.lookup(b"a")), (None, None));
    limit_writes(Some(30));
    log.log.flush(&log.graph).expect_err("a full disk");
    limit_writes(None);
    assert_eq!(space.bytes().as_deref(), Some(b"".as_slice()));
    note(&mut log, &["d"], 3);
    log.log.flush(&log.graph).expect("there is room again");
    for log in [&mut load(&space), &mut log] {
        let found = [b"a", b"b", b"c", b"d"].map(|output| log.lookup(output));
        assert_eq!(found, [1, 1, 2, 3].map(|number| Some(entry(number))));
    }
    let written = space.bytes();
    log.log.flush(&log.graph).expect("nothing to do");
    assert_eq!(space.bytes(), written);
}

#[test]
fn full_device_is_reported() {
    let space = LogDir::new();
    let mut log = open(&space);
    std::os::unix::fs::symlink("/dev/full", space.0.at("log")).expect("link");
    let error = log.record(&["a"], entry(1)).expect_err("a full device");
    assert_eq!(error.to_string(), "Error writing to build log: No space left on device");
}

#[test]
fn failed_recompaction_keeps_the_old_log() {
    let space = LogDir::new();
    space.write(V7);
    for room in 0..V7.len() {
        let mut log = load(&space);
        limit_writes(Some(room));
        let error = log.recompact(|_| false).expect_err("a full disk");
        limit_writes(None);
        assert!(error.text().starts_with(b"failed recompaction: "), "{error}");
        assert_eq!(space.bytes().as_deref(), Some(V7));
        assert_eq!(space.names(), ["log"]);
    }
}

#[test]
fn log_with_mostly_superseded_records_is_recompacted() {
    for (rounds, outputs, shrinks) in [(34, 3, true), (33, 3, false), (3, 50, false), (4, 50, true)] {
        let space = LogDir::new();
        let mut log = open(&space);
        for round in 0..rounds {
            let names: Vec<String> = (0..outputs).map(|n| format!("o{n}")).collect();
            log.record(&names.iter().map(String::as_str).collect::<Vec<_>>(), entry(round)).expect("record");
        }
        let before = space.bytes().expect("a log").len();
        assert_eq!(outputs, load(&space).entries().len());
        let mut log = load(&space);
        log.open(|output| output == b"o1").expect("open");
        let after = space.bytes().expect("a log").len();
        assert_eq!(after < before, shrinks, "{rounds} rounds of {outputs}");
        assert_eq!(log.lookup(b"o1").is_none(), shrinks);
        assert_eq!(load(&space).entries().len(), outputs - usize::from(shrinks));
        assert_eq!(space.names(), ["log"]);
    }
}

#[test]
fn tools_do_nothing_without_a_log() {
    let space = LogDir::new();
    let mut log = load(&space);
    log.recompact(|_| false).expect("recompact");
    log.restat(Some(5), &[]).expect("restat");
    assert_eq!(space.names(), [""; 0]);
    space.write(b"# ninja log v99\n");
    let (mut log, _) = Process::load(&space, 7);
    log.recompact(|_| false).expect("recompact");
    assert_eq!(space.names(), [""; 0]);
}

#[test]
fn restat_stores_the_files_mtimes() {
    let space = LogDir::new();
    space.write(V5);
    load(&space).restat(Some(55), &[b"q", b"unknown"]).expect("restat");
    let mut log = load(&space);
    assert_eq!(log.log.version(), 5);
    assert_eq!(log.lookup(b"q").map(|entry| (entry.mtime, entry.end_ms)), Some((55, 6)));
    assert_eq!(log.lookup(b"x.o").map(|entry| entry.mtime), Some(1_700_000_001_000_000_000));
    load(&space).restat(Some(0), &[]).expect("restat");
    assert!(load(&space).entries().iter().all(|(_, entry)| entry.mtime == 0));
    let error = load(&space).restat(None, &[]).expect_err("no answer");
    assert_eq!(error.to_string(), "failed recompaction: stat(x.o): Permission denied");
    assert_eq!(space.names(), ["log"]);
}

/// Three processes write in random order; for each output, the last entry counts.
#[test]
fn last_writer_wins_in_any_order() {
    for seed in 0..100 {
        let mut random = Seeded(seed);
        let space = LogDir::new();
        let mut logs = [open(&space), open(&space), open(&space)];
        let mut model = BTreeMap::new();
        for step in 0..60 {
            let log = &mut logs[random.below(3)];
            let output = format!("dir/o{}", random.below(7));
            match random.below(8) {
                0 => *log = open(&space),
                1 => log.close().expect("close"),
                2 if !model.is_empty() => {
                    log.recompact(|dead| dead == output.as_bytes()).expect("recompact");
                    if log.log.was_found() {
                        model.remove(&output);
                    }
                }
                _ => {
                    log.record(&[&output], entry(step)).expect("record");
                    model.insert(output, entry(step));
                }
            }
        }
        let log = load(&space);
        let found: BTreeMap<_, _> = log
            .entries()
            .into_iter()
            .map(|(path, entry)| (String::from_utf8_lossy(path).into_owned(), entry))
            .collect();
        assert_eq!(found, model, "seed {seed}");
    }
}

/// Each thread has its own log, like a process; some rewrite it concurrently.
#[test]
fn concurrent_writers_lose_nothing() {
    let space = LogDir::new();
    let write = |writer: u64| {
        for round in 0..50 {
            let mut log = open(&space);
            let output = format!("{writer}/{round}");
            log.record(&[&output], entry(writer)).expect("record");
            if writer == 0 && round % 10 == 0 {
                load(&space).recompact(|_| false).expect("recompact");
            }
            log.record(&[&output, "all"], entry(writer + 1)).expect("record");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || write(writer));
        }
    });
    let mut log = load(&space);
    assert_eq!(log.entries().len(), 4 * 50 + 1);
    for (writer, round) in (0..4).flat_map(|writer| (0..50).map(move |round| (writer, round))) {
        let output = format!("{writer}/{round}");
        assert_eq!(log.lookup(output.as_bytes()), Some(entry(writer + 1)));
    }
}

#[test]
fn unreadable_log_is_an_error() {
    let space = LogDir::new();
    std::fs::create_dir(space.0.at("log")).expect("mkdir");
    let error =
        BuildLog::load(&space.log(), 7, &graph_with(&[]), ThreadLimit::ONE).map(|_| ()).expect_err("a directory");
    let expected = [b"loading build log ".as_slice(), &space.log(), b": Is a directory; remove or rename it"].concat();
    assert_eq!(error.text(), expected);
}
