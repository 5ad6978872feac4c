//! Reads the depfiles of edges without `deps` on several threads. Depfiles with errors are left to the walk, which
//! reports them.

use tanto_sys::threads::ThreadLimit;

use crate::canon::{canonical, canonicalize_into};
use crate::depfile::{self, Depfile};
use crate::disk::Disk;
use crate::graph::Escape;
use crate::graph::{Graph, GraphView};
use crate::ids::{EdgeId, NodeId};

use super::super::state::EdgeStates;
use super::parallel::map_indices;

/// The number of depfiles read before their paths become nodes. A smaller batch starts threads more often; a larger one
/// holds more copies of the paths of common headers.
const BATCH: usize = 256;

/// The number of depfiles that justify another thread. With fewer, starting it costs more than it saves.
const MIN_PER_THREAD: usize = 8;

#[derive(Clone)]
enum DepfileInput {
    Node(NodeId),
    /// A path without a node.
    Path(Vec<u8>),
}

/// Reads the depfiles of these edges and stores their inputs.
pub(super) fn prefetch_depfiles<'t>(
    graph: &mut Graph<'t>,
    disk: &dyn Disk,
    edges: &mut EdgeStates<'t>,
    unread: &[EdgeId],
    threads: ThreadLimit,
) {
    for batch in unread.chunks(BATCH) {
        let known: &GraphView<'_> = graph;
        let read = map_indices(threads, MIN_PER_THREAD, batch.len(), |number| ins(known, disk, batch[number]));
        for (&edge, ins) in batch.iter().zip(read) {
            let node = |named: DepfileInput| match named {
                DepfileInput::Node(node) => node,
                DepfileInput::Path(path) => graph.intern(&path),
            };
            let ins: Option<Vec<NodeId>> = ins.map(|ins| ins.into_iter().map(node).collect());
            edges.set_prefetched_depfile(edge, ins.map(|ins| &*graph.arena.alloc_slice_copy(&ins)));
        }
    }
}

/// Returns the inputs in the edge's depfile, or `None` if the walk would not use it.
fn ins(graph: &GraphView<'_>, disk: &dyn Disk, edge: EdgeId) -> Option<Vec<DepfileInput>> {
    let path = graph.binding(edge, b"depfile", Escape::None).ok()?;
    let text = disk.read(&path).ok()?;
    let found = depfile::parse(&text).ok()?;
    if !is_for(graph, edge, &found) {
        return None;
    }
    let mut canonical = Vec::new();
    let named = |path: &[u8]| {
        canonicalize_into(path, &mut canonical);
        graph.lookup(&canonical).map_or_else(|| DepfileInput::Path(canonical.clone()), DepfileInput::Node)
    };
    Some(found.ins.iter().map(AsRef::as_ref).map(named).collect())
}

/// Returns whether the depfile names the edge's first output first, and only outputs of the edge.
fn is_for(graph: &GraphView<'_>, edge: EdgeId, found: &Depfile<'_>) -> bool {
    let outs = graph.edge(edge).outs;
    let Some((first, others)) = found.outs.split_first() else { return false };
    canonical(first) == graph.path(outs[0])
        && others.iter().all(|name| outs.iter().any(|&out| *graph.path(out) == **name))
}
