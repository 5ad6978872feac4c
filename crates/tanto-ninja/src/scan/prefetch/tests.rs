//! Tests of the prefetch without a walk.

use std::cell::RefCell;
use std::fmt::Write;

use tanto_sys::threads::ThreadLimit;

use super::super::Scan;
use super::PrefetchOptions;
use crate::content::{CommandRecord, Contents, PathKey, SideEffects};
use crate::disk::VirtualDisk;
use crate::explain::{ExplainLevel, Explanations};
use crate::graph::Arena;
use crate::ids::EdgeId;
use crate::load::{self, LoadOptions};
use crate::logs::{BuildLog, DepsLog, Entry};

const MANIFEST: &str = "\
rule cc
  command = cc $in
  deps = gcc
rule link
  command = link $in
rule old
  command = old $in
  depfile = $out.d
build made.h: link h.in
build a.o: cc a.c
build b.o: cc b.c || made.h
build c.o: old c.c
build group: phony a.o b.o || s
build out: link group c.o
build last: link out
";

/// Prefetches a tree that was built completely and then changed, with these command hashes known.
fn prefetch<R>(change: impl FnOnce(&mut VirtualDisk), known: &[u64], ask: impl FnOnce(&mut Scan<'_, '_>) -> R) -> R {
    prefetch_with(MANIFEST, change, known, ask)
}

fn prefetch_with<R>(
    manifest: &str,
    change: impl FnOnce(&mut VirtualDisk),
    known: &[u64],
    ask: impl FnOnce(&mut Scan<'_, '_>) -> R,
) -> R {
    let mut disk = VirtualDisk::new();
    disk.put("build.ninja", manifest);
    ["h.in", "a.c", "b.c", "c.c", "s", "h", "h2"].iter().for_each(|source| disk.put(source, ""));
    disk.put("c.o.d", "c.o: c.c h2 ./made.h");
    disk.tick();
    let arena = Arena::new();
    let mut graph = load::load(&arena, &disk, b"build.ninja", LoadOptions::default(), &mut |_| {}).unwrap();
    let (mut log, mut deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
    for (number, edge) in graph.edge_ids().enumerate() {
        let out = graph.edge(edge).outs[0];
        let path = String::from_utf8_lossy(graph.path(out)).into_owned();
        if path != "group" {
            disk.tick();
            disk.put(&path, "");
        }
        let command_hash = log.hash_command(&graph.command_for_hash(edge).unwrap());
        let entry = Entry { command_hash, start_ms: 0, end_ms: 1, mtime: 2 + number as i64 };
        log.record(&graph, [path.as_bytes()], entry).unwrap();
        if graph.flag(edge, b"deps").unwrap() {
            let header: &[u8] = if path == "a.o" { b"h" } else { b"made.h" };
            let header = graph.intern(header);
            deps_log.record(&mut graph, out, i64::MAX, &[header]).unwrap();
        }
    }
    disk.tick();
    change(&mut disk);
    for (edge, &hash) in graph.edge_ids().zip(known).filter(|(_, hash)| **hash != 0) {
        graph.note_command_hash(edge, 7, hash);
    }
    let last = graph.lookup(b"last").unwrap();
    let mut scan = Scan::new(&mut graph, &mut disk, &mut log, &mut deps_log, Explanations::new(ExplainLevel::Off));
    scan.prefetch = PrefetchOptions { threads: ThreadLimit::Auto, min_files: 0 };
    scan.prefetch(&[last]);
    ask(&mut scan)
}

/// The outputs of the edges that the walk will skip.
fn skipped_with(change: impl FnOnce(&mut VirtualDisk), known: &[u64]) -> String {
    prefetch(change, known, |scan| {
        let done = scan.graph.edge_ids().filter(|&edge| scan.edges.is_done(edge));
        done.fold(String::new(), |mut text, edge| {
            let _ = write!(text, "{} ", scan.graph.path(scan.graph.edge(edge).outs[0]).escape_ascii());
            text
        })
    })
}

fn skipped(change: impl FnOnce(&mut VirtualDisk)) -> String {
    skipped_with(change, &[])
}

#[test]
fn clean_edges_are_skipped() {
    assert_eq!(skipped(|_| {}), "made.h a.o b.o c.o group out last ");
}

#[test]
fn dependents_of_a_change_are_not_skipped() {
    assert_eq!(skipped(|disk| disk.touch("out")), "made.h a.o b.o c.o group out ");
    assert_eq!(skipped(|disk| disk.touch("a.c")), "made.h b.o c.o ");
    assert_eq!(skipped(|disk| disk.touch("h")), "made.h b.o c.o ");
    assert_eq!(skipped(|disk| disk.touch("h2")), "made.h a.o b.o group ");
    assert_eq!(skipped(|disk| disk.touch("h.in")), "a.o ");
    assert_eq!(skipped(|disk| disk.delete("s")), "made.h a.o b.o c.o ");
    assert_eq!(skipped(|disk| disk.delete("b.o")), "made.h a.o c.o ");
}

#[test]
fn unusable_depfile_is_left_to_the_walk() {
    let others = "made.h a.o b.o group ";
    assert_eq!(skipped(|disk| disk.delete("c.o.d")), others);
    assert_eq!(skipped(|disk| disk.put("c.o.d", "")), others);
    assert_eq!(skipped(|disk| disk.put("c.o.d", "c.o c.c")), others);
    assert_eq!(skipped(|disk| disk.put("c.o.d", "a.o: c.c")), others);
    assert_eq!(skipped(|disk| disk.put("c.o.d", "c.o a.o: c.c")), others);
}

#[test]
fn command_hashes_are_cached() {
    let hashes = |known: &[u64]| {
        let hash = |scan: &Scan<'_, '_>, edge| scan.graph.known_command_hash(edge, 7).unwrap_or(0);
        prefetch(|_| {}, known, |scan| scan.graph.edge_ids().map(|edge| hash(scan, edge)).collect::<Vec<u64>>())
    };
    let found = hashes(&[]);
    assert_eq!(found.iter().map(|&hash| u8::from(hash != 0)).collect::<Vec<_>>(), [1, 1, 1, 1, 0, 1, 1]);
    assert_eq!(skipped_with(|_| {}, &found), "made.h a.o b.o c.o group out last ");
    // Known hashes are trusted.
    let mut wrong = found.clone();
    wrong[5] ^= 1;
    assert_eq!(skipped_with(|_| {}, &wrong), "made.h a.o b.o c.o group ");
    wrong[5] = 0;
    assert_eq!(hashes(&wrong), found);
}

#[test]
fn commands_are_hashed_with_a_pending_dyndep_file() {
    let manifest = MANIFEST.replace("link group c.o\n", "link group c.o || dd\n  dyndep = dd\n");
    let hashed = |scan: &mut Scan<'_, '_>| {
        let is_hashed = |edge| u8::from(scan.graph.known_command_hash(edge, 7).is_some());
        scan.graph.edge_ids().map(is_hashed).collect::<Vec<_>>()
    };
    assert_eq!(prefetch_with(&manifest, |disk| disk.put("dd", ""), &[], hashed), [1, 1, 1, 1, 0, 1, 1]);
    // A missing output is rebuilt regardless of its command.
    assert_eq!(prefetch_with(&manifest, |disk| disk.delete("b.o"), &[], hashed), [1, 1, 0, 1, 0, 1, 1]);
}

/// Records what each command was run with.
fn record_all(scan: &mut Scan<'_, '_>) {
    scan.contents = Some(Contents::new(Vec::new()));
    let edges: Vec<EdgeId> = scan.graph.edge_ids().filter(|&edge| !scan.graph.edge(edge).is_phony()).collect();
    let last = scan.graph.lookup(b"last").unwrap();
    scan.recompute_dirty(last).unwrap();
    for edge in edges {
        let out = scan.graph.edge(edge).outs[0];
        let (inputs, outputs) = (scan.inputs_id(edge).unwrap().unwrap(), scan.outputs_id(edge).unwrap());
        let log = scan.log.logged_command(scan.graph, out).unwrap();
        let table = scan.contents.as_mut().unwrap().table();
        let record = CommandRecord { log, inputs, outputs, side_effects: SideEffects::None, made: table.build() };
        table.note_command(PathKey::of(scan.graph.path(out)), record);
    }
}

/// The outputs that are renewed without a walk, and all renewals, after a change of a tree with records.
fn renewed(change: impl FnOnce(&mut VirtualDisk), min_files: usize) -> (String, Vec<String>) {
    renewed_with(MANIFEST, change, min_files)
}

fn renewed_with(manifest: &str, change: impl FnOnce(&mut VirtualDisk), min_files: usize) -> (String, Vec<String>) {
    let shared = RefCell::new(VirtualDisk::new());
    prefetch_with(
        manifest,
        |disk| *shared.borrow_mut() = disk.clone(),
        &[],
        |scan| {
            scan.reset();
            record_all(scan);
            scan.reset();
            shared.borrow_mut().tick();
            change(&mut shared.borrow_mut());
            scan.prefetch.min_files = min_files;
            let last = scan.graph.lookup(b"last").unwrap();
            scan.prefetch(&[last]);
            let paths = scan.renewals.iter().map(|it| scan.graph.path(scan.graph.edge(it.edge).outs[0]).escape_ascii());
            let early = paths.map(|path| format!("{path} ")).collect();
            scan.recompute_dirty(last).unwrap();
            let mut all: Vec<String> = scan.take_renewals().iter().map(|renewal| format!("{renewal:?}")).collect();
            all.sort();
            (early, all)
        },
    )
}

#[test]
fn commands_with_equal_sources_are_renewed() {
    let early = |change: fn(&mut VirtualDisk)| {
        let (early, all) = renewed(change, 0);
        assert_eq!(all, renewed(change, usize::MAX).1, "the walk alone finds the same");
        (early, all.len())
    };
    let found = |text: &str, all| (text.to_string(), all);
    assert_eq!(early(|_| {}), found("", 0));
    assert_eq!(early(|disk| disk.touch("a.c")), found("a.o ", 3));
    assert_eq!(early(|disk| ["a.c", "h", "h.in"].iter().for_each(|path| disk.touch(path))), found("a.o made.h ", 6));
    // It reads a file that a command makes.
    assert_eq!(early(|disk| disk.touch("b.c")), found("", 3));
    assert_eq!(early(|disk| disk.put("a.c", "new")), found("", 0));
    for path in ["a.o", "h", "a.c"] {
        let change = |disk: &mut VirtualDisk| {
            disk.touch("a.c");
            disk.put(path, "new");
        };
        assert_eq!(renewed(change, 0), renewed(change, usize::MAX), "{path}");
    }
}

#[test]
fn order_only_inputs_must_be_ready() {
    let manifest = MANIFEST.replace("build a.o: cc a.c\n", "build a.o: cc a.c || s made.h\n");
    let check = |expected: &str, change: &dyn Fn(&mut VirtualDisk)| {
        let change = |disk: &mut VirtualDisk| {
            disk.touch("a.c");
            change(disk);
        };
        let (early, all) = renewed_with(&manifest, change, 0);
        assert_eq!(early, expected);
        assert_eq!(all, renewed_with(&manifest, change, usize::MAX).1);
    };
    check("a.o ", &|_| {});
    check("", &|disk| disk.delete("s"));
    check("", &|disk| disk.put("h.in", "new"));
}
