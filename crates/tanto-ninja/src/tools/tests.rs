//! Tests of the tools with small manifests and a virtual disk.

use std::cell::RefCell;

use tanto_testing::Scratch;

use super::{Context, TOOLS, ToolOptions, ToolOutcome, find, list};
use crate::disk::VirtualDisk;
use crate::graph::Arena;
use crate::load;
use crate::logs::{BuildLog, DepsLog, Entry};

/// The result of a run.
struct ToolRun {
    /// `RERUN` if the tool had to wait.
    code: i32,
    out: String,
    err: String,
}

const RERUN: i32 = -1;

/// A build directory with its logs.
struct ToolFixture {
    disk: VirtualDisk,
    /// Outputs in the build log.
    built: Vec<&'static str>,
    /// Output, mtime and discovered inputs.
    read: Vec<(&'static str, i64, Vec<&'static str>)>,
    options: ToolOptions,
    /// The build directories that tools have locked.
    locked_dirs: RefCell<Vec<String>>,
    /// Another process holds the lock.
    busy: bool,
}

impl ToolFixture {
    fn with(manifest: &str) -> Self {
        let disk = VirtualDisk::new();
        disk.put("build.ninja", manifest);
        let options = ToolOptions { manifest: b"build.ninja".into(), ..ToolOptions::default() };
        ToolFixture { disk, built: Vec::new(), read: Vec::new(), options, locked_dirs: RefCell::default(), busy: false }
    }

    fn run(&self, line: &str) -> ToolRun {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let args: Vec<Vec<u8>> = words.map(|word| word.into()).collect();
        let arena = Arena::new();
        let mut disk = self.disk.clone();
        let options = load::LoadOptions::default();
        let mut graph = load::load(&arena, &disk, b"build.ninja", options, &mut |_| {}).unwrap();
        let mut build_log = BuildLog::in_memory(7);
        let entry = Entry { command_hash: 0, start_ms: 0, end_ms: 0, mtime: 0 };
        build_log.record(&graph, self.built.iter().map(|path| path.as_bytes()), entry).unwrap();
        let mut deps_log = DepsLog::in_memory();
        for (output, mtime, ins) in &self.read {
            let output = graph.intern(output.as_bytes());
            let ins: Vec<_> = ins.iter().map(|path| graph.intern(path.as_bytes())).collect();
            deps_log.record(&mut graph, output, *mtime, &ins).unwrap();
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut context = Context {
            graph: &mut graph,
            build_log: &build_log,
            deps_log: &deps_log,
            disk: &mut disk,
            options: &ToolOptions { called: name.into(), ..self.options.clone() },
            out: &mut out,
            err: &mut err,
            lock_build_dir: &mut |builddir| {
                self.locked_dirs.borrow_mut().push(String::from_utf8(builddir.into()).unwrap());
                self.busy
            },
        };
        let code = match find(name.as_bytes()).unwrap().run(&mut context, &args).unwrap() {
            ToolOutcome::ExitCode(code) => code,
            ToolOutcome::Rerun => RERUN,
        };
        ToolRun { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
    }

    /// The output of a successful run.
    fn out(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line}: {}", ran.out);
        ran.out
    }

    /// The build directories that a run locks.
    fn locked_dirs(&self, line: &str) -> Vec<String> {
        self.locked_dirs.borrow_mut().clear();
        self.run(line);
        self.locked_dirs.take()
    }

    /// The errors of a failed run.
    fn err(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 1, "{line}: {}{}", ran.out, ran.err);
        ran.err
    }
}

const RULES: &str = "
rule cc
  command = cc $in -o $out
  description = CC $out
rule gen
  command = gen $out
  generator = 1
";

fn fixture(text: &str) -> ToolFixture {
    ToolFixture::with(&[RULES, text].concat())
}

/// A library of two objects, an alias and a test.
fn library() -> ToolFixture {
    fixture(
        "
build gen.h: gen in
build a.o | a.map: cc a.c | gen.h || dir
build b.o: cc b$ b.c |@ check
build lib: cc a.o b.o
build check: cc check.c
build all: phony lib
default all
",
    )
}

#[test]
fn list_is_aligned_and_hides_urtle() {
    assert!(list().starts_with("ninja subtools:\n     browse  browse dependency graph in a web browser\n"));
    assert!(list().contains("\ncompdb-targets  dump JSON"));
    assert_eq!(list().lines().count(), TOOLS.len());
}

#[test]
fn unknown_tool_is_fatal_with_a_suggestion() {
    let error = find(b"clena").err().unwrap();
    assert_eq!((error.to_string().as_str(), error.is_fatal()), ("unknown tool 'clena', did you mean 'clean'?", true));
    assert_eq!(find(b"wincodepage").err().unwrap().to_string(), "unknown tool 'wincodepage'");
}

#[test]
fn target_arguments_are_resolved() {
    let fixture = library();
    assert_eq!(fixture.out("query a.c^").lines().next(), Some("a.o:"));
    assert_eq!(fixture.err("query lub"), "ninja: error: unknown target 'lub', did you mean 'lib'?\n");
    assert_eq!(fixture.err("query clean"), "ninja: error: unknown target 'clean', did you mean 'ninja -t clean'?\n");
    assert_eq!(fixture.err("query help"), "ninja: error: unknown target 'help', did you mean 'ninja -h'?\n");
    assert_eq!(fixture.err("query zzzzzzzzz"), "ninja: error: unknown target 'zzzzzzzzz'\n");
    assert_eq!(fixture.err("query all^"), "ninja: error: 'all' has no out edge\n");
    assert_eq!(fixture.err("query "), "ninja: error: empty path\n");
    assert_eq!(fixture.err("query"), "ninja: error: expected a target to query\n");
}

#[test]
fn discovered_header_resolves_to_its_reader() {
    let mut fixture = library();
    fixture.read.push(("b.o", 5, vec!["b.h"]));
    assert_eq!(fixture.out("query b.h^").lines().next(), Some("b.o:"));
}

#[test]
fn target_may_be_relative_to_builddir() {
    let mut fixture = fixture("build out/x: cc x.c\n");
    assert!(fixture.err("query x").starts_with("ninja: error: unknown target 'x'"));
    fixture.options.builddir = b"out".into();
    assert_eq!(fixture.out("query x").lines().next(), Some("out/x:"));
    assert_eq!(fixture.err("query x^"), "ninja: error: 'out/x' has no out edge\n");
}

#[test]
fn graph_without_roots_has_no_default_target() {
    let fixture = fixture("build a: cc b\nbuild b: cc a\n");
    assert_eq!(fixture.err("targets"), "ninja: error: could not determine root nodes of build graph\n");
    assert_eq!(ToolFixture::with("").out("inputs"), "");
}

#[test]
fn query_prints_inputs_and_outputs() {
    let fixture = library();
    let a = "a.o:\n  input: cc\n    a.c\n    | gen.h\n    || dir\n  outputs:\n    lib\n";
    assert_eq!(fixture.out("query a.o"), a);
    let b = "b.o:\n  input: cc\n    b b.c\n  validations:\n    check\n  outputs:\n    lib\n";
    assert_eq!(fixture.out("query ./b.o"), b);
    let check = "check:\n  input: cc\n    check.c\n  outputs:\n  validation for:\n    b.o\n";
    assert_eq!(fixture.out("query check"), check);
    assert_eq!(fixture.out("query dir"), "dir:\n  outputs:\n    a.o\n    a.map\n");
}

#[test]
fn targets_by_depth_rule_and_all() {
    let fixture = library();
    assert_eq!(fixture.out("targets"), "a.map: cc\ncheck: cc\nall: phony\n");
    let two = "a.map: cc\n  a.c\n  gen.h: gen\n  dir\ncheck: cc\n  check.c\nall: phony\n  lib: cc\n";
    assert_eq!(fixture.out("targets depth 2"), two);
    assert!(fixture.out("targets depth 0").ends_with("all: phony\n  lib: cc\n    a.o: cc\n      a.c\n      gen.h: gen\n        in\n      dir\n    b.o: cc\n      b b.c\n"));
    assert_eq!(fixture.out("targets depth"), fixture.out("targets depth 1"));
    assert_eq!(fixture.out("targets rule"), "in\na.c\ndir\nb b.c\ncheck.c\n");
    assert_eq!(fixture.out("targets rule cc"), "a.map\na.o\nb.o\ncheck\nlib\n");
    assert_eq!(fixture.out("targets rule nope"), "");
    assert!(fixture.out("targets all").starts_with("gen.h: gen\na.o: cc\na.map: cc\n"));
    assert_eq!(fixture.err("targets al"), "ninja: error: unknown target tool mode 'al', did you mean 'all'?\n");
    assert_eq!(fixture.err("targets xxxxxxxx"), "ninja: error: unknown target tool mode 'xxxxxxxx'\n");
}

#[test]
fn cycle_below_a_root_is_an_error() {
    let fixture = fixture("build a: cc b\nbuild b: cc a\nbuild top: cc a\n");
    let ran = fixture.run("targets depth 0");
    assert_eq!((ran.code, ran.err.as_str()), (1, "ninja: error: dependency cycle at 'a'\n"));
    assert_eq!(fixture.out("inputs -d top"), "b\na\n");
}

#[test]
fn rules_are_sorted_with_raw_descriptions() {
    let fixture = library();
    assert_eq!(fixture.out("rules"), "cc\ngen\nphony\n");
    assert_eq!(fixture.out("rules -d"), "cc: CC ${out}\ngen\nphony\n");
}

#[test]
fn commands_are_in_dependency_order() {
    let fixture = library();
    let all = "gen gen.h\ncc a.c -o a.o\ncc 'b b.c' -o b.o\ncc a.o b.o -o lib\n";
    assert_eq!(fixture.out("commands"), all);
    assert_eq!(fixture.out("commands lib -s all a.o a.map"), "cc a.o b.o -o lib\ncc a.c -o a.o\n");
}

#[test]
fn inputs_skip_phony_targets_and_are_quoted() {
    let fixture = library();
    assert_eq!(fixture.out("inputs"), "'b b.c'\na.c\na.o\nb.o\ndir\ngen.h\nin\nlib\n");
    assert_eq!(fixture.out("inputs -dE lib"), "a.c\nin\ngen.h\ndir\na.o\nb b.c\nb.o\n");
    assert_eq!(fixture.out("inputs --print0 check"), "check.c\0");
    assert_eq!(fixture.out("multi-inputs -d: check b.o"), "check:check.c\nb.o:b b.c\n");
    assert_eq!(fixture.out("multi-inputs check -0"), "check\tcheck.c\0");
}

#[test]
fn wrong_flag_prints_the_usage() {
    let ran = library().run("commands -q");
    assert_eq!((ran.code, ran.err.as_str()), (1, "commands: invalid option -- 'q'\n"));
    assert!(ran.out.starts_with("usage: ninja -t commands [options] [targets]\n"));
    assert_eq!(library().run("clean -h").err, "");
}

#[test]
fn compdb_has_every_edge_with_inputs() {
    let fixture = fixture("build a\\b: cc x.c y.c\nbuild nothing: cc\nbuild all: phony a\\b\n");
    let here = std::env::current_dir().unwrap();
    let object = |command: &str, file: &str, output: &str| {
        format!(
            "\n  {{\n    \"directory\": \"{}\",\n    \"command\": \"{command}\",\n    \"file\": \"{file}\",\n    \
             \"output\": \"{output}\"\n  }}",
            here.display()
        )
    };
    let cc = object("cc x.c y.c -o 'a\\\\b'", "x.c", "a\\\\b");
    let all = object("", "a\\\\b", "all");
    assert_eq!(fixture.out("compdb"), format!("[{cc},{all}\n]\n"));
    assert_eq!(fixture.out("compdb cc cc"), format!("[{cc},{cc}\n]\n"));
    assert_eq!(fixture.out("compdb nope"), "[\n]\n");
    assert_eq!(fixture.out("compdb-targets all"), format!("[{cc}\n]\n"));
}

#[test]
fn compdb_targets_requires_outputs() {
    let fixture = library();
    assert_eq!(fixture.err("compdb-targets"), "ninja: error: compdb-targets expects the name of at least one target\n");
    let why = "ninja: fatal: 'a.c' is not a target (i.e. it is not an output of any `build` statement)\n";
    assert_eq!(fixture.err("compdb-targets a.c"), why);
    assert_eq!(fixture.err("compdb-targets zzzzzzz"), "ninja: fatal: unknown target 'zzzzzzz'\n");
}

#[test]
fn compdb_shows_response_files_on_request() {
    let fixture = ToolFixture::with(
        "rule link\n  command = ld @$out.rsp\n  rspfile = $out.rsp\n  rspfile_content = $in_newline\n\
         build x: link a b\n",
    );
    assert!(fixture.out("compdb").contains("\"command\": \"ld @x.rsp\""));
    assert!(fixture.out("compdb -x").contains("\"command\": \"ld a b\""));
}

#[test]
fn graph_draws_simple_edges_as_arrows() {
    let fixture = fixture("build a: cc b\\c\nbuild x y: cc a || z\n");
    let expected = "digraph ninja {\nrankdir=\"LR\"\nnode [fontsize=10, shape=box, height=0.25]\nedge [fontsize=10]\n\
        \"x\" [label=\"x\"]\n\"E\" [label=\"cc\", shape=ellipse]\n\"E\" -> \"x\"\n\"E\" -> \"y\"\n\
        \"a\" -> \"E\" [arrowhead=none]\n\"z\" -> \"E\" [arrowhead=none style=dotted]\n\
        \"a\" [label=\"a\"]\n\"c\" -> \"a\" [label=\" cc\"]\n\"c\" [label=\"b/c\"]\n\"z\" [label=\"z\"]\n\
        \"y\" [label=\"y\"]\n}\n";
    let mut drawn = fixture.out("graph");
    for (id, name) in [
        ("x", "label=\"x\""),
        ("y", "label=\"y\""),
        ("a", "label=\"a\""),
        ("z", "label=\"z\""),
        ("c", "label=\"b/c\""),
        ("E", "shape=ellipse"),
    ] {
        let line = drawn.lines().find(|line| line.contains(name)).unwrap().to_owned();
        let address = line.split('"').nth(1).unwrap().to_owned();
        assert!(address.starts_with("0x"), "{line}");
        drawn = drawn.replace(&format!("\"{address}\""), &format!("\"{id}\""));
    }
    assert_eq!(drawn, expected);
}

#[test]
fn deps_prints_the_log() {
    let mut fixture =
        ToolFixture::with("rule cc\n  command = cc\n  deps = gcc\nbuild a.o: cc a.c\nbuild b.o: cc b.c\n");
    fixture.disk.put("a.o", "");
    fixture.read = vec![("b.o", 9, vec!["b.h"]), ("a.o", 9, vec!["x.h", "y.h"]), ("gone.o", 1, vec![])];
    let b = "b.o: #deps 1, deps mtime 9 (STALE)\n    b.h\n\n";
    let a = "a.o: #deps 2, deps mtime 9 (VALID)\n    x.h\n    y.h\n\n";
    assert_eq!(fixture.out("deps"), [b, a].concat());
    assert_eq!(fixture.out("deps a.o a.c"), [a, "a.c: deps not found\n"].concat());
}

const MISSING: &str = "
rule deps
  command = cc
  deps = gcc
rule depfile
  command = cc
  depfile = $out.d
build gen.h: gen
build other.h: gen
build a.o: deps a.c
build b.o: depfile b.c || gen.h
build all: phony a.o b.o
";

#[test]
fn missing_dependencies_are_found_in_log_and_depfile() {
    let mut fixture = fixture(MISSING);
    fixture.read = vec![("a.o", 1, vec!["a.c", "gen.h"])];
    fixture.disk.put("b.o.d", "b.o: b.c ./gen.h other.h");
    let ran = fixture.run("missingdeps all");
    let expected = "Missing dep: a.o uses gen.h (generated by gen)\n\
        Missing dep: b.o uses other.h (generated by gen)\n\
        Processed 4 nodes.\n\
        Error: There are 2 missing dependency paths.\n\
        2 targets had depfile dependencies on 2 distinct generated inputs (from 1 rules)  without a non-depfile dep \
        path to the generator.\n\
        There might be build flakiness if any of the targets listed above are built alone, or not late enough, in a \
        clean output directory.\n";
    assert_eq!((ran.code, ran.out.as_str()), (3, expected));
}

#[test]
fn foreign_depfile_and_manifest_dependency_are_ignored() {
    let mut fixture = fixture(MISSING);
    fixture.read = vec![("a.o", 1, vec!["gen.h", "build.ninja"])];
    fixture.disk.put("b.o.d", "c.o: other.h");
    let fine = "Processed 4 nodes.\nNo missing dependencies on generated files found.\n";
    assert_eq!(fixture.out("missingdeps all"), fine);
}

/// An edge of each kind that `clean` distinguishes.
fn workshop() -> ToolFixture {
    let fixture = fixture(
        "
rule link
  command = ld
  depfile = $out.d
  rspfile = $out rsp
  rspfile_content = $in
build x y: link a.o
build a.o: cc a.c
build conf: gen
build p: phony x
",
    );
    for file in ["x", "y", "x y.d", "x y rsp", "a.o", "a.c", "conf", "p"] {
        fixture.disk.put(file, "");
    }
    fixture
}

impl ToolFixture {
    /// The remaining files without the manifest.
    fn left(&self) -> String {
        self.disk.names().into_iter().filter(|name| name != "build.ninja").collect::<Vec<_>>().join(",")
    }
}

#[test]
fn clean_removes_outputs_only() {
    let fixture = workshop();
    assert_eq!(fixture.out("clean"), "Cleaning... 5 files.\n");
    assert_eq!(fixture.left(), "a.c,conf,p");
    assert_eq!(fixture.out("clean -g"), "Cleaning... 1 files.\n");
    assert_eq!(fixture.left(), "a.c,p");
}

#[test]
fn clean_lists_removed_files() {
    let mut fixture = workshop();
    fixture.options.dry_run = true;
    let said = "Cleaning...\nTarget p\nRemove x\nRemove x y.d\nRemove x y rsp\nRemove a.o\n4 files.\n";
    assert_eq!(fixture.out("clean p"), said);
    assert_eq!(fixture.left(), "a.c,a.o,conf,p,x,x y rsp,x y.d,y");
    fixture.options = ToolOptions { verbose: true, ..fixture.options.clone() };
    fixture.options.dry_run = false;
    assert_eq!(fixture.out("clean p"), said);
    assert_eq!(fixture.left(), "a.c,conf,p,y");
}

#[test]
fn clean_continues_after_an_error() {
    let fixture = workshop();
    let ran = fixture.run("clean nope a.o");
    assert_eq!((ran.code, ran.out.as_str()), (1, "Cleaning... 1 files.\n"));
    assert_eq!(ran.err, "ninja: error: unknown target 'nope'\n");
    let ran = fixture.run("clean -r nope link");
    assert_eq!((ran.code, ran.out.as_str()), (1, "Cleaning... 4 files.\n"));
    assert_eq!(ran.err, "ninja: error: unknown rule 'nope'\n");
    assert_eq!(fixture.err("clean -r"), "ninja: error: expected a rule to clean\n");
}

#[test]
fn clean_locks_only_if_there_is_something_to_remove() {
    let mut fixture = fixture("builddir = out\nbuild a.o: cc a.c\n");
    assert!(fixture.locked_dirs("clean").is_empty());
    fixture.disk.put("a.o", "");
    assert!(fixture.locked_dirs("clean -h").is_empty());
    assert!(fixture.locked_dirs("clean nope").is_empty());
    fixture.options.dry_run = true;
    assert!(fixture.locked_dirs("clean").is_empty());
    fixture.options.dry_run = false;
    assert_eq!(fixture.locked_dirs("clean"), ["out"]);
}

#[test]
fn tool_that_waited_is_run_again() {
    let mut fixture = workshop();
    fixture.built = vec!["old"];
    fixture.disk.put("old", "");
    fixture.busy = true;
    let before = fixture.left();
    for tool in ["clean", "clean nope x", "cleandead"] {
        let ran = fixture.run(tool);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (RERUN, "", ""), "{tool}");
    }
    assert_eq!(fixture.left(), before);
}

#[test]
fn cleandead_removes_outputs_only_in_the_log() {
    let mut fixture = workshop();
    fixture.built = vec!["x", "a.c", "old", "gone", "header"];
    fixture.read = vec![("old", 1, vec!["header"])];
    for file in ["old", "header"] {
        fixture.disk.put(file, "");
    }
    fixture.options.verbose = true;
    assert_eq!(fixture.out("cleandead"), "Cleaning...\nRemove old\nRemove header\n2 files.\n");
}

#[test]
fn read_only_tools_write_nothing() {
    let fixture = library();
    let before = fixture.left();
    for tool in ["commands", "inputs", "multi-inputs", "deps", "missingdeps", "graph", "query lib", "targets"] {
        fixture.out(tool);
    }
    for tool in ["compdb", "compdb-targets lib", "rules", "targets depth 0"] {
        fixture.out(tool);
    }
    assert_eq!(fixture.left(), before);
}

/// Two edges with a dyndep file.
fn with_dyndep(text: &str) -> ToolFixture {
    let fixture = fixture(
        "
rule d
  command = d
  dyndep = dd
build a: d s || dd
build b: d s || dd
build z: cc in
",
    );
    fixture.disk.put("dd", &["ninja_dyndep_version = 1\n", text].concat());
    fixture
}

#[test]
fn tools_see_dyndep_additions() {
    let fixture = with_dyndep("build a | a.imp: dyndep | in\nbuild b: dyndep\n");
    let a = "a:\n  input: d\n    s\n    | in\n    || dd\n  outputs:\n";
    let input = "in:\n  outputs:\n    z\n    a\n    a.imp\n";
    assert_eq!(fixture.out("query a in"), [a, input].concat());
    assert!(fixture.out("graph a").contains("[label=\"in\"]"));
    fixture.disk.put("a.imp", "");
    assert_eq!(fixture.out("clean"), "Cleaning... 1 files.\n");
    assert!(!fixture.disk.has("a.imp"));
}

#[test]
fn broken_dyndep_file_warns_once() {
    let fixture = with_dyndep("build a: dyndep\n");
    let warning = "ninja: warning: 'b' not mentioned in its dyndep file 'dd'\n\n";
    for tool in ["query a b", "graph"] {
        let ran = fixture.run(tool);
        assert_eq!((ran.code, ran.err.as_str()), (0, warning), "{tool}");
    }
    fixture.disk.put("b", "");
    assert_eq!(fixture.out("clean"), "Cleaning... 1 files.\n");
}

#[test]
fn phony_naming_itself_is_not_a_root() {
    let fixture = fixture("build self: phony self other\nbuild top: cc self\n");
    assert_eq!(fixture.out("targets"), "top: cc\n");
    let expected = "self:\n  input: phony\n    other\n  outputs:\n    self\n    top\n";
    assert_eq!(fixture.out("query self"), expected);
    assert_eq!(fixture.out("query self^").lines().next(), Some("self:"));
}

#[test]
fn deep_graph_needs_no_deep_stack() {
    let chain: String = (0..30_000).map(|i| format!("build n{}: cc n{i}\n", i + 1)).collect();
    let fixture = fixture(&chain);
    for tool in ["commands", "inputs", "graph", "missingdeps", "clean n30000"] {
        fixture.out(tool);
    }
    assert!(fixture.out("targets depth 3").ends_with("    n29998: cc\n"));
}

fn log_in(dir: &Scratch) -> String {
    std::fs::read_to_string(dir.at(".ninja_log")).unwrap()
}

const LOG: &str = "# ninja log v7\n1\t2\t3\tx\ta\n1\t2\t3\told\ta\n1\t2\t3\tx\tb\n";

#[test]
fn recompact_drops_obsolete_outputs_except_in_a_dry_run() {
    let dir = Scratch::new("recompact");
    dir.write(".ninja_log", LOG);
    let mut fixture = fixture(&format!("builddir = {}\nbuild x: cc x.c\n", dir.text()));
    fixture.options.dry_run = true;
    assert_eq!(fixture.out("recompact"), "");
    assert_eq!(log_in(&dir), LOG);
    fixture.options.dry_run = false;
    fixture.busy = true;
    assert_eq!(fixture.run("recompact").code, RERUN);
    assert_eq!(log_in(&dir), LOG);
    fixture.busy = false;
    assert_eq!(fixture.out("recompact"), "");
    assert_eq!(log_in(&dir), "# ninja log v7\n1\t2\t3\tx\tb\n");
}

#[test]
fn restat_stores_current_mtimes() {
    let dir = Scratch::new("restat");
    dir.write(".ninja_log", LOG);
    let mut fixture = ToolFixture::with("");
    let restat = format!("restat --builddir={} x", dir.text());
    fixture.options.dry_run = true;
    assert_eq!(fixture.out(&restat), "");
    assert_eq!(log_in(&dir), LOG);
    fixture.options.dry_run = false;
    fixture.disk.put("x", "");
    fixture.busy = true;
    assert_eq!(fixture.run(&restat).code, RERUN);
    assert_eq!(log_in(&dir), LOG);
    fixture.busy = false;
    assert_eq!(fixture.out(&restat), "");
    assert_eq!(log_in(&dir), "# ninja log v7\n1\t2\t1\tx\tb\n1\t2\t3\told\ta\n");
    assert!(fixture.locked_dirs(&format!("restat --builddir={}/none", dir.text())).is_empty());
}
