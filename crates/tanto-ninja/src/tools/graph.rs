//! `-t graph`: prints the graph for Graphviz.

use super::walk::{Dyndeps, NodeWalk};
use super::{Context, ToolError, ToolResult};
use crate::graph::Edge;
use crate::ids::{EdgeId, NodeId};

const HEAD: &str = "\
digraph ninja {
rankdir=\"LR\"
node [fontsize=10, shape=box, height=0.25]
edge [fontsize=10]
";

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let targets = context.targets(args)?;
    context.out.write_all(HEAD.as_bytes())?;
    let mut walk = NodeWalk::new(context.graph);
    let dyndeps = Dyndeps::new(context.graph);
    let mut drawn = vec![false; context.graph.edge_count()];
    for target in targets {
        walk.pre_order(target, |node| draw(context, &dyndeps, &mut drawn, node))?;
    }
    context.out.write_all(b"}\n")?;
    Ok(0)
}

/// Draws a node, and the edge that makes it unless that was drawn. Returns the nodes to visit next.
fn draw<'t>(
    context: &mut Context<'_, 't>,
    dyndeps: &Dyndeps,
    drawn: &mut [bool],
    node: NodeId,
) -> Result<&'t [NodeId], ToolError> {
    let mut label = context.graph.path(node).to_vec();
    label.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    context.out.write_all(&[node_name(node).as_bytes(), b" [label=\"", &label, b"\"]\n"].concat())?;
    let Some(id) = context.graph.in_edge(node) else { return Ok(&[]) };
    if std::mem::replace(&mut drawn[id.index()], true) {
        return Ok(&[]);
    }
    if let Err(error) = dyndeps.load(context, id) {
        context.warn(&[&error.text(), b"\n".as_slice()].concat())?;
    }
    let edge = context.graph.edge(id);
    let rule = context.rule_name(id);
    match (edge.ins, edge.outs) {
        ([input], [output]) => {
            let arrow = format!("{} -> {} [label=\" ", node_name(*input), node_name(*output));
            context.out.write_all(&[arrow.as_bytes(), rule, b"\"]\n"].concat())?;
        }
        _ => draw_ellipse(context, id, &edge, rule)?,
    }
    Ok(edge.ins)
}

/// Draws an edge with several inputs or outputs as a node of its own.
fn draw_ellipse(context: &mut Context<'_, '_>, id: EdgeId, edge: &Edge<'_>, rule: &[u8]) -> Result<(), ToolError> {
    let name = edge_name(id);
    context.out.write_all(&[name.as_bytes(), b" [label=\"", rule, b"\", shape=ellipse]\n"].concat())?;
    for &output in edge.outs {
        writeln!(context.out, "{name} -> {}", node_name(output))?;
    }
    for &input in edge.dirtying_ins() {
        writeln!(context.out, "{} -> {name} [arrowhead=none]", node_name(input))?;
    }
    for &input in edge.order_only() {
        writeln!(context.out, "{} -> {name} [arrowhead=none style=dotted]", node_name(input))?;
    }
    Ok(())
}

/// Ninja prints addresses. These numbers look similar but are the same in every run.
fn node_name(node: NodeId) -> String {
    format!("\"{:#x}\"", (u64::from(node.0) + 1) * 16)
}

fn edge_name(edge: EdgeId) -> String {
    format!("\"{:#x}\"", (u64::from(edge.0) + 1) * 16 + 8)
}
