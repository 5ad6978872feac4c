//! Tests of the loader: graphs from manifests in memory, and errors.

mod concurrent_changes;
mod determinism;
mod dump;

use std::collections::BTreeMap;
use std::io;

use tanto_testing::each_variant;

use super::*;
use crate::disk::Mtime;
use crate::graph::Escape;
use crate::ids::{EdgeId, PoolId, ScopeId};

/// Read-only files in memory.
#[derive(Default)]
pub(crate) struct Files(pub(crate) BTreeMap<Vec<u8>, Vec<u8>>);

impl Files {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Files(files.iter().map(|&(path, text)| (path.into(), text.into())).collect())
    }
}

impl Disk for Files {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        Ok(i64::from(self.0.contains_key(path)))
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        self.0.insert(path.into(), content.into());
        Ok(())
    }

    fn make_parents(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        Ok(self.0.remove(path).is_some())
    }
}

/// Loads `text` as the file `input`.
fn try_load_alone<'t>(arena: &'t Arena, text: &[u8]) -> Result<Graph<'t>> {
    let mut files = Files::default();
    files.0.insert(b"input".into(), text.into());
    load(arena, &files, b"input", LoadOptions::default(), &mut |_| {})
}

/// Like `try_load_alone`, with other files, and through a snapshot.
fn try_load<'t>(arena: &'t Arena, text: &[u8], others: &[(&str, &str)]) -> Result<Graph<'t>> {
    let mut files = Files::of(others);
    files.0.insert(b"input".into(), text.into());
    let graph = load(arena, &files, b"input", LoadOptions::default(), &mut |_| {})?;
    crate::snapshot::tests::assert_survives_snapshot(&graph);
    Ok(graph)
}

fn try_load_text<'t>(arena: &'t Arena, text: &str) -> Result<Graph<'t>> {
    try_load(arena, text.as_bytes(), &[])
}

#[track_caller]
fn refuse(text: &str, why: &str) {
    let arena = Arena::new();
    let error = try_load_text(&arena, text).err().expect("an error");
    assert_eq!(error.to_string(), why, "of {text:?}");
}

fn command(graph: &Graph<'_>, edge: u32) -> String {
    String::from_utf8(graph.binding(EdgeId(edge), b"command", Escape::Shell).unwrap()).unwrap()
}

fn paths(graph: &Graph<'_>, nodes: &[crate::ids::NodeId]) -> Vec<String> {
    nodes.iter().map(|&node| String::from_utf8_lossy(graph.path(node)).into_owned()).collect()
}

#[test]
fn build_statement_with_all_kinds_of_paths() {
    let arena = Arena::new();
    let text = "rule c\n  command = c $in $out\nbuild a b | c: c d e | f || g h |@ i\n";
    let graph = try_load_text(&arena, text).unwrap();
    let edge = graph.edge(EdgeId(0));
    assert_eq!(paths(&graph, edge.outs), ["a", "b", "c"]);
    assert_eq!(edge.explicit_outs, 2);
    assert_eq!(paths(&graph, edge.ins), ["d", "e", "f", "g", "h"]);
    assert_eq!(paths(&graph, edge.explicit()), ["d", "e"]);
    assert_eq!(paths(&graph, edge.order_only()), ["g", "h"]);
    assert_eq!(paths(&graph, edge.validations), ["i"]);
    assert_eq!(command(&graph, 0), "c d e a b");
    assert!(graph.node_ids().all(|node| !graph.is_discovered(node)));
}

#[test]
fn errors_have_the_same_position_as_ninja() {
    refuse("subn", "input:1: expected '=', got eof\nsubn\n    ^ near here");
    refuse("x 3", "input:1: expected '=', got identifier\nx 3\n  ^ near here");
    refuse("x = 3", "input:1: unexpected EOF\nx = 3\n     ^ near here");
    refuse("x = $", "input:1: bad $-escape (literal $ must be written as $$)\nx = $\n    ^ near here");
    refuse("x = a$\n b$\n $\n", "input:4: unexpected EOF\n");
    refuse("build x:: y z\n", "input:1: expected build command name\nbuild x:: y z\n        ^ near here");
    refuse("build x: y z\n", "input:1: unknown build rule 'y'\nbuild x: y z\n         ^ near here");
    refuse(
        "rule c\n  command = c\nbuild $: c b.cc\n",
        "input:3: expected ':', got newline ($ also escapes ':')\nbuild $: c b.cc\n               ^ near here",
    );
    refuse(
        "rule r\n  command = r\nbuild $a: r $c\n",
        "input:4: empty path\nbuild $a: r $c\n      ^ near here, in line 3",
    );
    refuse("a = b\n\tc = d\n", "input:2: tabs are not allowed, use spaces\n\tc = d\n^ near here");
}

#[test]
fn recursive_include_is_refused() {
    let error = "input:1: loading 'input': more than 1000 files include each other\ninclude input\n             ^ near \
                 here";
    refuse("include input\n", error);
    refuse("subninja input\n", &error.replace("include input\n ", "subninja input\n  "));
}

#[test]
fn doubling_includes_are_refused() {
    let mut files = Files::default();
    for level in 0..40 {
        let text = format!("include {0}\ninclude {0}\n", level + 1);
        files.0.insert(level.to_string().into(), text.into());
    }
    files.0.insert("40".into(), "".into());
    let arena = Arena::new();
    let error = load(&arena, &files, b"0", LoadOptions::default(), &mut |_| {}).err().expect("an error");
    assert!(error.to_string().contains("more than 1048576 includes"), "{error}");
}

const RULES: &str = "rule c\n  command = c $in $out $x\n";

/// Like `refuse`, after a rule `c`.
#[track_caller]
fn refuse_after_rules(text: &str, why: &str) {
    refuse(&[RULES, text].concat(), why);
}

#[test]
fn invalid_statements_are_refused() {
    refuse("rule c\n", "input:2: expected 'command =' line\nrule c\n     ^ near here, in line 1");
    refuse("rule c\n  command =\n", "input:3: expected 'command =' line\nrule c\n     ^ near here, in line 1");
    refuse("rule c\n  x = 1\n", "input:2: unexpected variable 'x'\n  x = 1\n       ^ near here");
    refuse("rule %\n", "input:1: expected rule name\nrule %\n     ^ near here");
    refuse("rule c x\n", "input:1: expected newline, got identifier\nrule c x\n       ^ near here");
    refuse("rule phony\n", "input:1: duplicate rule 'phony'\nrule phony\n          ^ near here");
    refuse(
        "rule c\n  command = c\n  rspfile = r\n",
        "input:4: rspfile and rspfile_content need to be both specified\nrule c\n     ^ near here, in line 1",
    );
    refuse_after_rules("rule c\n", "input:3: duplicate rule 'c'\nrule c\n      ^ near here");
    refuse("pool\n", "input:1: expected pool name\npool\n    ^ near here");
    refuse("pool p\n", "input:2: expected 'depth =' line\npool p\n     ^ near here, in line 1");
    refuse("pool p\n  depth = -1\n", "input:2: invalid pool depth\n  depth = -1\n            ^ near here");
    refuse("pool p\n  x = 1\n", "input:2: unexpected variable 'x'\n  x = 1\n       ^ near here");
    refuse("pool console\n", "input:1: duplicate pool 'console'\npool console\n            ^ near here");
    refuse("default\n", "input:1: expected target name\ndefault\n       ^ near here");
    refuse("default a\n", "input:1: unknown target 'a'\ndefault a\n         ^ near here");
    refuse("default $a\n", "input:1: empty path\ndefault $a\n          ^ near here");
    refuse("build\n", "input:1: expected path\nbuild\n     ^ near here");
    refuse("|| x\n", "input:1: unexpected '||'\n|| x\n^ near here");
    refuse("  x = 1\n", "input:1: unexpected indent\n  x = 1\n^ near here");
    refuse("x = 1\r2\n", "input:1: lexing error\nx = 1\r2\n     ^ near here");
    refuse("# no line end", "input:1: lexing error\n# no line end\n^ near here");
    refuse("x = ${a b}\n", "input:1: bad $-escape (literal $ must be written as $$)\nx = ${a b}\n    ^ near here");
    refuse("x = $^\n", "input:1: bad $-escape (literal $ must be written as $$)\nx = $^\n    ^ near here");
}

#[test]
fn invalid_edges_are_refused() {
    refuse_after_rules(
        "build a: c | b | c\n",
        "input:3: expected newline, got '|'\nbuild a: c | b | c\n               ^ near here",
    );
    refuse_after_rules(
        "build a: c\n  pool = p\n",
        "input:5: unknown pool name 'p'\nbuild a: c\n      ^ near here, in line 3",
    );
    refuse_after_rules(
        "build a: c\n  dyndep = d\n",
        "input:5: dyndep 'd' is not an input\nbuild a: c\n      ^ near here, in line 3",
    );
    refuse_after_rules(
        "build a b a: c\n",
        "input:4: a is defined as an output multiple times\nbuild a b a: c\n          ^ near here, in line 3",
    );
    refuse_after_rules(
        "build a: c\nbuild b | ./a: c\n",
        "input:5: multiple rules generate a\nbuild b | ./a: c\n          ^ near here, in line 4",
    );
    refuse_after_rules(
        "build a: c\n\n  # comment\n# comment\nbuild a: c\nx = 1\n",
        "input:8: multiple rules generate a\nbuild a: c\n      ^ near here, in line 7",
    );
    refuse_after_rules("build a: c $x\n", "input:4: empty path\nbuild a: c $x\n           ^ near here, in line 3");
}

#[test]
fn long_lines_are_shortened_around_the_error() {
    let long = "x".repeat(80);
    let shown = "x".repeat(69);
    refuse(&format!("a {long}\n"), &format!("input:1: expected '=', got identifier\na {shown}x...\n  ^ near here"));
    refuse(
        &format!("{long} y\n"),
        &format!("input:1: expected '=', got identifier\n...{} y\n{}^ near here", &long[..35], " ".repeat(39)),
    );
    let just = "x".repeat(68);
    refuse(&format!("a {just}\n"), &format!("input:1: expected '=', got identifier\na {just}\n  ^ near here"));
}

#[test]
fn variables_are_evaluated_in_place_and_rules_at_the_end() {
    let arena = Arena::new();
    let text = "x = 1\ny = $x$x\nrule c\n  command = $x $y ${y}z $$ $: $\n    end\nx = 2\nbuild a: c\n  z = $x\n  x = 3\nx = 4\n\
                build b: c\n";
    let graph = try_load_text(&arena, text).unwrap();
    assert_eq!(command(&graph, 0), "3 11 11z $ : end");
    assert_eq!(command(&graph, 1), "4 11 11z $ : end");
    let own = |name: &[u8]| graph.binding(EdgeId(0), name, Escape::Shell).unwrap();
    assert_eq!([own(b"z"), own(b"x")], [b"2", b"3"]);
    assert_eq!(graph.variable(ScopeId::TOP, b"y"), Some(&b"11"[..]));
    assert_eq!(graph.variable(ScopeId::TOP, b"z"), None);
}

#[test]
fn paths_use_edge_variables_and_are_canonical() {
    let arena = Arena::new();
    let text = [RULES, "d = out\nbuild $d/a $x$ y $$: c .//b\n  x = ./x\n"].concat();
    let graph = try_load_text(&arena, &text).unwrap();
    assert_eq!(paths(&graph, graph.edge(EdgeId(0)).outs), ["out/a", "x y", "$"]);
    assert_eq!(paths(&graph, graph.edge(EdgeId(0)).ins), ["b"]);
    assert_eq!(command(&graph, 0), "c b out/a 'x y' '$' ./x");
}

#[test]
fn rule_variables_may_refer_to_each_other_but_not_in_cycles() {
    let arena = Arena::new();
    let text = "rule c\n  command = $depfile $in_newline\n  depfile = $description.d\n  description = $out\nrule d\n  command \
                = $deps\n  deps = $depfile\n  depfile = $deps\nbuild a b: c d e\nbuild f: d\n";
    let graph = try_load_text(&arena, text).unwrap();
    assert_eq!(command(&graph, 0), "a b.d d\ne");
    let error = graph.binding(EdgeId(1), b"command", Escape::Shell).unwrap_err();
    assert!(error.is_fatal());
    assert_eq!(error.to_string(), "cycle in rule variables: deps -> depfile -> deps");
}

#[test]
fn scope_shadows_rule_for_edges_without_bindings() {
    let arena = Arena::new();
    let text = "command = file\nrestat = 1\nrspfile = r\nrule c\n  command = rule\nbuild a: c\nbuild b: c\n  x = 1\n";
    let graph = try_load_text(&arena, text).unwrap();
    assert_eq!(command(&graph, 0), "file");
    assert_eq!(command(&graph, 1), "rule");
    assert!(graph.flag(EdgeId(1), b"restat").unwrap());
    // If a rule has no response file, only the edge's own environment can set one.
    assert!(graph.flag(EdgeId(0), b"rspfile").unwrap());
    assert!(!graph.flag(EdgeId(1), b"rspfile").unwrap());
}

#[test]
fn hashed_command_includes_response_file_content() {
    let arena = Arena::new();
    let text = "rule c\n  command = c @$rspfile\n  rspfile = $out.rsp\n  rspfile_content = $in\nbuild a$ b: c d\n";
    let graph = try_load_text(&arena, text).unwrap();
    assert_eq!(graph.command_for_hash(EdgeId(0)).unwrap(), b"c @'a b'.rsp;rspfile=d");
    assert_eq!(graph.binding(EdgeId(0), b"rspfile", Escape::None).unwrap(), b"a b.rsp");
}

#[test]
fn subninja_has_its_own_scope_but_include_does_not() {
    let arena = Arena::new();
    let text = [RULES, "x = 1\nsubninja s\ninclude i\nbuild a: c\nbuild b: d\n"].concat();
    let sub =
        "x = $x.2\nbuild e: c\nrule c\n  command = inner $x\nbuild f: c\nrule phony\n  command = no\nbuild g: phony\n";
    let others = [("s", sub), ("i", "x = 3\nrule d\n  command = d $x\n")];
    let graph = try_load(&arena, text.as_bytes(), &others).unwrap();
    let commands: Vec<_> = (0..5).map(|edge| command(&graph, edge)).collect();
    assert_eq!(commands, ["c  e 1.2", "inner 1.2", "no", "c  a 3", "d 3"]);
    assert!(!graph.edge(EdgeId(2)).is_phony());
}

#[test]
fn errors_name_the_included_file() {
    let arena = Arena::new();
    let error = |text: &str, others: &[(&str, &str)]| {
        try_load(&arena, text.as_bytes(), others).err().expect("an error").to_string()
    };
    assert_eq!(error("include i\n", &[("i", "build\n")]), "i:1: expected path\nbuild\n     ^ near here");
    assert_eq!(
        error("\nsubninja no\n", &[]),
        "input:2: loading 'no': No such file or directory\nsubninja no\n           ^ near here"
    );
    assert_eq!(
        error("include i x\n", &[("i", "")]),
        "input:1: expected newline, got identifier\ninclude i x\n          ^ near here"
    );
    let missing = load(&arena, &Files::default(), b"input", LoadOptions::default(), &mut |_| {});
    assert_eq!(missing.err().unwrap().to_string(), "loading 'input': No such file or directory");
}

#[test]
fn phony_edges_that_name_themselves() {
    let text = "build a: phony a b || a\nbuild c: phony d | c\n";
    let files = Files::of(&[("input", text)]);
    let arena = Arena::new();
    let mut warnings = Vec::new();
    let mut warn = |text: &[u8]| warnings.push(String::from_utf8_lossy(text).into_owned());
    let graph = load(&arena, &files, b"input", LoadOptions::default(), &mut warn).unwrap();
    assert_eq!(warnings, ["phony target 'a' names itself as an input; ignoring [-w phonycycle=warn]"]);
    assert_eq!(paths(&graph, graph.edge(EdgeId(0)).ins), ["b"]);
    // As in ninja, the count does not change.
    assert_eq!(graph.edge(EdgeId(0)).order_only_ins, 1);
    assert!(graph.edge(EdgeId(0)).names_itself && !graph.edge(EdgeId(1)).names_itself);
    assert_eq!(paths(&graph, graph.edge(EdgeId(1)).ins), ["d", "c"]);

    let options = LoadOptions { phony_cycle_is_error: true, ..LoadOptions::default() };
    let graph = load(&arena, &files, b"input", options, &mut |_| panic!("no warning")).unwrap();
    assert_eq!(paths(&graph, graph.edge(EdgeId(0)).ins), ["a", "b", "a"]);
}

#[test]
fn pools() {
    let arena = Arena::new();
    let text = "n = 3\npool p\n  depth = $n jobs\npool q\n  depth = x\nrule c\n  command = c\n  pool = p\nbuild a: c\nbuild b: \
                c\n  pool = console\nbuild d: c\n  pool =\nbuild e: c\n  pool = $out\nbuild f: c\n  pool = q\n";
    let graph = try_load_text(&arena, text).unwrap();
    let pools: Vec<_> = graph.edges().map(|edge| edge.pool.0).collect();
    assert_eq!(pools, [2, PoolId::CONSOLE.0, 0, 0, 3]);
    assert_eq!((graph.pool_depth(PoolId(2)), graph.pool_depth(PoolId(3))), (3, 0));
}

#[test]
fn dyndep_file_is_a_pending_input() {
    let arena = Arena::new();
    let text =
        [RULES, "build a: c b || ./d\n  dyndep = d/../$x\n  x = d\nx = d\nbuild e: c d\n  dyndep = $x\n"].concat();
    let graph = try_load_text(&arena, &text.replace("d/../$x", "x/../d")).unwrap();
    let file = graph.lookup(b"d").unwrap();
    assert_eq!(graph.edge(EdgeId(0)).dyndep, Some(file));
    assert_eq!(graph.edge(EdgeId(1)).dyndep, Some(file));
    assert!(graph.dyndep_pending(file));
    assert_eq!(graph.node_ids().filter(|node| graph.dyndep_pending(*node)).count(), 1);
}

#[test]
fn line_ends_blanks_comments_and_nul() {
    let arena = Arena::new();
    let text =
        "# c\r\nrule c\r\n  # c\n  command = a b \r\n  description = $\r\n    d\r\n \t\n".replace(" \t\n", "  \n");
    let text = [&text, "x = not # a comment\n\nbuild a: c $\r\n  b\r\n\r\ndefault a\n\0junk"].concat();
    let graph = try_load_text(&arena, &text).unwrap();
    assert_eq!(command(&graph, 0), "a b ");
    assert_eq!(graph.binding(EdgeId(0), b"description", Escape::Shell).unwrap(), b"d");
    assert_eq!(graph.variable(ScopeId::TOP, b"x"), Some(&b"not # a comment"[..]));
    assert_eq!(paths(&graph, graph.defaults()), ["a"]);
}

#[test]
fn keywords_may_be_names() {
    let arena = Arena::new();
    let text = "rule build\n  command = b\nbuild subninja: build include default pool rule\ndefault subninja\n";
    let graph = try_load_text(&arena, text).unwrap();
    assert_eq!(paths(&graph, graph.edge(EdgeId(0)).ins), ["include", "default", "pool", "rule"]);
}

#[test]
fn required_version_is_checked_first() {
    let arena = Arena::new();
    let error = try_load_text(&arena, "ninja_required_version = 1.99\nsyntax error\n").err().unwrap();
    assert!(error.is_fatal());
    assert!(try_load_text(&arena, "ninja_required_version = 1.3\n").is_ok());
}

#[test]
fn similar_names_are_suggested() {
    let place = "\nbuild a: phoney\n         ^ near here\ndid you mean 'phony'?";
    refuse("build a: phoney\n", &["input:1: unknown build rule 'phoney'", place].concat());
    let place = "\nrule c\n  comand = x\n".replace("\nrule c", "") + "            ^ near here\ndid you mean 'command'?";
    refuse("rule c\n  comand = x\n", &["input:2: unexpected variable 'comand'", &place].concat());
    let place = "\nbuild a: phony\n      ^ near here, in line 3\ndid you mean 'link'?";
    let text = "pool link\n  depth = 1\nbuild a: phony\n  pool = lnk\n";
    refuse(text, &["input:5: unknown pool name 'lnk'", place].concat());
    let place = "\ndefault lib/a.0\n               ^ near here\ndid you mean 'lib/a.o'?";
    refuse("build lib/a.o: phony\ndefault lib/a.0\n", &["input:2: unknown target 'lib/a.0'", place].concat());
}

#[test]
fn suggestions_come_from_before_the_error() {
    let place = "\ndefault ab\n          ^ near here\ndid you mean 'ay'?";
    let behind = "build ab: phony\nbuild ac: phony\n";
    let text = ["build ay: phony ax\ndefault ab\n", behind, "nonsense\n", behind].concat();
    refuse(&text, &["input:2: unknown target 'ab'", place].concat());
}

#[test]
fn warnings_before_an_error_are_shown() {
    let output = |text: &str| {
        let mut output = Vec::new();
        let mut warn = |text: &[u8]| output.push(String::from_utf8_lossy(text).into_owned());
        let arena = Arena::new();
        let files = Files::of(&[("input", text)]);
        let error = load(&arena, &files, b"input", LoadOptions::default(), &mut warn).err().expect("an error");
        output.push(error.to_string().lines().next().unwrap().to_owned());
        output.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let old = "ninja_required_version = 0.9\n";
    let (is_old, is_selfish, is_unknown) = ("ninja executable version", "phony target 'a'", "input:2: unknown target");
    assert_eq!(output(&["build a: phony a\ndefault b\n", old].concat()), [is_selfish, is_unknown]);
    assert_eq!(output(&[old, "default b\nbuild a: phony a\n"].concat()), [is_old, is_unknown]);
    let no_input = "build a: phony a\n  dyndep = b\n";
    assert_eq!(output(&[old, no_input, old].concat()), [is_old, is_selfish, "input:4: dyndep 'b'"]);
    let twice = [RULES, "build a: c\nbuild a: phony a\n"].concat();
    assert_eq!(output(&twice), ["input:5: multiple rules"]);
}

#[test]
fn values_have_a_limit() {
    let arena = Arena::new();
    let doubling = "a = $a$a$a$a\n".repeat(15);
    let error = try_load_text(&arena, &["a = x\n", &doubling].concat()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "input:15: variable 'a' makes a value longer than 67108864 bytes\na = $a$a$a$a\n            ^ near here"
    );
}

#[test]
fn mutated_text_does_not_panic() {
    let seeds = [
        "rule c\n  command = c $in > ${out}\n  rspfile = r\n  rspfile_content = $in\nbuild a | b: c d | e || f |@ g\n  x = $y\n",
        "pool p\n  depth = 2\nx = 1$\n  2\ninclude input\nsubninja $x\nbuild a: phony a\ndefault a\n",
        "rule c\r\n  command = $depfile\r\n  depfile = $command\r\nbuild $$ $ $:: c\r\n  dyndep = $$\r\n",
    ];
    each_variant(&seeds, b"$ \n\r:|@\t{}a#=\0.", 3_000, |text| {
        let arena = Arena::new();
        if let Ok(graph) = try_load_alone(&arena, text) {
            graph.edge_ids().for_each(|edge| drop(graph.command_for_hash(edge)));
        }
    });
}
