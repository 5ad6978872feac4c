//! Tests of Tanto's own state: `tanto build` keeps it in the tree, `ninja` in the user's cache, and both read both.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{alone, files, good, idle, tanto_does};
use crate::harness::{Ended, Run, Side};

const TEXT: &str = "builddir = out\nrule cc\n  command = cp $in $out; echo '$out: h' > $out.d\n  depfile = $out.d\n  \
                    deps = gcc\nbuild a: cc in\nbuild b: cc a\n";

fn start(side: &Side) {
    files(side, &[("build.ninja", TEXT), ("in", ""), ("h", "")]);
}

/// All paths in the tree.
fn paths(side: &Side) -> Vec<String> {
    fn walk(dir: &std::path::Path, prefix: &str, paths: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), paths);
            }
            paths.push(name);
        }
    }
    let mut paths = Vec::new();
    walk(&side.root, "", &mut paths);
    paths.sort();
    paths
}

const ALL: [&str; 8] = ["a", "b", "build.ninja", "h", "in", "out", "out/.ninja_deps", "out/.ninja_log"];

fn run(side: &mut Side, run: Run) -> Ended {
    let ended = side.run(&run.env("TANTO_SNAPSHOT", "always"));
    assert_eq!((ended.code, ended.err.as_slice()), (0, &b""[..]), "{}", ended.text());
    ended
}

#[test]
fn as_ninja_nothing_is_made_that_ninja_does_not_make() {
    alone(|side| {
        start(side);
        run(side, Run::new("-n"));
        run(side, Run::new("-t targets all"));
        assert!(!side.base().join("home/.cache").exists(), "what only answers keeps nothing");
        run(side, Run::new("--jobserver=fifo --checkpoints=2"));
        run(side, Run::new(""));
        assert_eq!(paths(side), ALL);
        assert!(side.state("sessions").is_dir() && side.state("snapshots").is_dir() && side.state("history").is_file());
        for tool in ["-t clean", "-t recompact", "-t restat", "-t cleandead"] {
            run(side, Run::new(tool));
            assert!(!paths(side).iter().any(|path| path.contains(".tanto")), "{tool}");
        }
    });
}

#[test]
fn both_names_read_each_others_state() {
    alone(|side| {
        start(side);
        // The second run writes the snapshot, with the logs.
        let tanto = |side: &Side, words: &str| {
            let run = Run::new(words).plain().env("TANTO_SNAPSHOT", "always");
            super::Running::start(&mut side.command_of(env!("CARGO_BIN_EXE_tanto").as_ref(), &run)).end().text()
        };
        assert!(tanto(side, "build -d stats").contains(".ninja parse"));
        assert!(!tanto(side, "build -d stats").contains(".ninja parse"));
        assert!(!run(side, Run::new("-d stats")).text().contains(".ninja parse"));
        assert!(!side.state("snapshots").exists(), "there is one already");
        side.touch("in", None);
        good(side, "");
        let listed = tanto_does(side, "report sessions").text();
        assert_eq!(listed.lines().count(), 3, "a head and two sessions: {listed}");
        assert_eq!(tanto_does(side, "report trace 2").code, 0);
        assert_eq!(tanto_does(side, "report trace 3").code, 1, "there are two sessions");
        let doctor = tanto_does(side, "doctor").text();
        assert!(doctor.contains(&format!("{}", side.state("").display()).trim_end_matches('/').to_owned()), "{doctor}");
        side.delete(".tanto");
        side.touch("build.ninja", None);
        run(side, Run::new(""));
        assert!(side.state("snapshots").exists());
        assert!(!tanto(side, "build -d stats").contains(".ninja parse"));
        assert!(!side.root.join(".tanto/snapshots").exists());
    });
}

#[test]
fn without_a_place_for_state_a_build_is_silent() {
    for (home, cache) in [("", ""), ("/nonexistent", ""), ("@/file", "relative"), ("@/home", "@/others"), ("", "@/x/y")]
    {
        alone(|side| {
            start(side);
            let base = side.base().display().to_string();
            fs::write(side.base().join("file"), "").expect("a file");
            let others = side.base().join("others");
            fs::create_dir(&others).expect("a directory");
            fs::set_permissions(&others, fs::Permissions::from_mode(0o777)).expect("a mode");
            let with = |args: &str| {
                Run::new(args).env("HOME", &home.replace('@', &base)).env("XDG_CACHE_HOME", &cache.replace('@', &base))
            };
            assert!(run(side, with("")).text().contains("[2/2]"));
            side.touch("in", None);
            assert!(run(side, with("")).text().contains("[2/2]"));
            assert!(run(side, with("")).text().contains("no work to do"));
            assert_eq!(paths(side), ALL);
            assert_eq!(fs::read_dir(&others).expect("a directory").count(), 0);
            assert!(!side.base().join("x").exists() && !side.base().join("home/.cache").exists());
        });
    }
}

#[test]
fn a_directory_that_was_moved_or_copied_has_its_own() {
    alone(|side| {
        start(side);
        run(side, Run::new(""));
        let copy = side.base().join("copy");
        let copied = std::process::Command::new("cp").arg("-a").args([&side.root, &copy]).status().expect("cp");
        assert!(copied.success());
        // The copy is built from its own files, while the original has a manifest with other commands.
        let dir = copy.display().to_string();
        assert!(run(side, Run::new(&format!("-C {dir}"))).text().contains("no work to do"));
        fs::write(copy.join("in"), "new").expect("a file");
        assert!(run(side, Run::new(&format!("-C {dir}"))).text().contains("[2/2]"));
        assert_eq!(fs::read(side.root.join("b")).expect("a file"), b"");
        // Another directory with another manifest now has the name of the original.
        fs::rename(&side.root, side.base().join("moved")).expect("a rename");
        fs::create_dir(&side.root).expect("a directory");
        files(side, &[("build.ninja", &TEXT.replace("cp $in $out", "echo other > $out")), ("in", ""), ("h", "")]);
        assert!(run(side, Run::new("")).text().contains("[2/2]"));
        assert_eq!(fs::read(side.root.join("b")).expect("a file"), b"other\n");
        idle(side, "");
    });
}
