//! Alternates between Tanto's logs and a real ninja, named by an environment variable.

use std::fs;
use std::process::Command;

use tanto_sys::threads::ThreadLimit;

use crate::graph::Arena;
use crate::logs::{BuildLog, DepsLog};

use super::LogDir;

const MANIFEST: &str = "\
rule cc
  command = touch $out && printf '$out: a.h b.h\\n' > $out.d
  depfile = $out.d
  deps = gcc
build x.o: cc
build dir/y.o: cc
";

/// The path of ninja; without one, the test prints that it was skipped.
fn referee() -> Option<String> {
    let referee = std::env::var("TANTO_REFEREE").ok();
    if referee.is_none() {
        eprintln!("skipped: TANTO_REFEREE names no ninja to compare with");
    }
    referee
}

fn run(referee: &str, space: &LogDir, arguments: &[&str]) -> String {
    let output = Command::new(referee).args(arguments).current_dir(space.0.path()).output().expect("the referee runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn path(space: &LogDir, name: &str) -> Vec<u8> {
    space.0.at(name).into_os_string().into_encoded_bytes()
}

#[test]
fn ninja_accepts_our_logs() {
    let Some(referee) = referee() else { return };
    let space = LogDir::new();
    for (name, content) in [("build.ninja", MANIFEST), ("a.h", ""), ("b.h", "")] {
        fs::write(space.0.at(name), content).expect("writing the tree");
    }
    run(&referee, &space, &[]);
    let (arena, mut graph) = (Arena::new(), None);
    let graph = graph.insert(arena.empty());
    let (theirs, _) = BuildLog::load(&path(&space, ".ninja_log"), 7, graph, ThreadLimit::ONE).expect("its log");
    let (their_deps, _) = DepsLog::load(&path(&space, ".ninja_deps"), graph, ThreadLimit::ONE).expect("its deps log");
    assert_eq!(theirs.entries(graph).count(), 2);

    // Copies all entries into new logs, which ninja must accept.
    for name in [".ninja_log", ".ninja_deps"] {
        fs::remove_file(space.0.at(name)).expect("remove");
    }
    let (mut ours, _) =
        BuildLog::load(&path(&space, ".ninja_log"), theirs.version(), graph, ThreadLimit::ONE).expect("no log");
    ours.open(graph, &mut |_| false).expect("open");
    for (output, entry) in theirs.entries(graph) {
        let command = format!("touch {0} && printf '{0}: a.h b.h\\n' > {0}.d", String::from_utf8_lossy(output));
        assert_eq!(entry.command_hash, ours.hash_command(command.as_bytes()));
        ours.record(graph, [output], entry).expect("record");
    }
    let (mut our_deps, _) = DepsLog::load(&path(&space, ".ninja_deps"), graph, ThreadLimit::ONE).expect("no deps log");
    our_deps.open(graph, &mut |_| false).expect("open");
    for &node in their_deps.nodes() {
        if let Some(deps) = their_deps.deps(node) {
            our_deps.record(graph, node, deps.mtime, &deps.ins().collect::<Vec<_>>()).expect("record");
        }
    }
    assert_eq!(run(&referee, &space, &["-n"]), "ninja: no work to do.\n");
    assert!(run(&referee, &space, &["-t", "deps", "x.o"]).contains("#deps 2"));
    fs::write(space.0.at("b.h"), "changed").expect("a change");
    assert!(run(&referee, &space, &[]).contains("[2/2]"));
}
