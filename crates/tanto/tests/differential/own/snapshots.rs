//! Tests that snapshots change nothing but time, even when damaged.

use std::fs;
use std::path::PathBuf;

use super::{alone, files};
use crate::harness::{Ended, Run, Side, Tree};

const TEXT: &str = "ninja_required_version = 0.9\nrule cp\n  command = cp $in $out\nbuild p: phony p in\nbuild a: cp in\n\
                    build b: cp a | p\nbuild c: cp b || a |@ d\nbuild d: cp in\n  restat = 1\ndefault c\n";

fn start(side: &Side) {
    files(side, &[("build.ninja", TEXT), ("in", "")]);
}

fn run(side: &mut Side, args: &str) -> Ended {
    let ended = side.run(&Run::new(args).env("TANTO_SNAPSHOT", "always"));
    assert_eq!(ended.code, 0, "ninja {args}: {}", ended.text());
    ended
}

/// Returns whether the graph was loaded from text.
fn parses(side: &mut Side, args: &str) -> bool {
    run(side, &format!("-d stats {args}")).text().contains(".ninja parse")
}

/// All snapshots.
fn all(side: &Side) -> Vec<PathBuf> {
    let entries = fs::read_dir(side.state("snapshots")).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn the_second_run_loads_no_text() {
    alone(|side| {
        start(side);
        assert!(parses(side, ""));
        assert_eq!(all(side).len(), 1);
        assert!(!parses(side, "") && !parses(side, "-n"));
        side.touch("in", None);
        let ended = run(side, "");
        assert!(ended.text().contains("[4/4]"), "{}", ended.text());
        side.touch("build.ninja", None);
        assert!(parses(side, "") && !parses(side, ""));
        fs::remove_dir_all(side.state("snapshots")).expect("snapshots");
        assert!(parses(side, "") && !parses(side, ""));
    });
}

#[test]
fn there_is_one_for_each_manifest_and_way_to_read_it() {
    alone(|side| {
        start(side);
        files(side, &[("other.ninja", "rule x\n  command = x\nbuild x: phony\nbuild y: phony x\n")]);
        for (args, count) in [("", 1), ("-f other.ninja", 2), ("-f ./build.ninja", 3), ("-C .", 3)] {
            run(side, args);
            assert_eq!(all(side).len(), count, "{args}");
        }
        assert!(!parses(side, "-f other.ninja") && !parses(side, ""));
    });
}

#[test]
fn small_trees_have_no_snapshot() {
    alone(|side| {
        start(side);
        for policy in ["auto", "off"] {
            assert_eq!(side.run(&Run::new("").env("TANTO_SNAPSHOT", policy)).code, 0);
            assert!(all(side).is_empty(), "{policy}");
        }
        run(side, "");
        let stats = |side: &mut Side, policy| side.run(&Run::new("-d stats").env("TANTO_SNAPSHOT", policy)).text();
        assert!(stats(side, "off").contains(".ninja parse"));
        assert!(!stats(side, "auto").contains(".ninja parse"));
    });
}

#[test]
fn at_a_terminal_a_large_tree_has_one_too() {
    alone(|side| {
        let groups: String = (0..8_000).map(|number| format!("build a-group-of-files-{number}: phony in\n")).collect();
        files(side, &[("build.ninja", &format!("{TEXT}{groups}")), ("in", "")]);
        let at_terminal = || Run::new("-d stats").terminal(60).env("TANTO_SNAPSHOT", "auto");
        side.run(&at_terminal());
        assert!(!all(side).is_empty(), "it is written while commands run");
        fs::remove_dir_all(side.state("snapshots")).expect("snapshots");
        let nothing = side.run(&at_terminal());
        assert!(nothing.text().contains("no work to do"), "{}", nothing.text());
        // Written by a process that continues after the build; the lock is free meanwhile.
        let is_read = |side: &mut Side| {
            side.pause();
            !side.run(&at_terminal()).text().contains(".ninja parse")
        };
        assert!((0..200).any(|_| is_read(side)));
    });
}

#[test]
fn answers_and_dry_runs_write_none() {
    alone(|side| {
        start(side);
        let before = Tree::raw(&side.root);
        for args in ["-n", "-t targets all", "-t query a", "-t commands"] {
            run(side, args);
            assert_eq!(Tree::raw(&side.root), before, "{args}");
        }
    });
}

#[test]
fn warnings_come_again() {
    alone(|side| {
        start(side);
        let first = run(side, "");
        assert!(first.text().contains("greater than build file ninja_required_version"), "{}", first.text());
        assert!(first.text().contains("names itself as an input"), "{}", first.text());
        let warnings = |ended: &Ended| ended.err.clone();
        assert_eq!(warnings(&run(side, "")), warnings(&first));
        let strict = side.run(&Run::new("-w phonycycle=err").env("TANTO_SNAPSHOT", "always"));
        assert_eq!(strict.code, 1, "{}", strict.text());
    });
}

/// The tools to run on a tree with a damaged snapshot.
const QUESTIONS: [&str; 7] =
    ["", "-n -d explain", "-t commands", "-t query a c", "-t targets all", "-t inputs c", "-t compdb cp"];

#[test]
fn a_damaged_one_is_given_up() {
    alone(|side| {
        start(side);
        run(side, "");
        let answers: Vec<Ended> = QUESTIONS.iter().map(|args| run(side, args)).collect();
        let path = all(side).remove(0);
        let sound = fs::read(&path).expect("a snapshot");
        let mut lost = 0;
        for step in 0..40 {
            let mut bytes = sound.clone();
            let at = step * 613 % bytes.len();
            bytes[at] ^= 0x15;
            for (args, expected) in QUESTIONS.iter().zip(&answers) {
                fs::write(&path, &bytes).expect("a file");
                assert_eq!(&run(side, args), expected, "{args}, byte {at}");
                lost += usize::from(!path.exists());
            }
        }
        assert!(lost > 0, "some damage is found too late to go on");
        assert!(!parses(side, "") || !parses(side, ""));
    });
}

#[test]
fn a_damaged_one_does_not_spoil_a_build() {
    alone(|side| {
        start(side);
        run(side, "");
        let path = all(side).remove(0);
        let sound = fs::read(&path).expect("a snapshot");
        for at in (0..sound.len()).step_by(sound.len() / 12) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x80;
            fs::write(&path, &bytes).expect("a file");
            side.touch("in", None);
            let ended = run(side, "");
            assert!(ended.text().contains("[4/4]") && ended.text().matches("names itself").count() == 1, "{at}");
        }
    });
}

#[test]
fn a_manifest_that_its_own_build_changes() {
    alone(|side| {
        let text = "rule gen\n  command = cp $in $out\n  generator = 1\nbuild build.ninja: gen source\n";
        files(side, &[("build.ninja", text), ("source", text)]);
        run(side, "");
        assert!(!parses(side, ""));
        side.write("source", format!("{text}build new: gen in\n").as_bytes(), None);
        side.write("in", b"", None);
        let ended = run(side, "");
        assert!(side.root.join("new").exists(), "{}", ended.text());
        assert!(!parses(side, ""));
        assert_eq!(all(side).len(), 1);
    });
}

#[test]
fn commands_of_a_manifest_that_changes_meanwhile_are_not_run() {
    // From a snapshot, and from a text long enough to be mapped.
    for (policy, filler) in [("always", 0), ("off", 2 << 20)] {
        alone(|side| {
            // The same file with the same length and mtime.
            let change = "touch -r build.ninja t && s=$$(sed s/RIGH[T]/WRONG/ build.ninja) && printf '%s\\n' \"$$s\" > \
                          build.ninja && touch -r t build.ninja && touch $out";
            let text = format!(
                "rule change\n  command = {change}\nrule say\n  command = echo $text > $out\nbuild other: say in\n\
                 build first: change in\nbuild second: say first\n  text = RIGHT\n#{}\n",
                "x".repeat(filler)
            );
            files(side, &[("build.ninja", &text), ("in", "")]);
            let mut run = |args: &str| side.run(&Run::new(args).env("TANTO_SNAPSHOT", policy));
            assert_eq!(run("other").code, 0);
            let ended = run("-k 0 second");
            assert_eq!(ended.code, 1, "{}", ended.text());
            for part in ["FAILED: [code=1] second", "build.ninja: manifest changed during the build", "build stopped"] {
                assert!(ended.text().contains(part), "{}", ended.text());
            }
            let said = |side: &Side| fs::read_to_string(side.root.join("second")).ok();
            assert!(said(side).is_none());
            assert!(!super::log(side).records.iter().any(|record| record.output == "second"));
            assert_eq!(side.run(&Run::new("second").env("TANTO_SNAPSHOT", policy)).code, 0);
            assert_eq!(said(side).as_deref(), Some("WRONG\n"));
        });
    }
}
