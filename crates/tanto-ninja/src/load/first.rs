//! What is wrong first, and which warnings came before it. Does not know how edges are linked.

use super::fault::Suspect;
use super::link::{Linked, Linker};
use super::order::{Segment, Target};
use crate::error::Error;
use crate::graph::{EdgeId, NodeId};

/// An error, and how far a reader got who goes from statement to statement.
pub(super) struct Wrong {
    pub(super) error: Error,
    /// The edges before this one were good.
    pub(super) edge: u32,
    /// There were so many warnings of statements that are not `build`.
    pub(super) warnings: usize,
}

/// Finds what is wrong first.
pub(super) struct First<'f> {
    pub(super) linker: &'f Linker<'f>,
    pub(super) linked: &'f Linked,
    pub(super) segments: &'f [Segment],
    /// Those of statements that are not `build`, each with its place.
    pub(super) warnings: &'f [(u32, Vec<u8>)],
}

impl First<'_> {
    /// What `default` statements name, or the first error. `stop` is why nothing more was read.
    pub(super) fn look(&self, targets: &[Target], stop: Option<Error>) -> Result<Vec<NodeId>, Wrong> {
        match self.defaults(targets) {
            Err(target) if self.linked.fault.is_none_or(|edge| edge >= target.edge) => Err(target),
            defaults => match (self.fault(), stop) {
                (Some(fault), _) => Err(fault),
                (None, Some(error)) => Err(Wrong { error, edge: u32::MAX, warnings: self.warnings.len() }),
                (None, None) => defaults,
            },
        }
    }

    /// The first error of an edge.
    fn fault(&self) -> Option<Wrong> {
        let id = self.linked.fault?;
        let segment = &self.segments[self.segments.partition_point(|segment| segment.first <= id) - 1];
        let chunk = &self.linker.files[segment.file].chunks[segment.chunk];
        let raw = &chunk.edges[(segment.edges.start + id - segment.first) as usize];
        let suspect = Suspect { linker: self.linker, in_edges: &self.linked.in_edges, segment, raw, id };
        let warnings = self.warnings.partition_point(|(place, _)| *place <= id);
        // It warns of itself unless something is wrong with it before that; then its output has another edge.
        let is_warned_of = self.linked.selfish.contains(&EdgeId(id)) && self.makes_its_output(id);
        Some(Wrong { error: suspect.error(), edge: id + u32::from(is_warned_of), warnings })
    }

    fn makes_its_output(&self, id: u32) -> bool {
        self.linked.in_edges[self.first_output(EdgeId(id)).index()] == EdgeId(id)
    }

    fn first_output(&self, edge: EdgeId) -> NodeId {
        self.linked.ids[self.linked.edges[edge.index()].first as usize]
    }

    /// All warnings, or those before an error, in the order of the manifests.
    pub(super) fn warnings(&self, wrong: Option<&Wrong>) -> Vec<Vec<u8>> {
        let (end, count) = wrong.map_or((u32::MAX, self.warnings.len()), |wrong| (wrong.edge, wrong.warnings));
        let selfish = self.linked.selfish.iter().take_while(|edge| edge.0 < end);
        let names_itself = |edge: &EdgeId| (edge.0, names_itself(self.linker.paths.path(self.first_output(*edge))));
        let mut warnings: Vec<_> = self.warnings[..count].iter().cloned().chain(selfish.map(names_itself)).collect();
        warnings.sort_by_key(|(place, _)| *place);
        warnings.into_iter().map(|(_, text)| text).collect()
    }
}

fn names_itself(path: &[u8]) -> Vec<u8> {
    let words: [&[u8]; 3] = [b"phony target '", path, b"' names itself as an input; ignoring [-w phonycycle=warn]"];
    words.concat()
}
