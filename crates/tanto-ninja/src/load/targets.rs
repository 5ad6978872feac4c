//! What `default` statements name: it must be a node by then. Does not know what is built.

use super::First;
use super::lexer::{Lexer, did_you_mean};
use super::order::Target;
use crate::error::Error;
use crate::graph::NodeId;
use crate::paths::PathTable;

impl First<'_> {
    /// The nodes of all targets, or the place and the error of the first that is none.
    pub(super) fn defaults(&self, targets: &[Target]) -> Result<Vec<NodeId>, (u32, Error)> {
        let node = |target: &Target| self.known(target).ok_or_else(|| (target.place, self.unknown(target)));
        targets.iter().map(node).collect()
    }

    /// The target's node, if an edge before its place has it.
    fn known(&self, target: &Target) -> Option<NodeId> {
        let node = self.linker.paths.lookup(&target.path)?;
        if self.linked.in_edges.get(node.index())?.0 < target.place {
            return Some(node);
        }
        let edges = self.linked.edges.get(..target.place as usize)?;
        let end = edges.last().map_or(0, |last| last.first as usize + last.ids());
        self.linked.ids[..end].contains(&node).then_some(node)
    }

    fn unknown(&self, target: &Target) -> Error {
        let Target { path, file, part, last, .. } = target;
        let file = &self.linker.files[*file];
        let whole = file.source.as_ref().map_or(&[][..], |source| source.bytes());
        let lexer = Lexer::of_part(&file.path, whole, *last as usize..file.end());
        let error =
            lexer.error_about(&whole[part.start as usize..part.end as usize], &[b"unknown target '", path, b"'"]);
        did_you_mean(error, path, sorted(self.linker.paths))
    }
}

/// All paths, in an order that does not depend on who read them first.
fn sorted(paths: &PathTable) -> Vec<&[u8]> {
    let ids = (0..paths.len() as u32).map(NodeId);
    let mut sorted: Vec<&[u8]> = ids.map(|id| paths.path(id)).filter(|path| !path.is_empty()).collect();
    sorted.sort_unstable();
    sorted
}
