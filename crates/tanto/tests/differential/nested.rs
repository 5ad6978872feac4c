//! Nested builds in another directory and in the same one.

use crate::harness::{Case, Run};

const INNER: &str = "rule cp\n  command = cp $in $out\nbuild o: cp i\nbuild o2: cp o\n";

#[test]
fn in_another_directory() {
    let text = "rule nest\n  command = ninja -j1 -C sub && cp sub/o2 $out\n  restat = 1\nbuild always: phony\nbuild a: nest always\nrule cp\n  command = cp $in $out\nbuild b: cp a\n";
    let case = Case::manifest(text).file("sub/build.ninja", INNER).file("sub/i", "1").run("b").run("b");
    case.act(|side| side.write("sub/i", b"2", None)).run("b").run("b").check();
}

/// A job runs the program in the same build directory for another target.
const SAME: &str = "rule nest\n  command = ninja -j1 $args $t && touch $out\nrule cp\n  command = cp $in $out\n\
                    build a: nest\n  t = x y\nbuild b: cp a\nbuild x: cp i\nbuild y: cp x\nbuild z: cp i\n";

#[test]
fn in_the_same_directory() {
    Case::manifest(SAME).file("i", "").run("b").run("-d explain b y").run("").touch("i").run("b").run("").check();
}

#[test]
fn in_the_same_directory_after_and_before_other_jobs() {
    Case::manifest(SAME)
        .file("i", "")
        .run("z b")
        .run("z b y")
        .delete("a")
        .touch("i")
        .run("b z")
        .run("-d explain")
        .check();
}

#[test]
fn in_the_same_directory_while_others_run() {
    let text = format!("{SAME}rule wait\n  command = barrier $out; cp $in $out\nbuild w: wait i\n");
    let case = Case::manifest(&text)
        .file("i", "")
        .start(Run::new("-j2 b w").any_order())
        .wait_for("w")
        .act(|side| side.appears("y"));
    case.open("w").end().run("b w y").check();
}

#[test]
fn tools_in_a_job() {
    let text = "rule tool\n  command = ninja $args > $out\nbuild a: tool\n  args = -t targets all\nbuild b: tool a\n  args = -t commands\n\
                build c: tool b\n  args = -n d\nrule cp\n  command = cp $in $out\nbuild d: cp c\n";
    Case::manifest(text).run("").run("").check();
}

#[test]
fn clean_in_a_job() {
    let text = "rule clean\n  command = ninja -j1 -t clean a && touch $out\nrule cp\n  command = cp $in $out\nbuild a: cp i\nbuild b: clean a\nbuild c: cp b\n";
    Case::manifest(text).file("i", "").run("c").run("-n c").check();
}

#[test]
fn restat_and_recompact_in_a_generator() {
    let text = "rule gen\n  command = touch $out; ninja -j1 -t restat x; ninja -j1 -t recompact\n  generator = 1\nrule cp\n  command = cp $in $out\n\
                build g: gen i\nbuild x: cp g\nbuild y: cp x\n";
    let case = Case::manifest(text)
        .file("i", "")
        .run("y")
        .touch("i")
        .run("y")
        .run("-d explain y")
        .touch("x")
        .touch("i")
        .run("y")
        .run("");
    case.check();
}

#[test]
fn a_build_in_a_generator() {
    let text = "rule gen\n  command = ninja -j1 z && touch $out\n  generator = 1\nrule cp\n  command = cp $in $out\nbuild g: gen i\nbuild x: cp g\nbuild z: cp i\n";
    Case::manifest(text).file("i", "").run("x").run("-d explain x z").touch("i").run("x z").run("-d explain").check();
}

#[test]
fn with_nothing_in_the_environment() {
    let text = "rule nest\n  command = env -i TANTO_LOG_VERSION=7 PATH=\"$$PATH\" ninja -j1 b && touch $out\nrule cp\n  command = cp $in $out\n\
                build a: nest\nbuild b: cp i\n";
    Case::manifest(text).file("i", "").run("a").run("-d explain a b").check();
}

/// Also if it is no longer a child of the build.
#[test]
fn in_a_process_that_init_has_adopted() {
    let text = "rule nest\n  command = ((ninja -j1 b > said; touch done) &); until [ -e done ]; do sleep 0.02; done; touch $out\n\
                rule cp\n  command = cp $in $out\nbuild a: nest\nbuild b: cp i\n";
    Case::manifest(text).file("i", "").run("a").run("-d explain a b").check();
}

#[test]
fn deep() {
    let text = "rule nest\n  command = ninja -j1 $t && touch $out\nrule cp\n  command = cp $in $out\n\
                build a: nest\n  t = b\nbuild b: nest\n  t = c\nbuild c: nest\n  t = d\nbuild d: cp i\n";
    Case::manifest(text).file("i", "").run("a").run("-d explain a b c d").check();
}

#[test]
fn one_that_fails() {
    let text = "rule nest\n  command = ninja -j1 $t && touch $out\nrule bad\n  command = exit 5\nbuild a: nest\n  t = b\nbuild b: bad\n";
    Case::manifest(text).run("a").run("a").check();
}
