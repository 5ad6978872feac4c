//! Tests of `restat` and `generator`.

use crate::world::World;

#[test]
fn unchanged_output_cleans_its_dependents() {
    let mut world = World::new("build mid: keep in\nbuild out: make mid\n", &["in"]);
    assert_eq!(world.build("out"), ["keep mid", "make out"]);
    world.touch("in");
    let built = world.try_build("out").expect("begins");
    assert_eq!((built.commands, built.total), (vec!["keep mid".to_owned()], 1));
    // The log has the start of the command, so that it does not run again.
    world.assert_clean("out");
}

#[test]
fn missing_output_that_stays_missing_is_unchanged() {
    let rule = "rule nothing\n  command = keep\n  restat = 1\n";
    let mut world =
        World::new(&format!("{rule}build mid: nothing in\nbuild out: make other || mid\n"), &["in", "other"]);
    world.disk.put("out", "");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.commands, ["keep", "make out"]);
}

#[test]
fn one_changed_input_keeps_the_job() {
    let mut world = World::new("build a: keep in\nbuild b: make in\nbuild out: make a b\n", &["in"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep a", "make b", "make out"]);
}

#[test]
fn newer_source_beside_an_unchanged_input_keeps_the_job() {
    let mut world = World::new("build a: keep in\nbuild out: make a other\n", &["in", "other"]);
    world.build("out");
    world.touch("in");
    world.touch("other");
    assert_eq!(world.build("out"), ["keep a", "make out"]);
}

#[test]
fn unchanged_output_logs_the_start_of_the_command() {
    let rule = "rule half\n  command = edit in; keep a; make b\n  restat = 1\n";
    let mut world = World::new(&format!("{rule}build a b: half in\n"), &["in"]);
    world.build("a");
    // With both outputs changed, it would be the newest one's mtime.
    world.assert_clean("a");
    world.touch("in");
    assert_eq!(world.build("a").len(), 1);
    assert_eq!(world.build("a").len(), 1, "edited while its command ran");
}

#[test]
fn version_5_logs_the_newest_inputs_mtime() {
    let mut world = World::new("build mid: keep in\nbuild out: make mid\n", &["in"]).with_log_version(5);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep mid"]);
    world.assert_clean("out");
}

#[test]
fn version_5_logs_the_depfiles_mtime_if_newer() {
    let manifest = |headers: &str| {
        let rule = "rule dep\n  command = keep $out; write $out.d $out: ";
        format!("{rule}{headers}\n  depfile = $out.d\n  restat = 1\nbuild out: dep in\n")
    };
    let mut world = World::new(&manifest(""), &["in", "new.h"]).with_log_version(5);
    world.build("out");
    world.rewrite(&manifest("new.h"));
    world.touch("new.h");
    assert_eq!(world.build("out").len(), 1);
    world.assert_clean("out");
}

#[test]
fn dirty_order_only_input_does_not_prevent_cleaning() {
    let mut world = World::new("build a: keep in\nbuild b: make in\nbuild out: make a || b\n", &["in"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep a", "make b"]);
}

#[test]
fn cleaning_continues_through_phonies_and_chains() {
    let manifest = "build a: keep in\nbuild group: phony a\nbuild b: make group\nbuild c: make b\n";
    let mut world = World::new(manifest, &["in"]);
    world.build("c");
    world.touch("in");
    let built = world.try_build("c").expect("begins");
    assert_eq!((built.commands, built.total), (vec!["keep a".to_owned()], 1));
}

#[test]
fn missing_deps_are_not_cleaned() {
    let rule = "rule dep\n  command = make $out\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build a: keep in\nbuild out: dep a\n"), &["in"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep a", "make out"]);
}

#[test]
fn changed_command_of_a_generator_is_ignored() {
    let rule = |word: &str| format!("rule gen\n  command = make $out; {word}\n  generator = 1\nbuild out: gen in\n");
    let mut world = World::new(&rule("keep"), &["in"]);
    world.build("out");
    world.rewrite(&rule("edit"));
    world.assert_clean("out");
}

#[test]
fn generator_may_change_its_own_input() {
    let rule = "rule gen\n  command = edit in; make $out\n  generator = 1\n";
    let mut world = World::new(&format!("{rule}build out: gen in\n"), &["in"]);
    world.build("out");
    world.assert_clean("out");
}

#[test]
fn generator_output_need_not_be_logged() {
    let rule = "rule gen\n  command = make $out\n  generator = 1\n  restat = 1\nbuild out: gen in\n";
    let mut world = World::new(rule, &["in"]);
    world.disk.put("out", "");
    world.assert_clean("out");
    // It must still be as new as its input; only the log entry is optional.
    world.touch("in");
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn changed_command_of_another_edge_rebuilds() {
    let rule = |word: &str| format!("rule r\n  command = make $out; {word}\nbuild out: r in\n");
    let mut world = World::new(&rule("keep"), &["in"]);
    world.build("out");
    world.rewrite(&rule("edit"));
    assert_eq!(world.build("out"), ["make out; edit"]);
}
