//! Which command goes first, by what commands took when they last ran.

use tanto_exec::job::Cost;

use crate::world::World;

/// A path that ends with a number took so many milliseconds.
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
fn the_longest_chain_goes_first() {
    let manifest = "build a3: make\nbuild b90: make\nbuild c5: make\nbuild d100: make c5\nbuild e20: make\n\
                    build all: phony a3 b90 d100 e20\n";
    assert_eq!(measured(manifest, &[]).build("all"), ["make c5", "make b90", "make e20", "make a3", "make d100"]);
}

#[test]
fn without_times_the_chain_of_most_commands_goes_first() {
    let mut world = World::new("build a3: make\nbuild c5: make\nbuild d100: make c5\nbuild all: phony a3 d100\n", &[]);
    assert_eq!(world.build("all"), ["make c5", "make a3", "make d100"]);
}

#[test]
fn a_command_never_seen_takes_what_others_of_its_rule_took() {
    let rule = "rule link\n  command = make $out\n";
    let edges = "build a9: make\nbuild b10: make\nbuild c11: make\nbuild new: make\nbuild d50: link\nbuild other: link\n\
                 rule odd\n  command = make $out\nbuild strange: odd\n\
                 build all: phony a9 b10 c11 new d50 other strange\n";
    let mut world = measured(&format!("{rule}{edges}"), &[]);
    // Of all that is known, 11 is in the middle.
    let expected = ["d50", "other", "c11", "strange", "b10", "new", "a9"].map(|out| format!("make {out}"));
    assert_eq!(world.build("all"), expected);
}

#[test]
fn what_the_plan_does_not_run_tells_of_a_rule_too() {
    let rules = "rule fast\n  command = make $out\nrule slow\n  command = make $out\n";
    let edges = "build a1: fast\nbuild x: fast\nbuild b70: slow\nbuild y: slow\nbuild all: phony x y\n";
    assert_eq!(measured(&format!("{rules}{edges}"), &[]).build("all"), ["make y", "make x"]);
}

#[test]
fn the_log_goes_before_what_else_is_remembered() {
    let manifest = "build a5: make in\nbuild b9: make in\nbuild all: phony a5 b9\n";
    let mut world = measured(manifest, &["in"]);
    assert_eq!(world.build("all"), ["make b9", "make a5"]);
    // The clock of these builds stands still: all took no time by the log.
    world.touch("in");
    assert_eq!(world.build("all"), ["make a5", "make b9"]);
}

#[test]
fn what_a_dyndep_file_adds_is_as_urgent_as_what_needs_it() {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild out80: dyndep | y2 z1\n";
    // When the file is there, a chain of 82 begins with z1; y2 stands in the plan already, behind a wait.
    let edges = "build dd: scan\nbuild w30: make dd\nbuild y2: make dd\nbuild z1: make\n\
                 build out80: make || dd\n  dyndep = dd\nbuild all: phony w30 y2 out80\n";
    let mut world = measured(&format!("{scan}{edges}"), &[]);
    let commands = world.build("all");
    assert_eq!(commands[1..], ["make y2", "make z1", "make w30", "make out80"].map(String::from));
}
