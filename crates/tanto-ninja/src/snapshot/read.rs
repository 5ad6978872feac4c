//! Maps a snapshot if it matches the present manifests.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use tanto_sys::fs::file::path;
use tanto_sys::fs::file_stamp::{self, FileStamp};
use tanto_sys::memory::map::Map;
use tanto_sys::threads::{ThreadLimit, map_parallel};

use super::table::{self, Key, ManifestRecord, Ranges, SECTIONS, Section, Table};
use crate::disk::is_racy;
use crate::flat::{Blocks, Slab, WordLimit};
use crate::graph::bindings::RuleBlockCache;
use crate::graph::command_hashes::CommandHashes;
use crate::graph::env::Env;
use crate::graph::lazy_text::{Manifest, ManifestText, Manifests};
use crate::graph::manifest_data::{LogSections, ManifestData};
use crate::hash;
use crate::paths::PathTable;

/// Manifests per thread when they are checked. Fewer: starting a thread costs more than it saves. More: medium trees
/// are checked by one thread.
const MANIFESTS_PER_THREAD: usize = 64;

/// Returns the graph in a file if the key and the manifests match.
pub(super) fn read(file: &File, key: &Key, threads: ThreadLimit) -> Option<ManifestData> {
    let map = Map::new(file, file.metadata().ok()?.len()).ok()?;
    let (mut table, end) = Table::decode(&map)?;
    if map.is_torn() || table.key != *key {
        return None;
    }
    let verified_bytes = check(&mut table.manifests, threads)?;
    Some(ManifestData { verified_bytes, ..map_data(map, table, end)? })
}

/// Checks that loading the manifests now would give the same result. Returns the number of bytes that had to be
/// hashed and that a new snapshot saves; `None` if a manifest differs.
fn check(manifests: &mut [ManifestRecord], threads: ThreadLimit) -> Option<u64> {
    let tasks = threads.limit((manifests.len() / MANIFESTS_PER_THREAD).min(tanto_sys::machine::cpu::count())).max(1);
    let shares = manifests.chunks_mut(manifests.len().div_ceil(tasks).max(1)).collect();
    let check = |share: &mut [ManifestRecord]| share.iter_mut().map(ManifestRecord::check).sum::<Option<u64>>();
    map_parallel(tasks, shares, check).into_iter().sum()
}

impl ManifestRecord {
    /// Checks one manifest; see `check`.
    fn check(&mut self) -> Option<u64> {
        if !self.is_unchanged() {
            return None;
        }
        let Some(text_hash) = self.state.text_hash else { return Some(0) };
        let began = file_stamp::coarse_now();
        let file = File::open(path(&self.path)).ok()?;
        let map = Map::new(&file, self.state.stamp.size).ok()?;
        // Checked again after hashing: the text may have changed meanwhile.
        if hash::text_hash(&map) != text_hash || map.is_torn() || !self.is_unchanged() {
            return None;
        }
        if is_racy(self.state.stamp, began, &file) {
            return Some(0);
        }
        // Later changes cannot leave the same stamp.
        self.state.text_hash = None;
        Some(self.state.stamp.size)
    }

    /// Returns true if the file exists and has the same stamp.
    pub(super) fn is_unchanged(&self) -> bool {
        FileStamp::at(&self.path).is_ok_and(|stamp| stamp == self.state.stamp)
    }
}

/// Returns the graph that precedes the table in a file.
pub(super) fn map_data(map: Map, table: Table, end: usize) -> Option<ManifestData> {
    let Table { manifests, notices, sets_reserved, hash_kind, headers, ranges, checksums, .. } = table;
    let blocks = Arc::new(Blocks::new(map, 0..covered(&ranges, end)?, checksums).with_limits(limits(&ranges)));
    let range = |section: Section| ranges[section as usize].clone();
    let paths = PathTable::from_parts(
        Slab::mapped(&blocks, range(Section::Text)),
        Slab::mapped(&blocks, range(Section::Spans)),
        Slab::mapped(&blocks, range(Section::Index)),
    );
    let env: [Range<usize>; Env::ROWS] = std::array::from_fn(|row| ranges[Section::Env as usize + row].clone());
    let data = ManifestData {
        paths,
        in_edges: Slab::mapped(&blocks, range(Section::InEdges)),
        edges: Slab::mapped(&blocks, range(Section::Edges)),
        edge_bindings: Slab::mapped(&blocks, range(Section::Texts)),
        ids: Slab::mapped(&blocks, range(Section::Ids)),
        dyndep_edges: Slab::mapped(&blocks, range(Section::DyndepEdges)),
        dyndep_files: Slab::mapped(&blocks, range(Section::DyndepFiles)),
        defaults: Slab::mapped(&blocks, range(Section::Defaults)),
        env: Env::mapped(&blocks, env, sets_reserved),
        manifests: self::manifests(manifests, range(Section::Sums), &blocks)?,
        rule_blocks: RuleBlockCache::default(),
        hashes: CommandHashes::stored(Slab::mapped(&blocks, range(Section::CommandHashes)), hash_kind),
        notices,
        logs: LogSections {
            build: headers.build,
            deps: headers.deps,
            ranges: [
                Section::LogLast,
                Section::LogSide,
                Section::LogMade,
                Section::DepsNodes,
                Section::DepsIds,
                Section::DepsRecords,
            ]
            .map(range),
        },
        blocks: Some(Arc::clone(&blocks)),
        verified_bytes: 0,
    };
    let fits = data.paths.len() >= data.named() && data.edges.len() == data.edge_bindings.len();
    // The first node replaces invalid ones in a damaged file.
    let fits = fits && (data.edges.is_empty() || data.named() > 0);
    (fits && !blocks.is_damaged()).then_some(data)
}

/// Returns the length of the sections, which must be in order and end at the table.
fn covered(ranges: &Ranges, end: usize) -> Option<usize> {
    let in_order = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
    let covered = ranges[SECTIONS - 1].end;
    (in_order && covered == end).then_some(covered)
}

/// Limits of ids and indexes.
fn limits(ranges: &Ranges) -> Vec<WordLimit> {
    let count = |section: Section, size: usize| u32::try_from(ranges[section as usize].len() / size).unwrap_or(0);
    let (nodes, edges) =
        (count(Section::InEdges, 4), count(Section::Texts, size_of::<crate::graph::manifest_data::EdgeBindings>()));
    let all_nodes = count(Section::Spans, 8);
    let limit = |section: Section, below| WordLimit { words: ranges[section as usize].clone(), below };
    vec![
        limit(Section::Ids, nodes),
        limit(Section::DyndepEdges, edges),
        limit(Section::DyndepFiles, nodes),
        limit(Section::Defaults, nodes),
        limit(Section::DepsNodes, all_nodes),
    ]
}

fn manifests(records: Vec<ManifestRecord>, checksums: Range<usize>, blocks: &Arc<Blocks>) -> Option<Manifests> {
    let total = records.iter().map(table::block_count).try_fold(0, usize::checked_add)?;
    if total.checked_mul(size_of::<u64>())? != checksums.len() {
        return None;
    }
    let checksums: Vec<_> =
        table::split_checksums(&records, checksums.start, |range| Slab::mapped(blocks, range)).collect();
    let manifest = |(record, checksums): (ManifestRecord, Slab<u64>)| {
        let ManifestRecord { path, state } = record;
        Manifest { path, state: Some(state), checksums, text: ManifestText::OnDisk }
    };
    Some(Manifests::new(records.into_iter().zip(checksums).map(manifest).collect()))
}
