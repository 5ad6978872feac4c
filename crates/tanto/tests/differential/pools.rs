//! Pools, `-k` and `-j`.

use crate::harness::{Case, Run};

#[test]
fn a_pool_of_depth_one_runs_one_at_a_time() {
    let text = "pool p\n  depth = 1\nrule r\n  command = test ! -e busy || touch clash; touch busy; tick; rm busy; touch $out\n  pool = p\n\
                build a: r\nbuild b: r\nbuild c: r\nbuild d: r\n";
    Case::manifest(text).run("-j8").run("").check();
}

#[test]
fn a_pool_of_depth_two_runs_two() {
    let text = "pool p\n  depth = 2\nrule r\n  command = barrier $out; touch $out\n  pool = p\nbuild a: r\nbuild b: r\nbuild c: r\n";
    let case = Case::manifest(text)
        .start(Run::new("-j8").any_order())
        .wait_for("a")
        .wait_for("b")
        .act(|side| side.absent("c"));
    case.open("a").wait_for("c").open("b").open("c").end().check();
}

#[test]
fn a_pool_of_depth_zero_is_endless() {
    let text = "pool p\n  depth = 0\nrule r\n  command = barrier $out; touch $out\n  pool = p\nbuild a: r\nbuild b: r\nbuild c: r\n";
    let case = Case::manifest(text).start(Run::new("-j0").any_order()).wait_for("a").wait_for("b").wait_for("c");
    case.open("a").open("b").open("c").end().check();
}

#[test]
fn an_empty_pool_is_the_default_one() {
    let text = "pool p\n  depth = 1\nrule r\n  command = touch $out\n  pool = p\nbuild a: r\n  pool =\nbuild b: r\n";
    Case::manifest(text).run("").run("").check();
}

#[test]
fn a_pools_depth_may_be_a_variable() {
    let text =
        "n = 1\npool p\n  depth = $n\nrule r\n  command = touch $out\n  pool = $q\nq = p\nbuild a: r\nbuild b: r\n";
    Case::manifest(text).run("").check();
}

#[test]
fn j_limits_running_commands() {
    let text = "rule r\n  command = barrier $out; touch $out\nbuild a: r\nbuild b: r\nbuild c: r\n";
    let case = Case::manifest(text)
        .start(Run::new("-j2").any_order())
        .wait_for("a")
        .wait_for("b")
        .act(|side| side.absent("c"));
    case.open("b").wait_for("c").open("a").open("c").end().check();
}

/// Three commands that fail, one that succeeds, and a dependent of a failure.
const FAILING: &str = "rule bad\n  command = echo said $out; exit 3\nrule ok\n  command = touch $out\n\
                       build f1: bad\nbuild f2: bad\nbuild f3: bad\nbuild z: ok\nbuild after: ok f1\n";

#[test]
fn a_failure_stops_the_build() {
    Case::manifest(FAILING).run("").run("f2").run("z f3").check();
}

#[test]
fn k_keeps_going() {
    for k in ["-k1", "-k2", "-k3", "-k4", "-k0", "-k-1"] {
        Case::manifest(FAILING).run(k).check();
    }
}

#[test]
fn running_commands_finish_after_a_failure() {
    let text = "rule bad\n  command = barrier bad; exit 1\nrule ok\n  command = barrier ok; touch $out\nrule t\n  command = touch $out\n\
                build a: bad\nbuild b: ok\nbuild c: t b\n";
    let case =
        Case::manifest(text).start("-j2 a c").wait_for("bad").wait_for("ok").open("bad").act(|side| side.pause());
    case.open("ok").end().run("b").check();
}

#[test]
fn the_last_failures_code_is_the_exit_code() {
    let text = "rule bad\n  command = exit $code\nbuild a: bad\n  code = 7\nbuild b: bad a\n  code = 9\nbuild c: bad\n  code = 300\n";
    Case::manifest(text).run("a").run("c").run("b").run("-k0 a c").check();
}

#[test]
fn a_command_that_dies_of_a_signal() {
    for signal in ["KILL", "SEGV", "TERM", "INT", "HUP", "PIPE", "USR1"] {
        let text = format!("rule bad\n  command = kill -{signal} $$$$\nbuild a: bad\n");
        Case::manifest(&text).run("").run("-k0").check();
    }
}

#[test]
fn the_output_of_a_failure_and_of_a_success() {
    let text = "rule r\n  command = echo out; echo err >&2; printf 'no newline'; test $in = ok && touch $out\n  description = make $out\n\
                build a: r ok\nbuild b: r bad || a\n";
    Case::manifest(text).file("ok", "").file("bad", "").run("").run("").run("-v").run("--quiet").check();
}

#[test]
fn output_that_is_large_or_odd() {
    let text = "rule r\n  command = yes 0123456789 | head -c 300000; printf '\\000\\377\\n\\033[31mred\\033[0m\\n'; touch $out\nbuild a: r\n";
    Case::manifest(text).run("").check();
}

#[test]
fn output_of_a_grandchild_that_lives_on() {
    let text = "rule r\n  command = echo early; (barrier late; echo late; touch late) & touch $out\nbuild a: r\n";
    Case::manifest(text).start("").wait_for("late").open("late").end().check();
}

#[test]
fn closed_streams_of_a_command() {
    let text = "rule r\n  command = echo x; exec >&- 2>&-; barrier b; touch $out\nbuild a: r\nrule cp\n  command = cp $in $out\nbuild c: cp a\n";
    Case::manifest(text).start("").wait_for("b").open("b").end().check();
}

#[test]
fn stdin_of_a_command_is_empty() {
    Case::manifest("rule r\n  command = cat > $out\nbuild a: r\n").run("").check();
}

#[test]
fn commands_get_the_environment_and_directory() {
    let text = "rule r\n  command = echo $$X $${MAKEFLAGS-none} > $out; pwd | sed 's,.*/,,' >> $out; umask >> $out; ls /proc/self/fd | wc -l >> $out\nbuild a: r\n";
    Case::manifest(text).run(Run::new("").env("X", "y")).check();
}
