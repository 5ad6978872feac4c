//! Tests of read-only tools and dry runs, and of obstacles in the place of Tanto's own directory.

use std::path::Path;

use super::{alone, files, good, idle, log, tanto_does};
use crate::harness::{Run, Side, Tree, ask};

const TEXT: &str = "rule cc\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                    rule cp\n  command = cp $in $out\nbuild a: cc in\nbuild b: cp a\n";

fn start(side: &Side) {
    files(side, &[("build.ninja", TEXT), ("in", ""), ("h", "")]);
}

/// Makes both logs long, or damages their ends.
fn harm_logs(side: &Side) {
    let text = std::fs::read_to_string(side.root.join(".ninja_log")).expect("a log");
    let (head, records) = text.split_once('\n').expect("a head");
    side.write(".ninja_log", format!("{head}\n{}torn", records.repeat(200)).as_bytes(), None);
    let mut bytes = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
    bytes.extend(b"\x10\0\0\x80torn");
    side.write(".ninja_deps", &bytes, None);
}

#[test]
fn answers_write_nothing_though_much_is_to_do() {
    alone(|side| {
        start(side);
        good(side, "");
        // Must not come back.
        let _ = std::fs::remove_dir_all(side.state(""));
        harm_logs(side);
        side.touch("in", None);
        for answer in ask(side, &[]) {
            assert_eq!(answer.ended.code, 0, "{:?}: {}", answer.run.args, answer.ended.text());
            assert_eq!(answer.changed, None, "{:?}", answer.run.args);
            assert!(!side.state("").exists(), "{:?}", answer.run.args);
        }
        good(side, "");
        assert!(log(side).records.len() < 10, "a build writes the log anew");
    });
}

#[test]
fn groups_alone_leave_the_logs_alone() {
    alone(|side| {
        start(side);
        side.write("build.ninja", format!("{TEXT}build all: phony b\nbuild none: phony in\n").as_bytes(), None);
        good(side, "all");
        harm_logs(side);
        let harmed = Tree::raw(&side.root);
        idle(side, "none");
        assert_eq!(Tree::raw(&side.root), harmed);
        idle(side, "all");
        assert!(log(side).records.len() < 10, "a build with commands writes the log anew");
    });
}

#[test]
fn a_tool_with_nothing_to_write_makes_no_directory() {
    alone(|side| {
        start(side);
        let before = Tree::raw(&side.root);
        for tool in ["clean", "cleandead", "recompact", "restat"] {
            good(side, &format!("-t {tool}"));
            assert_eq!(Tree::raw(&side.root), before, "-t {tool}");
        }
        assert_eq!(side.run(&Run::new("-t clean -h")).code, 1);
        assert_eq!(Tree::raw(&side.root), before);
    });
}

#[test]
fn its_own_directory_may_be_deleted() {
    alone(|side| {
        start(side);
        good(side, "");
        std::fs::remove_dir_all(side.state("")).expect("state");
        idle(side, "");
        assert!(good(side, "-t deps").text().contains("a: #deps 1"));
        side.touch("in", None);
        assert_eq!(tanto_does(side, "build").code, 0);
        side.delete(".tanto");
        assert!(tanto_does(side, "build").text().contains("no work to do"));
    });
}

/// Builds although `make` has created something in the place of `.tanto`.
fn builds_though(make: impl Fn(&Path)) {
    for words in ["", "build"] {
        alone(|side| {
            start(side);
            files(side, &[("precious", "1")]);
            make(&side.root.join(".tanto"));
            let run = |side: &mut Side| if words.is_empty() { good(side, "") } else { tanto_does(side, words) };
            assert!(run(side).text().contains("[2/2]"));
            side.touch("in", None);
            assert!(run(side).text().contains("[2/2]"));
            idle(side, "");
            assert_eq!(std::fs::read_to_string(side.root.join("precious")).expect("a file"), "1");
        });
    }
}

fn link(to: &str, path: &Path) {
    std::os::unix::fs::symlink(to, path).expect("a link");
}

#[test]
fn obstacles_do_not_prevent_a_build() {
    builds_though(|place| std::fs::write(place, "a file").expect("a file"));
    builds_though(|place| link("nowhere", place));
    builds_though(|place| link("precious", place));
}

#[test]
fn command_finds_earlier_entries_in_the_logs() {
    alone(|side| {
        let text = "rule look\n  command = cp .ninja_log $out; cp .ninja_deps $out.deps\n";
        let looks: String = (0..9).map(|n| format!("build look{n}: look a b\n")).collect();
        files(side, &[("build.ninja", &format!("{TEXT}{text}{looks}")), ("in", ""), ("h", "")]);
        good(side, "-j9");
        for n in 0..9 {
            let read = |name: String| std::fs::read(side.root.join(name)).expect("a copy");
            let (seen, deps) = (read(format!("look{n}")), read(format!("look{n}.deps")));
            let seen = String::from_utf8(seen).expect("a log");
            assert!(seen.contains("\ta\t") && seen.contains("\tb\t"), "look{n}: {seen}");
            assert!(deps.windows(2).any(|bytes| bytes == b"h\0"), "look{n}");
        }
    });
}

/// Ninja drops the deps of other manifests and then runs all their commands again.
#[test]
fn manifests_that_share_logs_keep_their_deps_through_recompaction() {
    alone(|side| {
        let rule = "rule cc\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\n";
        let manifests = ["a", "b", "c"].map(|name| (name, format!("{rule}build {name}.o: cc in\n")));
        let manifests = manifests.each_ref().map(|(name, text)| (*name, &text[..]));
        files(side, &[&manifests[..], &[("in", ""), ("h", "")]].concat());
        for name in ["a", "b", "c"] {
            good(side, &format!("-f {name}"));
        }
        for name in ["a", "c"] {
            good(side, &format!("-f {name} -t recompact"));
            for name in ["a", "b", "c"] {
                idle(side, &format!("-f {name}"));
            }
        }
        // The kept deps are also used.
        side.touch("h", None);
        assert!(good(side, "-f b").text().contains("cp in b.o"));
        std::fs::remove_file(side.root.join("c.o")).expect("remove");
        good(side, "-f a -t recompact");
        let deps = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
        let has = |name: &[u8]| deps.windows(name.len()).any(|part| part == name);
        assert!(has(b"b.o") && !has(b"c.o"), "the record of a file that is gone is dropped");
    });
}
