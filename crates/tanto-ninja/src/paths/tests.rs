//! Compares path tables with a hash map: many threads, colliding tags, damaged files.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::thread;

use tanto_sys::memory::map::Map;
use tanto_testing::{Random, Scratch};

use super::*;
use crate::flat::{BLOCK_SIZE, Blocks, Slab};
use crate::hash::rapidhash;
use crate::ids::NodeId;

/// A typical build path: common prefixes, and all lengths modulo 8.
fn path(number: usize) -> Vec<u8> {
    let dir = "out/soong/.intermediates/".get(..number % 26).unwrap();
    format!("{dir}{number}/{}", "x".repeat(number / 26 % 40)).into_bytes()
}

/// Random paths, each of `different` about as often.
fn references(different: usize, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| path(random.below(different))).collect()
}

fn intern(interner: &Interner, paths: &[Vec<u8>]) -> Vec<NodeId> {
    let mut ids = Vec::new();
    let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    let mut writer = interner.handle();
    for some in paths.chunks(paths.len() / 3 + 1) {
        writer.intern_all(some, &mut ids);
    }
    ids
}

fn lookup_all(table: &PathTable, paths: &[&[u8]]) -> Vec<Option<NodeId>> {
    let mut ids = Vec::new();
    table.lookup_all(paths, &mut ids);
    ids
}

/// Interns each list on a thread and compares the table with a map.
fn check(interner: Interner, lists: &[Vec<Vec<u8>>]) -> PathTable {
    let ids: Vec<Vec<NodeId>> = thread::scope(|scope| {
        let started: Vec<_> = lists.iter().map(|list| scope.spawn(|| intern(&interner, list))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let table = interner.freeze();
    let mut known: HashMap<&[u8], NodeId> = HashMap::new();
    for (path, id) in lists.iter().flatten().zip(ids.iter().flatten()) {
        assert_eq!(*known.entry(path).or_insert(*id), *id);
    }
    assert_eq!(known.values().collect::<HashSet<_>>().len(), known.len());
    for (path, id) in &known {
        assert_eq!(table.path(*id), *path);
        assert_eq!(table.c_path(*id).to_bytes(), *path);
        assert_eq!(table.lookup(path), Some(*id));
    }
    let (paths, ids): (Vec<&[u8]>, Vec<Option<NodeId>>) = known.iter().map(|(&path, &id)| (path, Some(id))).unzip();
    assert!(lookup_all(&table, &paths) == ids);
    let absent = [&b""[..], b"absent", b"out/soong/.intermediates/"];
    assert!(absent.iter().all(|path| table.lookup(path).is_none()));
    assert_eq!(lookup_all(&table, &absent), [None; 3]);
    let all = (0..table.len()).filter(|&id| !table.path(NodeId(id as u32)).is_empty()).count();
    assert_eq!(all, known.len());
    table
}

#[test]
fn interner_without_paths_gives_an_empty_table() {
    let interner = Interner::new(0);
    interner.handle().intern_all(&[], &mut Vec::new());
    let table = interner.freeze();
    assert!(table.len() == 0 && table.lookup(b"a").is_none());
    let [text, spans, _] = table.parts();
    assert!(spans.is_empty() && text == [&[0]]);
}

#[test]
fn single_thread_numbers_paths_in_order() {
    let interner = Interner::new(0);
    let paths: Vec<Vec<u8>> = (0..3000).map(|number| path(number % 1700)).collect();
    let ids = intern(&interner, &paths);
    assert!((0..3000).zip(ids).all(|(number, id)| id == NodeId(number % 1700)));
    assert_eq!(interner.freeze().len(), 1700);
}

#[test]
fn threads_agree_on_ids() {
    for threads in 1..=8 {
        for (expected, different) in [(0, 40), (0, 3000), (5000, 3000)] {
            let lists: Vec<_> = (0..threads).map(|seed| references(different, 9000 / threads as usize, seed)).collect();
            let table = check(Interner::new(expected), &lists);
            assert!(table.len() < different + threads as usize * 512);
        }
    }
}

#[test]
fn threads_can_add_the_same_paths() {
    let list: Vec<Vec<u8>> = (0..20_000).map(path).collect();
    check(Interner::new(0), &vec![list; 4]);
}

#[test]
fn paths_with_equal_tags_are_distinct() {
    for tags in [0, 1, 0x8000_0000, 0xff00_0000, 0xf] {
        let lists: Vec<_> = (0..3).map(|seed| references(700, 1500, seed)).collect();
        check(Interner::with_tags(0, TagMask(tags)), &lists);
    }
}

#[test]
fn long_paths_fit() {
    let long = |length: usize| {
        let mut path = vec![b'a'; length];
        path.extend(length.to_string().bytes());
        path
    };
    let lengths = [10, 65_000, 65_536, 70_000, 20, 2 << 20, 30, 3 << 20, 40, 1 << 19, 65_536];
    let list: Vec<_> = lengths.into_iter().map(long).collect();
    for lists in [vec![list.clone()], vec![list.clone(), list.iter().rev().cloned().collect()]] {
        check(Interner::new(0), &lists);
    }
}

#[test]
fn paths_that_differ_only_in_length_are_distinct() {
    let list: Vec<_> = (1..100).flat_map(|length| [vec![0; length], vec![b'a'; length]]).collect();
    let interner = Interner::new(0);
    let ids = intern(&interner, &list);
    let table = interner.freeze();
    for (path, id) in list.iter().zip(ids) {
        assert_eq!((table.path(id), table.lookup(path)), (&path[..], Some(id)));
        let until_zero = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
        assert_eq!(table.c_path(id).to_bytes(), &path[..until_zero]);
    }
}

/// A file of three parts aligned to 64 bytes, and their ranges.
fn file_of(table: &PathTable) -> (Vec<u8>, [std::ops::Range<usize>; 3]) {
    let mut file = Vec::new();
    let ranges = table.parts().map(|pieces| {
        file.resize(file.len().next_multiple_of(64), 0);
        let start = file.len();
        pieces.iter().for_each(|piece| file.extend_from_slice(bytemuck::cast_slice(piece)));
        start..file.len()
    });
    (file, ranges)
}

fn mapped(
    scratch: &Scratch,
    file: &[u8],
    ranges: &[std::ops::Range<usize>; 3],
    sums: Vec<u64>,
) -> (Arc<Blocks>, PathTable) {
    scratch.write("file", file);
    let map = Map::new(&File::open(scratch.at("file")).unwrap(), file.len() as u64).unwrap();
    let blocks = Arc::new(Blocks::new(map, 0..file.len(), sums));
    let [text, spans, index] = ranges.clone().map(|range| Slab::mapped(&blocks, range));
    (blocks, PathTable::from_parts(text, spans, index))
}

/// Exercises all queries; the answers may be wrong.
fn query_all(table: &PathTable, paths: &[Vec<u8>]) {
    for id in 0..table.len() + 2 {
        let id = NodeId(id as u32);
        assert!(table.c_path(id).to_bytes().len() <= table.path(id).len());
    }
    let ids: Vec<_> = paths.iter().map(|path| table.lookup(path)).collect();
    assert!(ids.iter().flatten().all(|id| id.index() < table.len()));
    let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    assert_eq!(lookup_all(table, &paths), ids);
}

#[test]
fn mapped_table_equals_the_original() {
    let scratch = Scratch::new("paths");
    let paths: Vec<_> = (0..140_000).map(path).collect();
    let table = check(Interner::new(0), &[paths.clone(), references(50_000, 1000, 1)]);
    let (file, ranges) = file_of(&table);
    let [text, spans, _] = table.parts();
    assert!(text.len() > 2 && spans.len() > 1, "it shows what it should only with several pieces");
    let (blocks, again) = mapped(&scratch, &file, &ranges, file.chunks(BLOCK_SIZE).map(rapidhash).collect());
    assert_eq!(again.len(), table.len());
    for id in (0..table.len()).map(|id| NodeId(id as u32)) {
        assert_eq!((again.path(id), again.c_path(id)), (table.path(id), table.c_path(id)));
    }
    assert!(paths.iter().all(|path| again.lookup(path) == table.lookup(path)));
    assert!(again.lookup(b"absent").is_none() && blocks.check_all(2));
}

#[test]
fn damaged_table_does_not_panic() {
    let scratch = Scratch::new("paths");
    let paths: Vec<_> = (0..700).map(path).collect();
    let table = check(Interner::new(0), std::slice::from_ref(&paths));
    let (file, ranges) = file_of(&table);
    let sums: Vec<u64> = file.chunks(BLOCK_SIZE).map(rapidhash).collect();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut file = file.clone();
        for _ in 0..1 << random.below(12) {
            let at = random.below(file.len());
            file[at] ^= 1 << random.below(8);
        }
        // With the original checksums, and with matching ones.
        let (blocks, table) = mapped(&scratch, &file, &ranges, sums.clone());
        query_all(&table, &paths);
        assert!(!blocks.check_all(1));
        query_all(&mapped(&scratch, &file, &ranges, file.chunks(BLOCK_SIZE).map(rapidhash).collect()).1, &paths);
    }
}

#[test]
fn garbage_table_does_not_panic() {
    let scratch = Scratch::new("paths");
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let file: Vec<u8> = (0..8 * 300).map(|_| random.number() as u8).collect();
        let mut cut = || random.below(301) * 8;
        let ranges = [0..cut(), cut()..2400, 800..800 + cut() / 2];
        let (_, table) = mapped(&scratch, &file, &ranges, vec![rapidhash(&file)]);
        query_all(&table, &[path(1), path(2), Vec::new()]);
    }
    // An index without a free slot; all slots have the tag in question.
    let tag = TagMask::ALL.of(b"a");
    let file: Vec<u8> = (0..64).flat_map(|_| pack(1, tag).to_ne_bytes()).collect();
    let (_, table) = mapped(&scratch, &file, &[0..512, 0..512, 0..512], vec![rapidhash(&file)]);
    assert_eq!(table.lookup(b"a"), None);
}
