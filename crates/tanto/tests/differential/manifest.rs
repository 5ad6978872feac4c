//! Manifests that are rebuilt.

use crate::harness::{Case, Run};

/// A manifest that is copied from `build.in`.
const SELF: &str = "rule regen\n  command = cp build.in $out\n  generator = 1\n  description = REGEN\nbuild build.ninja: regen build.in\n\
                    rule t\n  command = touch $out\nbuild a: t\n";

fn own(text: &str) -> Case {
    Case::manifest(text).file("build.in", text)
}

#[test]
fn a_new_target_appears() {
    let case = own(SELF).run("").file("build.in", format!("{SELF}build b: t\n")).run("-d explain").run("").run("b");
    case.check();
}

#[test]
fn a_target_vanishes() {
    let case =
        own(&format!("{SELF}build b: t\n")).run("").file("build.in", SELF).run("b").run("").run("-v -t cleandead");
    case.check();
}

#[test]
fn the_new_manifest_is_bad() {
    let case = own(SELF).run("").file("build.in", "rule\n").run("").run("").file("build.ninja", SELF);
    case.file("build.in", SELF).run("").check();
}

#[test]
fn restat_cleans_it_and_another_file_has_changed() {
    let text = "rule gen\n  command = cp i side\n  generator = 1\n  restat = 1\nrule cp\n  command = cp $in $out\n\
                build build.ninja: gen i || side\nbuild out: cp side\n";
    Case::manifest(text).file("i", "").file("side", "").touch("i").run("out").touch("i").run("out").check();
}

#[test]
fn restat_can_clean_it() {
    let text = SELF
        .replace("cp build.in $out", "cmp -s build.in $out || cp build.in $out")
        .replace("generator = 1", "generator = 1\n  restat = 1");
    let case = own(&text).run("").touch("build.in").run("-d explain").run("-d explain");
    case.file("build.in", format!("{text}build b: t\n")).run("").run("").check();
}

#[test]
fn a_dry_run_returns_at_once() {
    own(SELF).touch("build.in").run("-n").run("-n -v").run("").run("-n").touch("build.in").run("-n a").check();
}

#[test]
fn it_fails() {
    let text = SELF.replace("cp build.in $out", "echo no; false");
    own(&text).touch("build.in").run("").run("a").run("-k0").run("--quiet").without_answers().check();
}

#[test]
fn it_needs_another_build() {
    let text = format!("{SELF}rule cp\n  command = cp $in $out\nbuild build.in: cp build.src\n");
    Case::manifest(&text).file("build.src", &text).run("").touch("build.src").run("").run("").check();
}

#[test]
fn it_needs_something_that_is_missing() {
    let text = SELF.replace("build build.ninja: regen build.in", "build build.ninja: regen build.in nope");
    own(&text).run("").run("a").without_answers().check();
}

#[test]
fn a_hundred_rounds() {
    let text = SELF.replace("cp build.in $out", "touch -d @1000000000 $out; echo x >> rounds");
    own(&text).touch("build.in").run(Run::new("--quiet")).without_answers().check();
}

#[test]
fn it_is_no_output() {
    let case = Case::manifest("rule t\n  command = touch $out\nbuild a: t build.ninja\n")
        .run("")
        .touch("build.ninja")
        .run("")
        .run("");
    case.check();
}

#[test]
fn another_name_and_place() {
    let text = SELF.replace("build.ninja", "x.ninja").replace("build.in", "x.in");
    let case = Case::new()
        .file("x.ninja", &text)
        .file("x.in", &text)
        .run("-f x.ninja")
        .touch("x.in")
        .run("-f ./x.ninja")
        .run("-f x.ninja");
    case.flags("-f x.ninja").check();
    let text = SELF.replace("build.ninja", "d/build.ninja").replace("build.in", "d/build.in");
    let case =
        Case::new().file("d/build.ninja", &text).file("d/build.in", &text).run("-f d/build.ninja").touch("d/build.in");
    case.run("-f d/../d/build.ninja").run("-f d/build.ninja").flags("-f d/build.ninja").check();
}

#[test]
fn an_included_file_is_made() {
    let text = "rule regen\n  command = cp inc.in inc.ninja; tick; touch build.ninja\n  generator = 1\nbuild build.ninja | inc.ninja: regen inc.in\ninclude inc.ninja\n";
    let inc = "rule t\n  command = touch $out\nbuild a: t\n";
    let case = Case::manifest(text)
        .file("inc.ninja", inc)
        .file("inc.in", inc)
        .run("")
        .file("inc.in", format!("{inc}build b: t\n"));
    case.run("").run("").check();
}

#[test]
fn phony_stands_for_the_manifest() {
    let case = Case::manifest("build build.ninja: phony x\nrule t\n  command = touch $out\nbuild a: t\nbuild x: t\n");
    case.run("").run("").check();
}

#[test]
fn a_phony_input_that_never_was() {
    let text = SELF.replace("regen build.in\n", "regen build.in | gone.cmake\nbuild gone.cmake: phony\n");
    own(&text).run("--quiet").without_answers().check();
}

#[test]
fn without_generator_a_changed_command_is_a_reason() {
    let text = SELF.replace("  generator = 1\n", "");
    own(&text)
        .run("")
        .run("")
        .file("build.ninja", text.replace("cp build.in", "cp  build.in"))
        .run("-d explain")
        .run("")
        .check();
}

#[test]
fn a_command_that_changed_is_no_reason() {
    own(SELF)
        .touch("build.in")
        .run("")
        .file("build.ninja", SELF.replace("cp build.in", "cp  build.in"))
        .run("-d explain")
        .run("")
        .check();
}

#[test]
fn tools_do_not_make_it() {
    own(SELF).touch("build.in").run("-t targets all").run("-t clean").run("-t query a").run("").check();
}

#[test]
fn by_name() {
    own(SELF).run("build.ninja").touch("build.in").run("build.ninja").run("build.ninja").check();
}

#[test]
fn in_another_directory_and_on_a_terminal() {
    let case = Case::new()
        .file("d/build.ninja", SELF)
        .file("d/build.in", SELF)
        .run("-C d")
        .act(|side| side.touch("d/build.in", None));
    case.run("-C d").run("-C d").flags("-C d").check();
    own(SELF).touch("build.in").run(Run::new("").terminal(60)).run(Run::new("").terminal(60)).check();
}

#[test]
fn the_logs_are_read_again() {
    let nested = SELF.replace(
        "cp build.in $out",
        "cp build.in $out; ninja -j1 -t restat build.ninja; ninja -j1 -t recompact; ninja -j1 -t cleandead",
    );
    let case = own(&nested).run("").touch("build.in").run("").run("-d explain");
    case.file("build.in", format!("{nested}build b: t\n")).run("").run("-d explain").check();
}

#[test]
fn with_jobs_beside_it() {
    let text = format!("{SELF}rule cp\n  command = cp $in $out\nbuild dep: cp dep.in\nbuild dep2: cp dep2.in\n")
        .replace("regen build.in\n", "regen build.in | dep dep2\n");
    let case = own(&text)
        .file("dep.in", "")
        .file("dep2.in", "")
        .run(Run::new("-j4").any_order())
        .touch("dep.in")
        .touch("dep2.in");
    case.run(Run::new("-j4").any_order()).run("").check();
}
