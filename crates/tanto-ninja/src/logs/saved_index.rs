//! What is found in the logs, as flat arrays: to be kept, and put back when the files still begin as they did. Does not
//! know where they are kept.

use tanto_sys::threads::map_parallel;

use crate::disk::Mtime;
use crate::flat::Slab;
use crate::ids::NodeId;

use super::build_log_line;
use super::deps_log_records::NO_ID;
use super::fingerprint::LogFingerprint;
use super::log_buffer::LogBuffer;

/// The index of a `.ninja_log`.
#[derive(Debug)]
pub struct BuildLogIndex {
    /// Of which bytes of which file it is, and what they are: words that only the log understands.
    pub facts: [u64; 3 + LogFingerprint::WORDS],
    /// For each node where its last line begins; 0 for none.
    pub last: Slab<u64>,
    /// Where the lines of outputs begin that are no nodes, in the order of the file.
    pub side: Slab<u64>,
    /// For each node what its last line says that decides whether it is dirty.
    pub made: Slab<LoggedCommand>,
}

tanto_sys::pod! {
    /// What the log says of how an output was made, without the times.
    #[derive(PartialEq, Eq, Debug)]
    pub struct LoggedCommand {
        /// The hash of the command, by the log's version.
        pub command_hash: u64,
        /// What the output was up to date with; see `BuildLog::records_output_mtime`.
        pub mtime: Mtime,
    }
}

impl LoggedCommand {
    /// Nothing is known, or a line says just this: it has to be looked at.
    pub(super) const UNKNOWN: LoggedCommand = LoggedCommand { command_hash: u64::MAX, mtime: Mtime::MIN };
}

/// The index of a `.ninja_deps`.
#[derive(Debug)]
pub struct DepsLogIndex {
    /// As for a `.ninja_log`.
    pub facts: [u64; 2 + LogFingerprint::WORDS],
    /// By a file's number in the log: its node.
    pub nodes: Slab<NodeId>,
    /// By node: its number in the log; `u32::MAX` for none.
    pub ids: Slab<u32>,
    /// By number in the log: where the output's record begins; 0 for none.
    pub deps: Slab<u64>,
}

/// Lines that a thread takes at a time.
const PIECE: usize = 16 << 10;

/// What was known of a `.ninja_log`.
pub struct BuildLogState {
    pub(super) fingerprint: LogFingerprint,
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) text: LogBuffer,
    /// By node; 0 for none.
    pub(super) last: Vec<u64>,
    pub(super) side: Vec<u64>,
}

impl BuildLogState {
    /// The parts for the nodes whose numbers in `numbers` are below `count`, by those: nodes that the graph had when the
    /// log was loaded. None if the file was cut short since.
    pub fn parts(&self, numbers: &[NodeId], count: usize, threads: usize) -> Option<BuildLogIndex> {
        let (mut last, mut side) = (vec![0; count], self.side.clone());
        for (node, &at) in self.last.iter().enumerate().filter(|&(_, &at)| at != 0) {
            match numbers.get(node).and_then(|number| last.get_mut(number.index())) {
                Some(place) => *place = at,
                None => side.push(at),
            }
        }
        side.sort_unstable();
        let nodes = last.iter().filter(|&&at| at != 0).count();
        let made = self.made(&last, threads);
        let [device, inode, length, head, tail] = self.fingerprint.words();
        let facts = [self.version.into(), self.lines as u64, nodes as u64, device, inode, length, head, tail];
        let parts = BuildLogIndex { facts, last: last.into(), side: side.into(), made: made.into() };
        (!self.text.is_torn()).then_some(parts)
    }

    /// What the lines at these places say.
    fn made(&self, places: &[u64], threads: usize) -> Vec<LoggedCommand> {
        let mut made = vec![LoggedCommand::UNKNOWN; places.len()];
        let pieces = made.chunks_mut(PIECE).zip(places.chunks(PIECE)).collect();
        map_parallel(threads, pieces, |(made, places): (&mut [LoggedCommand], &[u64])| {
            for (made, &at) in made.iter_mut().zip(places).filter(|(_, at)| **at != 0) {
                *made = build_log_line::entry(self.text.rest(at as usize))
                    .map_or(LoggedCommand::UNKNOWN, |entry| entry.logged_command());
            }
        });
        made
    }
}

/// What was known of a `.ninja_deps`.
pub struct DepsLogState {
    pub(super) fingerprint: LogFingerprint,
    pub(super) total: usize,
    pub(super) unique: usize,
    pub(super) nodes: Vec<NodeId>,
    pub(super) deps: Vec<u64>,
}

impl DepsLogState {
    /// The nodes of all its paths.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The parts, with the numbers that the nodes have in `numbers`. None if one of them has none below `count`.
    pub fn parts(&self, numbers: &[NodeId], count: usize) -> Option<DepsLogIndex> {
        let number = |node: &NodeId| numbers.get(node.index()).copied().filter(|number| number.index() < count);
        let nodes: Vec<NodeId> = self.nodes.iter().map(number).collect::<Option<_>>()?;
        let mut ids = vec![NO_ID; count];
        for (id, node) in (0..).zip(&nodes) {
            ids[node.index()] = id;
        }
        let [device, inode, length, head, tail] = self.fingerprint.words();
        let facts = [self.total as u64, self.unique as u64, device, inode, length, head, tail];
        Some(DepsLogIndex { facts, nodes: nodes.into(), ids: ids.into(), deps: self.deps.clone().into() })
    }
}
