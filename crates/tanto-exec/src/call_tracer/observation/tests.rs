//! Tests of what is noted of each call.

use super::*;
use crate::input_recorder::input_list::InputList;
use tanto_testing::Scratch;

/// The inputs of a command that makes these calls, without the path of the directory; or the obstacle.
fn seen(dir: &Scratch, calls: &[TracedCall]) -> String {
    let root = fs::canonicalize(dir.path()).unwrap();
    let mut observation = Observation::new(&root, &[b"out".to_vec()]);
    observation.note(&TracedCall::Execute { path: b"/bin/sh".to_vec() });
    let mut begun = observation.records.clone();
    calls.iter().for_each(|call| observation.note(call));
    let record = observation.into_record();
    begun.extend_from_slice(&record[begun.len()..]);
    let list = InputList::of(&begun);
    assert_eq!(list.missing(), None);
    let text = list.obstacle().map_or_else(|| list.text(), str::to_string);
    let is_about_root = |line: &str| line == format!("exists\t{}", root.display());
    let is_usual = |line: &str| line.contains("/bin/") || line.contains("/lib") || line.starts_with("permissions");
    let lines = text.lines().filter(|line| !is_usual(line) && !is_about_root(line));
    lines.map(|line| line.replace(&format!("{}/", root.display()), "")).collect::<Vec<_>>().join("; ")
}

fn open(dir: &Scratch, name: &str, mode: OpenMode) -> TracedCall {
    TracedCall::Open { path: path(dir, name), mode }
}

fn path(dir: &Scratch, name: &str) -> Vec<u8> {
    fs::canonicalize(dir.path()).unwrap().join(name).into_os_string().into_encoded_bytes()
}

const READ: OpenMode = OpenMode {
    writes: false,
    creates: false,
    exclusive: false,
    truncates: false,
    path_only: false,
    no_follow: false,
    unnamed: false,
};
const REPLACE: OpenMode = OpenMode { writes: true, creates: true, truncates: true, ..READ };
const APPEND: OpenMode = OpenMode { writes: true, creates: true, ..READ };

#[test]
fn reads_and_looks_are_inputs() {
    let dir = Scratch::new("observation");
    dir.write("a", "");
    dir.write("sub/b", "");
    let stat = |name: &str, follow| TracedCall::Stat { path: Some(path(&dir, name)), follow };
    assert_eq!(seen(&dir, &[open(&dir, "a", READ), open(&dir, "none", READ)]), "read\ta; absent\tnone");
    assert_eq!(seen(&dir, &[stat("sub", true), stat("a", true)]), "read\ta; exists\tsub");
    assert_eq!(seen(&dir, &[stat("a", false)]), "read\ta; link\ta\t");
    assert_eq!(seen(&dir, &[TracedCall::List { path: path(&dir, "sub") }]), "directory\tsub");
    assert_eq!(seen(&dir, &[TracedCall::Enter { path: path(&dir, "sub") }]), "exists\tsub; resolved\tsub\tsub");
    assert_eq!(seen(&dir, &[TracedCall::Access { path: Some(path(&dir, "a")), follow: true }]), "exists\ta");
}

#[test]
fn files_of_the_command_are_no_inputs() {
    let dir = Scratch::new("observation-own");
    let write = open(&dir, "out", REPLACE);
    assert_eq!(seen(&dir, &[open(&dir, "out", READ), write.clone(), open(&dir, "out", READ)]), "no-output");
    let make = TracedCall::Create { path: path(&dir, "new") };
    assert_eq!(seen(&dir, &[make, open(&dir, "new/x", READ), write.clone()]), "absent\tnew");
    // It exists at the end.
    dir.write("out", "");
    assert_eq!(seen(&dir, &[write]), "written\tout");
}

#[test]
fn obstacles_are_found() {
    let dir = Scratch::new("observation-obstacles");
    dir.write("a", "");
    dir.write("out", "");
    let remove = TracedCall::Remove { path: path(&dir, "a") };
    let rename = TracedCall::Rename { from: path(&dir, "out"), to: path(&dir, "new"), replaces: true };
    let change = TracedCall::Change { path: path(&dir, "a"), follow: true };
    for (call, text) in [
        (open(&dir, "a", REPLACE), "it changes a file that it did not create: a"),
        (open(&dir, "a", APPEND), "it changes a file that it did not create: a"),
        (open(&dir, "out", READ), "it reads its old output: out"),
        (open(&dir, "out", APPEND), "it reads its old output: out"),
        (remove, "it removes a file that it did not create: a"),
        (rename, "it reads its old output: out"),
        (change, "it changes a file that it did not create: a"),
        (TracedCall::Network, "it uses the network"),
        (TracedCall::Connect { path: None }, "it communicates with other processes"),
        (TracedCall::Foreign, "it makes system calls of another architecture"),
        (TracedCall::Execute { path: path(&dir, "a") }, ""),
    ] {
        let expected = if text.is_empty() { "read\ta" } else { text };
        assert_eq!(seen(&dir, std::slice::from_ref(&call)), expected, "{call:?}");
    }
}
