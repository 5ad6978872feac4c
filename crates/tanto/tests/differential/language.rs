//! Statements and escapes of the manifest.

use crate::harness::{Case, Run};

/// Builds `all` verbosely twice, and runs the tools.
fn builds(manifest: &str) -> Case {
    Case::manifest(manifest).run("-v").run("")
}

#[test]
fn comments_and_blank_lines() {
    builds("# one\n\n  # two\nrule r # no comment here\n").run("-t rules").check();
    builds("# c\nrule r\n  # inside\n  command = echo $out > $out # hash\n\n# c\nbuild a: r\n").check();
}

#[test]
fn escapes_in_values() {
    builds("v = a$$b$ c$:d\nrule r\n  command = echo '$v' > $out\nbuild o: r\n").check();
}

#[test]
fn escapes_in_paths() {
    builds("rule r\n  command = cat $in > $out\nbuild a$ b$:c$$d: r x$ y\n").file("x y", "1").run("-v").run("").check();
}

#[test]
fn continuation_lines() {
    let text =
        "rule r\n  command = echo one $\n      two$\n three > $out\nbuild $\n  a $\n  : $\n  r $\n   | x\nbuild x: r\n";
    builds(text).check();
}

#[test]
fn variables_are_taken_at_once_in_a_file() {
    builds("a = 1\nb = $a\na = 2\nrule r\n  command = echo $a $b > $out\nbuild o: r\n").check();
}

#[test]
fn variables_of_a_build_are_taken_late_in_its_rule() {
    let text = "x = file\nrule r\n  command = echo $x $y > $out\n  y = rule-$x\nbuild o: r\n  x = edge\nbuild p: r\n";
    builds(text).run(Run::new("-t commands")).check();
}

#[test]
fn a_builds_variable_sees_those_before_it() {
    builds("x = 1\nrule r\n  command = echo $y > $out\nbuild o: r\n  x = ${x}2\n  y = <$x>\n")
        .run("-t commands")
        .check();
}

#[test]
fn braces_and_dots_in_names() {
    builds("a.b-c_9 = 1\na = 2\nrule r\n  command = echo ${a.b-c_9} $a.b > $out\nbuild o: r\n").check();
}

#[test]
fn unknown_variables_are_empty() {
    builds("rule r\n  command = echo [$nothing] > $out\nbuild o$nothing: r\n").check();
}

#[test]
fn a_rules_variable_may_use_in_and_out() {
    builds("rule r\n  command = $c\n  c = cat $in > $out\nbuild o: r i\n").file("i", "1").run("-v").check();
}

#[test]
fn in_and_out_of_a_build_variable_are_empty() {
    builds("rule r\n  command = echo $c > $out\nbuild o: r i\n  c = <$in|$out>\n").file("i", "").run("-v").check();
}

#[test]
fn in_out_hold_explicit_paths_only() {
    let text = "rule r\n  command = echo $in > log; touch $out h\nrule r2\n  command = touch v\nbuild a b | h: r i | j || k |@ v\nbuild v: r2\n";
    builds(text).file("i", "").file("j", "").file("k", "").run("-v").run("").check();
}

#[test]
fn paths_are_quoted_for_the_shell() {
    let text = "rule r\n  command = cat $in > $out\nbuild o$ 'x: r a$ b c'd e;f g\"h ok-1.2_3+@/z\n";
    let case =
        builds(text).file("a b", "1").file("c'd", "2").file("e;f", "3").file("g\"h", "4").file("ok-1.2_3+@/z", "5");
    case.run("-v").run("").check();
}

#[test]
fn in_newline_goes_into_a_response_file() {
    let text = "rule r\n  command = cat $out.rsp > $out\n  rspfile = $out.rsp\n  rspfile_content = $in_newline\nbuild o: r a b$ c\n";
    builds(text).file("a", "").file("b c", "").run("-v").run("").check();
}

#[test]
fn paths_are_made_canonical() {
    let text = "rule r\n  command = cat $in > $out\nbuild ./d/../o: r .//i x/./../i2\nbuild p: r ./o\ndefault d/../p\n";
    builds(text).file("i", "1").file("i2", "2").run("-v").run("./x/../p").run("o").check();
}

#[test]
fn absolute_and_parent_paths() {
    let text = "rule r\n  command = cat $in > $out\nbuild o: r ../up /dev/null a/../../up2\nbuild ../side: r o\n";
    builds(text)
        .act(|side| side.write("../up", b"1", Some(1_000_000_000)))
        .act(|side| side.write("../up2", b"", Some(9)))
        .run("-v")
        .run("")
        .check();
}

#[test]
fn include_shares_a_scope() {
    let text = "x = 1\ninclude sub.ninja\nrule r2\n  command = echo $x $y > $out\nbuild b: r2\nbuild c: r\n";
    Case::manifest(text)
        .file("sub.ninja", "x = 2\ny = 3\nrule r\n  command = echo $x > $out\nbuild a: r\n")
        .run("-v")
        .check();
}

#[test]
fn subninja_has_its_own_scope() {
    let text = "x = 1\nrule r\n  command = echo $x > $out\nsubninja sub.ninja\nbuild b: r\n";
    Case::manifest(text).file("sub.ninja", "x = 2\nbuild a: r\n").run("-v").run("-t rules").check();
}

#[test]
fn a_rule_may_be_replaced_in_a_subninja() {
    let text = "rule r\n  command = echo outer > $out\nsubninja sub.ninja\nbuild b: r\n";
    Case::manifest(text).file("sub.ninja", "rule r\n  command = echo inner > $out\nbuild a: r\n").run("-v").check();
}

#[test]
fn a_subninjas_rule_is_unknown_outside() {
    let text = "subninja sub.ninja\nbuild b: r\n";
    Case::manifest(text).file("sub.ninja", "rule r\n  command = echo $out\n").run("").without_answers().check();
}

#[test]
fn a_later_variable_is_not_seen_in_a_subninja_before_it() {
    let text = "rule r\n  command = echo $x > $out\nx = 1\nsubninja s\nx = 2\nbuild b: r\n";
    Case::manifest(text).file("s", "build a: r\n").run("-v").check();
}

#[test]
fn include_in_a_subninja_by_a_path_with_variables() {
    let text = "dir = d\nsubninja $dir/s.ninja\n";
    let case = Case::manifest(text).file("d/s.ninja", "v = 7\ninclude $dir/i$ n.ninja\nbuild o: r\n");
    case.file("d/i n.ninja", "rule r\n  command = echo $v > $out\n").run("-v").check();
}

#[test]
fn default_statements_add_up() {
    let text = "rule r\n  command = touch $out\nbuild a: r\nbuild b: r\nbuild c: r\nv = c\ndefault a\ndefault $v ./a\n";
    builds(text).run("b").run("").check();
}

#[test]
fn without_default_the_roots_are_built() {
    builds("rule r\n  command = touch $out\nbuild a: r b\nbuild b: r\nbuild c: r\n").check();
}

#[test]
fn crlf_line_ends() {
    builds("rule r\r\n  command = echo hi > $out\r\n# c\r\nbuild a $\r\n b: r\r\n").run("-t commands").check();
}

#[test]
fn no_line_end_at_the_end() {
    builds("rule r\n  command = touch $out\nbuild a: r").check();
    builds("rule r\n  command = touch $out\nbuild a: r\ndefault a").check();
}

#[test]
fn an_empty_manifest_and_one_without_builds() {
    builds("").check();
    builds("rule r\n  command = x\n").check();
}

#[test]
fn utf8_and_other_bytes() {
    let text = b"rule r\n  command = echo $out > $out\nbuild gr\xc3\xbc\xc3\x9fe: r\nbuild b\xff: r\n";
    Case::new().file("build.ninja", text).run("-v").run("").check();
}

#[test]
fn required_version() {
    builds("ninja_required_version = 1.5\nrule r\n  command = touch $out\nbuild a: r\n").check();
    builds("ninja_required_version = 1.13.2\n").check();
    builds("ninja_required_version = 1.14\n").without_answers().check();
    builds("ninja_required_version = 2\n").without_answers().check();
    builds("ninja_required_version = 0.9\n").check();
}

#[test]
fn builddir_holds_the_logs() {
    builds("builddir = out/x\nrule r\n  command = touch $out\nbuild out/a: r\n").run("-t restat").check();
}

#[test]
fn validations_are_built_but_not_waited_for() {
    let text = "rule r\n  command = touch $out\nbuild a: r |@ v\nbuild v: r a |@ w\nbuild w: r\ndefault a\n";
    builds(text).run("a").delete("v").run("a").delete("w").run("a").check();
}

#[test]
fn a_phony_target_names_others() {
    let text = "rule r\n  command = touch $out\nbuild a: r\nbuild b: r\nbuild all: phony a b\nbuild none: phony\ndefault all none\n";
    builds(text).run("all").run("none").check();
}

#[test]
fn an_outputs_directory_is_made() {
    let text = "rule r\n  command = echo $depfile > $out\n  depfile = deps/x/$out.d\n  rspfile = $out.rsp\n  rspfile_content = x\nbuild d/e/f: r\n";
    builds(text).check();
}

#[test]
fn one_output_twice_in_a_build() {
    Case::manifest("rule r\n  command = touch a\nbuild a a: r\n").run("").without_answers().check();
    Case::manifest("rule r\n  command = touch a\nbuild a | a: r\n").run("").without_answers().check();
}

#[test]
fn an_input_twice_in_a_build() {
    builds("rule r\n  command = cat $in > $out\nbuild o: r i i | i || i\n").file("i", "1").run("-v").run("").check();
}

#[test]
fn a_command_that_is_empty() {
    builds("rule r\n  command =\nbuild o: r\n").check();
    builds("rule r\n  command = $nothing\n  description = d\nbuild o: r\n").check();
}

#[test]
fn dollar_at_the_end_of_a_file() {
    Case::manifest("x = 1$").run("").without_answers().check();
}
