//! Tests of depfiles and the deps log.

use tanto_ninja::frontend::FrontendOptions;

use crate::world::World;

const RULES: &str = "\
rule dep
  command = make $out; write $out.d $out: header.h
  depfile = $out.d
rule logged
  command = make $out; write $out.d $out: header.h
  depfile = $out.d
  deps = gcc
";

fn world(manifest: &str) -> World {
    World::new(&format!("{RULES}{manifest}"), &["in", "header.h"])
}

#[test]
fn depfile_header_is_an_input() {
    let mut world = world("build out: dep in\n");
    world.build("out");
    world.assert_clean("out");
    world.touch("header.h");
    assert_eq!(world.build("out").len(), 1);
    assert!(world.disk.has("out.d"));
}

#[test]
fn logged_header_is_an_input_and_its_depfile_is_removed() {
    let mut world = world("build out: logged in\n");
    world.build("out");
    assert!(!world.disk.has("out.d"));
    world.assert_clean("out");
    world.options = FrontendOptions { keep_depfile: true, ..FrontendOptions::default() };
    world.touch("header.h");
    assert_eq!(world.build("out").len(), 1);
    assert!(world.disk.has("out.d"));
}

#[test]
fn dry_run_keeps_the_depfile() {
    let mut world = world("build out: logged in\n");
    world.disk.put("out.d", "out: header.h\n");
    world.options = FrontendOptions { dry_run: true, ..FrontendOptions::default() };
    assert_eq!(world.build("out").len(), 1);
    assert!(world.disk.has("out.d"));
}

#[test]
fn vanished_header_is_dirty_but_not_an_error() {
    for rule in ["dep", "logged"] {
        let mut world = world(&format!("build out: {rule} in\n"));
        world.build("out");
        world.disk.delete("header.h");
        assert_eq!(world.build("out").len(), 1, "{rule}");
    }
}

#[test]
fn missing_depfile_makes_the_edge_dirty() {
    let mut world = world("build out: dep in\n");
    world.build("out");
    world.disk.delete("out.d");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.why, ["depfile 'out.d' is missing"]);
}

#[test]
fn newer_output_makes_its_record_stale() {
    let mut world = world("build out: logged in\n");
    world.build("out");
    world.touch("out");
    let built = world.try_build("out").expect("begins");
    assert!(built.why[0].starts_with("stored deps info out of date for 'out' ("), "{:?}", built.why);
}

#[test]
fn generated_header_is_built_first() {
    let mut world = world("build header.h: make x\nbuild out: logged in || header.h\n");
    world.disk.put("x", "");
    world.build("out");
    world.touch("x");
    assert_eq!(world.build("out"), ["make header.h", "make out; write out.d out: header.h"]);
}

#[test]
fn every_output_has_a_record() {
    let mut world = world("build out | other: logged in\n");
    world.build("out");
    assert_eq!((world.logged_deps("out"), world.logged_deps("other")), (1, 1));
}

#[test]
fn depfile_for_another_output_is_ignored() {
    let rule = "rule wrong\n  command = make $out; write $out.d else: header.h\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build out: wrong in\n"), &["in", "header.h"]);
    world.build("out");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.why, ["expected depfile 'out.d' to mention 'out', got 'else'"]);
}

#[test]
fn depfile_with_an_undeclared_output_is_an_error() {
    let rule = "rule wrong\n  command = make $out; write $out.d out else: header.h\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build out: wrong in\n"), &["in", "header.h"]);
    world.build("out");
    let error = world.try_build("out").err().expect("an error");
    assert_eq!(error, "out.d: depfile mentions 'else' as an output, but no such output was declared");
}
