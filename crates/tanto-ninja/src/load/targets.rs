//! What `default` statements name: it must be a node by then. Does not know what is built.

use super::first::{First, Wrong};
use super::order::Target;
use crate::error::Error;
use crate::ids::NodeId;
use crate::syntax::lexer::{Lexer, did_you_mean};

impl First<'_> {
    /// The nodes of all targets, or the error of the first that is none.
    pub(super) fn defaults(&self, targets: &[Target]) -> Result<Vec<NodeId>, Wrong> {
        let wrong =
            |target: &Target| Wrong { error: self.unknown(target), edge: target.place, notices: target.notices };
        targets.iter().map(|target| self.known(target).ok_or_else(|| wrong(target))).collect()
    }

    /// The target's node, if an edge before its place has it.
    fn known(&self, target: &Target) -> Option<NodeId> {
        let node = self.linker.paths.lookup(&target.path)?;
        if self.linked.in_edges.get(node.index())?.0 < target.place {
            return Some(node);
        }
        self.ids_before(target.place).contains(&node).then_some(node)
    }

    /// What the edges before a place name.
    fn ids_before(&self, place: u32) -> &[NodeId] {
        let edges = self.linked.edges.get(..place as usize).unwrap_or_default();
        let end = edges.last().map_or(0, |last| last.first as usize + last.ids());
        &self.linked.ids[..end]
    }

    fn unknown(&self, target: &Target) -> Error {
        let Target { path, file, part, last, .. } = target;
        let file = &self.linker.files[*file];
        let whole = file.source.as_ref().map_or(&[][..], |source| source.bytes());
        let lexer = Lexer::of_part(&file.path, whole, *last as usize..file.end());
        let error =
            lexer.error_about(&whole[part.start as usize..part.end as usize], &[b"unknown target '", path, b"'"]);
        did_you_mean(error, path, self.paths_before(target.place))
    }

    /// Their paths, in the order of the manifests: what is nearest and comes first is meant.
    fn paths_before(&self, place: u32) -> impl Iterator<Item = &[u8]> {
        let ids = self.ids_before(place).iter().filter(|id| **id != NodeId::NONE);
        ids.map(|id| self.linker.paths.path(*id))
    }
}
