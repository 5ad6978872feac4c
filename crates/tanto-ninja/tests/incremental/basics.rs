//! Tests of order, failures, phony edges and interrupts.

use tanto_exec::run::BuildOutcome;
use tanto_ninja::frontend::FrontendOptions;

use crate::world::World;

#[test]
fn chain_is_built_once_in_order() {
    let mut world = World::new("build mid: make in\nbuild out: make mid\n", &["in"]);
    assert_eq!(world.build("out"), ["make mid", "make out"]);
    world.assert_clean("out");
}

#[test]
fn changed_source_rebuilds_its_dependents() {
    let mut world = World::new("build a: make in\nbuild b: make other\nbuild out: make a b\n", &["in", "other"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["make a", "make out"]);
    world.disk.delete("b");
    assert_eq!(world.build("out"), ["make b", "make out"]);
}

#[test]
fn command_started_at_the_inputs_mtime_is_clean() {
    let mut world = World::new("build out: make in\n", &["in"]);
    world.disk.touch("in");
    world.build("out");
    world.assert_clean("out");
}

/// Like ninja, considers dependents output by output, and the edges of each in manifest order.
#[test]
fn pool_slot_goes_to_the_user_of_the_first_output() {
    let uses = |x: &str, y: &str| {
        let pool = "\n  pool = one\n";
        let text = format!("pool one\n  depth = 1\nbuild a b: make in\nbuild x: make {x}{pool}build y: make {y}{pool}");
        World::new(&(text + "build all: phony y x\n"), &["in"]).build("all")
    };
    assert_eq!(uses("a", "b"), ["make a b", "make x", "make y"]);
    assert_eq!(uses("b", "a"), ["make a b", "make y", "make x"]);
    assert_eq!(uses("a", "a b"), ["make a b", "make x", "make y"]);
    assert_eq!(uses("b a", "a"), ["make a b", "make x", "make y"]);
}

#[test]
fn output_with_the_inputs_mtime_is_clean() {
    let mut world = World::new("rule still\n  command = keep $out\nbuild out: still in\n", &["in", "out"]);
    assert_eq!(world.build("out"), ["keep out"]);
    world.assert_clean("out");
}

#[test]
fn longest_chain_runs_first() {
    let mut world =
        World::new("build short: make in\nbuild l1: make in\nbuild l2: make l1\nbuild all: phony short l2\n", &["in"]);
    assert_eq!(world.build("all"), ["make l1", "make short", "make l2"]);
}

#[test]
fn longest_chain_gets_the_pool_slot_first() {
    let pool = "\n  pool = one\n";
    let text = format!("pool one\n  depth = 1\nbuild short: make in{pool}build l1: make in{pool}build l2: make l1\n");
    let mut world = World::new(&text, &["in"]);
    assert_eq!(world.build("short l2")[0], "make l1");
}

#[test]
fn missing_source_error_names_the_dependent() {
    let mut world = World::new("build out: make in\n", &[]);
    let error = world.try_build("out").err().expect("an error");
    assert_eq!(error, "'in', needed by 'out', missing and no known rule to make it");
}

#[test]
fn failure_stops_dependents() {
    let mut world = World::new("build mid: fail in\nbuild out: make mid\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Failed { code: 1, reason: b"subcommand failed".to_vec() });
    assert_eq!(built.commands, ["fail mid"]);
}

#[test]
fn dependents_of_a_failure_are_reported_as_skipped() {
    let text =
        "build a: fail in\nbuild g: phony a\nbuild b | b2: make g\nbuild other: make in\nbuild late: make other\n";
    let mut world = World::new(text, &["in"]);
    let built = world.try_build("b late").expect("begins");
    // `late` did not start either, because nothing starts after the failure.
    assert_eq!((built.commands.len(), built.skipped), (2, vec!["b b2 <- 2".to_owned()]));
}

#[test]
fn nothing_starts_after_the_last_allowed_failure() {
    let pool = "\n  pool = one\n";
    let text = format!("pool one\n  depth = 1\nbuild a: fail in{pool}build b: make in{pool}build all: phony a b\n");
    let mut world = World::new(&text, &["in"]);
    assert_eq!(world.try_build("all").expect("begins").commands, ["fail a"]);
}

#[test]
fn last_failure_sets_the_exit_code() {
    let rule = "rule exit\n  command = exit $code\n";
    let text = format!("{rule}build a: exit\n  code = 2\nbuild b: exit\n  code = 3\n");
    let mut world = World::new(&text, &[]);
    world.failures_allowed = 2;
    let built = world.try_build("a b").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Failed { code: 3, reason: b"subcommands failed".to_vec() });
}

/// A shell exits with 130 when an interrupt ends its command.
#[test]
fn exit_code_130_is_an_interrupt() {
    let rule = "rule exit\n  command = make $out; exit 130\n";
    let mut world = World::new(&format!("{rule}build out: exit\n"), &[]);
    assert_eq!(world.try_build("out").expect("begins").verdict, BuildOutcome::Interrupted);
    assert!(world.disk.has("out"));
}

#[test]
fn keep_going_builds_independent_targets() {
    let mut world =
        World::new("build a: fail in\nbuild b: make in\nbuild out: make a\nbuild all: phony out b\n", &["in"]);
    world.failures_allowed = usize::MAX;
    let built = world.try_build("all").expect("begins");
    let why = b"cannot make progress due to previous errors".to_vec();
    assert_eq!(built.verdict, BuildOutcome::Failed { code: 1, reason: why });
    assert_eq!(built.commands, ["fail a", "make b"]);
    // Finished commands do not run again.
    assert_eq!(world.try_build("all").expect("begins").commands, ["fail a"]);
}

#[test]
fn two_allowed_failures_change_the_message() {
    let mut world =
        World::new("build a: fail in\nbuild b: fail in\nbuild c: make in\nbuild all: phony a b c\n", &["in"]);
    world.failures_allowed = 2;
    let built = world.try_build("all").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Failed { code: 1, reason: b"subcommands failed".to_vec() });
}

#[test]
fn interrupt_removes_partial_outputs() {
    let rule = "rule half\n  command = make $out; stop\nrule cautious\n  command = stop\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build half: half in\nbuild cautious: cautious in\n"), &["in"]);
    world.disk.put("cautious", "");
    world.disk.put("cautious.d", "");
    let built = world.try_build("half").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Interrupted);
    assert!(!world.disk.has("half"));
    // With a depfile, even an untouched output is removed.
    world.try_build("cautious").expect("begins");
    assert_eq!(world.disk.names(), ["build.ninja", "in"]);
}

#[test]
fn interrupt_keeps_untouched_outputs() {
    let mut world = World::new("rule stop\n  command = stop\nbuild out: stop in\n", &["in"]);
    world.disk.put("out", "");
    world.touch("in");
    assert_eq!(world.try_build("out").expect("begins").verdict, BuildOutcome::Interrupted);
    assert!(world.disk.has("out"));
}

#[test]
fn input_edited_during_its_command_is_rebuilt() {
    let mut world = World::new("rule edit\n  command = edit in; make $out\nbuild out: edit in\n", &["in"]);
    world.build("out");
    // The output is as new as the input, but the command started before the edit.
    assert_eq!(world.build("out"), ["edit in; make out"]);
}

#[test]
fn dry_run_changes_nothing() {
    let mut world = World::new("build mid: make in\nbuild out: make mid\n", &["in"]);
    world.options = FrontendOptions { dry_run: true, ..FrontendOptions::default() };
    let names = world.disk.names();
    for _ in 0..2 {
        let built = world.try_build("out").expect("begins");
        assert_eq!((built.verdict, built.total), (BuildOutcome::Succeeded, 2));
    }
    assert_eq!(world.disk.names(), names);
}

#[test]
fn phony_without_inputs_is_dirty_but_ready() {
    let mut world = World::new("build force: phony\nbuild out: make in force\n", &["in"]);
    assert_eq!(world.build("out"), ["make out"]);
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn phony_takes_the_mtime_of_its_newest_input() {
    let mut world = World::new("build group: phony a b\nbuild out: make group\n", &["a", "b"]);
    world.build("out");
    world.assert_clean("out");
    world.touch("b");
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn order_only_input_is_built_first_and_does_not_dirty() {
    let mut world = World::new("build gen: make x\nbuild out: make in || gen\n", &["in", "x"]);
    assert_eq!(world.build("out"), ["make gen", "make out"]);
    world.touch("x");
    assert_eq!(world.build("out"), ["make gen"]);
}

#[test]
fn validation_is_built_but_not_waited_for() {
    let mut world = World::new("build check: fail in\nbuild out: make in |@ check\nbuild last: make out\n", &["in"]);
    world.failures_allowed = 9;
    let built = world.try_build("last").expect("begins");
    assert!(built.commands.contains(&"make last".into()) && built.commands.contains(&"fail check".into()));
}

#[test]
fn cycle_is_reported_as_a_path() {
    let mut world = World::new("build a: make c\nbuild b: make a\nbuild c: make b\n", &[]);
    let error = world.try_build("b").err().expect("an error");
    assert_eq!(error, "dependency cycle: b -> a -> c -> b");
}

#[test]
fn cycle_through_a_second_output_ends_at_its_start() {
    let mut world = World::new("build a b: make c\nbuild c: make a\n", &[]);
    assert_eq!(world.try_build("b").err().expect("an error"), "dependency cycle: a -> c -> a");
}

#[test]
fn long_chain_needs_no_deep_stack() {
    let mut manifest = String::from("build n0: make in\n");
    for i in 1..20_000 {
        manifest.push_str(&format!("build n{i}: make n{}\n", i - 1));
    }
    let mut world = World::new(&manifest, &["in"]);
    assert_eq!(world.build("n19999").len(), 20_000);
    world.assert_clean("n19999");
}

#[test]
fn response_file_is_removed_but_kept_on_failure() {
    let rule = |end: &str| format!("rule r\n  command = {end} $out\n  rspfile = $out.rsp\n  rspfile_content = $in\n");
    let mut world = World::new(&format!("{}build out: r in\n", rule("make")), &["in"]);
    world.build("out");
    assert!(!world.disk.has("out.rsp"));
    let mut world = World::new(&format!("{}build out: r in\n", rule("fail")), &["in"]);
    world.try_build("out").expect("begins");
    assert!(world.disk.has("out.rsp"));
    let mut world = World::new(&format!("{}build out: r in\n", rule("make")), &["in"]);
    world.options = FrontendOptions { keep_rspfile: true, ..FrontendOptions::default() };
    world.build("out");
    assert!(world.disk.has("out.rsp"));
}

#[test]
fn outputs_mtime_replaces_an_unreadable_clock() {
    let mut world = World::new("build out: make in\n", &["in"]);
    world.disk.deny_write(".ninja_lock");
    world.touch("in");
    world.build("out");
    world.assert_clean("out");
}

#[test]
fn explanations_match_ninja() {
    let mut world = World::new("build mid: make in\nbuild out: make mid\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.why, ["output mid doesn't exist", "mid is dirty"]);
    world.touch("in");
    let built = world.try_build("out").expect("begins");
    assert!(built.why[0].starts_with("output mid older than most recent input in ("), "{:?}", built.why);
}
