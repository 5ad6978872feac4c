//! Invalid input: ninja's first error line and exit code.

use crate::harness::{Case, Run};

fn bad(text: impl AsRef<[u8]>) {
    let case = Case::new().file("build.ninja", text).file("in", "");
    case.run("").run("-n").run("-t targets all").without_answers().check();
}

const RULE: &str = "rule r\n  command = touch $out\n";

/// A statement after a valid rule.
fn bad_after_rule(text: &str) {
    bad(format!("{RULE}{text}"));
}

#[test]
fn no_manifest() {
    Case::new().run("").run("-f other.ninja").run("-t commands").run("-t restat").without_answers().check();
}

#[test]
fn the_manifest_is_a_directory() {
    Case::new().file("build.ninja/x", "").run("").without_answers().check();
}

#[test]
fn unknown_rule() {
    bad("build a: nope\n");
    bad_after_rule("build a: rr in\n");
}

#[test]
fn build_without_colon() {
    bad_after_rule("build a\n");
    bad_after_rule("build a r in\n");
    bad_after_rule("build a: : r\n");
}

#[test]
fn build_without_outputs() {
    bad_after_rule("build : r in\n");
    bad_after_rule("build | x: r in\n");
    bad_after_rule("build $nothing: r in\n");
}

#[test]
fn build_without_a_rules_name() {
    bad_after_rule("build a:\n");
    bad_after_rule("build a: $r\n");
}

#[test]
fn empty_paths() {
    bad_after_rule("build a: r $nothing\n");
    bad_after_rule("default $nothing\n");
    bad_after_rule("default\n");
}

#[test]
fn bars_out_of_place() {
    bad_after_rule("build a: r |\n in\n");
    bad_after_rule("build a: r || b | c\n");
    bad_after_rule("build a: r |@\n  x\n");
    bad_after_rule("build a || b: r\n");
    bad_after_rule("build a: r ||| b\n");
}

#[test]
fn an_output_of_two_builds() {
    bad_after_rule("build a: r\nbuild a: r\n");
    bad_after_rule("build a: r\nbuild b | ./a: r\n");
}

#[test]
fn a_rule_twice() {
    bad_after_rule("rule r\n  command = x\n");
    bad("rule phony\n  command = x\n");
}

#[test]
fn a_rule_without_command() {
    bad("rule r\n");
    bad("rule r\n  description = x\n");
    bad("rule\n");
    bad("rule r s\n  command = x\n");
    bad("rule ${x}\n  command = x\n");
}

#[test]
fn a_rules_unknown_variable() {
    bad("rule r\n  command = x\n  comand = y\n");
    bad("rule r\n  command = x\n  othervar y\n");
}

#[test]
fn rspfile_without_its_content() {
    bad("rule r\n  command = x\n  rspfile = y\n");
    bad("rule r\n  command = x\n  rspfile_content = y\n");
}

#[test]
fn bad_escapes() {
    bad("x = $\x01\n");
    bad("x = ${y\n");
    bad("x = ${}\n");
    bad("x = $.\n");
    bad("x = $%\n");
    bad_after_rule("build a$!: r\n");
}

#[test]
fn tabs_and_indents() {
    bad("\tx = 1\n");
    bad("rule r\n\tcommand = x\n");
    bad("  x = 1\n");
    bad_after_rule("build a: r\n    x = 1\n  y = 2\n z = 3\n\tw = 4\n");
}

#[test]
fn other_tokens() {
    bad("= 1\n");
    bad("x\n");
    bad("x 1\n");
    bad("x = 1\n:\n");
    bad("| a\n");
    bad("build\n");
    bad("include\n");
    bad("subninja x y\n");
    bad("%\n");
    bad("x = 1\n}\n");
}

#[test]
fn pools() {
    bad("pool\n");
    bad("pool p\n");
    bad("pool p\n  depth = -1\n");
    bad("pool p\n  depth = x\n");
    bad("pool p\n  depth =\n");
    bad("pool p\n  depth = 2\npool p\n  depth = 1\n");
    bad("pool p\n  dept = 2\n");
    bad("pool console\n  depth = 2\n");
    bad_after_rule("build a: r\n  pool = nope\n");
}

#[test]
fn default_of_an_unknown_target() {
    bad("default x\n");
    bad_after_rule("build aa: r\ndefault ab\n");
    bad_after_rule("build aa: r in\ndefault a:\n");
}

#[test]
fn included_files_that_are_missing_or_bad() {
    bad("include nope.ninja\n");
    bad("subninja nope.ninja\n");
    bad("include $x\n");
    Case::manifest("x = 1\ninclude a\n")
        .file("a", "y = 1\nsubninja b\n")
        .file("b", "rule\n")
        .run("")
        .without_answers()
        .check();
    Case::manifest("include d\n").file("d/x", "").run("").without_answers().check();
}

#[test]
fn a_nul_byte() {
    bad(b"x = 1\0\n");
    bad(b"rule r\n  command = x\0y\nbuild a: r\n");
    bad(b"\0");
    bad(b"build a\0b: phony\n");
}

#[test]
fn a_carriage_return_alone() {
    bad("x = 1\ry = 2\n");
    bad("rule r\r\n  command = x\r\nbuild a: r\rbuild b: r\n");
}

#[test]
fn a_long_line() {
    let long = "x".repeat(300);
    bad(format!("x = {long} $! y\n"));
    bad(format!("build {long}: nope {long}\n"));
}

#[test]
fn a_dyndep_that_is_no_input() {
    bad_after_rule("build a: r in\n  dyndep = dd\n");
}

#[test]
fn a_manifest_that_is_cut_off() {
    for text in [
        "rule",
        "rule r",
        "rule r\n  command",
        "build",
        "build a",
        "build a:",
        "x =",
        "x",
        "pool p\n  depth",
        "default",
    ] {
        bad(text);
    }
}

#[test]
fn cycles() {
    bad_cycle("build a: r b\nbuild b: r c\nbuild c: r a\n");
    bad_cycle("build a: r a\n");
    bad_cycle("build a: r | a\n");
    bad_cycle("build a: r || b\nbuild b: r a\n");
    bad_cycle("build x: r a\nbuild a b: r c\nbuild c: r b\ndefault x\n");
    bad_cycle("build a: phony b\nbuild b: phony a\n");
    bad_cycle("build a: r |@ v\nbuild v: r w\nbuild w: r v\n");
}

fn bad_cycle(text: &str) {
    let case = Case::manifest(&format!("{RULE}{text}")).run("").run("a").run("-n a").run("-t commands a");
    case.without_answers().check();
}

#[test]
fn a_phony_that_names_itself() {
    let case = Case::manifest("build a: phony a\n").run("a").run("-w phonycycle=err a").run("-w phonycycle=warn a");
    case.check();
    Case::manifest("rule r\n  command = touch $out\nbuild b: r\nbuild a: phony a b\n").run("a").run("a").check();
    Case::manifest("build a | x: phony a\n").run("a").without_answers().check();
}

#[test]
fn unknown_targets() {
    let text = format!("{RULE}build some/target: r in\nbuild other: r\n");
    let case = Case::manifest(&text).file("in", "").run("some/taget").run("othr").run("nothing-like-it").run("clean");
    case.run("help")
        .run("./x/../othr")
        .run(Run::default().arg(""))
        .run("in")
        .run("in^")
        .run("other^")
        .run("zz^")
        .check();
}

#[test]
fn a_missing_input() {
    let text = format!("{RULE}build a: r in\nbuild b: r a\n");
    Case::manifest(&text).run("b").run("-n b").run("-k0 b").run("in").without_answers().check();
    Case::manifest(&format!("{RULE}build a: r || in\n")).run("").without_answers().check();
    Case::manifest(&format!("{RULE}build a: r | in\n")).run("").without_answers().check();
    Case::manifest(&format!("{RULE}build a: phony in\nbuild b: r a\n")).run("b").run("a").without_answers().check();
}

#[test]
fn deps_without_a_depfile() {
    Case::manifest("rule r\n  command = touch $out\n  deps = gcc\nbuild a: r\n").run("").run("").check();
}

#[test]
fn a_variable_that_names_itself() {
    let text = "rule r\n  command = $a\n  description = $b\nbuild o: r\n";
    Case::manifest("rule r\n  command = $command\nbuild o: r\n").run("").without_answers().check();
    Case::manifest(text).run("").check();
    Case::manifest(
        "rule r\n  command = $depfile\n  depfile = $rspfile\n  rspfile = $depfile\n  rspfile_content = x\nbuild o: r\n",
    )
    .run("")
    .without_answers()
    .check();
}

#[test]
fn a_command_that_is_not_there() {
    Case::manifest("rule r\n  command = /nope/not-there $out\nbuild a: r\n").run("").check();
}

#[test]
fn an_output_whose_directory_is_a_file() {
    Case::manifest("rule r\n  command = touch $out\nbuild f/a: r\n")
        .file("f", "")
        .run("")
        .run("")
        .without_answers()
        .check();
}

#[test]
fn an_input_below_a_file_is_missing() {
    Case::manifest("rule r\n  command = touch $out\nbuild a: r f/x\n").file("f", "").run("").without_answers().check();
}

#[test]
fn a_build_directory_that_cannot_be_made() {
    let text = "builddir = file/x\nrule r\n  command = touch $out\nbuild a: r\n";
    let case = Case::manifest(text).file("file", "").run("").run("-t recompact").run("-t cleandead");
    case.without_answers().check();
}

/// With `-n` as without.
#[test]
fn a_depfile_that_cannot_be_read() {
    let text = "rule cc\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\nbuild a: cc in\nbuild b: cc a\n";
    for content in ["malformed\n", "a b c\n", "other: h\n", ""] {
        let case = Case::manifest(text).file("in", "").file("h", "").run("").file("a.d", content);
        case.run("-n").run("-n -k0 -d explain").run("").check();
    }
}
