//! `-t deps`: what the deps log says.

use super::{Context, Outcome, Stop};
use crate::error::Error;
use crate::graph::Escape;
use crate::ids::NodeId;

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let nodes = if args.is_empty() { live(context)? } else { context.targets(args)? };
    for node in nodes {
        show(context, node)?;
    }
    Ok(0)
}

/// All nodes of the log that an edge with `deps` makes, in the log's order.
fn live(context: &Context<'_, '_>) -> Result<Vec<NodeId>, Stop> {
    let mut live = Vec::new();
    for &node in context.deps_log.nodes() {
        if let Some(edge) = context.graph.in_edge(node)
            && !context.graph.binding(edge, b"deps", Escape::Shell)?.is_empty()
        {
            live.push(node);
        }
    }
    Ok(live)
}

fn show(context: &mut Context<'_, '_>, node: NodeId) -> Result<(), Stop> {
    let path = context.graph.path(node);
    let Some(deps) = context.deps_log.deps(node) else {
        return Ok(context.out.write_all(&[path, b": deps not found\n"].concat())?);
    };
    let mtime = match context.disk.mtime(path) {
        Ok(mtime) => mtime,
        Err(error) => {
            context.error(&Error::stat(path, &error).text)?;
            -1
        }
    };
    let state = if mtime == 0 || mtime > deps.mtime { "STALE" } else { "VALID" };
    context.out.write_all(path)?;
    writeln!(context.out, ": #deps {}, deps mtime {} ({state})", deps.ins().len(), deps.mtime)?;
    for dep in deps.ins() {
        context.out.write_all(&[b"    ", context.graph.path(dep), b"\n"].concat())?;
    }
    Ok(context.out.write_all(b"\n")?)
}
