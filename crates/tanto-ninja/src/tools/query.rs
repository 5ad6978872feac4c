//! `-t query`: prints the inputs and the dependents of a target.

use super::walk::Dyndeps;
use super::{Context, ToolError, ToolResult};
use crate::graph::{Graph, OutEdgeKind};
use crate::ids::{EdgeId, NodeId};
use crate::targets::self_input;

/// The dependents of nodes, with those added by dyndep files.
struct InputUsers {
    added: Vec<(NodeId, EdgeId)>,
    dyndeps: Dyndeps,
}

impl InputUsers {
    fn new(graph: &Graph<'_>) -> Self {
        InputUsers { added: Vec::new(), dyndeps: Dyndeps::new(graph) }
    }

    /// The edges with `node` as an input: those of the manifest, then those added by dyndep files.
    fn of(&self, graph: &Graph<'_>, node: NodeId) -> Vec<EdgeId> {
        let mut users = using(graph, node, OutEdgeKind::Input);
        if let Some(edge) = graph.in_edge(node).filter(|edge| self_input(&graph.edge(*edge)) == Some(&node)) {
            users.push(edge);
            users.sort_unstable();
        }
        users.extend(self.added.iter().filter(|(input, _)| *input == node).map(|(_, edge)| *edge));
        users
    }
}

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    if args.is_empty() {
        return Err(ToolError::Error("expected a target to query".into()));
    }
    let mut users = InputUsers::new(context.graph);
    for arg in args {
        let node = context.target(arg)?;
        context.out.write_all(&[context.graph.path(node), b":\n"].concat())?;
        if let Some(edge) = context.graph.in_edge(node) {
            load_dyndep(context, &mut users, edge)?;
            print_inputs(context, edge)?;
        }
        print_outputs(context, &users, node)?;
    }
    Ok(0)
}

/// Loads the edge's dyndep file, and records the inputs it adds.
fn load_dyndep(context: &mut Context<'_, '_>, users: &mut InputUsers, edge: EdgeId) -> Result<(), ToolError> {
    let known = |graph: &Graph<'_>, edge: EdgeId| (edge, graph.edge(edge).dirtying_ins().len());
    let pending = users.dyndeps.pending(context.graph, edge).iter();
    let before: Vec<(EdgeId, usize)> = pending.map(|edge| known(context.graph, *edge)).collect();
    if let Err(error) = users.dyndeps.load(context, edge) {
        context.warn(&[&error.text(), b"\n".as_slice()].concat())?;
    }
    for (edge, known) in before {
        let new = &context.graph.edge(edge).dirtying_ins()[known..];
        users.added.extend(new.iter().map(|node| (*node, edge)));
    }
    Ok(())
}

fn print_inputs(context: &mut Context<'_, '_>, id: EdgeId) -> Result<(), ToolError> {
    context.out.write_all(&[b"  input: ", context.rule_name(id), b"\n"].concat())?;
    let edge = context.graph.edge(id);
    let implicit = &edge.dirtying_ins()[edge.explicit_ins as usize..];
    for (label, nodes) in [(b"".as_slice(), edge.explicit()), (b"| ", implicit), (b"|| ", edge.order_only())] {
        for &node in nodes {
            context.out.write_all(&[b"    ", label, context.graph.path(node), b"\n"].concat())?;
        }
    }
    if !edge.validations.is_empty() {
        context.out.write_all(b"  validations:\n")?;
    }
    for &node in edge.validations {
        context.out.write_all(&[b"    ", context.graph.path(node), b"\n"].concat())?;
    }
    Ok(())
}

fn print_outputs(context: &mut Context<'_, '_>, users: &InputUsers, node: NodeId) -> Result<(), ToolError> {
    context.out.write_all(b"  outputs:\n")?;
    for edge in users.of(context.graph, node) {
        print_edge_outputs(context, edge)?;
    }
    let validated = using(context.graph, node, OutEdgeKind::Validation);
    if !validated.is_empty() {
        context.out.write_all(b"  validation for:\n")?;
    }
    validated.iter().try_for_each(|edge| print_edge_outputs(context, *edge))
}

fn using(graph: &Graph<'_>, node: NodeId, wanted: OutEdgeKind) -> Vec<EdgeId> {
    graph.out_edges(node).filter(|(_, found)| *found == wanted).map(|(edge, _)| edge).collect()
}

fn print_edge_outputs(context: &mut Context<'_, '_>, edge: EdgeId) -> Result<(), ToolError> {
    for &node in context.graph.edge(edge).outs {
        context.out.write_all(&[b"    ", context.graph.path(node), b"\n"].concat())?;
    }
    Ok(())
}
