//! Tests of the command order by duration.

use tanto_exec::job::Cost;

use crate::world::World;

/// A path that ends with a number took that many milliseconds.
fn numbers(path: &[u8]) -> Option<Cost> {
    let text = std::str::from_utf8(path).ok()?;
    let wall_ms = text.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(Cost { wall_ms, ..Cost::default() })
}

fn measured(manifest: &str, sources: &[&str]) -> World {
    let mut world = World::new(manifest, sources);
    world.past = Some(&numbers);
    world
}

#[test]
fn longest_chain_runs_first() {
    let manifest = "build a3: make\nbuild b90: make\nbuild c5: make\nbuild d100: make c5\nbuild e20: make\n\
                    build all: phony a3 b90 d100 e20\n";
    assert_eq!(measured(manifest, &[]).build("all"), ["make c5", "make b90", "make e20", "make a3", "make d100"]);
}

#[test]
fn without_durations_the_chain_with_most_commands_runs_first() {
    let mut world = World::new("build a3: make\nbuild c5: make\nbuild d100: make c5\nbuild all: phony a3 d100\n", &[]);
    assert_eq!(world.build("all"), ["make c5", "make a3", "make d100"]);
}

#[test]
fn new_command_is_estimated_from_its_rule() {
    let rule = "rule link\n  command = make $out\n";
    let edges = "build a9: make\nbuild b10: make\nbuild c11: make\nbuild new: make\nbuild d50: link\nbuild other: link\n\
                 rule odd\n  command = make $out\nbuild strange: odd\n\
                 build all: phony a9 b10 c11 new d50 other strange\n";
    let mut world = measured(&format!("{rule}{edges}"), &[]);
    // The median is 11.
    let expected = ["d50", "other", "c11", "strange", "b10", "new", "a9"].map(|out| format!("make {out}"));
    assert_eq!(world.build("all"), expected);
}

#[test]
fn edges_outside_the_plan_contribute_to_estimates() {
    let rules = "rule fast\n  command = make $out\nrule slow\n  command = make $out\n";
    let edges = "build a1: fast\nbuild x: fast\nbuild b70: slow\nbuild y: slow\nbuild all: phony x y\n";
    assert_eq!(measured(&format!("{rules}{edges}"), &[]).build("all"), ["make y", "make x"]);
}

#[test]
fn log_takes_precedence_over_the_history() {
    let manifest = "build a5: make in\nbuild b9: make in\nbuild all: phony a5 b9\n";
    let mut world = measured(manifest, &["in"]);
    assert_eq!(world.build("all"), ["make b9", "make a5"]);
    // The fake clock does not advance, so the log has durations of 0.
    world.touch("in");
    assert_eq!(world.build("all"), ["make a5", "make b9"]);
}

#[test]
fn dyndep_inputs_inherit_priority() {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild out80: dyndep | y2 z1\n";
    // Loading the file adds a chain of duration 82 that starts with z1; y2 is in the plan already.
    let edges = "build dd: scan\nbuild w30: make dd\nbuild y2: make dd\nbuild z1: make\n\
                 build out80: make || dd\n  dyndep = dd\nbuild all: phony w30 y2 out80\n";
    let mut world = measured(&format!("{scan}{edges}"), &[]);
    let commands = world.build("all");
    assert_eq!(commands[1..], ["make y2", "make z1", "make w30", "make out80"].map(String::from));
}
