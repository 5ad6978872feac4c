//! Random builds with and without prefetch must have the same states and results.

use std::collections::BTreeSet;
use std::fmt::Write;

use tanto_ninja::scan::PrefetchOptions;
use tanto_testing::Random;

use crate::prefetch::{ALWAYS, NEVER, at_most};
use crate::world::World;

const RULES: &str = "\
rule logged
  command = make $out; $tag; write $out.d $out: $header
  depfile = $out.d
  deps = gcc
rule quiet
  command = keep $out; $tag; write $out.d $out: $header
  depfile = $out.d
  deps = gcc
  restat = 1
rule gen
  command = make $out; $tag
  generator = 1
rule plain
  command = make $out; $tag
rule still
  command = keep $out; $tag
  restat = 1
rule dep
  command = make $out; $tag; write $out.d $out: $header
  depfile = $out.d
rule editor
  command = make $out; edit h0
rule scan
  command = $text
";
const SOURCES: [&str; 7] = ["s0", "s1", "s2", "s3", "h0", "h1", "h2"];

/// The properties of random manifests.
struct ManifestShape {
    edges: usize,
    dyndeps: bool,
    depfiles: bool,
    validations: bool,
    editors: bool,
    /// Headers may be made by any edge, even one that needs them.
    cycles: bool,
}

impl ManifestShape {
    fn of(random: &mut Random, edges: usize) -> ManifestShape {
        let mut may = || random.chance(25);
        let (dyndeps, depfiles, validations, editors, cycles) = (may(), may(), may(), may(), may());
        ManifestShape { edges, dyndeps, depfiles, validations, editors, cycles }
    }

    fn rule(&self, random: &mut Random) -> &'static str {
        match random.below(12) {
            0 if self.depfiles => "dep",
            1 if self.editors => "editor",
            0..4 => "logged",
            4..6 => "quiet",
            6 => "gen",
            7..9 => "plain",
            9 => "still",
            _ => "phony",
        }
    }
}

/// Up to `most` of these.
fn some(random: &mut Random, from: &[String], most: usize) -> String {
    let count = if from.is_empty() { 0 } else { random.below(most + 1) };
    let chosen: BTreeSet<&String> = (0..count).map(|_| random.pick(from)).collect();
    chosen.into_iter().map(|name| name.clone() + " ").collect()
}

/// Edges that may use outputs of earlier ones, the targets, and a tag for each edge that is part of its command.
struct Manifest {
    text: String,
    targets: Vec<String>,
    tags: Vec<bool>,
}

impl Manifest {
    fn new(random: &mut Random, shape: &ManifestShape) -> Manifest {
        let mut known: Vec<String> = SOURCES[..4].iter().map(|&name| name.to_owned()).collect();
        let (mut text, mut targets) = (RULES.to_owned(), Vec::new());
        for id in 0..shape.edges {
            let edge = build(random, shape, id, &known, &targets);
            text += &edge;
            known.push(format!("o{id}"));
            targets.push(format!("o{id}"));
        }
        let _ = writeln!(text, "build all: phony {}", targets.join(" "));
        targets.push("all".to_owned());
        let tags = vec![false; shape.edges];
        Manifest { text, targets, tags }
    }

    fn tagged(&self) -> String {
        let tag = |(id, tag): (usize, &bool)| format!("t{id} = {}\n", if *tag { "make" } else { "keep" });
        let tags: String = self.tags.iter().enumerate().map(tag).collect();
        tags + &self.text
    }
}

/// The text of one edge and of the edge that makes its dyndep file.
fn build(random: &mut Random, shape: &ManifestShape, id: usize, known: &[String], targets: &[String]) -> String {
    let mut text = String::new();
    let (ins, order_only) = (some(random, known, 3), some(random, known, 2));
    let dyndep = if shape.dyndeps && random.chance(25) { format!("dd{id}") } else { String::new() };
    if !dyndep.is_empty() {
        let found = some(random, known, 2);
        let _ = writeln!(text, "build {dyndep}: scan {}", random.pick(known));
        let content = format!("ninja_dyndep_version = 1\\nbuild o{id}: dyndep | {found}");
        let _ = writeln!(text, "  text = write {dyndep} {content}; edit h{}", random.below(3));
    }
    let second = if random.chance(20) { format!(" x{id}") } else { String::new() };
    let checked = shape.validations && random.chance(30);
    // May be a later target that needs this edge.
    let checks = [targets, &[format!("o{}", random.below(shape.edges))]].concat();
    let checked = if checked { format!(" |@ {}", some(random, &checks, 2)) } else { String::new() };
    let _ = writeln!(text, "build o{id}{second}: {} {ins} || {order_only}{dyndep}{checked}", shape.rule(random));
    let header = match random.below(6) {
        0 if shape.cycles => format!("o{}", random.below(shape.edges)),
        1 => random.pick(known).clone(),
        _ => format!("h{} h{}", random.below(3), random.below(3)),
    };
    let _ = writeln!(text, "  header = {header}\n  tag = $t{id}");
    if !dyndep.is_empty() {
        let _ = writeln!(text, "  dyndep = {dyndep}");
    }
    text
}

/// The states before a build and its result, or the error.
fn result_of(world: &mut World, targets: &str) -> String {
    match world.try_build(targets) {
        Ok(it) => format!("{}\n{:?} {:?} {} {:?}", it.known, it.verdict, it.commands, it.total, it.why),
        Err(error) => error,
    }
}

/// Changes something between two builds.
fn change(random: &mut Random, manifest: &mut Manifest, worlds: &mut [World]) {
    let (source, output) = (*random.pick(&SOURCES), random.pick(&manifest.targets).clone());
    let (action, edge) = (random.below(12), random.below(manifest.tags.len()));
    manifest.tags[edge] ^= action == 3;
    for world in worlds {
        match action {
            0..3 => world.touch(source),
            3 | 4 => world.restart(&manifest.tagged()),
            5 => world.touch(&output),
            6 => world.disk.delete(&output),
            7 => world.disk.delete(source),
            8 => world.reload(),
            _ => {}
        }
    }
}

/// Runs the same builds in several worlds.
fn compare(random: &mut Random, edges: usize, rounds: usize, looks: &[PrefetchOptions]) {
    let shape = ManifestShape::of(random, edges);
    let mut manifest = Manifest::new(random, &shape);
    let mut worlds: Vec<World> = looks.iter().map(|_| World::new(&manifest.tagged(), &SOURCES)).collect();
    worlds.iter_mut().zip(looks).for_each(|(world, prefetch)| world.prefetch = *prefetch);
    for round in 0..rounds {
        let mut targets = "all".to_owned();
        if random.chance(60) {
            targets = format!("{} {}", random.pick(&manifest.targets), random.pick(&manifest.targets));
        }
        let all: Vec<String> = worlds.iter_mut().map(|world| result_of(world, &targets)).collect();
        for (one, prefetch) in all.iter().zip(looks) {
            assert_eq!(*one, all[0], "round {round}, targets {targets}, {prefetch:?}\n{}", manifest.tagged());
        }
        change(random, &mut manifest, &mut worlds);
        if random.chance(30) {
            let targets = [random.pick(&manifest.targets).as_str(), "all"];
            let all: Vec<String> = worlds.iter_mut().map(|world| world.walk_twice(targets)).collect();
            assert!(all.iter().all(|one| *one == all[0]), "round {round}, {targets:?}, {all:?}\n{}", manifest.tagged());
        }
    }
}

#[test]
fn small_builds_are_the_same() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let edges = 3 + random.below(14);
        compare(&mut random, edges, 8, &[NEVER, ALWAYS]);
    }
}

#[test]
fn large_builds_on_several_threads_are_the_same() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let looks = [2, 3, 5, 8].map(at_most);
        compare(&mut random, 3000, 4, &[&[NEVER], &looks[..]].concat());
    }
}
