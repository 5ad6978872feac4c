//! Depfiles of edges without `deps`, which each build reads anew: here before the walk, on several threads. Does not
//! know what is wrong with one that cannot be used: the walk reads that again, and tells.

use tanto_sys::threads::ThreadLimit;

use crate::canon::{canonical, canonicalize_into};
use crate::depfile::{self, Depfile};
use crate::disk::Disk;
use crate::graph::Escape;
use crate::graph::{Graph, GraphView};
use crate::ids::{EdgeId, NodeId};

use super::super::state::EdgeStates;
use super::parallel::map_indices;

/// So many are read before what they name gets nodes. Smaller, threads are started extra often; larger, extra depfiles
/// hold the paths of discovered that all of them name.
const BATCH: usize = 256;

/// For so many depfiles another thread is started. Smaller, its start costs extra than it saves; larger, some dozens of
/// long ones are read one after the other.
const MIN_PER_THREAD: usize = 8;

/// What a depfile names.
#[derive(Clone)]
enum DepfileInput {
    Node(NodeId),
    /// Nobody has named it before.
    Path(Vec<u8>),
}

/// Reads the depfiles of these edges. Those that can be used are what the edges read from now on.
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

/// What the edge's depfile names; None if the walk would not use it.
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

/// Does it name the edge's first output first, and no other output that is not the edge's?
fn is_for(graph: &GraphView<'_>, edge: EdgeId, found: &Depfile<'_>) -> bool {
    let outs = graph.edge(edge).outs;
    let Some((first, others)) = found.outs.split_first() else { return false };
    canonical(first) == graph.path(outs[0])
        && others.iter().all(|name| outs.iter().any(|&out| *graph.path(out) == **name))
}
