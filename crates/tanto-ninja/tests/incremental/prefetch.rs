//! Tests that a prefetch does not change results.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;

use tanto_ninja::disk::{Disk, Mtime, PathByIndex, RealDisk, VirtualDisk};
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::graph::Arena;
use tanto_ninja::ids::NodeId;
use tanto_ninja::load::{self, LoadOptions};
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::scan::{PrefetchOptions, Scan};
use tanto_sys::fs::fingerprint::{FileState, FileSystems};
use tanto_sys::fs::stat::UNKNOWN_MTIME;
use tanto_sys::threads::ThreadLimit;
use tanto_testing::Scratch;

use crate::world::{World, known};

/// No prefetch.
pub const NEVER: PrefetchOptions = PrefetchOptions { threads: ThreadLimit::ONE, min_files: 0 };
/// A prefetch for any number of files.
pub const ALWAYS: PrefetchOptions = PrefetchOptions { threads: ThreadLimit::Auto, min_files: 0 };

/// A prefetch with at most this many threads.
pub fn at_most(threads: usize) -> PrefetchOptions {
    PrefetchOptions { threads: ThreadLimit::AtMost(threads.try_into().unwrap()), min_files: 0 }
}

const RULES: &str = "\
rule dep
  command = make $out; write $out.d $out: $header
  depfile = $out.d
rule logged
  command = make $out; write $out.d $out: $header
  depfile = $out.d
  deps = gcc
rule scan
  command = $text
";

#[test]
fn unused_prefetched_files_are_statted_again() {
    let dyndep = "write dd ninja_dyndep_version = 1\\nbuild out: dyndep | h; edit h";
    let text = format!(
        "{RULES}build obj: logged s\n  header = h\nbuild dd: scan scanned\n  text = {dyndep}\n\
         build out: make s || dd\n  dyndep = dd\nbuild all: phony out obj\n"
    );
    for prefetch in [NEVER, ALWAYS] {
        let mut world = World::new(&text, &["s", "h", "scanned"]);
        world.prefetch = prefetch;
        world.build("all");
        world.reload();
        world.build("obj");
        // The record of `obj` is stale now, so only the dyndep file, during the build, needs `h`.
        world.touch("obj");
        world.touch("scanned");
        assert!(world.build("all").contains(&"make out".to_owned()), "{prefetch:?}");
    }
}

#[test]
fn unused_prefetched_depfile_is_read_again() {
    let mut disk = VirtualDisk::new();
    let rule = "rule cc\n  command = c\n  depfile = $out.d\n";
    disk.put("build.ninja", &format!("{rule}build a: cc s\nbuild b: cc s\n"));
    ["a", "b", "s", "h", "h0"].iter().for_each(|path| disk.put(path, ""));
    disk.put("a.d", "a: h0");
    disk.put("b.d", "b: h0");
    let files = disk.clone();
    let arena = Arena::new();
    let mut graph = load::load(&arena, &files, b"build.ninja", LoadOptions::default(), &mut |_| {}).unwrap();
    let h = graph.intern(b"h");
    let outs = [&b"a"[..], b"b"].map(|path| graph.lookup(path).unwrap());
    let (mut log, mut deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
    let mut scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::Off));
    scan.prefetch = ALWAYS;
    scan.prefetch(&outs);
    scan.end_prefetch();
    files.put("a.d", "a: h");
    files.delete("b.d");
    let read = outs.map(|out| {
        scan.recompute_dirty(out).unwrap();
        scan.dirtying_ins(scan.graph.in_edge(out).unwrap()).count()
    });
    assert_eq!(read, [2, 1]);
    assert!(scan.mtime(h) != 0);
}

/// Asserts that the states are the same with and without a prefetch.
fn assert_same_known(text: &str, sources: &[&str], change: impl Fn(&mut World)) -> String {
    let [known, expected] = [ALWAYS, NEVER].map(|prefetch| {
        let mut world = World::new(text, sources);
        world.prefetch = prefetch;
        world.build("all");
        change(&mut world);
        world.try_build("all").expect("begins").known
    });
    assert_eq!(known, expected);
    known
}

#[test]
fn depfile_inputs_are_seen_beside_a_stale_record() {
    let text = format!(
        "{RULES}build obj: logged s\n  header = h\nbuild old: dep s\n  header = h2\nbuild all: phony obj old\n"
    );
    let known = assert_same_known(&text, &["s", "h", "h2"], |world| world.touch("obj"));
    let h2 = known.lines().find(|line| line.starts_with("h2 ")).expect("a line for each file");
    assert!(!h2.starts_with("h2 false 0"), "{h2}");
}

#[test]
fn missing_validation_is_explained() {
    let text = "build a: make s |@ gone\nbuild b: make s2\nbuild all: phony a b\n";
    for change in [|_: &mut World| {}, |world: &mut World| world.touch("s2")] {
        let known = assert_same_known(text, &["s", "s2"], change);
        assert!(known.contains("gone true 0 gone has no in-edge and is missing"), "{known}");
    }
}

#[test]
fn validation_with_a_stat_error_is_an_error() {
    let dir = Scratch::new("ahead");
    dir.write("there", "");
    let manifest = format!("build all: phony {}/there |@ {}\n", dir.text(), "x".repeat(300));
    for prefetch in [NEVER, ALWAYS] {
        let told = walk(&mut RealDisk, &manifest, &[], prefetch);
        assert!(told.contains("File name too long"), "{prefetch:?}: {told}");
    }
}

#[test]
fn generated_headers_missing_from_the_manifest_are_built_first() {
    for depth in (2..12).chain([30]) {
        let mut text = RULES.to_owned();
        for number in 0..depth {
            let _ = writeln!(text, "build o{number}: logged s{number}\n  header = o{}", number + 1);
        }
        let _ = writeln!(text, "build o{depth}: make s\nbuild some: phony o0\nbuild all: phony o0 o{depth}");
        let sources: Vec<String> = (0..depth).map(|number| format!("s{number}")).chain(["s".to_owned()]).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        for target in ["some", "all"] {
            let mut world = World::new(&text, &sources);
            world.prefetch = ALWAYS;
            (0..=depth).rev().for_each(|number| assert_eq!(world.build(&format!("o{number}")).len(), 1));
            world.assert_clean(target);
            world.touch("s");
            assert_eq!(world.build(target).len(), depth + 1);
        }
    }
}

/// Records the files checked.
struct RecordingDisk {
    disk: VirtualDisk,
    asked: Vec<Vec<u8>>,
    at_once: usize,
}

impl Disk for RecordingDisk {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        self.asked.push(path.to_vec());
        self.disk.mtime(path)
    }
    fn observe(&mut self, path: &[u8], systems: &FileSystems) -> io::Result<FileState> {
        self.asked.push(path.to_vec());
        self.disk.observe(path, systems)
    }
    fn observe_all(&mut self, path: &PathByIndex<'_>, systems: &FileSystems, found: &mut [FileState], _: ThreadLimit) {
        self.at_once = found.len();
        for (number, found) in found.iter_mut().enumerate() {
            let path = path(number).strip_suffix(b"\0").unwrap();
            let unknown = FileState { mtime: UNKNOWN_MTIME, ..FileState::default() };
            *found = self.observe(path, systems).unwrap_or(unknown);
        }
    }
    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }
    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        self.disk.write(path, content)
    }
    fn make_parents(&mut self, path: &[u8]) -> io::Result<()> {
        self.disk.make_parents(path)
    }
    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        self.disk.remove(path)
    }
}

/// Walks from a target. Returns the states of all files, or the error.
fn walk(disk: &mut dyn Disk, manifest: &str, logged: &[(&str, &[&str])], prefetch: PrefetchOptions) -> String {
    let text = VirtualDisk::new();
    text.put("build.ninja", manifest);
    let arena = Arena::new();
    let mut graph = load::load(&arena, &text.clone(), b"build.ninja", LoadOptions::default(), &mut |_| {}).unwrap();
    let (mut log, mut deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
    for (out, ins) in logged {
        let ins: Vec<NodeId> = ins.iter().map(|path| graph.intern(path.as_bytes())).collect();
        let out = graph.lookup(out.as_bytes()).unwrap();
        deps_log.record(&mut graph, out, i64::MAX, &ins).unwrap();
    }
    let all = graph.lookup(b"all").unwrap();
    let mut scan = Scan::new(&mut graph, disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::All));
    scan.prefetch = prefetch;
    scan.prefetch(&[all]);
    let walked = scan.recompute_dirty(all);
    scan.end_prefetch();
    match walked {
        Ok(validations) => format!("{validations:?} {}", known(&scan)),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_needed_file_is_statted_once() {
    let manifest = "rule cc\n  command = c\n  deps = gcc\n  depfile = d\n\
        build o1 o2 | o3: cc a | b || c |@ check\nbuild check: phony d\nbuild other: cc not\n\
        build group: phony o1 o2\nbuild all: phony group e\n";
    let logged: &[(&str, &[&str])] = &[("o1", &["h1", "a", "h2"]), ("o2", &["no1"]), ("other", &["no2", "h1"])];
    let [asked, in_walk] = [ALWAYS, NEVER].map(|prefetch| {
        let mut disk = RecordingDisk { disk: VirtualDisk::new(), asked: Vec::new(), at_once: 0 };
        walk(&mut disk, manifest, logged, prefetch);
        assert_eq!(disk.at_once, if prefetch == ALWAYS { disk.asked.len() } else { 0 });
        let count = disk.asked.len();
        let names: BTreeSet<Vec<u8>> = disk.asked.into_iter().collect();
        assert_eq!(names.len(), count);
        names
    });
    assert_eq!(asked, in_walk);
    assert_eq!(asked.len(), 13);
    let many = PrefetchOptions { min_files: 14, ..ALWAYS };
    let mut disk = RecordingDisk { disk: VirtualDisk::new(), asked: Vec::new(), at_once: 0 };
    walk(&mut disk, manifest, logged, many);
    assert_eq!((disk.at_once, disk.asked.len()), (0, 13));
}

/// Thousands of real files, for several threads; checking the files at `bad` fails.
fn real_manifest(dir: &Scratch, bad: &[usize]) -> String {
    let mut text = "rule cc\n  command = c\n".to_owned();
    let mut outputs = String::new();
    for number in 0..1500 {
        let (input, output) = (dir.text().to_owned() + &format!("/i{number}"), format!("{}/o{number}", dir.text()));
        if number % 7 != 0 {
            dir.write(&format!("i{number}"), "");
        }
        if number % 5 != 0 {
            dir.write(&format!("o{number}"), "");
        }
        let input = if bad.contains(&number) { format!("{input}{}", "x".repeat(300)) } else { input };
        let _ = writeln!(text, "build {output}: cc {input}");
        let _ = write!(outputs, " {output}");
    }
    text + "build all: phony" + &outputs + "\n"
}

#[test]
fn threads_give_the_same_states_and_first_error() {
    let dir = Scratch::new("ahead");
    for bad in [&[][..], &[1400, 900]] {
        let manifest = real_manifest(&dir, bad);
        let expected = walk(&mut RealDisk, &manifest, &[], NEVER);
        assert_eq!(expected.contains("File name too long"), !bad.is_empty(), "{expected}");
        for prefetch in [ALWAYS, at_most(4)] {
            assert_eq!(walk(&mut RealDisk, &manifest, &[], prefetch), expected);
        }
    }
}

#[test]
fn reset_clears_all_states() {
    let mut disk = VirtualDisk::new();
    let arena = Arena::new();
    let mut graph = arena.empty();
    let file = graph.intern(b"file");
    let (mut log, mut deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
    let files = disk.clone();
    let mut scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::Off));
    scan.prefetch = ALWAYS;
    scan.prefetch(&[file]);
    assert_eq!(scan.mtime(file), 0);
    files.put("file", "");
    scan.reset();
    scan.recompute_dirty(file).unwrap();
    assert!(scan.mtime(file) != 0 && !scan.is_dirty(file));
}
