//! Logs in snapshots: resuming from them gives the same result as loading the whole logs.

use std::fs;
use std::io::Write;

use tanto_sys::threads::ThreadLimit;
use tanto_testing::{Random, Scratch};

use super::equality::all_of;
use super::{map_data, random, snapshot_bytes_with};
use crate::graph::{Arena, Graph};
use crate::ids::NodeId;
use crate::logs::{BuildLog, DepsLog, Entry};
use crate::snapshot::logs::LogState;

const EDGES: usize = 30;

/// A build directory with two logs.
pub(super) struct Dir(Scratch);

impl Dir {
    fn new() -> Dir {
        Dir(Scratch::new("kept-logs"))
    }

    /// Runs some commands of this graph and returns the directory and its snapshot.
    pub(super) fn built(graph: &mut Graph<'_>, seed: u64) -> (Dir, Vec<u8>) {
        let dir = Dir::new();
        let mut logs = dir.load(graph);
        run(graph, &mut logs, &mut Random::new(seed), 60);
        let snapshot = snapshot(graph, &logs, 1);
        (dir, snapshot)
    }

    /// Everything observable of a graph in a snapshot, and of the logs.
    pub(super) fn observable_state(&self, mapped: &mut Graph<'_>) -> String {
        let before = all_of(mapped);
        let (logs, _) = self.load_kept(mapped);
        before + &observable(mapped, &logs) + &all_of(mapped)
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.0.bytes(name)
    }

    fn load(&self, graph: &mut Graph<'_>) -> (BuildLog, DepsLog) {
        let build = BuildLog::load(&self.path("log"), 7, graph, ThreadLimit::ONE).unwrap().0;
        (build, DepsLog::load(&self.path("deps"), graph, ThreadLimit::ONE).unwrap().0)
    }

    /// Resumes from the snapshot or loads from text, as a run does. Returns which logs were resumed.
    fn load_kept(&self, graph: &mut Graph<'_>) -> ((BuildLog, DepsLog), [bool; 2]) {
        let build = graph
            .build_log_index()
            .and_then(|parts| BuildLog::resume(&self.path("log"), parts, graph, ThreadLimit::ONE));
        let is_build = build.is_some();
        let build = build.unwrap_or_else(|| BuildLog::load(&self.path("log"), 7, graph, ThreadLimit::ONE).unwrap().0);
        let deps = graph
            .deps_log_index()
            .and_then(|parts| DepsLog::resume(&self.path("deps"), parts, graph, ThreadLimit::ONE));
        let is_deps = deps.is_some();
        let load = || DepsLog::load(&self.path("deps"), graph, ThreadLimit::ONE).unwrap();
        let deps = deps.unwrap_or_else(load).0;
        ((build, deps), [is_build, is_deps])
    }
}

fn output(random: &mut Random) -> String {
    // Some are not nodes.
    format!("out/{}", random.below(EDGES + 5))
}

fn header(random: &mut Random) -> String {
    // Some are nodes, also outputs.
    match random.below(4) {
        0 => format!("a/f{}", random.below(EDGES)),
        1 => output(random),
        _ => format!("include/{}.h", random.below(40)),
    }
}

/// Records some commands.
fn run(graph: &mut Graph<'_>, logs: &mut (BuildLog, DepsLog), random: &mut Random, times: usize) {
    logs.0.open(graph, &mut |_| false).unwrap();
    logs.1.open(graph, &mut |_| false).unwrap();
    for _ in 0..times {
        let mtime = *random.pick(&[0, 1, i64::MIN, 1_700_000_000_000_000_000]);
        let command_hash = *random.pick(&[0, u64::MAX, 77]);
        let output = output(random);
        let entry = Entry { command_hash, start_ms: random.below(99) as i32, end_ms: 100, mtime };
        logs.0.record(graph, [output.as_bytes()], entry).unwrap();
        if random.chance(50) {
            let output = graph.intern(output.as_bytes());
            let ins: Vec<NodeId> = (0..random.below(6)).map(|_| graph.intern(header(random).as_bytes())).collect();
            logs.1.record(graph, output, mtime, &ins).unwrap();
        }
    }
}

/// Everything observable of graph and logs.
fn observable(graph: &Graph<'_>, (build, deps): &(BuildLog, DepsLog)) -> String {
    let path = |node| String::from_utf8_lossy(graph.path(node)).into_owned();
    let mut nodes: Vec<NodeId> = graph.node_ids().collect();
    nodes.sort_by_key(|node| graph.path(*node));
    let mut out = String::new();
    for node in nodes {
        let found = graph.lookup(graph.path(node)) == Some(node);
        let (entry, made) = (build.lookup(graph, node), build.logged_command(graph, node));
        let read = deps.deps(node).map(|deps| (deps.mtime, deps.ins().map(path).collect::<Vec<_>>()));
        let (edge, discovered) = (graph.in_edge(node), graph.is_discovered(node));
        out.push_str(&format!("{} {edge:?} {found} {discovered} {entry:?} {made:?} {read:?}\n", path(node)));
    }
    let all: Vec<_> = build.entries(graph).collect();
    let numbered: Vec<_> = deps.nodes().iter().copied().map(path).collect();
    out + &format!("{all:?} {numbered:?}")
}

fn snapshot(graph: &Graph<'_>, logs: &(BuildLog, DepsLog), threads: usize) -> Vec<u8> {
    snapshot_bytes_with(graph, &LogState::new(graph, &logs.0, &logs.1), threads)
}

fn append(path: &std::path::Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Changes the logs. Returns whether each still begins as before.
fn change_logs(dir: &Dir, text: &Arena, seed: u64, random: &mut Random) -> [bool; 2] {
    let mut graph = random::graph(text, seed, EDGES);
    let (log, deps) = (dir.0.at("log"), dir.0.at("deps"));
    match random.below(8) {
        0 => [true, true],
        1 | 2 => {
            let before = [&log, &deps].map(|path| fs::read(path).unwrap());
            let mut logs = dir.load(&mut graph);
            let times = random.below(30);
            run(&mut graph, &mut logs, random, times);
            // A log may have been rewritten.
            [(&log, 0), (&deps, 1)].map(|(path, number)| fs::read(path).unwrap().starts_with(&before[number]))
        }
        3 => {
            append(&log, b"1\t2\t3\tout/1");
            append(&deps, &[4, 0, 0]);
            [true, true]
        }
        4 => {
            let (mut build, mut deps_log) = dir.load(&mut graph);
            build.recompact(&graph, &mut |path| path.ends_with(b"3")).unwrap();
            deps_log.recompact(&mut graph, &mut |_| false).unwrap();
            [false, false]
        }
        5 => {
            fs::write(dir.0.at("new"), fs::read(&deps).unwrap()).unwrap();
            fs::rename(dir.0.at("new"), &deps).unwrap();
            [true, false]
        }
        6 => {
            fs::remove_file(&deps).unwrap();
            let length = fs::metadata(&log).unwrap().len();
            fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(length - 1).unwrap();
            [false, false]
        }
        _ => {
            fs::remove_file(&log).unwrap();
            [false, true]
        }
    }
}

#[test]
fn resumed_logs_equal_loaded_logs() {
    let mut counts = [0, 0];
    for seed in 0..150 {
        let (mut random, dir, text) = (Random::new(seed), Dir::new(), Arena::new());
        let mut graph = random::graph(&text, seed, EDGES);
        let mut logs = dir.load(&mut graph);
        let times = 1 + random.below(60);
        run(&mut graph, &mut logs, &mut random, times);
        if random.chance(50) {
            graph = random::graph(&text, seed, EDGES);
            logs = dir.load(&mut graph);
        }
        let mut file = snapshot(&graph, &logs, 1);
        // It may be rewritten from its own data.
        let (arena, again) = (Arena::new(), random.chance(50));
        let mut mapped = arena.hold(map_data(&file, &graph).unwrap());
        if again {
            let (mut logs, _) = dir.load_kept(&mut mapped);
            let times = random.below(20);
            run(&mut mapped, &mut logs, &mut random, times);
            file = snapshot(&mapped, &logs, 3);
            mapped = arena.hold(map_data(&file, &graph).unwrap());
        }
        let has_deps = fs::metadata(dir.0.at("deps")).is_ok_and(|data| data.len() > 0);
        if !has_deps {
            continue;
        }
        let expected = change_logs(&dir, &text, seed, &mut random);

        let discovered = |graph: &Graph<'_>| graph.node_ids().filter(|node| graph.is_discovered(*node)).count();
        assert_eq!(discovered(&mapped), 0, "seed {seed}");
        let (mut logs, resumed) = dir.load_kept(&mut mapped);
        assert_eq!(resumed, expected, "seed {seed}");
        counts.iter_mut().zip(resumed).for_each(|(count, resumed)| *count += usize::from(resumed));
        let mut other = random::graph(&text, seed, EDGES);
        let mut others = dir.load(&mut other);
        assert_eq!(observable(&mapped, &logs), observable(&other, &others), "seed {seed}");
        // Also after more commands.
        run(&mut mapped, &mut logs, &mut random, 9);
        other = random::graph(&text, seed, EDGES);
        others = dir.load(&mut other);
        assert_eq!(observable(&mapped, &logs), observable(&other, &others), "seed {seed}");
    }
    assert!(counts.iter().all(|count| (40..120).contains(count)), "{counts:?}");
}
