//! Depfiles and the deps log: inputs that the compiler found.

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
fn a_depfiles_header_is_an_input() {
    let mut world = world("build out: dep in\n");
    world.build("out");
    world.assert_clean("out");
    world.touch("header.h");
    assert_eq!(world.build("out").len(), 1);
    assert!(world.disk.has("out.d"));
}

#[test]
fn a_logged_header_is_an_input_and_its_depfile_goes() {
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
fn a_dry_run_leaves_a_depfile_alone() {
    let mut world = world("build out: logged in\n");
    world.disk.put("out.d", "out: header.h\n");
    world.options = FrontendOptions { dry_run: true, ..FrontendOptions::default() };
    assert_eq!(world.build("out").len(), 1);
    assert!(world.disk.has("out.d"));
}

#[test]
fn a_vanished_header_is_dirty_and_no_error() {
    for rule in ["dep", "logged"] {
        let mut world = world(&format!("build out: {rule} in\n"));
        world.build("out");
        world.disk.delete("header.h");
        assert_eq!(world.build("out").len(), 1, "{rule}");
    }
}

#[test]
fn a_missing_depfile_is_a_reason() {
    let mut world = world("build out: dep in\n");
    world.build("out");
    world.disk.delete("out.d");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.why, ["depfile 'out.d' is missing"]);
}

#[test]
fn a_newer_output_voids_its_record() {
    let mut world = world("build out: logged in\n");
    world.build("out");
    world.touch("out");
    let built = world.try_build("out").expect("begins");
    assert!(built.why[0].starts_with("stored deps info out of date for 'out' ("), "{:?}", built.why);
}

#[test]
fn a_header_that_is_made_is_made_first() {
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
fn a_depfile_for_another_output_is_no_help() {
    let rule = "rule wrong\n  command = make $out; write $out.d else: header.h\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build out: wrong in\n"), &["in", "header.h"]);
    world.build("out");
    let built = world.try_build("out").expect("begins");
    assert_eq!(built.why, ["expected depfile 'out.d' to mention 'out', got 'else'"]);
}

#[test]
fn a_depfile_that_names_a_foreign_output_is_an_error() {
    let rule = "rule wrong\n  command = make $out; write $out.d out else: header.h\n  depfile = $out.d\n";
    let mut world = World::new(&format!("{rule}build out: wrong in\n"), &["in", "header.h"]);
    world.build("out");
    let error = world.try_build("out").err().expect("an error");
    assert_eq!(error, "out.d: depfile mentions 'else' as an output, but no such output was declared");
}
