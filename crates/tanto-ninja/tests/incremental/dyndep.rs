//! Dyndep files: inputs and outputs that are known before the build, or in the middle of it.

use tanto_exec::run::BuildOutcome;

use crate::world::World;

const DD: &str = "ninja_dyndep_version = 1\\nbuild out: dyndep";

fn made(rest: &str, manifest: &str, sources: &[&str]) -> World {
    let rule = format!("rule scan\n  command = write dd {DD}{rest}\n");
    World::new(&format!("{rule}build dd: scan scanned\n{manifest}"), &[&["scanned"], sources].concat())
}

#[test]
fn a_ready_dyndep_file_is_loaded_before_the_build() {
    let mut world = World::new("build x: make in\nbuild out: make in || dd\n  dyndep = dd\n", &["in"]);
    world.disk.put("dd", "ninja_dyndep_version = 1\nbuild out: dyndep | x\n");
    world.disk.tick();
    assert_eq!(world.build("out"), ["make x", "make out"]);
    world.assert_clean("out");
}

#[test]
fn a_dyndep_file_behind_a_group_of_nothing_is_ready() {
    let rule = format!("rule scan\n  command = write dd {DD} | x\nbuild nothing: phony\n");
    let edges = "build dd: scan scanned || nothing\nbuild out: make in || dd\n  dyndep = dd\n";
    let mut world = World::new(&(rule + edges), &["scanned", "in", "x"]);
    world.build("out");
    world.reload();
    world.touch("x");
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn a_made_dyndep_file_adds_an_input_in_the_middle() {
    let mut world = made(" | x", "build x: make in\nbuild out: make in || dd\n  dyndep = dd\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Succeeded);
    assert_eq!(built.commands[1..], ["make x", "make out"]);
    assert_eq!(built.total, 3);
    world.assert_clean("out");
}

/// `user` took `out2` for a source file, and is queued already when a dyndep file says otherwise.
#[test]
fn a_made_dyndep_file_adds_an_output_that_others_wait_for() {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild out | out2: dyndep\n";
    let first = "pool one\n  depth = 1\nbuild dd: scan scanned\n  pool = one\nbuild user: make out2\n  pool = one\n";
    let manifest = format!("{scan}{first}build out: make in || dd\n  dyndep = dd\nbuild all: phony user out\n");
    let mut world = World::new(&manifest, &["scanned", "in", "out2"]);
    assert_eq!(world.build("all")[1..], ["make out", "make user"]);
}

#[test]
fn a_dyndep_file_that_is_ready_for_the_second_target_adds_an_output_that_the_first_waits_for() {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild out | out2: dyndep\n";
    let first = "build user: make out2 other\nbuild dd: scan scanned\n";
    let manifest = format!("{scan}{first}build out: make in || dd\n  dyndep = dd\n");
    let mut world = World::new(&manifest, &["scanned", "in", "other", "out2"]);
    world.build("user out");
    world.reload();
    world.touch("in");
    world.touch("other");
    assert_eq!(world.build("user out"), ["make out", "make user"]);
}

#[test]
fn a_made_dyndep_file_brings_a_validation_with_its_input() {
    let manifest = "build v: make vin\nbuild x: make xin |@ v\nbuild out: make in || dd\n  dyndep = dd\n";
    let mut world = made(" | x", manifest, &["in", "vin", "xin"]);
    assert!(world.build("out").contains(&"make v".to_owned()));
}

#[test]
fn one_command_may_make_several_dyndep_files() {
    let text = |out: &str, input: &str| format!("ninja_dyndep_version = 1\\nbuild {out}: dyndep | {input}");
    let rule = format!("rule two\n  command = write d1 {}; write d2 {}\n", text("a", "x"), text("b", "y"));
    let edges = "build d1 d2: two\nbuild x: make xin\nbuild y: make yin\n";
    let users = "build a: make || d1\n  dyndep = d1\nbuild b: make || d2\n  dyndep = d2\n";
    let mut world = World::new(&format!("{rule}{edges}{users}"), &["xin", "yin"]);
    let commands = world.build("a b");
    let at = |command: &str| commands.iter().position(|it| it == command).expect("it is run");
    assert!(at("make x") < at("make a") && at("make y") < at("make b"), "{commands:?}");
}

#[test]
fn a_cycle_that_a_made_dyndep_file_closes_stops_the_build() {
    let mut world = made(" | x", "build out: make in || dd\n  dyndep = dd\nbuild x: make out\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    let BuildOutcome::Failed { reason: why, .. } = built.verdict else { panic!("{:?}", built.verdict) };
    assert!(why.starts_with(b"dependency cycle: "), "{}", String::from_utf8_lossy(&why));
}

#[test]
fn a_dyndep_file_can_say_restat() {
    let rule = "rule quiet\n  command = keep $out\n";
    let manifest = format!("{rule}build out: quiet in || dd\n  dyndep = dd\nbuild last: make out\n");
    let mut world = made("\\n  restat = 1", &manifest, &["in"]);
    world.build("last");
    world.touch("in");
    assert_eq!(world.build("last"), ["keep out"]);
}

#[test]
fn an_edge_that_the_file_does_not_mention_is_an_error() {
    let mut world = World::new("build out: make in || dd\n  dyndep = dd\n", &["in"]);
    world.disk.put("dd", "ninja_dyndep_version = 1\n");
    let error = world.try_build("out").err().expect("an error");
    assert_eq!(error, "'out' not mentioned in its dyndep file 'dd'");
}

#[test]
fn a_dyndep_file_whose_edge_has_nothing_to_do_is_loaded_when_it_is_reached() {
    let rule = "rule copy\n  command = write dd ninja_dyndep_version = 1\\nbuild out: dyndep | y\n";
    let edges = "build x: make xin\nbuild dd: copy scanned || x\nbuild y: make yin\n";
    let user = "build out: make in || dd\n  dyndep = dd\n";
    let mut world = World::new(&format!("{rule}{edges}{user}"), &["xin", "yin", "scanned", "in"]);
    world.build("out");
    world.reload();
    world.touch("xin");
    world.touch("yin");
    // `x` is the last of what is known to be dirty; `y` comes to light behind it.
    assert_eq!(world.build("out"), ["make x", "make y", "make out"]);
}

/// A build in which `a` turns out to make `y` when `early`, which takes `y` for a source file, has been dealt with.
/// Gives the commands but for the one that makes the dyndep file.
fn too_late(early: &str, touched: &str) -> Vec<String> {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild a | y: dyndep\\n  restat = 1\n";
    let edges = "build b: make bin\nbuild dd: scan scanned\nbuild a: keep ain || dd\n  dyndep = dd\n";
    let all = "build all: phony early a\n";
    let mut world = World::new(&format!("{scan}{edges}{early}{all}"), &["bin", "scanned", "ain", "y", "in"]);
    world.build("all");
    world.reload();
    [touched, "scanned", "ain"].iter().for_each(|file| world.touch(file));
    let mut commands = world.build("all");
    commands.retain(|command| !command.starts_with("write dd"));
    commands
}

#[test]
fn an_output_that_comes_to_light_too_late_does_not_disturb_what_has_passed() {
    assert_eq!(too_late("build early: make y || b\n", "bin"), ["make b", "keep a"]);
}

#[test]
fn an_output_that_comes_to_light_too_late_does_not_disturb_what_has_run() {
    assert_eq!(too_late("build early: keep in y\n", "in"), ["keep early", "keep a"]);
}
