//! The `-t` tools with options. Without options, every case runs them at its end.

use crate::harness::{Case, Run};

const TREE: &str = "rule cc\n  command = cat $in > $out; echo '$out: h' > $out.d\n  description = CC $out\n  depfile = $out.d\n  deps = gcc\n\
                    rule link\n  command = cat @$out.rsp $in > $out 2>/dev/null || touch $out\n  rspfile = $out.rsp\n  rspfile_content = $in_newline\n\
                    rule gen\n  command = touch $out\n  generator = 1\nrule unused\n  command = x\n\
                    build a.o: cc a.c\nbuild b$ b.o: cc b.c | imp || oo\nbuild oo: gen\nbuild prog | prog.map: link a.o b$ b.o |@ check\n\
                    build check: gen\nbuild all: phony prog\nbuild lone: cc h\ndefault all\n";

fn tree() -> Case {
    Case::manifest(TREE).file("a.c", "1").file("b.c", "2").file("imp", "").file("h", "")
}

#[test]
fn all_of_them_before_and_after_a_build() {
    tree().check();
    tree().run("").run("lone").check();
}

#[test]
fn list_and_unknown_ones() {
    tree()
        .run("-t list")
        .run("-t nope")
        .run("-t target")
        .run("-t msvc")
        .run("-t wincodepage")
        .run(Run::new("-t urtle").view(|_| String::new()))
        .run("-tlist")
        .check();
}

#[test]
fn targets() {
    let case = tree()
        .run("-t targets rule cc")
        .run("-t targets rule nope")
        .run("-t targets depth 2")
        .run("-t targets depth 0");
    case.run("-t targets depth")
        .run("-t targets depth x")
        .run("-t targets nope")
        .run("-t targets rul")
        .run("-t targets all x")
        .check();
}

#[test]
fn targets_without_roots() {
    let text = "rule r\n  command = x\nbuild a: r b\nbuild b: r a\n";
    Case::manifest(text).run("-t targets").run("-t targets all").run("").run("-t graph a").without_answers().check();
}

#[test]
fn rules() {
    tree().run("-t rules").run("-t rules -d").run("-t rules -h").run(Run::new("-t rules -x").view(last_lines)).check();
}

/// The usage without getopt's line, which contains the program's path.
fn last_lines(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains("option --") && !line.contains("unrecognized"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn commands() {
    let case = tree().run("-t commands prog").run("-t commands -s prog").run("-t commands nope").run("-t commands -h");
    case.run("-t commands a.o a.o all").run("-t commands a.c").run(Run::new("-t commands -x").view(last_lines)).check();
}

#[test]
fn inputs() {
    let case = tree()
        .run("-t inputs prog")
        .run("-t inputs --dependency-order all")
        .run("-t inputs -0 prog")
        .run("-t inputs -E prog");
    let case = case.run("-t inputs --no-shell-escape --print0 all lone").run("-t inputs nope").run("-t inputs --help");
    case.run("-t inputs a.c").run("-t inputs -d a.o prog").check();
}

#[test]
fn multi_inputs() {
    let case = tree()
        .run("-t multi-inputs prog a.o")
        .run("-t multi-inputs -d : prog")
        .run("-t multi-inputs --delimiter=:: -0 all lone");
    case.run("-t multi-inputs").run("-t multi-inputs nope").run("-t multi-inputs -h").check();
}

#[test]
fn query() {
    let case = tree()
        .run("-t query prog")
        .run("-t query a.c all oo check")
        .run("-t query nope")
        .run("-t query")
        .run("-t query h^");
    case.run("").run("-t query h^ a.c^").check();
}

#[test]
fn deps() {
    let case = tree()
        .run("-t deps")
        .run("-t deps a.o")
        .run("all")
        .run("lone")
        .run("-t deps")
        .run("-t deps a.o prog")
        .run("-t deps nope");
    case.touch("a.o").run("-t deps a.o").delete("a.o").run("-t deps").check();
}

#[test]
fn missingdeps() {
    let text = "rule gen\n  command = touch $out\nrule cc\n  command = cat $in > $out; echo '$out: gen.h' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                build gen.h: gen\nbuild a.o: cc a.c\nbuild b.o: cc b.c || gen.h\nbuild c.o: cc gen.h\n";
    let case = Case::manifest(text).file("a.c", "").file("b.c", "").run("gen.h").run("").run("-t missingdeps");
    case.run("-t missingdeps b.o").run("-t missingdeps a.o").run("-t missingdeps nope").check();
}

#[test]
fn compdb() {
    let case = tree()
        .run("-t compdb")
        .run("-t compdb cc")
        .run("-t compdb -x")
        .run("-t compdb -x link nope")
        .run("-t compdb -h");
    case.run("-t compdb-targets prog")
        .run("-t compdb-targets -x all lone")
        .run("-t compdb-targets")
        .run("-t compdb-targets a.c")
        .run("-t compdb-targets nope")
        .run("-t compdb-targets -h")
        .check();
}

#[test]
fn compdb_escapes() {
    let text = "rule r\n  command = printf '\"\\t' > \"$out\" # $in\t\x01\u{fc}\nbuild a: r in$ 'x in\"y\n";
    Case::manifest(text).run("-t compdb").check();
}

#[test]
fn compdb_expands_response_files() {
    let text = "rule a\n  command = cc @$out.rsp x\n  rspfile = $out.rsp\n  rspfile_content = $in_newline -o $out\n\
                rule b\n  command = cc -f $out.rsp\n  rspfile = $out.rsp\n  rspfile_content = b\n\
                rule c\n  command = cc --option-file=$out.rsp\n  rspfile = $out.rsp\n  rspfile_content = c\n\
                rule d\n  command = cc $out.rsp\n  rspfile = $out.rsp\n  rspfile_content = d\n\
                build o1: a x y\nbuild o2: b x\nbuild o3: c x\nbuild o4: d x\n";
    Case::manifest(text).run("-t compdb -x").run("-t compdb-targets -x o1 o3").check();
}

#[test]
fn graph() {
    tree().run("-t graph prog").run("-t graph a.o lone").run("-t graph nope").run("").run("-t graph").check();
}

#[test]
fn clean() {
    let case = tree().run("").run("-n -t clean").run("-v -n -t clean").run("-t clean").run("-t clean").run("");
    let case = case
        .run("-v -t clean a.o")
        .run("")
        .run("-t clean prog")
        .run("")
        .run("-t clean all")
        .run("")
        .run("-t clean -g")
        .run("");
    case.run("--quiet -t clean").check();
}

#[test]
fn clean_by_rule_and_by_mistake() {
    let case = tree()
        .run("")
        .run("-t clean -r cc")
        .run("")
        .run("-v -t clean -r cc link")
        .run("-t clean -r nope")
        .run("-t clean -r");
    case.run("-t clean nope")
        .run("-t clean nope a.o")
        .run("-t clean -h")
        .run("-t clean -r gen")
        .run("-t clean -g oo")
        .check();
}

#[test]
fn clean_keeps_phony_targets() {
    let text = "rule r\n  command = mkdir -p $out\nbuild d: r\nbuild p: phony d\n";
    Case::manifest(text).run("").file("p", "").run("-t clean").run("-v -t clean").check();
}

#[test]
fn cleandead() {
    let case = tree()
        .run("")
        .run("lone")
        .file("build.ninja", TREE.replace("build lone: cc h\n", "").replace(" | prog.map", ""));
    case.run("-n -t cleandead").run("-v -t cleandead").run("-t cleandead").run("").check();
}

#[test]
fn cleandead_spares_sources_of_today() {
    let case = tree().run("").run("lone").file("build.ninja", "rule r\n  command = cp $in $out\nbuild z: r a.o lone\n");
    case.run("-v -t cleandead").without_answers().check();
}

#[test]
fn recompact() {
    let case = tree()
        .run("-t recompact")
        .run("")
        .touch("a.c")
        .run("")
        .touch("a.c")
        .run("")
        .run("-t recompact")
        .run("")
        .run("-t deps");
    case.file("build.ninja", TREE.replace("build lone: cc h\n", "").replace("b$ b.o", "bb.o"))
        .delete("b b.o")
        .run("-t recompact")
        .run("")
        .check();
}

#[test]
fn restat() {
    let case = tree()
        .run("-t restat")
        .run("")
        .touch("a.c")
        .touch("a.o")
        .touch("prog")
        .run("-t restat")
        .run("-d explain")
        .touch("a.c");
    let case = case
        .touch("a.o")
        .run("-t restat b.o")
        .run("-d explain")
        .delete("prog")
        .run("-t restat prog")
        .run("-d explain")
        .run("");
    case.run(Run::new("-t restat -h").view(|text| text.replace("[--builddir=DIR] ", ""))).check();
}

#[test]
fn browse_without_a_server() {
    tree().run(Run::new("-t browse --help").view(|_| String::new())).check();
}

#[test]
fn tools_take_the_remaining_arguments() {
    tree().run("-t targets all -v").run("-t commands -- prog").run("-t query -- prog").run("-n -t restat").check();
}
