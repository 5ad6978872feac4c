//! Terminal output: the status line, colors, elision, and the console pool.

use crate::harness::{Case, Run};

const CHAIN: &str = "rule r\n  command = echo said $out; cp $in $out\n  description = COPY the file named $in to the file named $out\n\
                     rule q\n  command = cp $in $out\nbuild a: q in\nbuild b: r a\nbuild c: q b\nbuild d: q c\n";

fn chain() -> Case {
    Case::manifest(CHAIN).file("in", "1")
}

#[test]
fn lines_are_written_over() {
    chain().run(Run::new("").terminal(80)).run(Run::new("").terminal(80)).check();
}

#[test]
fn lines_are_elided() {
    for columns in [1, 2, 4, 5, 10, 20, 21, 40] {
        chain().run(Run::new("").terminal(columns)).check();
    }
}

#[test]
fn elision_knows_colours() {
    let text = "rule r\n  command = touch $out\n  description = \u{1b}[1mbold\u{1b}[0m and then quite a lot of \u{1b}[32mgreen\u{1b}[0m words to fill it\nbuild a: r\n";
    for columns in [10, 20, 30, 60] {
        Case::manifest(text).run(Run::new("").terminal(columns)).check();
    }
}

#[test]
fn a_terminal_without_a_width() {
    chain().run(Run::new("").terminal(0)).check();
}

#[test]
fn a_dumb_terminal() {
    chain().run(Run::new("").terminal(80).env("TERM", "dumb")).check();
    chain().run(Run::new("").terminal(80).shell("unset TERM;")).check();
}

#[test]
fn verbose_quiet_and_dry() {
    for flags in ["-v", "--quiet", "-n", "-n -v", "-d explain"] {
        chain().run(Run::new(flags).terminal(40)).check();
    }
}

#[test]
fn a_failure_is_red() {
    let text = "rule bad\n  command = echo said; false\nrule cp\n  command = touch $out\nbuild a: cp\nbuild b: bad a\nbuild c: bad\n";
    Case::manifest(text)
        .run(Run::new("b").terminal(60))
        .run(Run::new("-k0 b c").terminal(60))
        .run(Run::new("-v b").terminal(60))
        .check();
}

#[test]
fn colours_are_kept() {
    let text = "rule r\n  command = printf '\\033[31mred\\033[0m'; touch $out\nbuild a: r\nbuild b: r a\n";
    Case::manifest(text).run(Run::new("").terminal(60)).run(Run::new("-v").terminal(60)).check();
    Case::manifest(text).run(Run::new("-v").terminal(60)).check();
    Case::manifest(text).run(Run::new("").terminal(60).env("TERM", "dumb")).check();
    Case::manifest(text).run(Run::new("").terminal(60).env("CLICOLOR_FORCE", "1").env("TERM", "dumb")).check();
}

#[test]
fn status_on_a_terminal() {
    chain().run(Run::new("").terminal(60).env("NINJA_STATUS", "%s|%t|%r|%u|%f|%p ")).check();
}

#[test]
fn warnings_and_errors_on_a_terminal() {
    chain()
        .run(Run::new("nope").terminal(60))
        .file("build.ninja", "build x: nope\n")
        .run(Run::new("").terminal(60).view(first))
        .without_answers()
        .check();
}

fn first(text: &str) -> String {
    text.lines().next().unwrap_or("").to_owned()
}

/// A command in the console pool, and a chain.
fn console(command: &str) -> Case {
    let text = format!(
        "rule con\n  command = {command}\n  pool = console\n  description = CON $out\nrule r\n  command = echo said $out; touch $out\n\
         build a: r\nbuild b: con a\nbuild c: r b\n"
    );
    Case::manifest(&text)
}

#[test]
fn a_console_command_in_a_file() {
    console("echo one; echo two >&2; cat; touch $out").run("").run("").check();
    console("echo one; touch $out").run("-v").run("-t clean").run("--quiet").check();
    console("echo one; exit 4").run("").run("-k0").check();
}

#[test]
fn a_console_command_has_the_terminal() {
    let ask = "for i in 0 1 2; do test -t $$i && echo tty $$i; done; touch $out";
    console(ask).run(Run::new("").terminal(60)).run(Run::new("").terminal(60)).check();
    console(ask).run(Run::new("-v").terminal(60)).check();
    console("test -t 0 && echo tty; exit 4").run(Run::new("").terminal(60)).check();
}

#[test]
fn other_commands_have_none() {
    let text = "rule r\n  command = for i in 0 1 2; do test -t $$i && echo tty $$i; done; touch $out\nbuild a: r\n";
    Case::manifest(text).run(Run::new("").terminal(60)).check();
}

#[test]
fn a_console_command_is_in_the_foreground() {
    let ask = "set -- $$(ps -o pgid=,tpgid= -p $$$$); test $$1 = $$2 && echo foreground; touch $out";
    console(ask).run(Run::new("").terminal(60)).check();
}

#[test]
fn other_commands_are_in_a_group_of_their_own() {
    let text = "rule r\n  command = set -- $$(ps -o pgid=,tpgid=,pid= -p $$$$); test $$1 = $$2 || echo back; test $$1 = $$3 && echo own; touch $out\nbuild a: r\n";
    Case::manifest(text).run("").run(Run::new("-t clean")).run(Run::new("").terminal(60)).check();
}

#[test]
fn console_command_reads_typed_input() {
    let case = console("barrier b; read line; echo got $$line; echo $$line > $out")
        .start(Run::new("").terminal(60))
        .wait_for("b");
    case.open("b").type_keys("hello\n").end().check();
}

#[test]
fn output_of_others_is_held_back() {
    let text = "rule con\n  command = echo one; barrier con; echo two; touch $out\n  pool = console\nrule r\n  command = echo said $out; touch $out\n\
                rule w\n  command = barrier w; echo said $out; touch $out\nbuild a: con\nbuild b: w\nbuild c: r b\nbuild d: r c\n";
    for terminal in [false, true] {
        let run = if terminal { Run::new("-j3").terminal(60) } else { Run::new("-j3") };
        let case =
            Case::manifest(text).start(run).wait_for("con").wait_for("w").open("w").act(|side| side.appears("d"));
        case.act(|side| side.pause()).open("con").end().without_answers().check();
    }
}

#[test]
fn two_console_commands_go_one_after_the_other() {
    let text = "rule con\n  command = test ! -e busy || touch clash; touch busy; tick; rm busy; touch $out\n  pool = console\nbuild a: con\nbuild b: con a\nbuild c: con\n";
    Case::manifest(text).run(Run::new("-j4").any_order()).check();
}

#[test]
fn a_console_commands_status_goes_before_it() {
    let run = || Run::new("").env("NINJA_STATUS", "%s|%t|%r|%u|%f ");
    console("echo one; touch $out").run(run()).check();
    console("echo one; touch $out").run(run().terminal(60)).check();
}

#[test]
fn ctrl_c_on_a_terminal() {
    let text = "rule r\n  command = exec 2> /dev/null; trap 'echo got > got; exit 1' INT; echo half > $out; barrier b; touch $out\nbuild b: r\n";
    Case::manifest(text).start(Run::new("").terminal(60)).wait_for("b").type_keys("\x03").end().check();
    Case::manifest(text).start(Run::new("-v").terminal(60)).wait_for("b").type_keys("\x03").end().check();
}

#[test]
fn ctrl_c_reaches_a_console_command_once() {
    let case = console("trap 'echo got >> got; exit 1' INT; echo half > $out; barrier b; touch $out")
        .start(Run::new("").terminal(60));
    case.wait_for("b").type_keys("\x03").end().check();
}

#[test]
fn a_console_command_that_takes_ctrl_c_for_itself() {
    let case = console("trap 'echo got >> got' INT; barrier b; touch $out; exit 0").start(Run::new("").terminal(60));
    case.wait_for("b").type_keys("\x03").act(|side| side.pause()).open("b").end().check();
}

#[test]
fn a_signal_to_ninja_alone_while_a_console_command_runs() {
    let case =
        console("trap 'echo got > got; exit 1' TERM; barrier b; touch $out").start("").wait_for("b").signal("TERM");
    case.act(|side| side.pause()).open("b").end().check();
}

/// More output than is kept in memory, with colors, which are removed without a terminal.
#[test]
fn long_output_is_printed_whole() {
    let text = "long = yes `seq -s , 1 2000` | head -c 17000000\n\
                rule print\n  command = printf '\\033[31mred\\033[0m\\n'; $long; printf end; touch $out\n\
                rule ask\n  command = barrier ask; echo asked; touch $out\n  pool = console\n\
                rule count\n  command = $long; touch $out\n\
                build a: print\nbuild c: ask\nbuild d: count\n";
    Case::manifest(text).run("a").check();
    // Output of other commands is deferred while one has the console.
    let waits = Case::manifest(text).start(Run::new("-j2 c d").view(sorted)).wait_for("ask");
    waits.act(|side| side.appears("d")).open("ask").end().check();
}

/// The order of the commands may differ.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
    lines.sort_unstable();
    lines.join("\n")
}
