//! Loads and scans the tree of each case with one thread and with eight, and compares. Uses Tanto's crates directly,
//! since the program starts no threads for trees this small.

use std::io;
use std::path::Path;

use tanto_ninja::builddir;
use tanto_ninja::disk::{Disk, Mtime, PathByIndex, RealDisk, Source};
use tanto_ninja::error::Error;
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::ids::NodeId;
use tanto_ninja::load::{LoadOptions, ParallelOptions, load};
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::scan::{PrefetchOptions, Scan};
use tanto_ninja::targets::default_nodes;
use tanto_ninja::tools::{self, Context};
use tanto_sys::fs::fingerprint::{FileState, FileSystems};
use tanto_sys::threads::ThreadLimit;

/// Chunks of a few bytes, each worth a thread.
const FINE: ParallelOptions =
    ParallelOptions { chunk_size: 16, bytes_per_thread: 1, max_threads: Some(8), speculative: true };

/// Tools that print the whole graph.
const TOOLS: [(&str, &[&str]); 3] = [("targets", &["all"]), ("commands", &[]), ("query", &["@"])];

/// Asserts that the graph and the states of this tree do not depend on the number of threads.
pub fn check(root: &Path, flags: &[String]) {
    let named = flags.iter().position(|flag| flag == "-f").and_then(|at| flags.get(at + 1));
    let manifest = named.map_or("build.ninja", String::as_str);
    if !root.join(manifest).is_file() {
        return;
    }
    let told = |threads: usize| told(root, manifest, ThreadLimit::AtMost(threads.try_into().expect("not 0")));
    let (one, eight) = (told(1), told(8));
    // A left-over command may still be changing the tree.
    if one != eight && one == told(1) {
        panic!("{}: 1 thread:\n{one}8 threads:\n{eight}", root.display());
    }
}

fn told(root: &Path, manifest: &str, threads: ThreadLimit) -> String {
    let mut told = String::new();
    if let Err(error) = tell(root, manifest.as_bytes(), threads, &mut told) {
        told += &format!("error, fatal: {}: {}\n", error.is_fatal(), error.text().escape_ascii());
    }
    told
}

fn tell(root: &Path, manifest: &[u8], threads: ThreadLimit, told: &mut String) -> Result<(), Error> {
    let (arena, mut disk) = (Arena::new(), Below(root));
    let options = LoadOptions { phony_cycle_is_error: false, threads, parallel: FINE };
    let mut graph = load(&arena, &disk, manifest, options, &mut |text| {
        *told += &format!("warning: {}\n", text.escape_ascii());
    })?;
    scan(&mut graph, &mut disk, threads, told)?;
    // Tools load dyndep files, so they need a graph of their own.
    let arena = Arena::new();
    let mut graph = load(&arena, &disk, manifest, options, &mut |_| {})?;
    for (name, args) in TOOLS {
        run_tool(name, args, &mut graph, &mut disk, threads, told)?;
    }
    Ok(())
}

fn run_tool(
    name: &str,
    args: &[&str],
    graph: &mut Graph<'_>,
    disk: &mut Below<'_>,
    threads: ThreadLimit,
    told: &mut String,
) -> Result<(), Error> {
    let outputs =
        || graph.node_ids().filter(|&node| graph.in_edge(node).is_some()).map(|node| graph.path(node).to_vec());
    let mut args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    if args.iter().any(|arg| arg == b"@") {
        args = outputs().collect();
        // Node numbers may differ.
        args.sort_unstable();
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut context = Context {
        graph,
        build_log: &BuildLog::in_memory(7),
        deps_log: &DepsLog::in_memory(),
        disk,
        options: &tools::ToolOptions { threads, ..tools::ToolOptions::default() },
        out: &mut out,
        err: &mut err,
        lock_build_dir: &mut |_| false,
    };
    let ended = tools::find(name.as_bytes())?.run(&mut context, &args).expect("memory can be written to");
    *told += &format!("-t {name}: {ended:?}\n{}{}", out.escape_ascii(), err.escape_ascii()).replace("\\n", "\n");
    Ok(())
}

/// The states of all files and edges before a build of the default targets, by path.
fn scan(graph: &mut Graph<'_>, disk: &mut Below<'_>, threads: ThreadLimit, told: &mut String) -> Result<(), Error> {
    let logs = |name| disk.at(&builddir::join(builddir::path(graph), name));
    let [build, deps] = [logs(".ninja_log"), logs(".ninja_deps")];
    let (mut log, warning) = BuildLog::load(&build, 7, graph, threads)?;
    let (mut deps_log, warned) = DepsLog::load(&deps, graph, threads)?;
    *told += &format!("warnings: {warning:?} {warned:?}\n");
    let targets = default_nodes(graph)?;
    let mut scan = Scan::new(graph, disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::All));
    scan.prefetch = PrefetchOptions { threads, min_files: 0 };
    scan.prefetch(&targets);
    let walked = targets.iter().try_for_each(|&target| scan.recompute_dirty(target).map(|_| ()));
    scan.end_prefetch();
    // States after an error may differ.
    walked?;
    let mut lines: Vec<String> = scan.graph.node_ids().map(|node| about(&scan, node)).collect();
    lines.sort_unstable();
    told.extend(lines);
    Ok(())
}

fn about(scan: &Scan<'_, '_>, node: NodeId) -> String {
    let edge = scan.graph.in_edge(node).map(|edge| (scan.outputs_ready(edge), scan.deps_missing(edge)));
    let why = scan.explanations.of_nodes(scan.graph, &[node]).concat();
    let (dirty, mtime, path) = (scan.is_dirty(node), scan.mtime(node), scan.graph.path(node).escape_ascii());
    format!("{path}: dirty {dirty}, {mtime}, ready and unknown {edge:?}, {}\n", why.escape_ascii())
}

/// Read-only access to files below a directory, since all tests share the current directory.
struct Below<'a>(&'a Path);

impl Below<'_> {
    fn at(&self, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") {
            path.to_vec()
        } else {
            [self.0.as_os_str().as_encoded_bytes(), b"/", path].concat()
        }
    }
}

impl Disk for Below<'_> {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        RealDisk.mtime(&self.at(path))
    }

    fn observe(&mut self, path: &[u8], systems: &FileSystems) -> io::Result<FileState> {
        RealDisk.observe(&self.at(path), systems)
    }

    fn observe_all(
        &mut self,
        path: &PathByIndex<'_>,
        systems: &FileSystems,
        found: &mut [FileState],
        threads: ThreadLimit,
    ) {
        let paths: Vec<Vec<u8>> = (0..found.len()).map(|number| self.at(path(number))).collect();
        RealDisk.observe_all(&|number| &paths[number], systems, found, threads);
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        RealDisk.read(&self.at(path))
    }

    fn open(&self, path: &[u8], limit: u64) -> io::Result<Source> {
        RealDisk.open(&self.at(path), limit)
    }

    fn write(&mut self, _: &[u8], _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn make_parents(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&mut self, _: &[u8]) -> io::Result<bool> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
