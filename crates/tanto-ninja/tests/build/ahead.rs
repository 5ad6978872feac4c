//! Looking ahead: whether files are asked for before the walk or in it, the same comes of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;

use tanto_ninja::disk::{Disk, Mtime, RealDisk, VirtualDisk};
use tanto_ninja::explain::Explanations;
use tanto_ninja::graph::{Arena, NodeId};
use tanto_ninja::load::{self, LoadOptions};
use tanto_ninja::log::{BuildLog, DepsLog};
use tanto_ninja::scan::{LookAhead, Scan};
use tanto_sys::threads::Threads;
use tanto_testing::{Random, Scratch};

use crate::world::World;

const NEVER: LookAhead = LookAhead { threads: Threads::ONE, least: 0 };
const ALWAYS: LookAhead = LookAhead { threads: Threads::Fitting, least: 0 };

const RULES: &str = "\
rule dep
  command = make $out; write $out.d $out: $header
  depfile = $out.d
rule logged
  command = make $out; write $out.d $out: $header
  depfile = $out.d
  deps = gcc
rule editor
  command = make $out; edit $header
rule scan
  command = $text
";

/// Up to `most` of these.
fn some(random: &mut Random, from: &[String], most: usize) -> String {
    let count = if from.is_empty() { 0 } else { random.below(most + 1) };
    let chosen: BTreeSet<&String> = (0..count).map(|_| random.pick(from)).collect();
    chosen.into_iter().map(|name| name.clone() + " ").collect()
}

/// A manifest of some edges, each of which may use what is above it, and its targets.
fn manifest(random: &mut Random) -> (String, Vec<String>) {
    let mut text = RULES.to_owned();
    let mut known: Vec<String> = (0..4).map(|number| format!("s{number}")).collect();
    let mut targets = Vec::new();
    for id in 0..4 + random.below(12) {
        let rule = *random.pick(&["make", "keep", "dep", "logged", "logged", "phony", "editor"]);
        let (ins, order_only) = (some(random, &known, 3), some(random, &known, 2));
        let scanned = random.chance(25);
        if scanned {
            let found = some(random, &known, 2);
            let _ = writeln!(text, "build dd{id}: scan {}", random.pick(&known));
            let _ = writeln!(
                text,
                "  text = write dd{id} ninja_dyndep_version = 1\\nbuild o{id}: dyndep | {found}; edit h{}",
                random.below(3)
            );
        }
        let dyndep = if scanned { format!("dd{id}") } else { String::new() };
        let checked = if random.chance(10) { format!(" |@ {}", some(random, &targets, 1)) } else { String::new() };
        let _ = writeln!(text, "build o{id}: {rule} {ins} || {order_only} {dyndep}{checked}");
        let _ = writeln!(text, "  header = h{}", random.below(3));
        if scanned {
            let _ = writeln!(text, "  dyndep = {dyndep}");
        }
        known.push(format!("o{id}"));
        targets.push(format!("o{id}"));
    }
    (text, targets)
}

/// What a build did, or why it did not begin.
fn told(world: &mut World, target: &str) -> String {
    match world.try_build(target) {
        Ok(built) => format!("{:?} {:?} {} {:?}", built.verdict, built.commands, built.total, built.why),
        Err(error) => error,
    }
}

#[test]
fn random_builds_are_the_same() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (text, targets) = manifest(&mut random);
        let files = ["s0", "s1", "s2", "s3", "h0", "h1", "h2"];
        let mut worlds = [NEVER, ALWAYS].map(|look_ahead| {
            let mut world = World::new(&text, &files);
            world.look_ahead = look_ahead;
            world
        });
        for round in 0..5 {
            let target = random.pick(&targets).clone();
            let [first, second] = worlds.each_mut().map(|world| told(world, &target));
            assert_eq!(first, second, "seed {seed}, round {round}, target {target}\n{text}");
            let (file, action) = (random.pick(&files), random.below(5));
            for world in &mut worlds {
                match action {
                    0 | 1 => world.touch(file),
                    2 => world.reload(),
                    3 => world.touch(random_output(&targets, seed)),
                    _ => world.disk.delete(random_output(&targets, seed + round)),
                }
            }
        }
    }
}

fn random_output(targets: &[String], number: u64) -> &str {
    &targets[number as usize % targets.len()]
}

#[test]
fn what_no_walk_has_looked_at_is_asked_for_again() {
    let dyndep = "write dd ninja_dyndep_version = 1\\nbuild out: dyndep | h; edit h";
    let text = format!(
        "{RULES}build obj: logged s\n  header = h\nbuild dd: scan scanned\n  text = {dyndep}\n\
         build out: make s || dd\n  dyndep = dd\nbuild all: phony out obj\n"
    );
    for look_ahead in [NEVER, ALWAYS] {
        let mut world = World::new(&text, &["s", "h", "scanned"]);
        world.look_ahead = look_ahead;
        world.build("all");
        world.reload();
        world.build("obj");
        // The record of what `obj` reads is void now: nobody but the dyndep file, in the middle, asks for `h`.
        world.touch("obj");
        world.touch("scanned");
        assert!(world.build("all").contains(&"make out".to_owned()), "{look_ahead:?}");
    }
}

/// Notes what is asked for.
struct Watched {
    disk: VirtualDisk,
    asked: Vec<Vec<u8>>,
    at_once: usize,
}

impl Disk for Watched {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        self.asked.push(path.to_vec());
        self.disk.mtime(path)
    }
    fn mtimes(&mut self, paths: &[&[u8]], _threads: Threads) -> Vec<Option<Mtime>> {
        self.at_once = paths.len();
        paths.iter().map(|path| self.mtime(path).ok()).collect()
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

/// Walks from a target; says what is dirty, when what was changed, and why, or what went wrong.
fn walk(disk: &mut dyn Disk, manifest: &str, logged: &[(&str, &[&str])], look_ahead: LookAhead) -> String {
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
    let mut scan = Scan::new(&mut graph, disk, &mut log, &mut deps_log, Explanations::new(true));
    scan.look_ahead = look_ahead;
    scan.look_ahead(&[all]);
    let walked = scan.recompute(all).map_err(|error| error.to_string());
    scan.end_look_ahead();
    let nodes: Vec<NodeId> = (0..scan.graph.node_count() as u32).map(NodeId).collect();
    let states: Vec<_> = nodes.iter().map(|&node| (scan.is_dirty(node), scan.mtime(node))).collect();
    format!("{walked:?} {states:?} {:?}", scan.explanations.about(&nodes))
}

#[test]
fn each_file_that_the_walk_wants_is_asked_for_once_and_no_other() {
    let manifest = "rule cc\n  command = c\n  deps = gcc\n  depfile = d\n\
        build o1 o2 | o3: cc a | b || c |@ check\nbuild check: phony d\nbuild other: cc not\n\
        build group: phony o1 o2\nbuild all: phony group e\n";
    let logged: &[(&str, &[&str])] = &[("o1", &["h1", "a", "h2"]), ("o2", &["no1"]), ("other", &["no2", "h1"])];
    let [asked, in_walk] = [ALWAYS, NEVER].map(|look_ahead| {
        let mut disk = Watched { disk: VirtualDisk::new(), asked: Vec::new(), at_once: 0 };
        walk(&mut disk, manifest, logged, look_ahead);
        assert_eq!(disk.at_once, if look_ahead == ALWAYS { disk.asked.len() } else { 0 });
        let count = disk.asked.len();
        let names: BTreeSet<Vec<u8>> = disk.asked.into_iter().collect();
        assert_eq!(names.len(), count);
        names
    });
    assert_eq!(asked, in_walk);
    assert_eq!(asked.len(), 13);
    let many = LookAhead { least: 14, ..ALWAYS };
    let mut disk = Watched { disk: VirtualDisk::new(), asked: Vec::new(), at_once: 0 };
    walk(&mut disk, manifest, logged, many);
    assert_eq!((disk.at_once, disk.asked.len()), (0, 13));
}

/// Some thousand real files below a directory, more than one thread's share; of those that the numbers name, one
/// cannot be asked for.
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
fn real_files_on_threads_are_the_same_and_so_is_the_first_error() {
    let dir = Scratch::new("ahead");
    let four = LookAhead { threads: Threads::AtMost(4.try_into().unwrap()), least: 0 };
    for bad in [&[][..], &[1400, 900]] {
        let manifest = real_manifest(&dir, bad);
        let expected = walk(&mut RealDisk, &manifest, &[], NEVER);
        assert_eq!(expected.contains("File name too long"), !bad.is_empty(), "{expected}");
        for look_ahead in [ALWAYS, four] {
            assert_eq!(walk(&mut RealDisk, &manifest, &[], look_ahead), expected);
        }
    }
}

#[test]
fn after_a_reset_nothing_is_known() {
    let mut disk = VirtualDisk::new();
    let arena = Arena::new();
    let mut graph = arena.empty();
    let file = graph.intern(b"file");
    let (mut log, mut deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
    let files = disk.clone();
    let mut scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(false));
    scan.look_ahead = ALWAYS;
    scan.look_ahead(&[file]);
    assert_eq!(scan.mtime(file), 0);
    files.put("file", "");
    scan.reset();
    scan.recompute(file).unwrap();
    assert!(scan.mtime(file) != 0 && !scan.is_dirty(file));
}
