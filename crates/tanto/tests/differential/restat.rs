//! Restat: unchanged outputs clean their dependents.

use crate::harness::{Case, Run};

/// `$out` is only written if its content changes; then a chain of copies.
const RESTAT: &str = "rule rs\n  command = cmp -s in.$out $out || cp in.$out $out\n  restat = 1\nrule cp\n  command = cp $in $out\n\
                      build a: rs x\nbuild b: cp a\nbuild c: cp b\n";

fn restat() -> Case {
    Case::manifest(RESTAT).file("x", "").file("in.a", "1").run("c")
}

#[test]
fn an_unchanged_output_cleans_its_dependents() {
    restat().touch("x").run("-d explain").run("-d explain").touch("x").run("b").run("c").check();
}

#[test]
fn a_changed_output_does_not() {
    restat().touch("x").file("in.a", "2").run("-d explain").run("-d explain").check();
}

#[test]
fn a_dependent_with_another_reason_stays() {
    restat().touch("x").delete("c").run("-d explain").run("").touch("x").delete("b").run("").check();
}

#[test]
fn the_record_is_the_start_if_anything_was_cleaned() {
    let text = RESTAT.replace("cmp -s", "tick; cmp -s");
    let text = text.replace("cp in.$out $out\n", "cp in.$out $out; tick\n");
    let case = Case::manifest(&text).file("x", "").file("in.a", "1").run("c").touch("x").run("").run("-d explain");
    case.touch("x").file("in.a", "2").run("").run("").exact_times().check();
}

#[test]
fn the_record_is_the_newest_output_if_all_changed() {
    let text = "rule rs\n  command = tick; touch a; tick; touch b; tick; cp x c; touch -d @5 d\n  restat = 1\nbuild a b c d: rs x\n";
    Case::manifest(text).file("x", "").run("").run("-d explain").exact_times().check();
}

#[test]
fn a_missing_output_that_stays_missing_is_unchanged() {
    let text = "rule rs\n  command = true\n  restat = 1\nrule t\n  command = touch $out\nbuild a: rs x\nbuild b: t a\n";
    Case::manifest(text).file("x", "").run("").run("-d explain").touch("x").run("-d explain").run("").check();
}

#[test]
fn a_removed_output_is_a_change() {
    let text = "rule rs\n  command = rm -f $out\n  restat = 1\nrule t\n  command = touch $out\nbuild a: rs x\nbuild b: t || a\n";
    Case::manifest(text).file("x", "").file("a", "").run("").run("-d explain").run("").check();
}

#[test]
fn order_only_inputs_do_not_hold_cleaning_back() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild o: t y\nbuild b: t a || o\nbuild c: t b\n";
    Case::manifest(text).file("x", "").file("y", "").run("").touch("x").touch("y").run("-d explain").run("").check();
}

#[test]
fn a_dirty_input_holds_cleaning_back() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild o: t y\nbuild b: t a | o\nbuild c: t b\n";
    Case::manifest(text)
        .file("x", "")
        .file("y", "")
        .run("")
        .touch("x")
        .touch("y")
        .run("")
        .touch("x")
        .run("")
        .run("")
        .check();
}

#[test]
fn missing_deps_are_never_cleaned() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule cc\n  command = touch $out; echo '$out: h' > $out.d\n\
                \x20 depfile = $out.d\n  deps = gcc\nbuild a: rs x\nbuild b: cc a\n";
    let case = Case::manifest(text).file("x", "").file("h", "").run("").delete(".ninja_deps").touch("x");
    case.run("-d explain").run("-d explain").touch("x").run("").check();
}

#[test]
fn restat_of_one_of_two_outputs() {
    let text = "rule rs\n  command = test -e a || touch a; tick; touch b\n  restat = 1\nrule cp\n  command = cp $in $out\n\
                build a b: rs x\nbuild c: cp a\nbuild d: cp b\n";
    Case::manifest(text).file("x", "").run("").touch("x").run("-d explain").run("-d explain").check();
}

#[test]
fn restat_through_phony() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild p: phony a\nbuild b: t p\nbuild c: t b\n";
    Case::manifest(text).file("x", "").run("").touch("x").run("-d explain").run("-d explain").check();
}

#[test]
fn a_restat_that_fails_cleans_nothing() {
    let text = "rule rs\n  command = test -e $out || touch $out; test ! -e bad\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild b: t a\n";
    let case = Case::manifest(text).file("x", "").run("").touch("x").file("bad", "").run("-k0").delete("bad");
    case.run("-d explain").run("").check();
}

#[test]
fn restat_with_a_depfile() {
    let text = "rule rs\n  command = test -e $out || touch $out; echo '$out: h' > $out.d\n  restat = 1\n  depfile = $out.d\n  deps = gcc\n\
                rule t\n  command = touch $out\nbuild a: rs x\nbuild b: t a\n";
    let case = Case::manifest(text).file("x", "").file("h", "").run("").touch("h").run("-d explain").run("-d explain");
    case.touch("a").run("-d explain").run("").check();
}

#[test]
fn restat_set_on_the_build() {
    let text = "rule r\n  command = test -e $out || touch $out\nrule t\n  command = touch $out\nbuild a: r x\n  restat = 1\nbuild b: t a\n";
    Case::manifest(text).file("x", "").run("").touch("x").run("").run("").check();
    Case::manifest(&text.replace("restat = 1", "restat =")).file("x", "").run("").touch("x").run("").check();
}

#[test]
fn generator_records_its_newest_output() {
    let text = "rule g\n  command = tick; touch $out; tick\n  generator = 1\nbuild a: g x\n";
    Case::manifest(text).file("x", "").run("").run("").touch("x").run("").run("").exact_times().check();
}

#[test]
fn a_plain_rule_records_its_start() {
    let text = "rule r\n  command = tick; touch $out; tick\nbuild a: r x\n";
    Case::manifest(text).file("x", "").run("").touch("x").run("").exact_times().check();
}

#[test]
fn the_total_falls() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild b: t a\nbuild c: t b\nbuild d: t c y\nbuild e: t d\n";
    let case = Case::manifest(text).file("x", "").file("y", "").run("").touch("x").run("").touch("y").touch("x");
    case.run(Run::new("").env("NINJA_STATUS", "%s %t %r %u %f %p|")).run("").check();
}

#[test]
fn a_diamond_is_cleaned_as_a_whole() {
    let text = "rule rs\n  command = test -e $out || touch $out\n  restat = 1\nrule t\n  command = touch $out\n\
                build a: rs x\nbuild l: rs a\nbuild r: t a\nbuild d: t l r\n";
    Case::manifest(text).file("x", "").run("").touch("x").run("").touch("x").run("-j4").run("").check();
}
