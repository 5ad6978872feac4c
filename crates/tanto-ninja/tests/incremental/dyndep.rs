//! Tests of dyndep files that are loaded before or during a build.

use tanto_exec::run::BuildOutcome;

use crate::world::World;

const DD: &str = "ninja_dyndep_version = 1\\nbuild out: dyndep";

fn made(rest: &str, manifest: &str, sources: &[&str]) -> World {
    let rule = format!("rule scan\n  command = write dd {DD}{rest}\n");
    World::new(&format!("{rule}build dd: scan scanned\n{manifest}"), &[&["scanned"], sources].concat())
}

#[test]
fn ready_dyndep_file_is_loaded_before_the_build() {
    let mut world = World::new("build x: make in\nbuild out: make in || dd\n  dyndep = dd\n", &["in"]);
    world.disk.put("dd", "ninja_dyndep_version = 1\nbuild out: dyndep | x\n");
    world.disk.tick();
    assert_eq!(world.build("out"), ["make x", "make out"]);
    world.assert_clean("out");
}

#[test]
fn dyndep_file_after_an_empty_phony_is_ready() {
    let rule = format!("rule scan\n  command = write dd {DD} | x\nbuild nothing: phony\n");
    let edges = "build dd: scan scanned || nothing\nbuild out: make in || dd\n  dyndep = dd\n";
    let mut world = World::new(&(rule + edges), &["scanned", "in", "x"]);
    world.build("out");
    world.reload();
    world.touch("x");
    assert_eq!(world.build("out"), ["make out"]);
}

#[test]
fn built_dyndep_file_adds_an_input_during_the_build() {
    let mut world = made(" | x", "build x: make in\nbuild out: make in || dd\n  dyndep = dd\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.verdict, BuildOutcome::Succeeded);
    assert_eq!(built.commands[1..], ["make x", "make out"]);
    assert_eq!(built.total, 3);
    world.assert_clean("out");
}

/// `user` treats `out2` as a source, and is queued when the dyndep file adds it as an output.
#[test]
fn built_dyndep_file_adds_an_output_with_dependents() {
    let scan = "rule scan\n  command = write dd ninja_dyndep_version = 1\\nbuild out | out2: dyndep\n";
    let first = "pool one\n  depth = 1\nbuild dd: scan scanned\n  pool = one\nbuild user: make out2\n  pool = one\n";
    let manifest = format!("{scan}{first}build out: make in || dd\n  dyndep = dd\nbuild all: phony user out\n");
    let mut world = World::new(&manifest, &["scanned", "in", "out2"]);
    assert_eq!(world.build("all")[1..], ["make out", "make user"]);
}

#[test]
fn dyndep_file_of_the_second_target_adds_an_input_of_the_first() {
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
fn built_dyndep_file_adds_a_validation_with_its_input() {
    let manifest = "build v: make vin\nbuild x: make xin |@ v\nbuild out: make in || dd\n  dyndep = dd\n";
    let mut world = made(" | x", manifest, &["in", "vin", "xin"]);
    assert!(world.build("out").contains(&"make v".to_owned()));
}

#[test]
fn one_command_can_make_several_dyndep_files() {
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
fn cycle_closed_by_a_dyndep_file_stops_the_build() {
    let mut world = made(" | x", "build out: make in || dd\n  dyndep = dd\nbuild x: make out\n", &["in"]);
    let built = world.try_build("out").expect("begins");
    let BuildOutcome::Failed { reason: why, .. } = built.verdict else { panic!("{:?}", built.verdict) };
    assert!(why.starts_with(b"dependency cycle: "), "{}", String::from_utf8_lossy(&why));
}

#[test]
fn dyndep_file_can_set_restat() {
    let rule = "rule quiet\n  command = keep $out\n";
    let manifest = format!("{rule}build out: quiet in || dd\n  dyndep = dd\nbuild last: make out\n");
    let mut world = made("\\n  restat = 1", &manifest, &["in"]);
    world.build("last");
    world.touch("in");
    assert_eq!(world.build("last"), ["keep out"]);
}

#[test]
fn edge_not_mentioned_in_its_dyndep_file_is_an_error() {
    let mut world = World::new("build out: make in || dd\n  dyndep = dd\n", &["in"]);
    world.disk.put("dd", "ninja_dyndep_version = 1\n");
    let error = world.try_build("out").err().expect("an error");
    assert_eq!(error, "'out' not mentioned in its dyndep file 'dd'");
}

#[test]
fn dyndep_file_of_a_clean_edge_is_loaded_when_reached() {
    let rule = "rule copy\n  command = write dd ninja_dyndep_version = 1\\nbuild out: dyndep | y\n";
    let edges = "build x: make xin\nbuild dd: copy scanned || x\nbuild y: make yin\n";
    let user = "build out: make in || dd\n  dyndep = dd\n";
    let mut world = World::new(&format!("{rule}{edges}{user}"), &["xin", "yin", "scanned", "in"]);
    world.build("out");
    world.reload();
    world.touch("xin");
    world.touch("yin");
    // `x` is the last known dirty job; `y` is found after it.
    assert_eq!(world.build("out"), ["make x", "make y", "make out"]);
}

/// A build in which `a` turns out to make `y` after `early`, which treats `y` as a source, was handled. Returns the
/// commands except the one that makes the dyndep file.
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
fn late_output_does_not_affect_cleaned_jobs() {
    assert_eq!(too_late("build early: make y || b\n", "bin"), ["make b", "keep a"]);
}

#[test]
fn late_output_does_not_affect_finished_jobs() {
    assert_eq!(too_late("build early: keep in y\n", "in"), ["keep early", "keep a"]);
}
