//! Sorts nodes by path, so that neighbors are in the same directory and cheaper to stat.

use std::ops::Range;

use tanto_sys::memory::prefetch;
use tanto_sys::threads::map_parallel;

use crate::ids::NodeId;
use crate::paths::AllPaths;

/// Bytes of a path compared at a time.
const STEP: usize = size_of::<u64>();

/// Paths to prefetch ahead: about the number of cache misses that a CPU handles at a time.
const PREFETCH_DISTANCE: usize = 8;

/// Paths sorted by one task. Smaller: threads switch too often. Larger: threads wait for the last one.
const PATHS_PER_TASK: usize = 16 << 10;

/// Groups of at most this size are sorted by comparing paths. Smaller: many steps for a few long, similar paths.
/// Larger: equal prefixes are compared repeatedly.
const INSERTION_LIMIT: usize = 16;

/// A path and the bytes of it under comparison.
#[derive(Clone, Copy)]
struct SortKey<'p> {
    word: u64,
    path: &'p [u8],
    id: NodeId,
}

/// Keys with equal bytes before `depth`.
struct Group {
    keys: Range<usize>,
    depth: usize,
}

/// Returns the nodes with a path, sorted by path.
pub(super) fn by_path<'p>(
    paths: AllPaths<'p>,
    nodes: impl Iterator<Item = NodeId>,
    threads: usize,
) -> impl Iterator<Item = (NodeId, &'p [u8])> {
    let keys = nodes.map(|id| SortKey { word: 0, path: paths.path(id), id });
    let mut keys: Vec<SortKey<'p>> = keys.filter(|key| !key.path.is_empty()).collect();
    let small = split(&mut keys, threads);
    let mut pieces = Vec::with_capacity(small.len());
    let (mut rest, mut at) = (&mut keys[..], 0);
    for group in small {
        let (_, behind) = rest.split_at_mut(group.keys.start - at);
        let (piece, behind) = behind.split_at_mut(group.keys.len());
        (rest, at) = (behind, group.keys.end);
        pieces.push((piece, group.depth));
    }
    map_parallel(threads, pieces, |(piece, depth)| sort(piece, depth));
    keys.into_iter().map(|key| (key.id, key.path))
}

/// Sorts until all groups are small, and returns them in order.
fn split(keys: &mut [SortKey<'_>], threads: usize) -> Vec<Group> {
    let mut small = Vec::new();
    let mut groups = vec![Group { keys: 0..keys.len(), depth: 0 }];
    while let Some(group) = groups.pop() {
        if group.keys.len() <= PATHS_PER_TASK {
            small.push(group);
        } else {
            let parts = keys[group.keys.clone()].chunks_mut(PATHS_PER_TASK).collect();
            map_parallel(threads, parts, |keys| load_words(keys, group.depth));
            sort_by_word(keys, group, &mut groups);
        }
    }
    small
}

fn sort(keys: &mut [SortKey<'_>], depth: usize) {
    let mut groups = vec![Group { keys: 0..keys.len(), depth }];
    while let Some(group) = groups.pop() {
        if group.keys.len() <= INSERTION_LIMIT {
            keys[group.keys].sort_unstable_by(|a, b| rest(a.path, group.depth).cmp(rest(b.path, group.depth)));
        } else {
            load_words(&mut keys[group.keys.clone()], group.depth);
            sort_by_word(keys, group, &mut groups);
        }
    }
}

/// Sorts a group by the loaded words, and pushes the groups that are still equal, in reverse order.
fn sort_by_word(keys: &mut [SortKey<'_>], group: Group, groups: &mut Vec<Group>) {
    let Group { keys: Range { start, end }, depth } = group;
    let keys = &mut keys[start..end];
    if keys.iter().any(|key| key.word != keys[0].word) {
        keys.sort_unstable_by_key(|key| key.word);
    }
    let mut end = end;
    for same in keys.chunk_by(|a, b| a.word == b.word).rev() {
        let start = end - same.len();
        // A zero last byte means that the path has ended.
        if same.len() > 1 && same[0].word & 0xff != 0 {
            groups.push(Group { keys: start..end, depth: depth + STEP });
        }
        end = start;
    }
}

/// Loads the bytes at `depth` of each path.
fn load_words(keys: &mut [SortKey<'_>], depth: usize) {
    for number in 0..keys.len() {
        if let Some(ahead) = keys.get(number + PREFETCH_DISTANCE) {
            ahead.path.get(depth).into_iter().for_each(prefetch::for_read);
        }
        keys[number].word = word(keys[number].path, depth);
    }
}

fn rest(path: &[u8], depth: usize) -> &[u8] {
    path.get(depth..).unwrap_or_default()
}

/// Returns the bytes from `depth` on as a number that sorts like the path.
fn word(path: &[u8], depth: usize) -> u64 {
    let rest = rest(path, depth);
    match rest.first_chunk::<STEP>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => rest.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56),
    }
}
