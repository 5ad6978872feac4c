//! What is wrong first, and which warnings came before it. Does not know how edges are linked.

use super::fault::Suspect;
use super::link::{Linked, Linker};
use super::order::{Segment, Target};
use crate::error::Error;
use crate::graph::manifest_data::Notice;
use crate::ids::{EdgeId, NodeId};

/// An error, and how far a reader got who goes from statement to statement.
pub(super) struct Wrong {
    pub(super) error: Error,
    /// The edges before this one were good.
    pub(super) edge: u32,
    /// There were so many notices of statements that are not `build`.
    pub(super) notices: usize,
}

/// Finds what is wrong first.
pub(super) struct First<'f> {
    pub(super) linker: &'f Linker<'f>,
    pub(super) linked: &'f Linked,
    pub(super) segments: &'f [Segment],
    /// Those of statements that are not `build`, each with its place.
    pub(super) notices: &'f [(u32, Notice)],
}

impl First<'_> {
    /// What `default` statements name, or the first error. `stop` is why nothing more was read.
    pub(super) fn look(&self, targets: &[Target], stop: Option<Error>) -> Result<Vec<NodeId>, Wrong> {
        match self.defaults(targets) {
            Err(target) if self.linked.fault.is_none_or(|edge| edge >= target.edge) => Err(target),
            defaults => match (self.fault(), stop) {
                (Some(fault), _) => Err(fault),
                (None, Some(error)) => Err(Wrong { error, edge: u32::MAX, notices: self.notices.len() }),
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
        let notices = self.notices.partition_point(|(place, _)| *place <= id);
        // It warns of itself unless something is wrong with it before that; then its output has another edge.
        let is_warned_of = self.linked.selfish.contains(&EdgeId(id)) && self.makes_its_output(id);
        Some(Wrong { error: suspect.error(), edge: id + u32::from(is_warned_of), notices })
    }

    fn makes_its_output(&self, id: u32) -> bool {
        self.linked.in_edges[self.first_output(EdgeId(id)).index()] == EdgeId(id)
    }

    fn first_output(&self, edge: EdgeId) -> NodeId {
        self.linked.ids[self.linked.edges[edge.index()].first as usize]
    }

    /// All that is to be said, or what is before an error, in the order of the manifests.
    pub(super) fn notices(&self, wrong: Option<&Wrong>) -> Vec<Notice> {
        let (end, count) = wrong.map_or((u32::MAX, self.notices.len()), |wrong| (wrong.edge, wrong.notices));
        let selfish = self.linked.selfish.iter().take_while(|edge| edge.0 < end);
        let names_itself = |edge: &EdgeId| (edge.0, names_itself(self.linker.paths.path(self.first_output(*edge))));
        let mut notices: Vec<_> = self.notices[..count].iter().cloned().chain(selfish.map(names_itself)).collect();
        notices.sort_by_key(|(place, _)| *place);
        notices.into_iter().map(|(_, notice)| notice).collect()
    }
}

fn names_itself(path: &[u8]) -> Notice {
    let words: [&[u8]; 3] = [b"phony target '", path, b"' names itself as an input; ignoring [-w phonycycle=warn]"];
    Notice::Warning(words.concat())
}
