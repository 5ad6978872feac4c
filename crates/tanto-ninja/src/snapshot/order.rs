//! Puts nodes into the order of their paths: whoever asks for their files in that order stays in a directory as long as
//! there is something to ask for. Does not know what becomes of the order.

use std::ops::Range;

use tanto_sys::threads::each;

use crate::graph::NodeId;
use crate::paths::AllPaths;

/// Bytes of a path that are compared at a time.
const STEP: usize = size_of::<u64>();

/// How many paths ahead memory is asked for: as many as the processor can wait for at a time.
const AHEAD: usize = 8;

/// Paths that a thread sorts by itself. Smaller, threads take turns too often; larger, one works while others wait.
const PIECE: usize = 32 << 10;

/// So many paths are sorted by comparing them. Fewer, and steps are taken for two paths that are long and nearly the
/// same; more, and the same bytes are compared again and again.
const FEW: usize = 16;

/// A path, and those of its bytes that are being compared.
#[derive(Clone, Copy)]
struct Key {
    word: u64,
    id: NodeId,
}

/// Keys that have the same bytes before `depth`.
struct Group {
    keys: Range<usize>,
    depth: usize,
}

/// Those of the nodes that have paths, in the order of those.
pub(super) fn by_path(
    paths: AllPaths<'_>,
    nodes: impl Iterator<Item = NodeId>,
    threads: usize,
) -> impl Iterator<Item = NodeId> {
    let ids = nodes.filter(|id| !paths.path(*id).is_empty());
    let mut keys: Vec<Key> = ids.map(|id| Key { word: 0, id }).collect();
    let sorter = Sorter { paths };
    let small = sorter.split(&mut keys);
    let mut pieces = Vec::with_capacity(small.len());
    let (mut rest, mut at) = (&mut keys[..], 0);
    for group in small {
        let (_, behind) = rest.split_at_mut(group.keys.start - at);
        let (piece, behind) = behind.split_at_mut(group.keys.len());
        (rest, at) = (behind, group.keys.end);
        pieces.push((piece, group.depth));
    }
    each(threads, pieces, |(piece, depth)| sorter.sort(piece, depth));
    keys.into_iter().map(|key| key.id)
}

struct Sorter<'p> {
    paths: AllPaths<'p>,
}

impl Sorter<'_> {
    /// Sorts until there are only small groups; those, in order.
    fn split(&self, keys: &mut [Key]) -> Vec<Group> {
        let mut small = Vec::new();
        let mut groups = vec![Group { keys: 0..keys.len(), depth: 0 }];
        while let Some(group) = groups.pop() {
            if group.keys.len() <= PIECE {
                small.push(group);
            } else {
                self.step(keys, group, &mut groups);
            }
        }
        small
    }

    fn sort(&self, keys: &mut [Key], depth: usize) {
        let mut groups = vec![Group { keys: 0..keys.len(), depth }];
        while let Some(group) = groups.pop() {
            if group.keys.len() <= FEW {
                let rest = |key: &Key| self.paths.path(key.id).get(group.depth..).unwrap_or_default();
                keys[group.keys].sort_unstable_by(|a, b| rest(a).cmp(rest(b)));
            } else {
                self.step(keys, group, &mut groups);
            }
        }
    }

    /// Sorts a group by the next bytes, and adds groups of those that are still the same. The first comes last.
    fn step(&self, keys: &mut [Key], group: Group, groups: &mut Vec<Group>) {
        let start = group.keys.start;
        let keys = &mut keys[group.keys];
        self.look(keys, group.depth);
        keys.sort_unstable_by_key(|key| key.word);
        let depth = group.depth + STEP;
        let mut end = keys.len();
        for same in keys.chunk_by(|a, b| a.word == b.word).rev() {
            let range = end - same.len()..end;
            end = range.start;
            // Where the last byte is zero, the path has ended.
            if same.len() > 1 && same[0].word & 0xff != 0 {
                groups.push(Group { keys: start + range.start..start + range.end, depth });
            }
        }
    }

    fn look(&self, keys: &mut [Key], depth: usize) {
        for number in 0..keys.len() {
            keys.get(number + AHEAD).into_iter().for_each(|key| self.paths.prefetch(key.id));
            keys[number].word = word(self.paths.path(keys[number].id), depth);
        }
    }
}

/// The bytes of the path from `depth` on, as far as there are some; they compare as the path does.
fn word(path: &[u8], depth: usize) -> u64 {
    let rest = path.get(depth..).unwrap_or_default();
    match rest.first_chunk::<STEP>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => rest.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56),
    }
}
