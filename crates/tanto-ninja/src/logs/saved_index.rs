//! The indexes of both logs as flat arrays, in the form saved in snapshots.

use tanto_sys::threads::map_parallel;

use crate::disk::Mtime;
use crate::flat::Slab;
use crate::ids::NodeId;

use super::build_log_line;
use super::deps_log_records::NO_ID;
use super::fingerprint::LogFingerprint;
use super::log_buffer::LogBuffer;

/// The saved index of a `.ninja_log`.
#[derive(Debug)]
pub struct BuildLogIndex {
    /// Version, number of lines, number of nodes, and the file's fingerprint.
    pub header: [u64; 3 + LogFingerprint::WORDS],
    /// By node: the offset of its last line, or 0.
    pub last: Slab<u64>,
    /// The offsets of lines of outputs that are not nodes, in file order.
    pub unindexed: Slab<u64>,
    /// By node: the parsed last line.
    pub logged: Slab<LoggedCommand>,
}

tanto_sys::pod! {
    /// The parts of an entry that matter for the dirty check.
    #[derive(PartialEq, Eq, Debug)]
    pub struct LoggedCommand {
        /// The hash depends on the log's version.
        pub command_hash: u64,
        /// See `BuildLog::records_output_mtime`.
        pub mtime: Mtime,
    }
}

impl LoggedCommand {
    /// Not in the index; the line must be parsed.
    pub(super) const UNKNOWN: LoggedCommand = LoggedCommand { command_hash: u64::MAX, mtime: Mtime::MIN };
}

/// The saved index of a `.ninja_deps`.
#[derive(Debug)]
pub struct DepsLogIndex {
    /// Number of records, number of outputs, and the file's fingerprint.
    pub header: [u64; 2 + LogFingerprint::WORDS],
    /// By id.
    pub nodes: Slab<NodeId>,
    /// By node: its id, or `u32::MAX`.
    pub ids: Slab<u32>,
    /// By id: the offset of the output's record, or 0.
    pub deps: Slab<u64>,
}

/// Lines parsed by a thread at a time.
const PIECE: usize = 16 << 10;

/// The state of a `.ninja_log` at one moment, from which the index can be built later, while the log grows.
pub struct BuildLogState {
    pub(super) fingerprint: LogFingerprint,
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) text: LogBuffer,
    /// By node; 0 for none.
    pub(super) last: Vec<u64>,
    pub(super) unindexed: Vec<u64>,
}

impl BuildLogState {
    /// Builds the index for the nodes with a new id below `count` in `numbers`. `None` if the file was cut.
    pub fn parts(&self, numbers: &[NodeId], count: usize, threads: usize) -> Option<BuildLogIndex> {
        let (mut last, mut unindexed) = (vec![0; count], self.unindexed.clone());
        for (node, &at) in self.last.iter().enumerate().filter(|&(_, &at)| at != 0) {
            match numbers.get(node).and_then(|number| last.get_mut(number.index())) {
                Some(place) => *place = at,
                None => unindexed.push(at),
            }
        }
        unindexed.sort_unstable();
        let nodes = last.iter().filter(|&&at| at != 0).count();
        let logged = self.logged(&last, threads);
        let [device, inode, length, head, tail] = self.fingerprint.words();
        let header = [self.version.into(), self.lines as u64, nodes as u64, device, inode, length, head, tail];
        let parts = BuildLogIndex { header, last: last.into(), unindexed: unindexed.into(), logged: logged.into() };
        (!self.text.is_torn()).then_some(parts)
    }

    /// Parses the lines at these offsets.
    fn logged(&self, places: &[u64], threads: usize) -> Vec<LoggedCommand> {
        let mut logged = vec![LoggedCommand::UNKNOWN; places.len()];
        let pieces = logged.chunks_mut(PIECE).zip(places.chunks(PIECE)).collect();
        map_parallel(threads, pieces, |(logged, places): (&mut [LoggedCommand], &[u64])| {
            for (logged, &at) in logged.iter_mut().zip(places).filter(|(_, at)| **at != 0) {
                *logged = build_log_line::entry(self.text.rest(at as usize))
                    .map_or(LoggedCommand::UNKNOWN, |entry| entry.logged_command());
            }
        });
        logged
    }
}

/// The state of a `.ninja_deps` at one moment.
pub struct DepsLogState {
    pub(super) fingerprint: LogFingerprint,
    pub(super) total: usize,
    pub(super) unique: usize,
    pub(super) nodes: Vec<NodeId>,
    pub(super) deps: Vec<u64>,
}

impl DepsLogState {
    /// The nodes of all paths.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Builds the index with the new node ids in `numbers`. `None` if a node has no id below `count`.
    pub fn parts(&self, numbers: &[NodeId], count: usize) -> Option<DepsLogIndex> {
        let number = |node: &NodeId| numbers.get(node.index()).copied().filter(|number| number.index() < count);
        let nodes: Vec<NodeId> = self.nodes.iter().map(number).collect::<Option<_>>()?;
        let mut ids = vec![NO_ID; count];
        for (id, node) in (0..).zip(&nodes) {
            ids[node.index()] = id;
        }
        let [device, inode, length, head, tail] = self.fingerprint.words();
        let header = [self.total as u64, self.unique as u64, device, inode, length, head, tail];
        Some(DepsLogIndex { header, nodes: nodes.into(), ids: ids.into(), deps: self.deps.clone().into() })
    }
}
