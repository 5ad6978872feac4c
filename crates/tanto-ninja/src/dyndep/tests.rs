//! Tests of dyndep files.

use tanto_testing::each_variant;

use super::*;
use crate::graph::Arena;
use crate::graph::Escape;
use crate::load::LoadOptions;
use crate::load::tests::Files;

const MANIFEST: &str = "\
rule t
  command = t $in $out $restat
build out other: t | in || dd order
  dyndep = dd
build out2: t dd
  dyndep = dd
build stranger: t
";

const VERSION: &str = "ninja_dyndep_version = 1\n";

/// Applies the dyndep file `dd` to the graph of a manifest.
fn apply_to<'t>(arena: &'t Arena, manifest: &str, dyndep: &[u8]) -> (Graph<'t>, Result<Vec<Update>>) {
    let mut files = Files::of(&[("build.ninja", manifest)]);
    files.0.insert(b"dd".into(), dyndep.into());
    let mut graph = crate::load::load(arena, &files, b"build.ninja", LoadOptions::default(), &mut |_| {}).unwrap();
    let file = graph.lookup(b"dd").unwrap();
    assert!(graph.dyndep_pending(file));
    let users: Vec<EdgeId> = graph.edge_ids().filter(|&edge| graph.edge(edge).dyndep == Some(file)).collect();
    let updates = super::load(&mut graph, &mut files, file, &users);
    assert!(!graph.dyndep_pending(file));
    (graph, updates)
}

#[track_caller]
fn refuse(statements: &str, why: &str) {
    let arena = Arena::new();
    let (_, updates) = apply_to(&arena, MANIFEST, [VERSION, statements].concat().as_bytes());
    assert_eq!(updates.unwrap_err().to_string(), why, "of {statements:?}");
}

fn paths(graph: &Graph<'_>, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|&node| String::from_utf8_lossy(graph.path(node)).into_owned()).collect()
}

#[test]
fn new_inputs_come_before_order_only_ones() {
    let arena = Arena::new();
    let text = "ninja_dyndep_version = 1.0\nbuild out | ./new: dyndep | a//b c\nbuild out2: dyndep\n  restat = 1\n";
    let (graph, updates) = apply_to(&arena, MANIFEST, text.as_bytes());
    let updates = updates.unwrap();
    let edge = graph.edge(EdgeId(0));
    assert_eq!(paths(&graph, edge.outs), ["out", "other", "new"]);
    assert_eq!(edge.explicit_outs, 2);
    assert_eq!(paths(&graph, edge.dirtying_ins()), ["in", "a/b", "c"]);
    assert_eq!(paths(&graph, edge.order_only()), ["dd", "order"]);
    assert_eq!(paths(&graph, edge.explicit()), [""; 0]);
    assert_eq!(graph.in_edge(edge.outs[2]), Some(EdgeId(0)));
    assert!(graph.is_discovered(graph.lookup(b"c").unwrap()));
    assert_eq!(updates.len(), 2);
    assert_eq!((updates[0].edge, updates[1].edge), (EdgeId(0), EdgeId(1)));
    assert_eq!(paths(&graph, &updates[0].outs), ["new"]);
    assert_eq!(paths(&graph, &updates[0].ins), ["a/b", "c"]);
    assert!(!updates[0].restat && updates[1].restat);
    assert!(!graph.flag(EdgeId(0), b"restat").unwrap());
    assert!(graph.flag(EdgeId(1), b"restat").unwrap());
    assert_eq!(graph.binding(EdgeId(1), b"command", Escape::Shell).unwrap(), b"t dd out2 1");
}

#[test]
fn restat_binding_of_the_file_is_the_default() {
    let manifest = "rule t\n  command = t\n  dyndep = $in\nbuild a: t dd\nbuild b: t c\n  dyndep =\n";
    let arena = Arena::new();
    let (graph, updates) = apply_to(&arena, manifest, b"ninja_dyndep_version=1\nbuild a: dyndep\n  restat = 1\n");
    updates.unwrap();
    assert!(graph.flag(EdgeId(0), b"restat").unwrap());
    assert!(graph.flag(EdgeId(1), b"restat").unwrap());
}

#[test]
fn the_version_comes_first() {
    let missing = "dd:1: expected 'ninja_dyndep_version = ...'\n";
    let early = [missing, "build out: dyndep\n^ near here"].concat();
    let cases = [
        ("", missing),
        ("build out: dyndep\n", &*early),
        ("= 1\n", "dd:1: unexpected '='\n= 1\n^ near here"),
        (" = 1\n", "dd:1: unexpected indent\n = 1\n^ near here"),
        ("rule x\n", "dd:1: unexpected 'rule'\nrule x\n^ near here"),
        ("\tx\n", "dd:1: tabs are not allowed, use spaces\n\tx\n^ near here"),
        ("x = 1\n", "dd:1: expected 'ninja_dyndep_version = ...'\nx = 1\n     ^ near here"),
        (
            "ninja_dyndep_version = 0\n",
            "dd:1: unsupported 'ninja_dyndep_version = 0'\nninja_dyndep_version = 0\n                        ^ near here",
        ),
        (
            "ninja_dyndep_version = 1.1\n",
            "dd:1: unsupported 'ninja_dyndep_version = 1.1'\nninja_dyndep_version = 1.1\n                          ^ near here",
        ),
        (
            "ninja_dyndep_version = 1.0",
            "dd:1: unexpected EOF\nninja_dyndep_version = 1.0\n                          ^ near here",
        ),
    ];
    for (text, why) in cases {
        let arena = Arena::new();
        let (_, updates) = apply_to(&arena, MANIFEST, text.as_bytes());
        assert_eq!(updates.unwrap_err().to_string(), why, "of {text:?}");
    }
    for text in ["1", "1-extra", "1.0", "1.0-extra", "1\r", "${x}1"] {
        let arena = Arena::new();
        let text = format!("\n# c\r\n\r\nninja_dyndep_version = {text}\nbuild out: dyndep\nbuild out2: dyndep\n");
        apply_to(&arena, MANIFEST, text.as_bytes()).1.unwrap();
    }
}

#[test]
fn invalid_statements_are_refused() {
    refuse("ninja_dyndep_version = 1\n", "dd:2: unexpected identifier\nninja_dyndep_version = 1\n^ near here");
    refuse("build", "dd:2: unexpected EOF\nbuild\n     ^ near here");
    refuse("build :\n", "dd:2: expected path\nbuild :\n      ^ near here");
    refuse("build $x: dyndep\n", "dd:2: empty path\nbuild $x: dyndep\n        ^ near here");
    refuse("build no: dyndep\n", "dd:2: no build statement exists for 'no'\nbuild no: dyndep\n        ^ near here");
    refuse("build in: dyndep\n", "dd:2: no build statement exists for 'in'\nbuild in: dyndep\n        ^ near here");
    refuse("build out:", "dd:2: expected build command name 'dyndep'\nbuild out:\n          ^ near here");
    refuse("build out: t\n", "dd:2: expected build command name 'dyndep'\nbuild out: t\n           ^ near here");
    refuse("build out: dyndep", "dd:2: unexpected EOF\nbuild out: dyndep\n                 ^ near here");
    refuse(
        "build out x: dyndep\n",
        "dd:2: explicit outputs not supported\nbuild out x: dyndep\n           ^ near here",
    );
    refuse(
        "build out: dyndep x\n",
        "dd:2: explicit inputs not supported\nbuild out: dyndep x\n                   ^ near here",
    );
    refuse(
        "build out: dyndep ||\n",
        "dd:2: order-only inputs not supported\nbuild out: dyndep ||\n                  ^ near here",
    );
    refuse(
        "build out: dyndep |@ v\n",
        "dd:2: expected newline, got '|@'\nbuild out: dyndep |@ v\n                  ^ near here",
    );
    refuse(
        "build out: dyndep\nbuild other: dyndep\n",
        "dd:3: multiple statements for 'other'\nbuild other: dyndep\n           ^ near here",
    );
    refuse("build out: dyndep\n  x = 1\n", "dd:3: binding is not 'restat'\n  x = 1\n       ^ near here");
    refuse("build out: dyndep\n  restat = 1\n  restat = 1\n", "dd:4: unexpected indent\n  restat = 1\n^ near here");
    refuse("build out | $x: dyndep\n", "dd:3: empty path\nbuild out | $x: dyndep\n            ^ near here, in line 2");
}

#[test]
fn statements_and_edges_must_match() {
    refuse("", "'out' not mentioned in its dyndep file 'dd'");
    refuse("build out: dyndep\n", "'out2' not mentioned in its dyndep file 'dd'");
    refuse(
        "build stranger: dyndep\nbuild out: dyndep\nbuild out2: dyndep\n",
        "dyndep file 'dd' mentions output 'stranger' whose build statement does not have a dyndep binding for the file",
    );
    let two = "multiple rules generate new";
    refuse("build out | new new: dyndep\nbuild out2: dyndep\n", two);
    refuse("build out | new: dyndep\nbuild out2 | new: dyndep\n", two);
    refuse("build out | stranger: dyndep\nbuild out2: dyndep\n", "multiple rules generate stranger");
}

#[test]
fn edge_with_a_repeated_dyndep_file_gets_its_outputs_twice() {
    let manifest = "rule t\n  command = t\nbuild a: t dd dd\n  dyndep = dd\n";
    let arena = Arena::new();
    let (_, updates) = apply_to(&arena, manifest, b"ninja_dyndep_version=1\nbuild a | b: dyndep\n");
    assert_eq!(updates.unwrap_err().to_string(), "multiple rules generate b");
    let (_, updates) = apply_to(&arena, manifest, b"ninja_dyndep_version=1\nbuild a: dyndep | b\n");
    assert!(updates.is_ok());
}

#[test]
fn broken_implicit_path_is_skipped_like_in_ninja() {
    refuse(
        "build out | a$.b: dyndep\n",
        "dd:2: unexpected identifier\nbuild out | a$.b: dyndep\n            ^ near here",
    );
    refuse("build out: dyndep | $.\n", "dd:2: lexing error\nbuild out: dyndep | $.\n                    ^ near here");
    refuse(
        "build out2: dyndep\nbuild out: dyndep | lost ",
        "dd:3: unexpected EOF\nbuild out: dyndep | lost \n                         ^ near here",
    );
}

#[test]
fn truncated_path_is_an_error_if_there_is_no_other() {
    refuse("build out: dyndep | lost ", "'out2' not mentioned in its dyndep file 'dd'");
}

#[test]
fn mutated_text_does_not_panic() {
    let seeds = [
        "ninja_dyndep_version = 1\nbuild out | new: dyndep | a$ b c\nbuild out2: dyndep\n  restat = 1\n",
        "# x\nninja_dyndep_version = 1.0\r\nbuild out: dyndep\r\nbuild out2 | x y: dyndep | ${z}a\r\n",
    ];
    each_variant(&seeds, b"$ \n\r:|\t{}a#=\0", 5_000, |text| {
        let arena = Arena::new();
        drop(apply_to(&arena, MANIFEST, text));
    });
}
