//! Tests of targets by directory and glob.

use super::{alone, files, tanto_does};
use crate::harness::{Run, Running, Side};

const TEXT: &str = "rule touch\n  command = touch $out\nbuild lib/a.o: touch\nbuild lib/sub/b.o: touch\n\
                    build test/t1.o: touch\nbuild test/t2.o: touch\nbuild test/t2.d: touch\nbuild app: touch lib/a.o\n\
                    build cm/install: touch\nbuild cm/x: touch\nbuild cm/all: phony cm/x\n";

/// Builds these targets in a tree without outputs; returns the files that exist afterwards.
fn built(side: &mut Side, targets: &str, snapshot: bool) -> Vec<String> {
    let run = Run::new(&format!("build -d stats {targets}")).plain();
    let run = run.env("TANTO_SNAPSHOT", if snapshot { "always" } else { "off" });
    let ended = Running::start(&mut side.command_of(env!("CARGO_BIN_EXE_tanto").as_ref(), &run)).end();
    assert_eq!(ended.code, 0, "{}", ended.text());
    assert_eq!(ended.text().contains(".ninja parse"), !snapshot, "{}", ended.text());
    let outputs = TEXT.split("build ").skip(1).filter_map(|line| line.split(':').next());
    let made: Vec<String> = outputs.filter(|path| side.root.join(path).exists()).map(str::to_owned).collect();
    made.iter().for_each(|path| side.delete(path));
    made
}

#[test]
fn directories_and_globs_name_outputs() {
    alone(|side| {
        files(side, &[("build.ninja", TEXT)]);
        // The first run writes the snapshot.
        let first = Run::new("build lib/").plain().env("TANTO_SNAPSHOT", "always");
        Running::start(&mut side.command_of(env!("CARGO_BIN_EXE_tanto").as_ref(), &first)).end();
        for snapshot in [false, true] {
            assert_eq!(built(side, "lib/", snapshot), ["lib/a.o", "lib/sub/b.o"]);
            assert_eq!(built(side, "lib", snapshot), ["lib/a.o", "lib/sub/b.o"]);
            assert_eq!(built(side, "test/*.o lib/sub", snapshot), ["lib/sub/b.o", "test/t1.o", "test/t2.o"]);
            assert_eq!(built(side, "**/t[2-9].?", snapshot), ["test/t2.o", "test/t2.d"]);
            assert_eq!(built(side, "cm/", snapshot), ["cm/x"], "CMake's group leaves out `install`");
        }
    });
}

#[test]
fn unmatched_pattern_is_an_error() {
    alone(|side| {
        files(side, &[("build.ninja", TEXT)]);
        for (target, expected) in [
            ("tests/", "tanto: error: unknown target 'tests/': nothing is made below it, did you mean 'test/'?\n"),
            ("test/*.p", "tanto: error: unknown target 'test/*.p': no output matches, did you mean 'test/*.o'?\n"),
        ] {
            let ended = tanto_does(side, &format!("build {target}"));
            assert_eq!((ended.code, ended.text().as_str()), (1, expected));
        }
    });
}

#[test]
fn as_ninja_they_name_nothing() {
    alone(|side| {
        files(side, &[("build.ninja", TEXT)]);
        for target in ["lib/", "lib", "test/*.o"] {
            let ended = side.run(&Run::new(target));
            assert_eq!(ended.code, 1, "{}", ended.text());
            let name = target.trim_end_matches('/');
            assert!(ended.text().starts_with(&format!("ninja: error: unknown target '{name}'")), "{}", ended.text());
        }
    });
}
