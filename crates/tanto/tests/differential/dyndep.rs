//! Dyndep files that are loaded before or during a build.

use crate::harness::{Case, Run};

const RULES: &str = "rule cp\n  command = cp $in $out\nrule t\n  command = touch $out $more\n";

/// `out` has the dyndep file `dd`, which is copied from `dd.in`.
fn generated(dd: &str, more: &str) -> Case {
    let text = format!("{RULES}build dd: cp dd.in\nbuild out: t in || dd\n  dyndep = dd\n{more}");
    Case::manifest(&text).file("in", "").file("dd.in", format!("ninja_dyndep_version = 1\n{dd}"))
}

/// The same with an existing dyndep file.
fn ready(dd: &str, more: &str) -> Case {
    let text = format!("{RULES}build out: t in || dd\n  dyndep = dd\n{more}");
    Case::manifest(&text).file("in", "").file("dd", format!("ninja_dyndep_version = 1\n{dd}"))
}

#[test]
fn an_input_found_at_the_scan() {
    let case = ready("build out: dyndep | extra\n", "build extra: cp x\n").file("x", "");
    case.run("out").run("out").touch("x").run("-d explain out").run("").check();
}

#[test]
fn an_input_found_in_the_middle() {
    let case = generated("build out: dyndep | extra\n", "build extra: cp x\n").file("x", "");
    case.run("out").run("out").touch("x").run("-d explain out").touch("dd.in").run("-d explain out").run("").check();
}

#[test]
fn a_found_output() {
    for make in [ready, generated] {
        let case = make("build out | side: dyndep\n", "  more = side\n").run("out").run("out").delete("side");
        case.run("-d explain out").run("out").touch("in").run("out").run("").check();
    }
}

#[test]
fn a_found_output_that_another_needs() {
    let more = "  more = mod\nbuild dd2: cp dd2.in\nbuild user: cp in || dd dd2\n  dyndep = dd2\n";
    let case = generated("build out | mod: dyndep\n", more);
    let case = case.file("dd2.in", "ninja_dyndep_version = 1\nbuild user: dyndep | mod\n");
    let case = case.run("user").run("").delete("mod").run("-d explain").touch("in").run("").run("");
    case.check();
}

#[test]
fn a_found_restat() {
    let text = format!(
        "{RULES}rule rs\n  command = test -e $out || touch $out\nbuild dd: cp dd.in\nbuild a: rs in || dd\n  dyndep = dd\nbuild b: cp a\n"
    );
    let case =
        Case::manifest(&text).file("in", "").file("dd.in", "ninja_dyndep_version = 1\nbuild a: dyndep\n  restat = 1\n");
    case.run("").touch("in").run("-d explain").run("-d explain").touch("in").touch("dd.in").run("").run("").check();
}

#[test]
fn newly_wanted_builds() {
    let more = "build a: cp b\nbuild b: cp x\nbuild top: cp out\n";
    let case = generated("build out: dyndep | a\n", more).file("x", "");
    case.run("top").run("top").touch("x").run("top").delete("b").run("-d explain top").run("").check();
}

#[test]
fn a_cycle_found_at_the_scan() {
    ready("build out: dyndep | b\n", "build b: cp out\n").run("b").run("out").without_answers().check();
}

#[test]
fn a_cycle_found_in_the_middle() {
    generated("build out: dyndep | b\n", "build b: cp out\n").run("b").run("out").without_answers().check();
}

#[test]
fn a_cycle_through_a_found_output() {
    let more = "build x: cp side\n";
    ready("build out | side: dyndep | x\n", more).run("out").run("x").without_answers().check();
    generated("build out | side: dyndep | x\n", more).run("out").run("x").without_answers().check();
}

#[test]
fn an_output_of_two_builds() {
    ready("build out | b: dyndep\n", "build b: cp in\n").run("out").without_answers().check();
    generated("build out | b: dyndep\n", "build b: cp in\n").run("out").without_answers().check();
}

#[test]
fn a_found_input_that_is_missing() {
    ready("build out: dyndep | nope\n", "").run("").run("").without_answers().check();
    generated("build out: dyndep | nope\n", "").run("").run("").without_answers().check();
}

#[test]
fn one_file_for_two_builds() {
    let dd = "build out: dyndep | x\nbuild out2: dyndep | out\n";
    let case = generated(dd, "build out2: t in || dd\n  dyndep = dd\n").file("x", "");
    case.run("").run("").touch("x").run("-d explain").touch("in").run("").run("").check();
}

#[test]
fn one_build_is_not_in_the_file() {
    let more = "build out2: t in || dd\n  dyndep = dd\n";
    ready("build out: dyndep\n", more).run("").without_answers().check();
    generated("build out: dyndep\n", more).run("").without_answers().check();
}

#[test]
fn a_build_that_did_not_ask() {
    ready("build out: dyndep\nbuild b: dyndep\n", "build b: cp in\n").run("").without_answers().check();
    ready("build out: dyndep\nbuild nope: dyndep\n", "").run("").without_answers().check();
    ready("build out: dyndep\nbuild out: dyndep\n", "").run("").without_answers().check();
}

#[test]
fn dyndep_as_an_implicit_and_an_explicit_input() {
    let text = format!("{RULES}build dd: cp dd.in\nbuild a: t in | dd\n  dyndep = dd\nbuild b: cp dd\n  dyndep = dd\n");
    let dd = "ninja_dyndep_version = 1\nbuild a: dyndep | x\nbuild b: dyndep\n";
    Case::manifest(&text)
        .file("in", "")
        .file("x", "")
        .file("dd.in", dd)
        .run("")
        .run("")
        .touch("dd.in")
        .run("-d explain")
        .run("")
        .check();
}

#[test]
fn bad_files() {
    let bad = [
        "",
        "build out: dyndep\n",
        "ninja_dyndep_version = 2\nbuild out: dyndep\n",
        "ninja_dyndep_version = 1",
        "ninja_dyndep_version = 1\n\nbuild out: dyndep\n  restat = 1\n  other = 2\n",
        "ninja_dyndep_version = 1\nbuild out: touch\n",
        "ninja_dyndep_version = 1\nbuild out: dyndep in\n",
        "ninja_dyndep_version = 1\nbuild out: dyndep || in\n",
        "ninja_dyndep_version = 1\nbuild out x: dyndep\n",
        "ninja_dyndep_version = 1\nbuild : dyndep\n",
        "x = 1\n",
        "ninja_dyndep_version = 1\nx = 1\n",
        "ninja_dyndep_version = 1\nbuild out | : dyndep |\n",
        "ninja_dyndep_version\n",
        "ninja_dyndep_version = 1.1-x\nbuild out: dyndep\n",
        "ninja_dyndep_version = 1\r\nbuild out: dyndep\r\n",
        "ninja_dyndep_version = x\nbuild out: dyndep\n",
        "ninja_dyndep_version = 1\nbuild out: dyndep | $x\n",
        "ninja_dyndep_version = 1\nbuild out: dyndep\n\tx = 1\n",
        "ninja_dyndep_version = 1\nbuild out: dyndep |@ v\n",
        "# c\nninja_dyndep_version = 1\n# d\nbuild out: dyndep # e\n",
        "ninja_dyndep_version = 1\nbuild o$ut: dyndep\n",
    ];
    let text = format!("{RULES}build out: t in || dd\n  dyndep = dd\n");
    for dd in bad {
        Case::manifest(&text).file("in", "").file("dd", dd).run("").run("-t query out").without_answers().check();
    }
}

#[test]
fn a_bad_file_in_the_middle() {
    generated("build out: dyndep | $!\n", "build top: cp out\n").run("top").run("top").without_answers().check();
}

#[test]
fn a_missing_file() {
    let text = format!("{RULES}build out: t in || dd\n  dyndep = dd\n");
    Case::manifest(&text).file("in", "").run("").run("-t query out").without_answers().check();
}

#[test]
fn a_build_that_fails_to_make_the_file() {
    let text = "rule bad\n  command = false\nrule t\n  command = touch $out\nbuild dd: bad\nbuild out: t in || dd\n  dyndep = dd\nbuild x: t\n";
    Case::manifest(text).file("in", "").run(Run::new("-k0 x out")).run("").check();
}

#[test]
fn a_chain_of_files() {
    let text = format!(
        "{RULES}build dd1: cp dd1.in\nbuild dd2: cp dd2.in || dd1\n  dyndep = dd1\nbuild out: t in || dd2\n  dyndep = dd2\nbuild e1: cp x\nbuild e2: cp e1\n"
    );
    let case = Case::manifest(&text)
        .file("in", "")
        .file("x", "")
        .file("dd1.in", "ninja_dyndep_version = 1\nbuild dd2: dyndep | e1\n");
    let case = case.file("dd2.in", "ninja_dyndep_version = 1\nbuild out: dyndep | e2\n");
    case.run("out").run("").touch("x").run("-d explain out").touch("dd1.in").run("-d explain out").run("").check();
}

#[test]
fn a_phony_build_with_dyndep() {
    let text = format!("{RULES}build p: phony in || dd\n  dyndep = dd\nbuild o: cp p\n");
    let case = Case::manifest(&text)
        .file("in", "")
        .file("x", "")
        .file("dd", "ninja_dyndep_version = 1\nbuild p: dyndep | x\n");
    case.run("p").without_answers().check();
}

#[test]
fn clean_takes_found_outputs_too() {
    let case =
        ready("build out | side: dyndep\n", "  more = side\n").run("").run("-t clean").run("").run("-n -v -t clean");
    case.run("-t clean out").run("").check();
    generated("build out | side: dyndep\n", "  more = side\n").run("").run("-v -t clean").run("").check();
}

#[test]
fn with_a_depfile_and_deps() {
    let text = "rule cp\n  command = cp $in $out\nrule cc\n  command = touch $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                build dd: cp dd.in\nbuild out: cc in || dd\n  dyndep = dd\nbuild e: cp x\n";
    let case = Case::manifest(text)
        .file("in", "")
        .file("x", "")
        .file("h", "")
        .file("dd.in", "ninja_dyndep_version = 1\nbuild out: dyndep | e\n");
    case.run("out")
        .run("")
        .touch("h")
        .run("-d explain")
        .touch("x")
        .run("-d explain")
        .delete("e")
        .run("")
        .run("")
        .check();
}

#[test]
fn a_dry_run() {
    let case = generated("build out: dyndep | a\n", "build a: cp x\n")
        .file("x", "")
        .run("-n out")
        .run("out")
        .touch("x")
        .run("-n -v out");
    case.check();
}
