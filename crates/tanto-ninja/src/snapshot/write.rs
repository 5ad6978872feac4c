//! Writes a graph with renumbered nodes, and state of the logs, to a file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytemuck::cast_slice;
use tanto_sys::fs::file::max_file_size;
use tanto_sys::threads::map_parallel;

use super::logs::{LogSectionData, LogState};
use super::sort::by_path;
use super::table::{ALIGNMENT, Key, ManifestRecord, ROWS, Ranges, SECTIONS, Table};
use crate::flat::BLOCK_SIZE;
use crate::graph::manifest_data::{EdgeShape, ManifestData};
use crate::hash::rapidhash;
use crate::ids::{EdgeId, NodeId};
use crate::paths::{AllPaths, PermutedPaths};

/// Bytes written at a time. Smaller: more system calls. Larger: more memory per thread.
const BYTES_PER_TASK: usize = 16 * BLOCK_SIZE;

/// The arrays of a graph that change with the renumbering.
struct RenumberedRows {
    in_edges: Vec<EdgeId>,
    edges: Vec<EdgeShape>,
    ids: Vec<NodeId>,
    dyndep_files: Vec<NodeId>,
    defaults: Vec<NodeId>,
    hash_kind: u32,
    hashes: Vec<u64>,
}

/// The content of a snapshot.
pub(super) struct SnapshotWriter<'p> {
    pub(super) data: &'p ManifestData,
    pub(super) key: &'p Key,
    pub(super) logs: &'p LogState<'p>,
    pub(super) manifests: Vec<ManifestRecord>,
    /// Checksums of the manifests' blocks.
    pub(super) checksums: Vec<u64>,
    pub(super) threads: usize,
    /// Set when the snapshot is no longer wanted.
    pub(super) cancelled: &'p AtomicBool,
}

impl SnapshotWriter<'_> {
    /// Writes the snapshot. Returns false if it is incomplete: the graph has too many paths, the file size is
    /// limited, the graph's own snapshot is damaged, or writing was cancelled.
    pub(super) fn write(self, file: &File) -> io::Result<bool> {
        let SnapshotWriter { data, logs, threads, .. } = self;
        let all = AllPaths { table: &data.paths, others: &logs.added };
        let numbers = NodeNumbering::new(data, all, logs, threads);
        let Some(paths) =
            PermutedPaths::new(&numbers.paths, threads).filter(|_| !self.cancelled.load(Ordering::Relaxed))
        else {
            return Ok(false);
        };
        let rows = RenumberedRows::new(data, &numbers);
        let parts = logs.parts(&numbers.new, numbers.named, numbers.order.len(), threads);
        let sections = sections(data, &paths, &rows, &parts, &self.checksums);
        let ranges = ranges(&sections);
        let end = ranges[SECTIONS - 1].end;
        let mut table = Table {
            key: self.key.clone(),
            notices: data.notices.clone(),
            sets_reserved: data.env.sets_reserved,
            hash_kind: rows.hash_kind,
            headers: parts.headers(),
            ranges,
            checksums: vec![0; end.div_ceil(BLOCK_SIZE)],
            manifests: self.manifests,
        };
        if (end + table.encode(end).len()) as u64 > max_file_size() {
            return Ok(false);
        }
        table.checksums = write_sections(file, &sections, &table.ranges, threads, self.cancelled)?;
        file.write_all_at(&table.encode(end), end as u64)?;
        Ok(!data.is_damaged() && !self.cancelled.load(Ordering::Relaxed))
    }
}

impl RenumberedRows {
    fn new(data: &ManifestData, numbers: &NodeNumbering<'_>) -> RenumberedRows {
        let number = |id: &NodeId| numbers.new.get(id.index()).copied().unwrap_or(NodeId::NONE);
        let named = &numbers.order[..numbers.named];
        let (mut edges, mut ids) = (Vec::with_capacity(data.edge_count()), Vec::with_capacity(data.ids.len()));
        for shape in data.edges.all() {
            let first = shape.first as usize;
            edges.push(EdgeShape { first: ids.len() as u32, ..*shape });
            ids.extend(data.ids.slice(first..first + shape.ids()).iter().map(number));
        }
        let (hash_kind, hashes) = data.hashes.all(data.edge_count());
        RenumberedRows {
            hash_kind,
            hashes,
            in_edges: named.iter().map(|id| data.in_edges.get(id.index())).collect(),
            edges,
            ids,
            dyndep_files: data.dyndep_files.all().iter().map(number).collect(),
            defaults: data.defaults.all().iter().map(number).collect(),
        }
    }
}

enum Content<'c> {
    Bytes(&'c [u8]),
    /// Consecutive pieces.
    Pieces(Vec<&'c [u8]>),
    Text(&'c PermutedPaths<'c>),
}

impl Content<'_> {
    fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Pieces(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            Content::Text(paths) => paths.words * size_of::<u64>(),
        }
    }

    /// Copies bytes from `from` on, a multiple of 8.
    fn fill(&self, from: usize, out: &mut [u8]) {
        match self {
            Content::Bytes(bytes) => out.copy_from_slice(&bytes[from..from + out.len()]),
            Content::Pieces(pieces) => fill_from(pieces, from, out),
            Content::Text(paths) => paths.fill(from / size_of::<u64>(), bytemuck::cast_slice_mut(out)),
        }
    }
}

/// In the order of `Section`.
fn sections<'c>(
    data: &'c ManifestData,
    paths: &'c PermutedPaths<'_>,
    rows: &'c RenumberedRows,
    parts: &'c LogSectionData,
    checksums: &'c [u64],
) -> [Content<'c>; SECTIONS] {
    let own: [Content<'c>; ROWS - LogSectionData::ROWS - 1] = [
        Content::Text(paths),
        Content::Bytes(cast_slice(&paths.spans)),
        Content::Bytes(cast_slice(&paths.index)),
        Content::Bytes(cast_slice(&rows.in_edges)),
        Content::Bytes(cast_slice(&rows.edges)),
        Content::Bytes(cast_slice(data.edge_bindings.all())),
        Content::Bytes(cast_slice(&rows.ids)),
        Content::Bytes(cast_slice(data.dyndep_edges.all())),
        Content::Bytes(cast_slice(&rows.dyndep_files)),
        Content::Bytes(cast_slice(&rows.defaults)),
        Content::Bytes(cast_slice(&rows.hashes)),
    ];
    let rows = parts.rows().into_iter().chain([cast_slice(checksums)]).chain(data.env.rows());
    let mut all = own.into_iter().chain(rows.map(Content::Bytes)).chain([Content::Pieces(data.env.texts())]);
    std::array::from_fn(|_| all.next().expect("as many as there are sections"))
}

/// Copies bytes from `from` on out of consecutive pieces.
fn fill_from(pieces: &[&[u8]], from: usize, mut out: &mut [u8]) {
    let mut skipped = from;
    for piece in pieces {
        let rest = &piece[skipped.min(piece.len())..];
        skipped -= piece.len() - rest.len();
        let (room, behind) = out.split_at_mut(rest.len().min(out.len()));
        room.copy_from_slice(&rest[..room.len()]);
        out = behind;
    }
}

fn ranges(sections: &[Content<'_>; SECTIONS]) -> Ranges {
    let mut end: usize = 0;
    std::array::from_fn(|number| {
        let start = end.next_multiple_of(ALIGNMENT);
        end = start + sections[number].len();
        start..end
    })
}

/// Writes the sections and returns the checksums of their blocks.
fn write_sections(
    file: &File,
    sections: &[Content<'_>; SECTIONS],
    ranges: &Ranges,
    threads: usize,
    cancelled: &AtomicBool,
) -> io::Result<Vec<u64>> {
    let failed = AtomicBool::new(false);
    // The kernel serializes writes to a file and the waiting threads spin; with this lock they sleep.
    let write_lock = Mutex::new(());
    let end = ranges[SECTIONS - 1].end;
    let pieces: Vec<Range<usize>> =
        (0..end).step_by(BYTES_PER_TASK).map(|start| start..end.min(start + BYTES_PER_TASK)).collect();
    let checksums = map_parallel(threads, pieces, |piece| {
        if failed.load(Ordering::Relaxed) || cancelled.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let mut words = vec![0_u64; piece.len().div_ceil(size_of::<u64>())];
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..piece.len()];
        fill(sections, ranges, &piece, bytes);
        let written = {
            let _guard = write_lock.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all_at(bytes, piece.start as u64)
        };
        failed.fetch_or(written.is_err(), Ordering::Relaxed);
        written.map(|()| bytes.chunks(BLOCK_SIZE).map(rapidhash).collect())
    });
    checksums.into_iter().collect::<io::Result<Vec<Vec<u64>>>>().map(|checksums| checksums.concat())
}

/// Copies a part of the file from its sections.
fn fill(sections: &[Content<'_>; SECTIONS], ranges: &Ranges, piece: &Range<usize>, out: &mut [u8]) {
    for (content, range) in sections.iter().zip(ranges) {
        let (start, end) = (range.start.max(piece.start), range.end.min(piece.end));
        if start < end {
            content.fill(start - range.start, &mut out[start - piece.start..end - piece.start]);
        }
    }
}

/// New ids for nodes: first those that manifests name, then those that only the deps log names, each sorted by path.
pub(super) struct NodeNumbering<'p> {
    /// Old ids by new ones.
    pub(super) order: Vec<NodeId>,
    /// Paths by new ids.
    pub(super) paths: Vec<&'p [u8]>,
    /// Number of nodes that manifests name.
    pub(super) named: usize,
    /// New ids by old ones; `NodeId::NONE` for omitted nodes.
    pub(super) new: Vec<NodeId>,
}

impl<'p> NodeNumbering<'p> {
    pub(super) fn new(
        data: &ManifestData,
        paths: AllPaths<'p>,
        logs: &LogState<'_>,
        threads: usize,
    ) -> NodeNumbering<'p> {
        let old = (0..data.named() as u32).map(NodeId);
        let (mut order, mut sorted): (Vec<NodeId>, Vec<&[u8]>) = by_path(paths, old, threads).unzip();
        let named = order.len();
        for (id, path) in by_path(paths, logs.discovered(data.named()), threads) {
            order.push(id);
            sorted.push(path);
        }
        let mut new = vec![NodeId::NONE; paths.len()];
        for (number, id) in (0..).zip(&order) {
            new[id.index()] = NodeId(number);
        }
        NodeNumbering { order, paths: sorted, named, new }
    }
}
