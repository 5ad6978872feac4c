//! Reasons for rebuilding: times, commands, depfiles, missing files.

use crate::harness::{Case, Run};

/// A chain of two copies.
const CHAIN: &str = "rule cp\n  command = cp $in $out\nbuild mid: cp in\nbuild out: cp mid\n";

fn chain() -> Case {
    Case::manifest(CHAIN).file("in", "1").run("out")
}

#[test]
fn touched_input() {
    chain().run("").touch("in").run("-d explain").run("-d explain").check();
}

#[test]
fn touched_output_in_the_middle() {
    chain().touch("mid").run("-d explain").run("").check();
}

#[test]
fn deleted_outputs() {
    chain().delete("mid").run("-d explain").delete("out").run("-d explain").delete("mid").delete("out").run("").check();
}

#[test]
fn deleted_input_after_a_build() {
    chain().delete("in").run("").run("mid").without_answers().check();
}

#[test]
fn equal_times_are_clean() {
    chain().touch_at("in", 2_000_000).touch_at("mid", 2_000_000).touch_at("out", 2_000_000).run("-d explain").check();
}

#[test]
fn a_time_of_zero_is_a_file() {
    chain()
        .touch_at("in", 0)
        .run("-d explain")
        .touch_at("mid", 0)
        .run("-d explain")
        .touch_at("out", 0)
        .run("-d explain")
        .check();
}

#[test]
fn times_to_come() {
    chain().touch_at("in", 4_000_000_000).run("-d explain").run("-d explain").check();
}

#[test]
fn a_changed_command() {
    let other = "rule cp\n  command = cp  $in $out\nbuild mid: cp in\nbuild out: cp mid\n";
    chain().file("build.ninja", other).run("-d explain").run("").file("build.ninja", CHAIN).run("").check();
}

#[test]
fn a_changed_description_is_no_reason() {
    let other = CHAIN.replace("$out\n", "$out\n  description = x\n");
    chain().file("build.ninja", &other).run("").check();
}

#[test]
fn a_changed_response_file_is_a_reason() {
    let text = |content: &str| {
        format!(
            "rule r\n  command = cat $out.rsp > $out\n  rspfile = $out.rsp\n  rspfile_content = {content}\nbuild o: r\n"
        )
    };
    Case::manifest(&text("a")).run("").run("").file("build.ninja", text("b")).run("-d explain").run("").check();
}

#[test]
fn a_generators_command_is_no_reason() {
    let text = |word: &str| format!("rule r\n  command = echo {word} > $out\n  generator = 1\nbuild o: r in\n");
    let case = Case::manifest(&text("a")).file("in", "").run("").file("build.ninja", text("b")).run("-d explain");
    case.run("-t clean").run("").run("-t clean -g").run("-d explain").touch("in").run("-d explain").check();
}

#[test]
fn a_generators_output_without_a_record_is_clean() {
    let text = "rule r\n  command = touch $out\n  generator = 1\nbuild o: r in\nrule s\n  command = touch $out\nbuild p: s in\n";
    Case::manifest(text).file("in", "").file("o", "").file("p", "").run("-d explain").check();
}

#[test]
fn a_build_that_failed_is_run_again() {
    let text = "rule r\n  command = touch $out; test ! -e bad\nbuild o: r in\n";
    let case = Case::manifest(text).file("in", "").run("").file("bad", "").touch("in").run("").run("-d explain");
    case.delete("bad").run("-d explain").run("").check();
}

#[test]
fn a_command_that_makes_nothing_is_run_again() {
    let text = "rule r\n  command = true\nbuild o: r in\nrule cp\n  command = touch $out\nbuild p: cp o\n";
    Case::manifest(text).file("in", "").run("").run("-d explain").check();
}

#[test]
fn an_output_older_than_its_input_is_run_again() {
    let text = "rule r\n  command = touch -d @1000000 $out\nbuild o: r in\n";
    Case::manifest(text).file("in", "").run("").run("-d explain").check();
}

#[test]
fn one_of_two_outputs_is_missing() {
    let text = "rule r\n  command = touch a b\nbuild a | b: r in\nrule cp\n  command = cp $in $out\nbuild c: cp a\nbuild d: cp b\n";
    let case =
        Case::manifest(text).file("in", "").run("").delete("b").run("c").run("").touch_at("b", 5).run("-d explain");
    case.run("").check();
}

#[test]
fn order_only_inputs_are_no_reason() {
    let text =
        "rule cp\n  command = cp $in $out\nrule t\n  command = touch $out\nbuild o: cp in || oo\nbuild oo: t x\n";
    let case = Case::manifest(text).file("in", "").file("x", "").run("o").touch("x").run("o").touch("oo").run("o");
    case.delete("oo").run("o").run("o").check();
}

#[test]
fn implicit_inputs_are_a_reason() {
    let text = "rule cp\n  command = cp $in $out\nbuild o: cp in | x\n";
    Case::manifest(text)
        .file("in", "")
        .file("x", "")
        .run("")
        .touch("x")
        .run("-d explain")
        .delete("x")
        .run("")
        .without_answers()
        .check();
}

#[test]
fn an_input_edited_while_its_command_runs() {
    let text = "rule r\n  command = cp $in $out.tmp; barrier a; cp $out.tmp $out\nbuild o: r in\n";
    let case = Case::manifest(text).file("in", "1").start("").wait_for("a").file("in", "2").open("a").end();
    case.reset_barriers().start("-d explain").wait_for("a").open("a").end().run("").exact_times().check();
}

#[test]
fn phony_hands_its_newest_input_on() {
    let text = "rule t\n  command = touch $out\nbuild p: phony a b\nbuild o: t p\nbuild q: phony p\nbuild o2: t q\n";
    let case = Case::manifest(text).file("a", "").file("b", "").run("").run("").touch("b").run("-d explain");
    case.touch("a").run("o2").run("-d explain").check();
}

#[test]
fn a_phony_that_exists_as_a_file() {
    let text = "rule t\n  command = touch $out\nbuild p: phony a\nbuild o: t p\n";
    let case = Case::manifest(text)
        .file("a", "")
        .file("p", "")
        .run("")
        .touch("a")
        .run("-d explain")
        .touch("p")
        .run("-d explain");
    case.run("").check();
}

#[test]
fn a_phony_without_inputs_is_dirty_while_missing() {
    let text = "rule t\n  command = touch $out\nbuild always: phony\nbuild o: t always\nbuild u: t || always\n";
    let case = Case::manifest(text).run("").run("-d explain").run("always").file("always", "").run("-d explain");
    case.run("-d explain").check();
}

#[test]
fn a_phony_of_missing_phonies() {
    let text = "rule t\n  command = touch $out\nbuild x: phony y\nbuild y: phony\nbuild o: t x\n";
    Case::manifest(text).run("").run("-d explain").run("x").check();
}

/// A rule with a depfile with the content `$deps`.
fn depfile(kind: &str, deps: &str) -> Case {
    let text =
        format!("rule cc\n  command = cat $in > $out; cp $out.dd $out.d\n  depfile = $out.d\n{kind}build o: cc in\n");
    Case::manifest(&text).file("in", "1").file("o.dd", deps).file("h1", "").file("h 2", "")
}

const GCC: &str = "  deps = gcc\n";

#[test]
fn a_depfile_that_stays() {
    let case = depfile("", "o: in h1 \\\n h\\ 2\n").run("").run("").touch("h 2").run("-d explain").delete("o.d");
    case.run("-d explain").delete("h1").run("-d explain").run("-d explain").check();
}

#[test]
fn a_depfile_that_goes_into_the_log() {
    let case = depfile(GCC, "o: in h1 \\\n h\\ 2\n").run("").run("").touch("h 2").run("-d explain");
    case.delete("h1").run("-d explain").run("-d explain").file(".ninja_deps", "").run("-d explain").run("").check();
}

#[test]
fn a_newer_output_voids_its_deps_record() {
    depfile(GCC, "o: in h1\n")
        .run("")
        .touch("o")
        .run("-d explain")
        .touch_at("o", 1_500_000_000)
        .run("-d explain")
        .run("")
        .check();
}

#[test]
fn depfiles_of_real_compilers() {
    let forms = [
        "o: in h1\nh1:\n",
        "o: \\\n in \\\n h1\n\n",
        "o: in h1\r\n",
        "o:in h1\n",
        "o : in h1",
        "./o: in ./h1\n",
        "o: in a\\#b c$$d\n",
        "o:\\\r\n in\\\r\n h1\r\n",
        "o: in h1 # x\n",
        "o: in\\ h1\n",
        "",
        "o:\n",
        "\n\no: h1\n",
        "o: in\no: h1\n",
        "o o2: in h1\n",
        "o: in d\\e \\[f\\] h~ h%\n",
        "o:\n in\n",
        "o: in h\\:1\n",
        "o: C:\\x.h in\n",
    ];
    for form in forms {
        depfile(GCC, form).run("").run("-d explain").without_answers().check();
        depfile("", form).run("").run("-d explain").without_answers().check();
    }
}

#[test]
fn depfiles_that_are_wrong() {
    for form in ["in h1\n", "o\n", "other: in h1\n", "o: in\nx y\n", "o: in\nq: h1\n", ": in\n", "o: in | h1\n"] {
        depfile(GCC, form).run("").run("").without_answers().check();
        depfile("", form).run("").run("-d explain").run("").without_answers().check();
    }
}

#[test]
fn a_depfile_that_is_never_written() {
    let text = |kind: &str| format!("rule cc\n  command = touch $out\n  depfile = $out.d\n{kind}build o: cc in\n");
    Case::manifest(&text("")).file("in", "").run("").run("-d explain").check();
    Case::manifest(&text(GCC)).file("in", "").run("").run("-d explain").check();
}

#[test]
fn a_header_that_a_build_makes() {
    let text = "rule gen\n  command = cp $in $out\nbuild h: gen h.in\nrule cc\n  command = cat $in h > $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\nbuild o: cc in || h\n";
    let case = Case::manifest(text).file("h.in", "").file("in", "").run("o").run("o").touch("h.in").run("-d explain o");
    case.delete("h").run("-d explain o").run("o").check();
}

#[test]
fn a_deps_record_for_every_output() {
    let text = "rule cc\n  command = touch a b; echo 'a b: h' > a.d\n  depfile = a.d\n  deps = gcc\nbuild a b: cc in\n";
    Case::manifest(text).file("in", "").file("h", "").run("").run("").touch("h").run("-d explain b").run("").check();
}

#[test]
fn msvc_deps_come_from_the_output() {
    let text = "rule cl\n  command = cat $in; touch $out\n  deps = msvc\n  msvc_deps_prefix = $prefix\nprefix = Note: including file:\nbuild o: cl in.c\n";
    let said = "in.c\nNote: including file: h1\nnote\nNote: including file:   d/h2\nNote: including file: C:\\Program Files\\x.h\n";
    let case = Case::manifest(text).file("in.c", said).file("h1", "").file("d/h2", "").run("").run("-d explain");
    case.touch("d/h2").run("-d explain").run("").check();
}

#[test]
fn keepdepfile_keeps_it() {
    depfile(GCC, "o: in h1\n").run("-d keepdepfile").run("").check();
}

#[test]
fn a_removed_build_leaves_its_file() {
    let case = chain().file("build.ninja", "rule cp\n  command = cp $in $out\nbuild mid: cp in\n").run("");
    case.run("-n -t cleandead").run(Run::new("-t cleandead").any_order()).run("").check();
}

#[test]
fn dry_run_lists_commands() {
    Case::manifest(CHAIN)
        .file("in", "")
        .run("-n")
        .run("-n -v")
        .run("")
        .touch("in")
        .run("-n -d explain")
        .run("")
        .check();
}

#[test]
fn a_source_in_a_targets_place() {
    chain().run("in").run("in^").run("mid^").touch("in").run("in^").run("").check();
}
