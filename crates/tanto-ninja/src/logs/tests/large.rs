//! Tests of logs large enough to be mapped, including concurrent truncation.

use std::fs::OpenOptions;

use tanto_sys::threads::ThreadLimit;

use crate::graph::Graph;
use crate::logs::build_log_line;
use crate::logs::build_log_line::Entry;
use crate::logs::deps_log_format::{HEADER, write_deps, write_path};
use crate::logs::file::WORTH_MAPPING;
use crate::logs::{BuildLog, DepsLog};

use super::{LogDir, graph_with};

const OUTPUTS: u32 = 16_000;

fn output(number: u32) -> String {
    format!("a/rather/long/directory/for/an/output/of/a/large/tree/number/{number}.o")
}

fn entry(number: u32) -> Entry {
    Entry { command_hash: number.into(), start_ms: 1, end_ms: 2, mtime: 3 }
}

fn lines() -> Vec<u8> {
    let mut text = build_log_line::header(7);
    (0..OUTPUTS).for_each(|number| build_log_line::write(&mut text, output(number).as_bytes(), &entry(number)));
    assert!(text.len() as u64 > WORTH_MAPPING);
    text
}

/// Each output's inputs are a common one and that of the next smaller number.
fn records() -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for number in 0..OUTPUTS {
        write_path(&mut bytes, output(number).as_bytes(), number);
        write_deps(&mut bytes, number, number.into(), [0, number.saturating_sub(1)].into_iter());
    }
    assert!(bytes.len() as u64 > WORTH_MAPPING);
    bytes
}

fn build_log(space: &LogDir, graph: &Graph<'_>) -> BuildLog {
    let (log, warning) = BuildLog::load(&space.log(), 7, graph, ThreadLimit::Auto).expect("a log");
    assert_eq!(warning, None);
    log
}

fn deps_log(space: &LogDir, graph: &mut Graph<'_>) -> DepsLog {
    let (log, warning) = DepsLog::load(&space.log(), graph, ThreadLimit::Auto).expect("a log");
    assert_eq!(warning, None);
    log
}

fn known(log: &DepsLog, graph: &Graph<'_>, number: u32) -> Option<(i64, Vec<String>)> {
    let deps = log.deps(graph.lookup(output(number).as_bytes())?)?;
    let path = |node| String::from_utf8_lossy(graph.path(node)).into_owned();
    Some((deps.mtime, deps.ins().map(path).collect()))
}

fn cut(space: &LogDir, len: usize) {
    OpenOptions::new().write(true).open(space.0.at("log")).expect("open").set_len(len as u64).expect("cut");
}

#[test]
fn large_build_log_can_be_appended_to() {
    let space = LogDir::new();
    space.write(&lines());
    let mut graph = graph_with(&[&output(5), &output(OUTPUTS - 1)]);
    let mut log = build_log(&space, &graph);
    log.open(&graph, &mut |_| false).expect("open");
    log.record(&graph, [output(5).as_bytes(), output(6).as_bytes(), b"new"], entry(77)).expect("record");
    for log in [log, build_log(&space, &graph)] {
        for (number, expected) in [(5, 77), (6, 77), (7, 7), (OUTPUTS - 1, OUTPUTS - 1)] {
            let node = graph.intern(output(number).as_bytes());
            assert_eq!(log.lookup(&graph, node), Some(entry(expected)));
        }
        assert_eq!(log.entries(&graph).count(), OUTPUTS as usize + 1);
    }
    let mut log = build_log(&space, &graph);
    log.recompact(&graph, &mut |path| path != b"new").expect("recompact");
    assert_eq!(log.entries(&graph).collect::<Vec<_>>(), [(b"new".as_slice(), entry(77))]);
}

#[test]
fn large_deps_log_can_be_appended_to() {
    let space = LogDir::new();
    space.write(&records());
    let mut graph = graph_with(&[&output(5), "new.h"]);
    let mut log = deps_log(&space, &mut graph);
    let (node, header) = (graph.intern(output(5).as_bytes()), graph.intern(b"new.h"));
    log.open(&mut graph, &mut |_| true).expect("open");
    log.record(&mut graph, node, 77, &[header, node]).expect("record");
    for log in [log, deps_log(&space, &mut graph)] {
        assert_eq!(known(&log, &graph, 5), Some((77, vec!["new.h".into(), output(5)])));
        assert_eq!(known(&log, &graph, 6), Some((6, vec![output(0), output(5)])));
        assert_eq!(log.nodes().len(), OUTPUTS as usize + 1);
    }
}

#[test]
fn entries_of_a_truncated_mapping_are_dropped() {
    let space = LogDir::new();
    let text = lines();
    space.write(&text);
    let mut graph = graph_with(&[&output(5), &output(OUTPUTS - 1)]);
    let log = build_log(&space, &graph);
    cut(&space, 4096);
    let found = |number| log.lookup(&graph, graph.lookup(output(number).as_bytes()).expect("a node"));
    assert_eq!((found(5), found(OUTPUTS - 1)), (Some(entry(5)), None));

    space.write(&records());
    let log = deps_log(&space, &mut graph);
    cut(&space, 4096);
    assert_eq!(known(&log, &graph, 5), Some((5, vec![output(0), output(4)])));
    assert_eq!(known(&log, &graph, OUTPUTS - 1), None);
}

#[test]
fn truncated_mapping_is_reread_before_writing() {
    let space = LogDir::new();
    space.write(&lines());
    let mut graph = graph_with(&[&output(5), &output(OUTPUTS - 1)]);
    let mut log = build_log(&space, &graph);
    log.open(&graph, &mut |_| false).expect("open");
    cut(&space, 4096);
    log.record(&graph, [b"new".as_slice()], entry(1)).expect("record");
    log.recompact(&graph, &mut |_| false).expect("recompact");
    let expected = build_log(&space, &graph).entries(&graph).map(|(path, _)| path.to_vec()).collect::<Vec<_>>();
    assert_eq!(log.entries(&graph).map(|(path, _)| path.to_vec()).collect::<Vec<_>>(), expected);
    assert_eq!((&expected[0][..], &expected[expected.len() - 1][..]), (output(0).as_bytes(), b"new".as_slice()));

    space.write(&records());
    let mut log = deps_log(&space, &mut graph);
    log.open(&mut graph, &mut |_| true).expect("open");
    cut(&space, 4096);
    let node = graph.intern(b"new");
    log.record(&mut graph, node, 1, &[node]).expect("record");
    log.recompact(&mut graph, &mut |_| false).expect("recompact");
    assert!(log.nodes().is_empty(), "no edge makes any of them");
}
