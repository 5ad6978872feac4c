//! Fuzzes snapshots: intact ones with changed words, under their own checksums or matching ones, and arbitrary bytes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tanto_ninja::disk::{RealDisk, VirtualDisk};
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::flat::BLOCK_SIZE;
use tanto_ninja::graph::Escape;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::hash::rapidhash;
use tanto_ninja::load::{LoadOptions, load};
use tanto_ninja::logs::{BuildLog, DepsLog, Entry};
use tanto_ninja::scan::Scan;
use tanto_ninja::snapshot::Snapshot;
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::threads::ThreadLimit;

use crate::targets::Target;

pub(crate) const SNAPSHOT: Target = Target {
    name: "snapshot",
    tokens: &[b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x01\0\0\0", b"\0\x01\0\0", b"\0\0\0\x80"],
    head: 1,
    run,
};

const MANIFEST: &str = "ninja_required_version = 1.1
pool p
  depth = 2
flags = -O2
rule cc
  command = cc $flags $in -o $out
  deps = gcc
  depfile = $out.d
rule link
  command = link @$out.rsp
  rspfile = $out.rsp
  rspfile_content = $in
  restat = 1
build out/a.o: cc src/a.c | gen.h || dir |@ check
build out/b.o: cc src/b.c | gen.h || dir
  flags = -O0
build lib | lib.map: link out/a.o out/b.o
  pool = p
build gen.h: link gen.in || dd
  dyndep = dd
build check: phony lib
build self: phony self
default lib
";

/// A snapshot as it was written.
struct Sound {
    dir: PathBuf,
    file: PathBuf,
    bytes: Vec<u8>,
}

impl Sound {
    fn manifest(&self) -> Vec<u8> {
        self.dir.join("build.ninja").as_os_str().as_bytes().to_vec()
    }

    fn log(&self, name: &str) -> Vec<u8> {
        self.dir.join(name).as_os_str().as_bytes().to_vec()
    }

    /// Returns non-empty logs.
    fn logs(&self, graph: &mut Graph<'_>) -> (BuildLog, DepsLog) {
        let build = BuildLog::load(&self.log("log"), 7, graph, ThreadLimit::ONE);
        let deps = DepsLog::load(&self.log("deps"), graph, ThreadLimit::ONE);
        let ((mut build, _), (mut deps, _)) = (build.expect("a missing log loads"), deps.expect("a missing log loads"));
        build.open(graph, &mut |_| false).expect("a log can be written");
        deps.open(graph, &mut |_| true).expect("a log can be written");
        let entry = Entry { command_hash: 1, start_ms: 2, end_ms: 3, mtime: 4 };
        build.record(graph, [b"out/a.o".as_slice(), b"lib", b"gone"], entry).expect("a log can be written");
        let out = graph.intern(b"out/a.o");
        let headers = ["gen.h", "a.h", "/usr/include/b.h"].map(|path| graph.intern(path.as_bytes()));
        deps.record(graph, out, 4, &headers).expect("a log can be written");
        (build, deps)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(StateDirs::in_tree(&self.dir), &self.manifest(), LoadOptions::default())
    }

    /// Created once, beside the scratch file.
    fn get(scratch: &Path) -> &'static Sound {
        static SOUND: OnceLock<Sound> = OnceLock::new();
        SOUND.get_or_init(|| {
            let dir = scratch.with_extension("tree");
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).expect("a directory can be made");
            std::fs::write(dir.join("build.ninja"), MANIFEST).expect("a file can be written");
            let mut sound = Sound { file: PathBuf::new(), bytes: Vec::new(), dir };
            let arena = Arena::new();
            let graph = load(&arena, &RealDisk, &sound.manifest(), LoadOptions::default(), &mut |_| ());
            let mut graph = graph.expect("the manifest is valid");
            let (log, deps) = sound.logs(&mut graph);
            let saving = sound.snapshot().prepare(&graph, 0, true).expect("the manifest is a file");
            saving.with_logs(&graph, &log, &deps).run(1).expect("a file can be written");
            let mut entries = std::fs::read_dir(sound.dir.join(".tanto/snapshots")).expect("the snapshot exists");
            sound.file = entries.next().and_then(Result::ok).expect("the snapshot exists").path();
            sound.bytes = std::fs::read(&sound.file).expect("the snapshot can be read");
            sound
        })
    }
}

/// Changes words; the input is pairs of position and new value.
fn changed(bytes: &[u8], pairs: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for pair in pairs.as_chunks::<8>().0 {
        let word = |at: usize| u32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
        let at = word(0) as usize % bytes.len() / 4 * 4;
        let end = bytes.len().min(at + 4);
        bytes[at..end].copy_from_slice(&word(4).to_ne_bytes()[..end - at]);
    }
    bytes
}

/// Updates the checksums: that of the only block, which is the last word of the table, and that of the table.
fn forge(bytes: &mut [u8], sound: &[u8]) {
    let foot = sound.len() - 24;
    let start = usize::from_ne_bytes(*sound[foot..].first_chunk().expect("eight bytes"));
    assert!(start <= BLOCK_SIZE);
    bytes[foot..].copy_from_slice(&sound[foot..]);
    let block = rapidhash(&bytes[..start]).to_ne_bytes();
    bytes[foot - 8..foot].copy_from_slice(&block);
    let table = rapidhash(&bytes[start..foot + 8]).to_ne_bytes();
    bytes[foot + 8..foot + 16].copy_from_slice(&table);
}

/// Opening may fail, but all queries must return. An unchanged snapshot must be used.
fn run(input: &[u8], scratch: &Path) {
    let sound = Sound::get(scratch);
    let (&kind, rest) = input.split_first().unwrap_or((&0, &[]));
    let bytes = match kind % 8 {
        0 => rest.to_vec(),
        1 => changed(&sound.bytes, rest),
        _ => {
            let mut bytes = changed(&sound.bytes, rest);
            forge(&mut bytes, &sound.bytes);
            bytes
        }
    };
    std::fs::write(&sound.file, &bytes).expect("the file can be written");
    let arena = Arena::new();
    let opened = sound.snapshot().open(&arena, &mut |_| ());
    if bytes == sound.bytes {
        assert!(matches!(opened, Ok(Some(_))), "an intact snapshot is not used");
    }
    if let Ok(Some(mut graph)) = opened {
        ask(&mut graph, sound, bytes == sound.bytes);
        assert!(bytes != sound.bytes || graph.is_intact());
    }
}

/// Exercises all queries of builds and tools.
fn ask(graph: &mut Graph<'_>, sound: &Sound, is_intact: bool) {
    for node in graph.node_ids() {
        graph.lookup(graph.path(node));
        graph.dyndep_pending(node);
        graph.path_with_nul(node);
        graph.out_edges(node).count();
    }
    for id in graph.edge_ids() {
        for name in [b"command".as_slice(), b"depfile", b"rspfile_content", b"flags", b"restat"] {
            let _ = (graph.binding(id, name, Escape::Shell), graph.flag(id, name));
        }
        let edge = graph.edge(id);
        let _ = (graph.rule_name(edge.rule), graph.pool_depth(edge.pool));
    }
    graph.top_rules().iter().for_each(|rule| drop(graph.rule_text(*rule, b"command")));
    let log =
        graph.build_log_index().and_then(|kept| BuildLog::resume(&sound.log("log"), kept, graph, ThreadLimit::ONE));
    let kept = graph.deps_log_index();
    let deps = kept.and_then(|kept| DepsLog::resume(&sound.log("deps"), kept, graph, ThreadLimit::ONE));
    assert!(!is_intact || (log.is_some() && deps.is_some()), "the logs are not resumed");
    let mut log = log.unwrap_or_else(|| BuildLog::in_memory(7));
    let mut deps = deps.map_or_else(DepsLog::in_memory, |(deps, _)| deps);
    log.entries(graph).for_each(drop);
    for &node in deps.nodes() {
        graph.path(node);
        let longest = deps.deps(node).iter().flat_map(|deps| deps.ins()).map(|node| graph.path(node).len()).max();
        assert!(longest.unwrap_or(0) <= BLOCK_SIZE);
    }
    let nodes: Vec<_> = graph.node_ids().chain(graph.defaults().iter().copied()).collect();
    let mut disk = VirtualDisk::new();
    let mut scan = Scan::new(graph, &mut disk, &mut log, &mut deps, Explanations::new(ExplainLevel::All));
    scan.prefetch.min_files = 0;
    for node in nodes {
        scan.prefetch(&[node]);
        let walked = scan.recompute_dirty(node);
        scan.end_prefetch();
        if walked.is_err() {
            // An error ends a walk.
            scan.reset();
        }
    }
}
