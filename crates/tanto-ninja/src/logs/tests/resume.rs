//! Tests of resuming from a saved index: the result must equal a full load.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;

use tanto_sys::threads::ThreadLimit;

use crate::disk::Mtime;
use crate::graph::Graph;
use crate::ids::NodeId;
use crate::logs::deps_log_format::{write_deps, write_path};
use crate::logs::{BuildLog, DepsLog, Entry, LoggedCommand};

use super::{LogDir, Seeded, graph_with};

fn name(number: usize) -> String {
    format!("out/{}/{number}.o", number % 7)
}

struct Process<L> {
    graph: Graph<'static>,
    log: L,
}

/// The operations common to both logs.
trait Log: Sized {
    fn load(space: &LogDir, graph: &mut Graph<'_>) -> Self;
    fn open(&mut self, graph: &mut Graph<'_>);
    fn record(&mut self, graph: &mut Graph<'_>, random: &mut Seeded);
    /// Resumes in a graph with these old node numbers.
    fn resume(&self, space: &LogDir, numbers: &[NodeId], new: &mut Graph<'_>) -> Option<Self>;
    /// All entries.
    fn known(&self, graph: &Graph<'_>) -> Vec<String>;
    /// Random bytes to append to a log.
    fn more(&self, random: &mut Seeded) -> Vec<u8>;
}

impl Log for BuildLog {
    fn load(space: &LogDir, graph: &mut Graph<'_>) -> Self {
        BuildLog::load(&space.log(), 7, graph, ThreadLimit::ONE).expect("a log").0
    }

    fn open(&mut self, graph: &mut Graph<'_>) {
        self.open(graph, &mut |_| false).expect("open");
    }

    fn record(&mut self, graph: &mut Graph<'_>, random: &mut Seeded) {
        let entry = Entry { command_hash: random.below(99) as u64, start_ms: 1, end_ms: 2, mtime: 3 };
        let outputs: Vec<String> = (0..1 + random.below(3)).map(|_| name(random.below(60))).collect();
        self.record(graph, outputs.iter().map(|output| output.as_bytes()), entry).expect("record");
    }

    fn resume(&self, space: &LogDir, numbers: &[NodeId], new: &mut Graph<'_>) -> Option<Self> {
        let parts = self.state()?.parts(numbers, new.node_count(), 1 + new.node_count() % 3)?;
        BuildLog::resume(&space.log(), parts, new, ThreadLimit::ONE)
    }

    fn known(&self, graph: &Graph<'_>) -> Vec<String> {
        let nodes = graph.node_ids().filter_map(|node| Some((graph.path(node), self.lookup(graph, node)?)));
        let mut known: Vec<_> = self.entries(graph).chain(nodes).map(|found| format!("{found:?}")).collect();
        known.sort();
        known.push(format!("version {}", self.version()));
        known
    }

    fn more(&self, random: &mut Seeded) -> Vec<u8> {
        let line = format!("1\t2\t3\t{}\tabc\n7\t7\t7", name(random.below(70)));
        line.as_bytes()[..random.below(line.len() + 1)].to_vec()
    }
}

impl Log for DepsLog {
    fn load(space: &LogDir, graph: &mut Graph<'_>) -> Self {
        DepsLog::load(&space.log(), graph, ThreadLimit::ONE).expect("a log").0
    }

    fn open(&mut self, graph: &mut Graph<'_>) {
        self.open(graph, &mut |_| false).expect("open");
    }

    fn record(&mut self, graph: &mut Graph<'_>, random: &mut Seeded) {
        let ins: Vec<NodeId> = (0..random.below(5)).map(|_| graph.intern(name(random.below(60)).as_bytes())).collect();
        let output = graph.intern(name(random.below(60)).as_bytes());
        self.record(graph, output, random.below(9) as Mtime, &ins).expect("record");
    }

    fn resume(&self, space: &LogDir, numbers: &[NodeId], new: &mut Graph<'_>) -> Option<Self> {
        let parts = self.state()?.parts(numbers, new.node_count())?;
        DepsLog::resume(&space.log(), parts, new, ThreadLimit::ONE).map(|(log, _)| log)
    }

    fn known(&self, graph: &Graph<'_>) -> Vec<String> {
        let path = |node| String::from_utf8_lossy(graph.path(node)).into_owned();
        let deps = |node| self.deps(node).map(|deps| (deps.mtime, deps.ins().map(path).collect::<Vec<_>>()));
        self.nodes().iter().map(|&node| format!("{} {:?}", path(node), deps(node))).collect()
    }

    fn more(&self, random: &mut Seeded) -> Vec<u8> {
        let (mut bytes, id) = (Vec::new(), self.nodes().len() as u32 + random.below(20) as u32 / 19);
        write_path(&mut bytes, name(random.below(70)).as_bytes(), id);
        write_deps(&mut bytes, id, 5, [0, random.below(20) as u32].into_iter());
        bytes.truncate(random.below(bytes.len() + 1));
        bytes
    }
}

/// The same nodes in another order, with the old number of each.
fn renumbered(old: &Graph<'_>, random: &mut Seeded) -> (Graph<'static>, Vec<NodeId>) {
    let mut order: Vec<NodeId> = old.node_ids().collect();
    (1..order.len()).for_each(|at| order.swap(at, random.below(at + 1)));
    let mut new = graph_with(&[]);
    let mut numbers = vec![NodeId(0); old.node_count()];
    for node in order {
        numbers[node.index()] = new.intern(old.path(node));
    }
    (new, numbers)
}

/// Changes the file between processes. Returns whether it still begins with the same bytes.
fn meddle<L: Log>(space: &LogDir, log: &L, random: &mut Seeded) -> bool {
    let bytes = space.bytes().expect("a log");
    let file = || OpenOptions::new().append(true).open(space.0.at("log")).expect("open");
    match random.below(8) {
        0 => true,
        1 | 2 => {
            file().write_all(&log.more(random)).expect("write");
            true
        }
        3 | 4 => {
            let mut graph = graph_with(&[&name(1), "other"]);
            let mut log = L::load(space, &mut graph);
            log.open(&mut graph);
            (0..random.below(5)).for_each(|_| log.record(&mut graph, random));
            // It may have been rewritten.
            space.bytes().is_some_and(|now| now.starts_with(&bytes))
        }
        5 => {
            space.replace(&bytes);
            false
        }
        6 => {
            let length = random.below(bytes.len());
            file().set_len(length as u64).expect("cut");
            file().write_all(&vec![b'\n'; random.below(2 * (bytes.len() - length))]).expect("write");
            space.bytes().is_some_and(|now| now.starts_with(&bytes))
        }
        _ => {
            let at = bytes.len() - 1 - random.below(bytes.len().min(4096));
            let file = OpenOptions::new().write(true).open(space.0.at("log")).expect("open");
            file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("write");
            false
        }
    }
}

fn assert_resume_equals_load<L: Log>() {
    let mut resumed = [0, 0];
    for seed in 0..200 {
        let mut random = Seeded(seed);
        let space = LogDir::new();
        let mut graph = graph_with(&[&name(1), &name(2), &name(8), &name(30)]);
        let mut process = Process { log: L::load(&space, &mut graph), graph };
        process.log.open(&mut process.graph);
        (0..=random.below(200)).for_each(|_| process.log.record(&mut process.graph, &mut random));
        if random.below(2) == 0 {
            process.log = L::load(&space, &mut process.graph);
        }

        let begins_as_it_did = meddle(&space, &process.log, &mut random);
        let (mut graph, numbers) = renumbered(&process.graph, &mut random);
        let log = process.log.resume(&space, &numbers, &mut graph);
        assert_eq!(log.is_some(), begins_as_it_did, "seed {seed}");
        resumed[usize::from(begins_as_it_did)] += 1;
        let Some(mut log) = log else { continue };

        let twin = LogDir::new();
        twin.write(&space.bytes().expect("a log"));
        let (mut other_graph, _) = renumbered(&process.graph, &mut random);
        let mut other = L::load(&twin, &mut other_graph);
        assert_eq!(log.known(&graph), other.known(&other_graph), "seed {seed}");
        // Compares again after writing to both, which may trigger a recompaction.
        for (log, graph) in [(&mut log, &mut graph), (&mut other, &mut other_graph)] {
            log.open(graph);
            let mut random = Seeded(seed);
            (0..random.below(9)).for_each(|_| log.record(graph, &mut random));
        }
        assert_eq!(log.known(&graph), other.known(&other_graph), "seed {seed}");
        assert_eq!(space.bytes(), twin.bytes(), "seed {seed}");
    }
    assert!(resumed.iter().all(|&count| count > 30), "{resumed:?}");
}

#[test]
fn resumed_build_log_equals_loaded() {
    assert_resume_equals_load::<BuildLog>();
}

#[test]
fn resumed_deps_log_equals_loaded() {
    assert_resume_equals_load::<DepsLog>();
}

/// Numbers, most of them too large.
fn garbage(random: &mut Seeded) -> Vec<u64> {
    (0..random.below(12))
        .map(|_| [random.below(12) as u64, random.below(300) as u64, u64::MAX][random.below(3)])
        .collect()
}

#[test]
fn random_saved_index_does_not_panic() {
    for seed in 0..100 {
        let (mut random, build, deps) = (Seeded(seed), LogDir::new(), LogDir::new());
        let mut graph = graph_with(&[]);
        let mut log = <BuildLog as Log>::load(&build, &mut graph);
        Log::open(&mut log, &mut graph);
        let mut deps_log = <DepsLog as Log>::load(&deps, &mut graph);
        Log::open(&mut deps_log, &mut graph);
        for _ in 0..4 {
            Log::record(&mut log, &mut graph, &mut random);
            Log::record(&mut deps_log, &mut graph, &mut random);
        }
        let numbers: Vec<NodeId> = graph.node_ids().collect();

        let mut parts = log.state().and_then(|log| log.parts(&numbers, numbers.len(), 1)).expect("parts");
        (parts.last, parts.unindexed) = (garbage(&mut random).into(), garbage(&mut random).into());
        parts.logged = vec![LoggedCommand::UNKNOWN; random.below(12)].into();
        if let Some(mut log) = BuildLog::resume(&build.log(), parts, &graph, ThreadLimit::ONE) {
            log.known(&graph);
            Log::open(&mut log, &mut graph);
            Log::record(&mut log, &mut graph, &mut random);
        }
        let mut parts = deps_log.state().and_then(|log| log.parts(&numbers, numbers.len())).expect("parts");
        let words = |random: &mut Seeded| garbage(random).into_iter().map(|word| word as u32).collect::<Vec<_>>();
        (parts.ids, parts.deps) = (words(&mut random).into(), garbage(&mut random).into());
        if random.below(2) == 0 {
            parts.nodes = words(&mut random).into_iter().map(NodeId).collect::<Vec<_>>().into();
        }
        if let Some((mut log, _)) = DepsLog::resume(&deps.log(), parts, &mut graph, ThreadLimit::ONE) {
            log.known(&graph);
            Log::open(&mut log, &mut graph);
            Log::record(&mut log, &mut graph, &mut random);
        }
    }
}

#[test]
fn log_without_a_file_is_not_saved() {
    let space = LogDir::new();
    let mut graph = graph_with(&["a"]);
    for content in [None, Some(b"".as_slice()), Some(b"rubbish"), Some(b"# ninja log v4\n")] {
        content.iter().for_each(|content| space.write(content));
        let (build, deps) = (<BuildLog as Log>::load(&space, &mut graph), <DepsLog as Log>::load(&space, &mut graph));
        assert!(build.state().is_none() && deps.state().is_none(), "{content:?}");
    }
    assert!(BuildLog::in_memory(7).state().is_none());
}

#[test]
fn mismatched_saved_index_is_refused() {
    let space = LogDir::new();
    space.write(b"# ninja log v7\n1\t2\t3\ta\t4\n");
    let graph = graph_with(&["a"]);
    let log = BuildLog::load(&space.log(), 7, &graph, ThreadLimit::ONE).expect("a log").0;
    let resume = |word: usize, value: u64, nodes: usize| {
        let mut parts = log.state().expect("a log").parts(&[NodeId(0)], nodes, 1).expect("parts");
        parts.header[word] = value;
        BuildLog::resume(&space.log(), parts, &graph, ThreadLimit::ONE)
    };
    assert!(resume(0, 7, 1).is_some());
    assert!(resume(0, 4, 1).is_none() && resume(1, u64::MAX, 1).is_none() && resume(0, 7, 2).is_none());
    assert!((2..8).all(|word| resume(word, u64::MAX, 1).is_none()));

    let mut graph = graph_with(&["a"]);
    std::fs::remove_file(space.0.at("log")).expect("remove");
    let mut log = DepsLog::load(&space.log(), &mut graph, ThreadLimit::ONE).expect("a log").0;
    log.open(&mut graph, &mut |_| false).expect("open");
    log.record(&mut graph, NodeId(0), 1, &[NodeId(0)]).expect("record");
    let seen = log.state().expect("a log");
    assert!(seen.parts(&[NodeId(1)], 1).is_none() && seen.parts(&[], 1).is_none());
    let parts = || seen.parts(&[NodeId(0)], 1).expect("parts");
    let mut empty = graph_with(&[]);
    assert!(DepsLog::resume(&space.log(), parts(), &mut empty, ThreadLimit::ONE).is_none());
    for word in 0..7 {
        let mut parts = parts();
        parts.header[word] = u64::MAX;
        assert!(DepsLog::resume(&space.log(), parts, &mut graph, ThreadLimit::ONE).is_none());
    }
}
