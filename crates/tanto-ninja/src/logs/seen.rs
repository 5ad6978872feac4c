//! What was known of the logs at some moment, to be made into parts later and elsewhere, while the logs go on. Does not
//! know where the parts are kept.

use tanto_sys::threads::map_parallel;

use crate::ids::NodeId;

use super::image::Image;
use super::line;
use super::parts::{BuildParts, DepsParts, Made};
use super::records::NO_ID;
use super::seal::Seal;

/// Lines that a thread takes at a time.
const PIECE: usize = 16 << 10;

/// What was known of a `.ninja_log`.
pub struct SeenBuild {
    pub(super) seal: Seal,
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) text: Image,
    /// By node; 0 for none.
    pub(super) last: Vec<u64>,
    pub(super) side: Vec<u64>,
}

impl SeenBuild {
    /// The parts for the nodes whose numbers in `numbers` are below `count`, by those: nodes that the graph had when the
    /// log was loaded. None if the file was cut short since.
    pub fn parts(&self, numbers: &[NodeId], count: usize, threads: usize) -> Option<BuildParts> {
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
        let [device, inode, length, head, tail] = self.seal.words();
        let facts = [self.version.into(), self.lines as u64, nodes as u64, device, inode, length, head, tail];
        let parts = BuildParts { facts, last: last.into(), side: side.into(), made: made.into() };
        (!self.text.is_torn()).then_some(parts)
    }

    /// What the lines at these places say.
    fn made(&self, places: &[u64], threads: usize) -> Vec<Made> {
        let mut made = vec![Made::UNKNOWN; places.len()];
        let pieces = made.chunks_mut(PIECE).zip(places.chunks(PIECE)).collect();
        map_parallel(threads, pieces, |(made, places): (&mut [Made], &[u64])| {
            for (made, &at) in made.iter_mut().zip(places).filter(|(_, at)| **at != 0) {
                *made = line::entry(self.text.rest(at as usize)).map_or(Made::UNKNOWN, |entry| entry.made());
            }
        });
        made
    }
}

/// What was known of a `.ninja_deps`.
pub struct SeenDeps {
    pub(super) seal: Seal,
    pub(super) total: usize,
    pub(super) unique: usize,
    pub(super) nodes: Vec<NodeId>,
    pub(super) deps: Vec<u64>,
}

impl SeenDeps {
    /// The nodes of all its paths.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The parts, with the numbers that the nodes have in `numbers`. None if one of them has none below `count`.
    pub fn parts(&self, numbers: &[NodeId], count: usize) -> Option<DepsParts> {
        let number = |node: &NodeId| numbers.get(node.index()).copied().filter(|number| number.index() < count);
        let nodes: Vec<NodeId> = self.nodes.iter().map(number).collect::<Option<_>>()?;
        let mut ids = vec![NO_ID; count];
        for (id, node) in (0..).zip(&nodes) {
            ids[node.index()] = id;
        }
        let [device, inode, length, head, tail] = self.seal.words();
        let facts = [self.total as u64, self.unique as u64, device, inode, length, head, tail];
        Some(DepsParts { facts, nodes: nodes.into(), ids: ids.into(), deps: self.deps.clone().into() })
    }
}
