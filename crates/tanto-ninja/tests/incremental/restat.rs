//! `restat` and `generator`: commands that leave their outputs as they were, and those whose change is no reason.

use crate::world::World;

#[test]
fn an_unchanged_output_spares_what_is_behind_it() {
    let mut world = World::new("build mid: keep in\nbuild out: make mid\n", &["in"]);
    assert_eq!(world.build("out"), ["keep mid", "make out"]);
    world.touch("in");
    let built = world.try_build("out").expect("begins");
    assert_eq!((built.commands, built.total), (vec!["keep mid".to_owned()], 1));
    // The log remembers when the command ran, so that it does not run for ever.
    world.assert_clean("out");
}

#[test]
fn a_missing_output_that_stays_missing_did_not_change() {
    let rule = "rule nothing\n  command = keep\n  restat = 1\n";
    let mut world =
        World::new(&format!("{rule}build mid: nothing in\nbuild out: make other || mid\n"), &["in", "other"]);
    world.disk.put("out", "");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.commands, ["keep", "make out"]);
}

#[test]
fn one_changed_input_of_two_is_enough() {
    let mut world = World::new("build a: keep in\nbuild b: make in\nbuild out: make a b\n", &["in"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep a", "make b", "make out"]);
}

#[test]
fn a_newer_source_beside_an_unchanged_input_is_enough() {
    let mut world = World::new("build a: keep in\nbuild out: make a other\n", &["in", "other"]);
    world.build("out");
    world.touch("in");
    world.touch("other");
    assert_eq!(world.build("out"), ["keep a", "make out"]);
}

#[test]
fn with_one_unchanged_output_the_log_holds_the_commands_start() {
    let rule = "rule half\n  command = edit in; keep a; make b\n  restat = 1\n";
    let mut world = World::new(&format!("{rule}build a b: half in\n"), &["in"]);
    world.build("a");
    // With both outputs changed it was the newest one's mtime.
    world.assert_clean("a");
    world.touch("in");
    assert_eq!(world.build("a").len(), 1);
    assert_eq!(world.build("a").len(), 1, "edited while its command ran");
}

#[test]
fn a_log_of_version_5_holds_the_newest_inputs_mtime() {
    let mut world = World::new("build mid: keep in\nbuild out: make mid\n", &["in"]).with_log_version(5);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep mid"]);
    world.assert_clean("out");
}

#[test]
fn a_log_of_version_5_holds_the_depfiles_mtime_if_that_is_newer() {
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
fn an_order_only_input_does_not_hold_cleaning_back() {
    let mut world = World::new("build a: keep in\nbuild b: make in\nbuild out: make a || b\n", &["in"]);
    world.build("out");
    world.touch("in");
    assert_eq!(world.build("out"), ["keep a", "make b"]);
}

#[test]
fn cleaning_goes_through_groups_and_chains() {
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
fn a_generators_changed_command_is_no_reason() {
    let rule = |word: &str| format!("rule gen\n  command = make $out; {word}\n  generator = 1\nbuild out: gen in\n");
    let mut world = World::new(&rule("keep"), &["in"]);
    world.build("out");
    world.rewrite(&rule("edit"));
    world.assert_clean("out");
}

#[test]
fn a_generator_may_change_its_own_input() {
    let rule = "rule gen\n  command = edit in; make $out\n  generator = 1\n";
    let mut world = World::new(&format!("{rule}build out: gen in\n"), &["in"]);
    world.build("out");
    world.assert_clean("out");
}

#[test]
fn a_generators_output_need_not_be_in_the_log() {
    let rule = "rule gen\n  command = make $out\n  generator = 1\n  restat = 1\nbuild out: gen in\n";
    let mut world = World::new(rule, &["in"]);
    world.disk.put("out", "");
    world.assert_clean("out");
    // But it has to be as new as its input: only what is in the log may be older.
    world.touch("in");
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn any_other_changed_command_is() {
    let rule = |word: &str| format!("rule r\n  command = make $out; {word}\nbuild out: r in\n");
    let mut world = World::new(&rule("keep"), &["in"]);
    world.build("out");
    world.rewrite(&rule("edit"));
    assert_eq!(world.build("out"), ["make out; edit"]);
}
