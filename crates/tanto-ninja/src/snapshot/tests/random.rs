//! Snapshots of random graphs.

use std::fmt::Write;

use tanto_testing::Random;

use super::assert_survives_snapshot;
use crate::graph::{Arena, Graph};
use crate::load::tests::Files;
use crate::load::{LoadOptions, load};

/// A random path; the set is small, so that paths repeat.
fn path(random: &mut Random, most: usize) -> String {
    let dirs = ["", "a/", "a/b/", "a-b/", "out/soong/.intermediates/external/project/", "\u{e4}/"];
    format!("{}{}{}", random.pick(&dirs), random.pick(&["f", "file", "f."]), random.below(most))
}

fn paths(random: &mut Random, before: &str, most: usize) -> String {
    let count = random.below(4);
    let list: String = (0..count).map(|_| format!(" {}", path(random, most))).collect();
    if count == 0 { String::new() } else { format!("{before}{list}") }
}

/// Random manifests with this many edges: `input` and the files it includes.
pub(super) fn manifests(random: &mut Random, edges: usize) -> Files {
    let mut texts = [String::new(), String::new(), String::new()];
    texts[0].push_str(
        "pool p\n  depth = 2\nx = 1\nrule c\n  command = c $in > $out $x\nrule d\n  command = d $y\n  deps = gcc\n",
    );
    for number in 0..edges {
        let text = &mut texts[if number == 0 { 0 } else { random.below(3) }];
        let rule = ["c", "c", "d", "phony"][random.below(4)];
        let implicit = if random.chance(20) { format!(" | out/i{number}") } else { String::new() };
        let ins = [paths(random, "", edges), paths(random, " |", edges), paths(random, " ||", edges)].concat();
        let checks = if random.chance(20) { paths(random, " |@", edges) } else { String::new() };
        writeln!(text, "build out/{number}{implicit}: {rule} {ins}{checks}").unwrap();
        match random.below(8) {
            0 => text.push_str("  y = 2\n  pool = p\n"),
            1 if rule != "phony" && ins.contains("a/") => text.push_str("  restat = 1\n"),
            2 => writeln!(text, "x = {number}").unwrap(),
            3 => writeln!(text, "default out/{number}").unwrap(),
            4 => writeln!(text, "build dd{number}: phony dyn{number}\n  dyndep = dyn{number}").unwrap(),
            _ => {}
        }
    }
    texts[0].push_str("subninja one\ninclude two\n");
    let [input, one, two] = &texts;
    Files::of(&[("input", input), ("one", one), ("two", two)])
}

pub(super) fn graph<'t>(arena: &'t Arena, seed: u64, edges: usize) -> Graph<'t> {
    let files = manifests(&mut Random::new(seed), edges);
    load(arena, &files, b"input", LoadOptions::default(), &mut |_| {}).unwrap_or_else(|error| panic!("{seed}: {error}"))
}

#[test]
fn graphs_survive_a_snapshot() {
    for seed in 0..40 {
        assert_survives_snapshot(&graph(&Arena::new(), seed, 1 + seed as usize));
    }
    assert_survives_snapshot(&graph(&Arena::new(), 0, 5000));
}

#[test]
fn nodes_are_sorted_by_path() {
    let arena = Arena::new();
    let graph = graph(&arena, 7, 20_000);
    let mapped = arena.hold(super::map_data(&super::snapshot_bytes(&graph, 2), &graph).unwrap());
    let ids: Vec<_> = mapped.node_ids().collect();
    assert_eq!(ids.len(), mapped.node_count());
    assert!(ids.is_sorted_by_key(|id| mapped.path(*id)));
}
