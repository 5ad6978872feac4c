//! Tests of damaged logs and of input beyond the limits.

use super::{alone, files, good, idle, log};
use crate::harness::{DepsLog, Ended, Run, Side, Tree};

const CHAIN: &str = "rule cp\n  command = cp $in $out\nbuild a: cp in\nbuild b: cp a\nbuild c: cp b\n";

/// Builds a chain, truncates its log by this many bytes, and builds again.
fn cut_build_log(cut: usize) {
    alone(|side| {
        files(side, &[("build.ninja", CHAIN), ("in", "")]);
        good(side, "");
        let bytes = std::fs::read(side.root.join(".ninja_log")).expect("a log");
        side.write(".ninja_log", &bytes[..bytes.len().saturating_sub(cut)], None);
        good(side, "");
        idle(side, "-d explain");
        assert!(log(side).odd.len() <= 1, "{:?}", log(side));
        assert!(log(side).last("c").is_some(), "{:?}", log(side));
    });
}

#[test]
fn a_torn_build_log() {
    for cut in [1, 2, 5, 17, 20, 40, 60, 90] {
        cut_build_log(cut);
    }
}

#[test]
fn a_build_log_that_is_a_directory() {
    alone(|side| {
        files(side, &[("build.ninja", CHAIN), ("in", ""), (".ninja_log/x", "")]);
        let ended = side.run(&Run::new(""));
        assert_eq!((ended.code, ended.text().contains(".ninja_log")), (1, true), "{}", ended.text());
    });
}

/// The message names a remedy, and nothing is lost.
#[test]
fn a_deps_log_that_is_a_directory() {
    alone(|side| {
        files(side, &[("build.ninja", DEPS), ("in", ""), ("h1", ""), ("h2", ""), (".ninja_deps/x", "")]);
        let before = Tree::raw(&side.root);
        let told = "ninja: error: loading deps log .ninja_deps: Is a directory; remove or rename it\n";
        for args in ["", "-n", "-t deps", "-t recompact"] {
            let ended = side.run(&Run::new(args));
            assert_eq!((ended.code, ended.text().as_str()), (1, told), "{args}");
            assert_eq!(Tree::raw(&side.root), before, "{args}");
        }
        side.delete(".ninja_deps");
        assert!(good(side, "").text().contains("[2/2]"));
    });
}

/// The command rewrites a damaged depfile.
#[test]
fn a_dry_run_looks_at_no_depfile_that_a_command_will_write() {
    alone(|side| {
        files(side, &[("build.ninja", DEPS), ("in", ""), ("h1", ""), ("h2", "")]);
        for text in ["malformed", "o1: h1\n", ""] {
            files(side, &[("o1.d", text)]);
            let before = Tree::raw(&side.root);
            let told = good(side, "-n").text();
            assert!(told.contains("[2/2]") && !told.contains("FAILED"), "{told}");
            assert_eq!(Tree::raw(&side.root), before, "{text}");
        }
        assert!(good(side, "").text().contains("[2/2]"));
        idle(side, "");
    });
}

const DEPS: &str = "rule cc\n  command = cat $in > $out; echo '$out: h1 h2' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                    build o1: cc in\nbuild o2: cc in | o1\n";

/// Builds with deps, changes the deps log, and builds twice more: the second time there is nothing to do and no
/// warning.
fn hostile_deps(edit: impl FnOnce(&mut Vec<u8>)) -> Option<Ended> {
    let mut first = None;
    alone(|side| {
        files(side, &[("build.ninja", DEPS), ("in", ""), ("h1", ""), ("h2", "")]);
        good(side, "");
        let mut bytes = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
        edit(&mut bytes);
        side.write(".ninja_deps", &bytes, None);
        first = Some(good(side, ""));
        let again = good(side, "-d explain");
        assert!(again.text().contains("no work to do") && !again.text().contains("warning"), "{}", again.text());
        assert_eq!(deps(side).odd, None);
        side.touch("h2", None);
        assert!(good(side, "").text().contains("[2/2]"));
    });
    first
}

fn deps(side: &Side) -> DepsLog {
    DepsLog::parse(&std::fs::read(side.root.join(".ninja_deps")).unwrap_or_default())
}

/// A deps record: size, output, mtime, inputs.
fn record(words: &[u32]) -> Vec<u8> {
    let size = u32::try_from(words.len() * 4).expect("small") | 1 << 31;
    std::iter::once(&size).chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_deps_log_with_bytes_at_its_end() {
    for count in 1..8 {
        hostile_deps(|bytes| bytes.extend(std::iter::repeat_n(1, count)));
    }
}

#[test]
fn a_deps_log_with_numbers_of_no_path() {
    for id in [4, 5, 1000, u32::MAX, 1 << 31, i32::MAX as u32] {
        hostile_deps(|bytes| bytes.extend(record(&[id, 1, 0])));
        hostile_deps(|bytes| bytes.extend(record(&[0, 1, 0, id])));
    }
}

#[test]
fn a_deps_log_with_odd_sizes() {
    for size in [0_u32, 1, 2, 3, 4, 5, 8, 11, (1 << 19) - 1, 1 << 19, 0x7fff_ffff] {
        for kind in [0, 1 << 31] {
            hostile_deps(|bytes| {
                bytes.extend((size | kind).to_le_bytes());
                bytes.extend([0; 24]);
            });
        }
    }
}

#[test]
fn a_deps_log_with_a_wrong_check() {
    hostile_deps(|bytes| {
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(b"path");
        bytes.extend(7_u32.to_le_bytes());
    });
}

#[test]
fn every_cut_of_a_deps_log() {
    for cut in (1..60).step_by(7) {
        hostile_deps(|bytes| bytes.truncate(bytes.len() - cut));
    }
}

#[test]
fn records_before_the_damage_are_kept() {
    let Some(ended) = hostile_deps(|bytes| bytes.extend(record(&[9, 9, 9, 9]))) else { return };
    assert!(ended.text().contains("no work to do"), "{}", ended.text());
    assert!(ended.text().contains("warning: premature end of file; recovering"), "{}", ended.text());
}

#[test]
fn answers_leave_damage_alone() {
    alone(|side| {
        files(side, &[("build.ninja", DEPS), ("in", ""), ("h1", ""), ("h2", "")]);
        good(side, "");
        let mut bytes = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
        bytes.extend([1, 2, 3, 4, 5, 6, 7]);
        side.write(".ninja_deps", &bytes, None);
        side.write(".ninja_log", b"# ninja log v99\n", None);
        for args in ["-n", "-t deps", "-t query o1", "-t missingdeps", "-t targets all", "-t compdb", "-n -t cleandead"]
        {
            good(side, args);
            assert_eq!(std::fs::read(side.root.join(".ninja_deps")).expect("a log"), bytes, "{args}");
            assert_eq!(std::fs::read(side.root.join(".ninja_log")).expect("a log"), b"# ninja log v99\n", "{args}");
        }
    });
}

/// Expects exit code 1 and this message.
fn fails(side: &mut Side, words: &str) {
    let ended = side.run(&Run::new(""));
    assert_eq!(ended.code, 1, "{}", ended.text());
    let text = ended.text();
    assert!(text.starts_with("ninja: error: ") && text.contains(words), "{text}");
}

#[test]
fn a_manifest_that_includes_itself() {
    for word in ["include", "subninja"] {
        alone(|side| {
            files(side, &[("build.ninja", &format!("{word} build.ninja\n"))]);
            fails(side, "build.ninja");
        });
    }
}

#[test]
fn a_manifest_of_many_gigabytes() {
    alone(|side| {
        files(side, &[("build.ninja", "x = 1\n")]);
        let file = std::fs::OpenOptions::new().write(true).open(side.root.join("build.ninja")).expect("a file");
        file.set_len(6 << 30).expect("a file with a hole");
        drop(file);
        fails(side, "build.ninja");
    });
}

#[test]
fn paths_beyond_the_system_s_limits() {
    let long = "x".repeat(5000);
    let deep = vec!["d"; 3000].join("/");
    for path in [&long, &deep] {
        alone(|side| {
            files(side, &[("build.ninja", &format!("rule t\n  command = true\nbuild {path}: t\nbuild o: t {path}\n"))]);
            let ended = side.run(&Run::new(""));
            assert_eq!(ended.code, 1, "{}", ended.text());
            assert!(ended.text().contains("File name too long"), "{}", ended.text());
        });
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_builds() {
    alone(|side| {
        let mut text = "rule t\n  command = touch $out\nbuild o0: phony\n".to_owned();
        for n in 1..100_000 {
            text.push_str(&format!("build o{n}: phony o{}\n", n - 1));
        }
        text.push_str("build all: t | o99999\n");
        files(side, &[("build.ninja", &text)]);
        good(side, "all");
        for args in
            ["-t commands all", "-t inputs all", "-t graph all", "-t missingdeps all", "-t clean all", "-t targets all"]
        {
            good(side, args);
        }
    });
}

#[test]
fn a_status_that_is_wrong_starts_nothing() {
    alone(|side| {
        files(side, &[("build.ninja", CHAIN), ("in", "")]);
        let ended = side.run(&Run::new("").env("NINJA_STATUS", "%x"));
        assert_eq!(ended.code, 1);
        assert!(ended.text().contains("ninja: fatal: unknown placeholder '%x' in $NINJA_STATUS"), "{}", ended.text());
        assert!(!side.root.join("a").exists());
    });
}

#[test]
fn an_unknown_kind_of_deps_is_an_error() {
    alone(|side| {
        files(side, &[("build.ninja", "rule r\n  command = touch $out\n  deps = nope\nbuild a: r\n")]);
        let ended = side.run(&Run::new(""));
        assert_eq!(ended.code, 1);
        assert!(ended.text().contains("unknown deps type 'nope'"), "{}", ended.text());
    });
}

/// A signal would kill a program that exceeds the file size limit.
#[test]
fn output_that_finds_no_room_is_lost_and_nothing_else() {
    alone(|side| {
        let rule = "rule print\n  command = head -c 17000000 /dev/zero; touch $out\n";
        files(side, &[("build.ninja", &format!("{rule}build a: print\nbuild b: print a\n"))]);
        let ended = side.run(&Run::new("--record=off").shell("ulimit -f 1;"));
        assert_eq!((ended.code, ended.text().matches("lost: File too large").count()), (0, 2));
        assert!(!side.state("output").exists());
        idle(side, "");
    });
}

#[test]
fn few_descriptors_are_enough_for_many_commands() {
    alone(|side| {
        let rule = "rule cc\n  command = sleep 0.01; cat $in > $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  deps = gcc\n";
        let edges: String = (0..60).map(|n| format!("build o{n}: cc in\n")).collect();
        files(side, &[("build.ninja", &format!("{rule}{edges}")), ("in", ""), ("h", "")]);
        let ended = side.run(&Run::new("-j60").shell("ulimit -n 32;"));
        assert_eq!(ended.code, 0, "{}", ended.text());
        idle(side, "");
        assert_eq!(DepsLog::parse(&std::fs::read(side.root.join(".ninja_deps")).expect("a log")).deps.len(), 60);
    });
}

/// `ninja | head -1`: the reader has ended when the second line is written.
#[test]
fn build_with_a_closed_pipe_leaves_no_file() {
    alone(|side| {
        let rule = "rule wait\n  command = until [ -e gone ]; do sleep 0.01; done; touch $out\nrule t\n  command = touch $out\n";
        files(side, &[("build.ninja", &format!("{rule}build a: t\nbuild b: wait a\n"))]);
        let line = "mkfifo ../pipe; (read -r line; exec <&-; : > gone) < ../pipe & exec > ../pipe;";
        let ended = side.run(&Run::new("b").shell(line));
        assert_eq!(ended.code, 1013, "it did not end by SIGPIPE: {}", ended.text());
        assert!(side.root.join("b").exists());
        let names =
            std::fs::read_dir(&side.root).expect("a directory").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        let expected = [".ninja_log", "a", "b", "build.ninja", "gone"];
        assert!(names.iter().all(|name| expected.contains(&name.as_str())), "{names:?}");
    });
}

/// Otherwise the log could be opened as standard output, and messages be written into it.
#[test]
fn messages_go_nowhere_if_standard_descriptors_are_closed() {
    alone(|side| {
        let rule =
            "rule cc\n  command = echo said; echo '$out: h' > $out.d; touch $out\n  depfile = $out.d\n  deps = gcc\n";
        files(side, &[("build.ninja", &format!("{rule}build a: cc\nbuild b: cc\n")), ("h", "")]);
        let ended = side.run(&Run::new("-v").shell("exec <&- >&- 2>&-;"));
        assert_eq!(ended.code, 0);
        let log = std::fs::read(side.root.join(".ninja_log")).expect("a log");
        let has = |text: &[u8]| log.windows(text.len()).any(|part| part == text);
        assert!(log.starts_with(b"# ninja log v") && !has(b"said"), "{}", String::from_utf8_lossy(&log));
        assert_eq!(DepsLog::parse(&std::fs::read(side.root.join(".ninja_deps")).expect("a log")).deps.len(), 2);
        idle(side, "");
    });
}

/// Also when it is killed during a command.
#[test]
fn a_killed_build_leaves_no_clock_behind() {
    alone(|side| {
        files(side, &[("build.ninja", "rule w\n  command = barrier $out; touch $out\nbuild a: w\n")]);
        side.start(&Run::new("a"));
        side.wait_for("a");
        assert!(!side.root.join(".ninja_lock").exists());
        side.signal("KILL", false);
        assert_eq!(side.end().code, 1009);
        side.open("a");
        side.appears("a");
        assert!(!side.root.join(".ninja_lock").exists());
        good(side, "");
        assert!(!side.root.join(".ninja_lock").exists());
    });
}
