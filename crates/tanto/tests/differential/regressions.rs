//! Bugs found in real use.

use crate::harness::{Case, Run};

#[test]
fn a_second_interrupt_cuts_no_message_short() {
    // `timeout` sends each signal twice. The second arrives while the program waits for the command, which ignores the
    // first.
    for signal in ["INT", "TERM", "HUP"] {
        let text =
            format!("rule r\n  command = exec 2> /dev/null; trap '' {signal}; barrier b; touch $out\nbuild b: r\n");
        let case = Case::manifest(&text).start("").wait_for("b").signal(signal).act(|side| side.pause());
        case.signal(signal).open("b").end().check();
    }
}

#[test]
fn a_second_interrupt_while_the_manifest_is_made() {
    let text =
        "rule g\n  command = exec 2> /dev/null; trap '' INT; barrier g; touch $out\nbuild build.ninja: g build.in\n";
    let case = Case::manifest(text).file("build.in", "").start("").wait_for("g").signal("INT");
    case.act(|side| side.pause()).signal("INT").open("g").end().check();
}

/// A run that cannot write more than 1 KiB to a file. The log is removed, since its content may differ.
fn in_a_full_place(log: &str) -> Run {
    Run::new("")
        .shell(&format!("trap '' XFSZ; ulimit -f 1; ninja -j1; code=$?; rm {log}; exit $code;"))
        .env("TANTO_FLAGS", "--record=off")
}

#[test]
fn a_deps_log_that_cannot_be_written_stops_the_build() {
    let text = "rule cc\n  command = ln -f long.d $out.d; touch $out\n  depfile = $out.d\n  deps = gcc\nbuild a: cc\n";
    let names: Vec<String> = (0..2000).map(|i| format!("some/header/of/many/h{i}.h")).collect();
    let case = Case::manifest(text).file("long.d", format!("a: {}\n", names.join(" ")));
    case.run(in_a_full_place(".ninja_deps")).without_answers().check();
}

#[test]
fn a_build_log_that_cannot_be_written_stops_the_build() {
    let name = "long".repeat(50);
    let builds: String = (0..9).map(|i| format!("build {name}{i}: r\n")).collect();
    let case = Case::manifest(&format!("rule r\n  command = touch $out\n{builds}"));
    case.run(in_a_full_place(".ninja_log")).without_answers().check();
}
