//! `-t cleandead`: removes what the build log says was made and the manifest no longer names.

use super::clean::Cleaner;
use super::{Context, Outcome};
use crate::graph::Graph;

pub(super) fn run(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> Outcome {
    let build_log = context.build_log;
    let mut cleaner = Cleaner::new(context);
    let graph = cleaner.graph();
    let named = named_by_edges(graph);
    let is_named = |path: &[u8]| graph.lookup(path).is_some_and(|node| named[node.index()]);
    let dead: Vec<_> = build_log.entries(graph).map(|(path, _)| path).filter(|path| !is_named(path)).collect();
    for path in dead {
        cleaner.remove(path.into());
    }
    cleaner.carry_out(Ok(()))
}

/// For each node, whether an edge has it as an output or input. The deps log may know more paths than the edges.
fn named_by_edges(graph: &Graph<'_>) -> Vec<bool> {
    let mut named = vec![false; graph.node_count()];
    for node in graph.edges().flat_map(|edge| edge.outs.iter().chain(edge.ins)) {
        named[node.index()] = true;
    }
    named
}
