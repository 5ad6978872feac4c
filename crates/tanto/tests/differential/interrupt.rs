//! Signals: the outputs that are removed, and that the next run continues.

use crate::harness::{Case, Run};

/// Writes `$out`, waits at a barrier, and writes it again.
const SLOW: &str = "rule slow\n  command = echo half > $out; barrier $out; cp $in $out\nrule cp\n  command = cp $in $out\n\
                    build a: cp in\nbuild b: slow a\nbuild c: cp b\n";

fn stopped(text: &str, signal: &str) -> Case {
    Case::manifest(text).file("in", "1").start("").wait_for("b").signal(signal).end().reset_barriers()
}

#[test]
fn an_output_that_changed_goes() {
    for signal in ["INT", "TERM", "HUP"] {
        let case = stopped(SLOW, signal).start("-d explain").wait_for("b").open("b").end();
        case.run("").check();
    }
}

#[test]
fn an_output_that_did_not_change_stays() {
    let text = SLOW.replace("echo half > $out; ", "");
    let case = stopped(&text, "INT").start("").wait_for("b").open("b").end().reset_barriers().touch("in");
    case.start("")
        .wait_for("b")
        .signal("INT")
        .end()
        .reset_barriers()
        .start("-d explain")
        .wait_for("b")
        .open("b")
        .end()
        .run("")
        .check();
}

#[test]
fn an_output_goes_if_it_has_a_depfile() {
    for deps in ["", "  deps = gcc\n"] {
        let text = format!(
            "rule cc\n  command = echo '$out: h' > $out.d; barrier $out; cp $in $out\n  depfile = $out.d\n{deps}build b: cc in\n"
        );
        let case =
            Case::manifest(&text).file("in", "").file("h", "").start("").wait_for("b").open("b").end().reset_barriers();
        let case = case.touch("h").start("").wait_for("b").signal("INT").end().reset_barriers();
        case.start("-d explain").wait_for("b").open("b").end().run("").check();
    }
}

#[test]
fn only_the_outputs_that_changed_go() {
    let text = "rule r\n  command = echo new > b; barrier b; echo x > b2\nbuild b b2 | b3: r in\n";
    Case::manifest(text)
        .file("in", "")
        .file("b2", "old")
        .file("b3", "old")
        .start("")
        .wait_for("b")
        .signal("TERM")
        .end()
        .check();
}

#[test]
fn commands_get_the_signal_and_are_waited_for() {
    // The pipe is closed first: a shell that prints "Terminated" into it would be killed.
    for signal in ["INT", "TERM", "HUP"] {
        let text = format!(
            "rule r\n  command = exec 2> /dev/null; trap 'tick; echo got > got; exit 1' {signal}; barrier b; touch $out\nbuild b: r\n"
        );
        stopped(&text, signal).check();
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_waited_for() {
    let text = "rule r\n  command = exec 2> /dev/null; trap '' INT; barrier b; echo done > $out; echo late > late\nbuild b: r\n";
    let case = Case::manifest(text).start("").wait_for("b").signal("INT").act(|side| side.pause()).open("b").end();
    case.check();
}

#[test]
fn a_grandchild_gets_the_signal_too() {
    let text = "rule r\n  command = exec 2> /dev/null; sh -c 'trap \"echo got > got; exit 1\" INT; barrier b'; touch $out\nbuild b: r\n";
    stopped(text, "INT").check();
}

#[test]
fn two_that_run_at_once() {
    let text = "rule slow\n  command = echo half > $out; barrier $out; echo full > $out\nbuild b: slow\nbuild c: slow\nbuild d: slow b c\n";
    let case = Case::manifest(text).start("-j2").wait_for("b").wait_for("c").signal("INT").end().reset_barriers();
    let case = case
        .start(Run::new("-j2").any_order())
        .wait_for("b")
        .wait_for("c")
        .open("b")
        .open("c")
        .wait_for("d")
        .open("d")
        .end();
    case.run("").check();
}

#[test]
fn one_ended_before_the_other_was_interrupted() {
    let text = "rule slow\n  command = echo half > $out; barrier $out; echo full > $out\nrule cp\n  command = cp $in $out\n\
                build b: slow\nbuild c: slow\nbuild c2: cp c\nbuild d: cp b\n";
    let case = Case::manifest(text)
        .start(Run::new("-j2").any_order())
        .wait_for("b")
        .wait_for("c")
        .open("c")
        .act(|side| side.appears("c2"));
    let case = case.act(|side| side.pause()).signal("INT").end().reset_barriers();
    case.start(Run::new("-j2").any_order()).wait_for("b").open("b").end().run("").check();
}

#[test]
fn the_response_file_stays() {
    let text = "rule r\n  command = barrier b; touch $out\n  rspfile = $out.rsp\n  rspfile_content = x\nbuild b: r\n";
    stopped(text, "INT").check();
}

#[test]
fn a_restat_output_that_did_not_change() {
    let text = "rule r\n  command = barrier $out; test -e $out || touch $out\n  restat = 1\nrule cp\n  command = cp $in $out\nbuild b: r in\nbuild c: cp b\n";
    let case = Case::manifest(text).file("in", "").start("").wait_for("b").open("b").end().reset_barriers().touch("in");
    let case =
        case.start("").wait_for("b").signal("INT").end().reset_barriers().start("").wait_for("b").open("b").end();
    case.run("").check();
}

#[test]
fn a_generators_output_that_did_not_change_stays() {
    let text = "rule g\n  command = barrier b; touch $out\n  generator = 1\nbuild b: g in\n";
    let case = Case::manifest(text).file("in", "").start("").wait_for("b").open("b").end().reset_barriers().touch("in");
    case.start("").wait_for("b").signal("INT").end().run("-n").check();
}

#[test]
fn a_manifest_that_is_being_made_stays() {
    let text = "rule g\n  command = barrier g; cp $in $out\n  generator = 1\nbuild build.ninja: g build.in\nrule t\n  command = touch $out\nbuild a: t\n";
    let case = Case::manifest(text).file("build.in", text).touch_at("build.in", 1_000_000_001).start("").wait_for("g");
    case.signal("INT").end().reset_barriers().start("").wait_for("g").open("g").end().run("").check();
}

#[test]
fn a_command_that_dies_of_an_interrupt_itself() {
    let text =
        "rule r\n  command = touch $out; kill -INT $$$$\nrule cp\n  command = cp $in $out\nbuild a: r\nbuild b: cp a\n";
    Case::manifest(text).run("").run("-n").check();
}

#[test]
fn quiet_and_verbose() {
    for flags in ["--quiet", "-v", "-k0"] {
        Case::manifest(SLOW).file("in", "1").start(flags).wait_for("b").signal("INT").end().check();
    }
}
